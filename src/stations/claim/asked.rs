//! What is said to whoever asks under the name of a claim that exists.

use super::state::{Answer, Declined, Owner, State};
use super::written::{UnreadableClaim, read};
use crate::base::digest::Fingerprint;
use crate::base::ids::HoldId;
use crate::commit::{Content, Record, StoreTime};

/// What an existing claim says to a request of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The same request by the same owner: this became of it.
    Done {
        executed: bool,
        answer: Answer,
    },
    /// It waits for people, under this name.
    Held(HoldId),
    /// It waited for people, and goes no further.
    Declined(Declined),
    InProgress,
    InDoubt,
    /// It was used, and nothing more is kept of it.
    Spent,
    /// Another request, or another's.
    Reused,
}

impl Said {
    pub fn as_str(&self) -> &'static str {
        match self {
            Said::Done { .. } => "done",
            Said::Held(_) => "held",
            Said::Declined(_) => "declined",
            Said::InProgress => "in-progress",
            Said::InDoubt => "in-doubt",
            Said::Spent => "spent",
            Said::Reused => "reused",
        }
    }
}

pub fn said(record: &Record, asker: &Owner, fingerprint: Fingerprint, now: StoreTime) -> Result<Said, UnreadableClaim> {
    let bytes = match &record.content {
        Content::Spent => return Ok(Said::Spent),
        Content::Whole(bytes) => bytes,
    };
    let claim = read(bytes)?;
    if claim.owner != *asker || claim.fingerprint != fingerprint {
        return Ok(Said::Reused);
    }
    Ok(match claim.state {
        State::Held => Said::Held(claim.hold.ok_or(UnreadableClaim("it waits, and names no hold"))?),
        State::Declined(declined) => Said::Declined(declined),
        State::Sending { lease, .. } if record.at.plus(lease) > now => Said::InProgress,
        State::Sending { .. } | State::Unknown { .. } => Said::InDoubt,
        State::Done { executed, answer } => Said::Done { executed, answer },
    })
}
