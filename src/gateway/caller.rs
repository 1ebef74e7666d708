//! The caller of a request: its token and its client certificate.

use std::sync::Arc;

use pingora::proxy::Session;

use super::{Ctx, Gate};
use crate::catalog::Route;
use crate::edge::{Speaking, guard};
use crate::stations::admit::{AdmitRefusal, Admitted, Certificate, RequestHead, admit, bearer};

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
    let believed = gate.identity.believe(&token).await.map_err(AdmitRefusal::NotBelieved);
    let admitted =
        believed.and_then(|believed| admit(gate.environment, found, head, token, &believed, certificate.as_ref()));
    if let Err(AdmitRefusal::NotBelieved(fault)) = &admitted {
        gate.metrics.token_refused(gate.environment.as_str(), fault.as_str());
    }
    admitted
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
