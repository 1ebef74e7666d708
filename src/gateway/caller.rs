//! The caller of a request: its token and its client certificate.

use std::sync::Arc;

use pingora::proxy::Session;

use super::{Ctx, Gate};
use crate::base::secret::Secret;
use crate::catalog::Route;
use crate::edge::{Speaking, guard};
use crate::stations::admit::{AdmitRefusal, Admitted, Certificate, RequestHead, VerifiedToken, admit, bearer};

/// Admits a call by its token and the certificate of its connection.
pub(super) async fn admit_caller(
    gate: &Gate,
    session: &Session,
    ctx: &mut Ctx,
    found: Route,
    head: RequestHead<'_>,
) -> Result<Admitted, AdmitRefusal> {
    let certificate = certificate(gate, session, ctx)?;
    let token = bearer(head.headers)?;
    let believed = believe(gate, session, &token).await;
    let admitted =
        believed.and_then(|believed| admit(gate.environment, found, head, token, &believed, certificate.as_ref()));
    if let Err(AdmitRefusal::NotBelieved(fault)) = &admitted {
        gate.metrics.token_refused(gate.environment.as_str(), fault.as_str());
    }
    admitted
}

/// Verifies a token. Who waits for an issuer's keys waits no longer than its connection has room.
pub(super) async fn believe(
    gate: &Gate,
    session: &Session,
    token: &Secret,
) -> Result<Arc<VerifiedToken>, AdmitRefusal> {
    let reset = guard::reset_of(session.digest());
    tokio::select! {
        biased;
        believed = gate.identity.believe(token) => believed.map_err(AdmitRefusal::NotBelieved),
        () = reset.cancelled() => Err(AdmitRefusal::NoRoomToWait),
    }
}

/// Returns the client certificate of the connection, unless it was revoked since.
pub(super) fn certificate(
    gate: &Gate,
    session: &Session,
    ctx: &mut Ctx,
) -> Result<Option<Arc<Certificate>>, AdmitRefusal> {
    let Some(clients) = gate.tls.as_ref().and_then(Speaking::clients) else { return Ok(None) };
    let refusal = |ctx: &mut Ctx, reason| {
        ctx.fault = reason;
        AdmitRefusal::Unauthorized("the client certificate of this connection is no longer accepted")
    };
    let presented = guard::presented(session.digest()).ok_or_else(|| refusal(ctx, "certificate_missing"))?;
    clients.accepts(presented).map(Some).map_err(|reason| refusal(ctx, reason))
}
