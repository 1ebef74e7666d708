//! The status of an existing claim, as its asker gets it.

use super::owner::Owner;
use super::state::{Claim, ClaimState, Declined, StoredAnswer};
use super::stored_form::{UnreadableClaim, decode_claim};
use crate::base::digest::Fingerprint;
use crate::base::ids::HoldId;
use crate::ledger::{Content, Record, StoreTime};

/// Whether an earlier attempt under the same name may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// No claim has its name, or upstream itself proved for each earlier attempt that it was not executed.
    None,
    /// A claim may have existed, and the store may have lost it.
    Forgotten,
    /// Only people said of an earlier attempt that it was not executed.
    Unproven,
}

impl Earlier {
    pub fn of(are_proven: bool) -> Earlier {
        if are_proven { Earlier::None } else { Earlier::Unproven }
    }
}

impl Claim {
    /// The knowledge about the attempts that are over.
    pub fn earlier(&self) -> Earlier {
        Earlier::of(self.is_proved_unexecuted())
    }
}

/// The status that an existing claim has for a request of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStatus {
    /// The answer to the same request by the same owner.
    Done {
        executed: bool,
        answer: StoredAnswer,
        earlier: Earlier,
    },
    /// The call is held, under this id.
    Held(HoldId),
    /// The call was held and then refused.
    Declined(Declined, Earlier),
    InProgress,
    InDoubt,
    /// Two people said that nobody will ever know its outcome.
    Abandoned,
    /// The call was not executed, as upstream or two people said: the same call may be sent again.
    Absent(Earlier),
    /// The requestId was used; its answer is no longer stored.
    Spent,
    /// Another request, or another owner, used the requestId.
    Reused,
}

impl ClaimStatus {
    pub fn as_str(&self) -> &'static str {
        match self {
            ClaimStatus::Done { .. } => "done",
            ClaimStatus::Held(_) => "held",
            ClaimStatus::Declined(..) => "declined",
            ClaimStatus::InProgress => "in-progress",
            ClaimStatus::InDoubt => "in-doubt",
            ClaimStatus::Abandoned => "abandoned",
            ClaimStatus::Absent(_) => "absent",
            ClaimStatus::Spent => "spent",
            ClaimStatus::Reused => "reused",
        }
    }
}

pub fn status_for(
    record: &Record,
    asker: &Owner,
    fingerprint: Fingerprint,
    now: StoreTime,
) -> Result<ClaimStatus, UnreadableClaim> {
    let bytes = match &record.content {
        Content::Spent => return Ok(ClaimStatus::Spent),
        Content::Whole(bytes) => bytes,
    };
    let claim = decode_claim(bytes)?;
    if claim.owner != *asker || claim.fingerprint != fingerprint {
        return Ok(ClaimStatus::Reused);
    }
    let earlier = claim.earlier();
    Ok(match claim.state {
        ClaimState::Held => {
            ClaimStatus::Held(claim.hold.ok_or_else(|| UnreadableClaim("a held claim names no hold".to_owned()))?)
        }
        ClaimState::Declined(declined) => ClaimStatus::Declined(declined, earlier),
        ClaimState::Sending { lease, .. } if record.at.plus(lease) > now => ClaimStatus::InProgress,
        ClaimState::Sending { .. } | ClaimState::Unknown { .. } => ClaimStatus::InDoubt,
        ClaimState::Abandoned => ClaimStatus::Abandoned,
        ClaimState::Absent => ClaimStatus::Absent(earlier),
        ClaimState::Done { executed, answer } => ClaimStatus::Done { executed, answer, earlier },
    })
}
