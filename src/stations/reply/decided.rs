//! Answers to calls that the rules do not let pass.

use serde_json::{Value, json};

use super::{Code, Executed, Reply, own, repeat};
use crate::catalog::{Class, Operation};
use crate::policy::{Reason, Verdict};
use crate::stations::decide::{Denied, Grounds, Held, reasons_told};

/// Whether an earlier call of the same name may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There is no claim of its name.
    None,
    /// There may have been one, and the store may have forgotten it.
    Forgotten,
}

/// The answer to a call that is denied.
pub fn denied(denied: &Denied, operation: &Operation, earlier: Earlier) -> Reply {
    let (code, what) = if denied.is_over_limit() {
        (Code::LimitExceeded, "a limit has no room for this call")
    } else {
        (Code::PolicyDenied, "the rules do not allow this call")
    };
    told(code, what, denied.grounds(), operation, earlier)
}

/// The answer to a call that people would have to release, where it cannot wait for them.
pub fn not_held(held: &Held, operation: &Operation, earlier: Earlier) -> Reply {
    let what = "this call needs the approval of people, and cannot wait for it here";
    told(Code::ApprovalRequired, what, held.grounds(), operation, earlier)
}

fn told(code: Code, what: &str, grounds: &Grounds, operation: &Operation, earlier: Earlier) -> Reply {
    let Verdict { reasons, approvals, .. } = &grounds.verdict;
    let executed = match (operation.class, earlier) {
        (Class::Read, _) => None,
        (Class::Change | Class::Money, Earlier::None) => Some(Executed::No),
        (Class::Change | Class::Money, Earlier::Forgotten) => Some(Executed::Unknown),
    };
    let why = reasons.iter().map(in_words).collect::<Vec<_>>().join("; ");
    let message = match executed {
        None => format!("{what}: {why}."),
        Some(Executed::Unknown) => format!(
            "{what}: {why}. This attempt sent nothing; whether an earlier one did is not known: {}.",
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
