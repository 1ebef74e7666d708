//! Answers to calls that the rules refuse.

use std::time::Duration;

use http::HeaderValue;
use http::header::RETRY_AFTER;
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use serde_json::{Value, json};

use super::{Code, Executed, Reply, UNPROVEN, own, repeat};
use crate::catalog::{Class, Operation};
use crate::policy::{LimitFigures, Reason, Verdict};
use crate::stations::claim::Earlier;
use crate::stations::decide::{Denied, Grounds, Held, reasons_told};

/// The answer to a denied call.
pub fn denied(denied: &Denied, operation: &Operation, earlier: Earlier) -> Reply {
    let (code, what) = if denied.is_over_limit() {
        (Code::LimitExceeded, "this call exceeds a limit")
    } else {
        (Code::PolicyDenied, "the rules deny this call")
    };
    let mut reply = decision_reply(code, what, denied.grounds(), operation, earlier);
    if code == Code::LimitExceeded
        && let Some(room) = retry_after(&denied.grounds().verdict.reasons)
    {
        reply.headers.insert(RETRY_AFTER, HeaderValue::from(room.as_secs().max(1)));
    }
    reply
}

/// Returns the time after which each of the limits may have room, if each can have.
fn retry_after(reasons: &[Reason]) -> Option<Duration> {
    let figures = reasons.iter().map(|reason| reason.figures.as_ref()?.room.as_ref().map(|room| room.retry_after));
    figures.collect::<Option<Vec<Duration>>>()?.into_iter().max()
}

/// Returns what the rules and limits say; a limit that denies tells its figures.
fn with_figures(reasons: &[Reason]) -> Value {
    let one = |(mut told, reason): (Value, &Reason)| {
        if let (Some(members), Some(figures)) = (told.as_object_mut(), &reason.figures) {
            members.insert("figures".to_owned(), figures_told(figures));
        }
        told
    };
    reasons_told(reasons).into_iter().zip(reasons).map(one).collect()
}

fn figures_told(figures: &LimitFigures) -> Value {
    let LimitFigures { unit, max, used, asked, room } = figures;
    let mut told = json!({ "unit": unit, "max": max, "asked": asked });
    if let Some(members) = told.as_object_mut() {
        members.extend(used.as_ref().map(|used| ("used".to_owned(), used.as_str().into())));
        let at = room.as_ref().and_then(|room| Timestamp::from_microsecond(room.at.as_micros()).ok());
        // A new window begins with a second; a rolling one is over in the course of one.
        let at = at.and_then(|at| at.round(TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Ceil)).ok());
        members.extend(at.map(|at| ("roomAt".to_owned(), at.to_string().into())));
    }
    told
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
    let mut details = json!({ "rules": with_figures(reasons) });
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
