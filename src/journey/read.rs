//! A read whose answer is checked before the caller gets it.

use bytes::Bytes;
use http::HeaderMap;

use super::Egress;
use crate::base::ids::TraceId;
use crate::ports::SendResult;
use crate::stations::forward::{AnswerBody, Cleared, Loss, Sent};
use crate::stations::reply::{ReadFailure, ReadReply, fetched, read_failed};

pub async fn fetch(egress: &Egress, cleared: Cleared, headers: &HeaderMap, trace: &TraceId) -> ReadReply {
    let operation = cleared.intent().operation().clone();
    let (SendResult { mut sent, .. }, credential) = egress.send(cleared, headers, trace).await;
    if credential.is_in_answer(&sent)
        && let Sent::Answered { status, body, .. } = &mut sent
    {
        if *status < 400 {
            return ReadReply { reply: read_failed(ReadFailure::Withheld), drift: None };
        }
        *body = AnswerBody::Incomplete { loss: Loss::Broken, beginning: Bytes::new() };
    }
    fetched(&operation, egress.credential.is_injected(), sent)
}
