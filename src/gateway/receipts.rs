//! The API for callers on receipts: proofs that the journal has their own payments.
//!
//! `GET /sluice/v1/receipts/{requestId}`. A receipt has the entries that say that the payment was sent and how it ended, as the
//! journal has them; nothing of the people who approved it. Nobody learns whether another caller's payment exists.

use bytes::Bytes;
use http::Method;
use http::header::{HeaderValue, RETRY_AFTER};
use pingora::proxy::Session;
use serde_json::json;

use super::holds::own_caller;
use super::{Ctx, Gate};
use crate::adapters::audit::{EntryNumbers, NoReceipt};
use crate::audit::{EntryKind, ProvedEntries, SplitEntry, split_steps};
use crate::base::ids::RequestId;
use crate::base::json::{self as strict, Limits};
use crate::ledger::{Kind, Outstanding, RecordKey, Step};
use crate::stations::admit::{AdmitRefusal, Caller};
use crate::stations::check::claim_name;
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Refusal, Reply, error_json, ok_bytes, refused};

const PREFIX: &[u8] = b"/sluice/v1/receipts/";
/// The entries that a caller gets: it was sent, and how it ended.
const OF_CALLERS: [EntryKind; 9] = [
    EntryKind::Sending,
    EntryKind::Executed,
    EntryKind::NotExecuted,
    EntryKind::Undone,
    EntryKind::Unknown,
    EntryKind::Late,
    EntryKind::Expired,
    EntryKind::Cancelled,
    EntryKind::Blocked,
];
/// The records that such an entry may keep in plain text: others have what people said.
const OWN_RECORDS: [Kind; 3] = [Kind::Claim, Kind::Followed, Kind::Message];

/// Returns whether a request is for a receipt; no operation of the contract has such a path.
pub(super) fn is_about(session: &Session) -> bool {
    session.req_header().raw_path().starts_with(PREFIX)
}

pub(super) async fn answer(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Reply {
    match parse_request(session.req_header().raw_path(), &session.req_header().method) {
        Ok(id) => match own_caller(gate, session, ctx).await {
            Ok(caller) => answered(gate, &caller, id).await,
            Err(reply) => reply,
        },
        Err(refusal) => refused(&Refusal::Admit(refusal), None),
    }
}

/// Reads the requestId, if the path has one.
fn parse_request(path: &[u8], method: &Method) -> Result<Option<RequestId>, AdmitRefusal> {
    let rest = path.strip_prefix(PREFIX).and_then(|rest| std::str::from_utf8(rest).ok()).unwrap_or_default();
    if rest.contains('/') {
        return Err(AdmitRefusal::UnknownPath);
    }
    if method != Method::GET {
        return Err(AdmitRefusal::MethodNotAllowed(vec![Method::GET]));
    }
    Ok(RequestId::parse(rest))
}

async fn answered(gate: &Gate, caller: &Caller, id: Option<RequestId>) -> Reply {
    let (node, asker) = (&gate.node, Owner::of(caller));
    let Some(id) = id else { return unknown() };
    if node.watched.freezes_reads(gate.environment, (caller.issuer(), caller.subject())) {
        return refused(&Refusal::ReadsFrozen, None);
    }
    let key = RecordKey { environment: gate.environment, kind: Kind::Claim, name: claim_name(id.as_str()) };
    let (record, claim) = match node.find(&key).await {
        Ok(Some((record, claim))) if claim.owner == asker => (record, claim),
        Ok(_) => return unknown(),
        Err(fault) => {
            node.told_of(&fault);
            let message = "the store does not answer right now. Repeat the request.";
            return error_json(Code::StoreUnavailable, message, None);
        }
    };
    let numbers = claim.entry_numbers(record.version);
    let own = OwnEntries { name: key.name, owner: asker.clone(), is_of_people: claim.names_people() };
    let sought = EntryNumbers { environment: gate.environment, numbers };
    receipt_reply(gate.receipts.make(asker, sought, move |entry| own.has(entry)).await)
}

fn unknown() -> Reply {
    error_json(Code::RequestNotFound, "you have no payment with this requestId.", None)
}

/// What a caller may have of the journal: entries of its own payment that tell nothing of other people.
struct OwnEntries {
    /// The name of the claim.
    name: String,
    owner: Owner,
    /// Whether the record of the claim names people.
    is_of_people: bool,
}

impl OwnEntries {
    fn has(&self, outstanding: &Outstanding) -> bool {
        let Ok(split) = split_steps(&outstanding.entry) else { return false };
        let Ok(entry) = strict::parse(&split.bare, Limits::ANSWER) else { return false };
        let text = |pointer: &str| entry.pointer(pointer).and_then(serde_json::Value::as_str);
        let kind = text("/what").and_then(EntryKind::parse);
        kind.is_some_and(|kind| OF_CALLERS.contains(&kind))
            && text("/claim") == Some(self.name.as_str())
            && text("/owner/issuer") == Some(self.owner.issuer.as_str())
            && text("/owner/subject") == Some(self.owner.subject.as_str())
            && ["by", "saidBy"].iter().all(|name| entry.get(name).is_none())
            && (!keeps_plain(&split) || (!self.is_of_people && keeps_own_alone(&split)))
    }
}

/// Whether an entry keeps its records in plain text.
pub fn keeps_plain(split: &SplitEntry<'_>) -> bool {
    split.steps.as_ref().is_some_and(|steps| !steps.starts_with('"'))
}

fn keeps_own_alone(split: &SplitEntry<'_>) -> bool {
    let Some(steps) = &split.steps else { return true };
    let Ok(steps) = strict::from_slice::<Vec<Step>>(steps.as_bytes(), Limits::ANSWER) else { return false };
    steps.iter().all(|step| match step {
        Step::Create { key, .. } | Step::Replace { key, .. } => OWN_RECORDS.contains(&key.kind),
        step => step.value().is_none(),
    })
}

/// Answers with a receipt, or says why there is none.
pub fn receipt_reply(made: Result<ProvedEntries, NoReceipt>) -> Reply {
    let unavailable =
        |why: &str, message: &str| error_json(Code::ReceiptUnavailable, message, Some(json!({ "why": why })));
    match made {
        Ok(receipt) => ok_bytes(Bytes::from(format!("{}\n", receipt.to_text()))),
        Err(NoReceipt::Busy) => error_json(
            Code::Overloaded,
            "too many receipts are being made, for you or for all; try again shortly.",
            None,
        ),
        Err(NoReceipt::NotCovered(after)) => {
            let seconds = after.as_secs().max(1);
            let message =
                format!("no signed checkpoint covers the newest of these entries yet; try again in {seconds} s.");
            let mut reply = error_json(Code::ReceiptNotReady, &message, None);
            reply.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            reply
        }
        Err(NoReceipt::NoEntries) => {
            let message = "there is no entry that this receipt may have: nothing was sent, or the journal keeps what people said in plain text beside it. The operators of the gate can say more.";
            unavailable("no-entries", message)
        }
        Err(NoReceipt::NoCheckpoints) => {
            let message =
                "this gate signs no checkpoints, which a receipt needs: its operators must set `audit.checkpoint_key`.";
            unavailable("no-checkpoints", message)
        }
        Err(NoReceipt::NotAtHand) => {
            let message = "the entries are no longer on the disk of this gate: its operators can make the receipt from the archive.";
            unavailable("not-at-hand", message)
        }
        Err(NoReceipt::BeforeLog) => {
            let message = "the entries are from before the log that the checkpoints of this gate cover.";
            unavailable("before-log", message)
        }
        Err(NoReceipt::Unreadable(error)) => {
            tracing::error!(%error, "a receipt cannot be made");
            error_json(Code::AuditUnavailable, "the audit log cannot be read at the moment; nothing was done.", None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_payment_or_nothing() {
        let read = |rest: &str, method| parse_request(format!("/sluice/v1/receipts/{rest}").as_bytes(), &method);
        assert_eq!(read("kept-1.x", Method::GET), Ok(RequestId::parse("kept-1.x")));
        for odd in ["", "a?b=c", "a%2Fb", "a:b", "k\u{e9}pt", &"x".repeat(129)] {
            assert_eq!(read(odd, Method::GET), Ok(None), "{odd}");
        }
        for odd in ["a/", "/a", "../holds/a", "a/b"] {
            assert_eq!(read(odd, Method::GET), Err(AdmitRefusal::UnknownPath), "{odd}");
        }
        assert_eq!(read("a", Method::POST), Err(AdmitRefusal::MethodNotAllowed(vec![Method::GET])));
    }
}
