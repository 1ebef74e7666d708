//! A read that the gate makes for itself, with its own credential: one page of a list of upstream.

use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;

use super::Egress;
use crate::adapters::random::trace_id;
use crate::base::ids::OperationId;
use crate::catalog::Catalog;
use crate::ports::SendResult;
use crate::stations::admit::Admitted;
use crate::stations::check::check;
use crate::stations::forward::{AnswerBody, Sent, clear_own_read};

/// Reads the latest `limit` records before a time; `None` where there is no whole answer. It ends by the deadlines of
/// every call to upstream.
pub(super) async fn own_read(
    egress: &Egress,
    catalog: &Catalog,
    operation: &OperationId,
    limit: usize,
    before: Option<Timestamp>,
) -> Option<Bytes> {
    let operation = catalog.operation(operation)?;
    let before = before.map_or_else(String::new, |before| format!("&createdBefore={before}"));
    let admitted = Admitted::of_the_gate(egress.environment, operation.clone(), format!("limit={limit}{before}"))?;
    let headers = HeaderMap::new();
    let cleared = clear_own_read(check(admitted, &headers, b"").ok()?)?;
    let (SendResult { sent, .. }, credential) = egress.send(cleared, &headers, &trace_id(None)).await;
    // A record that is found may be stored.
    if credential.is_in_answer(&sent) {
        return None;
    }
    match sent {
        Sent::Answered { status: 200, body: AnswerBody::Complete(body), .. } => Some(body),
        Sent::Answered { .. } | Sent::Lost(_) | Sent::NotWritten | Sent::TooLate => None,
    }
}
