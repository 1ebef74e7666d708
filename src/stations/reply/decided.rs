//! Answers to calls that the rules refuse.

use serde_json::{Value, json};

use super::{Code, Executed, Reply, UNPROVEN, own, repeat};
use crate::catalog::{Class, Operation};
use crate::policy::{Reason, Verdict};
use crate::stations::claim::Earlier;
use crate::stations::decide::{Denied, Grounds, Held, reasons_told};

/// The answer to a denied call.
pub fn denied(denied: &Denied, operation: &Operation, earlier: Earlier) -> Reply {
    let (code, what) = if denied.is_over_limit() {
        (Code::LimitExceeded, "this call exceeds a limit")
    } else {
        (Code::PolicyDenied, "the rules deny this call")
    };
    decision_reply(code, what, denied.grounds(), operation, earlier)
}

/// The answer to a call that needs approval and cannot be held.
pub fn not_held(held: &Held, operation: &Operation, earlier: Earlier) -> Reply {
    let what = "this call needs approval and cannot be held here";
    decision_reply(Code::ApprovalRequired, what, held.grounds(), operation, earlier)
}

fn decision_reply(code: Code, what: &str, grounds: &Grounds, operation: &Operation, earlier: Earlier) -> Reply {
    let Verdict { reasons, approvals, .. } = &grounds.verdict;
    let executed = match (operation.class, earlier) {
        (Class::Read, _) => None,
        (Class::Change | Class::Money, Earlier::None) => Some(Executed::No),
        (Class::Change | Class::Money, Earlier::Forgotten | Earlier::Unproven) => Some(Executed::Unknown),
    };
    let why = reasons.iter().map(in_words).collect::<Vec<_>>().join("; ");
    let message = match executed {
        None => format!("{what}: {why}."),
        Some(Executed::Unknown) if earlier == Earlier::Unproven => format!("{what}: {why}. {UNPROVEN}"),
        Some(Executed::Unknown) => format!(
            "{what}: {why}. This attempt sent nothing; the outcome of earlier attempts is unknown: {}.",
            repeat(Some(operation))
        ),
        Some(_) => format!("{what}: {why}. Nothing was sent."),
    };
    let mut details = json!({ "rules": reasons_told(reasons) });
    if let (false, Some(members)) = (approvals.is_empty(), details.as_object_mut()) {
        members.insert("approvals".to_owned(), approvals.iter().map(|name| Value::from(&**name)).collect());
    }
    own(code, code.status(), code.shape(), &message, Some(details), executed)
}

fn in_words(reason: &Reason) -> String {
    match reason.cause.name() {
        Some(name) => format!("{} (`{name}`)", reason.text),
        None => reason.text.clone(),
    }
}
