//! Answers to held calls, and to calls that were refused after being held.

use http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Code, Executed, Reply, UNPROVEN, bare, own};
use crate::base::ids::RequestId;
use crate::ledger::StoreTime;
use crate::policy::Progress;
use crate::stations::claim::{Decline, Declined, Earlier};
use crate::stations::hold::Hold;

/// The retry time while a call is held.
const RETRY_SECS: u32 = 10;

/// A hold as its caller gets it: the caller does not learn who voted.
#[derive(Clone, Copy, Debug)]
pub struct HeldCall<'h> {
    pub hold: &'h Hold,
    /// When its record was written.
    pub at: StoreTime,
    pub progress: &'h [Progress],
}

impl HeldCall<'_> {
    pub fn to_json(&self) -> Value {
        let hold = self.hold;
        let approval = |one: &Progress| json!({ "name": &*one.name, "needed": one.needed, "given": one.given });
        let mut told = json!({
            "id": hold.id.as_str(),
            "state": hold.state.as_str(),
            "operation": hold.operation.as_str(),
            "fingerprint": hold.fingerprint.to_hex(),
            "reasons": hold.causes.to_json(),
            "approvals": self.progress.iter().map(approval).collect::<Vec<_>>(),
            "createdAt": moment(hold.created(self.at)),
            "expiresAt": moment(hold.deadline(self.at)),
        });
        if let (Some(members), Some(id)) = (told.as_object_mut(), hold.request_id.as_ref().map(RequestId::as_str)) {
            members.insert("requestId".to_owned(), Value::from(id));
        }
        told
    }
}

/// The answer to a held call. `as_refusal`: its client takes every 2xx for done.
pub fn held(waiting: HeldCall<'_>, as_refusal: bool) -> Reply {
    let told = waiting.to_json();
    let mut reply = if as_refusal {
        let message = "this call waits for approval, and is not sent before. Repeat the same request for its answer.";
        own(Code::ApprovalRequired, 403, Code::ApprovalRequired.shape(), message, Some(json!({ "hold": told })), None)
    } else {
        bare(202, &json!({ "status": "held", "hold": told }))
    };
    reply.executed = Some(Executed::Held);
    let place = HeaderValue::from_str(&format!("/sluice/v1/holds/{}", waiting.hold.id)).ok();
    reply.headers.extend(place.map(|place| (LOCATION, place)));
    reply.headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECS));
    reply
}

/// The answer to a call that was refused after being held. `name` is the caller's name for it.
pub fn declined(why: &Declined, name: &str, earlier: Earlier) -> Reply {
    let (code, what) = match why.how {
        Decline::Rejected => (Code::ApprovalRejected, "an approver rejected this"),
        Decline::Expired => (Code::ApprovalExpired, "too few approvals arrived in time for this"),
        Decline::Cancelled => (Code::ApprovalCancelled, "the caller cancelled this"),
        Decline::Blocked => (Code::ApprovalBlocked, "although it was approved, today's rules deny this"),
        Decline::Forgotten => {
            let message = format!(
                "the store may have lost the decision on this {name}. This attempt sent nothing; the outcome of earlier \
                 attempts is unknown: find out before you ask for it again."
            );
            let code = Code::ApprovalExpired;
            return own(code, code.status(), code.shape(), &message, None, Some(Executed::Unknown));
        }
    };
    let reason = why.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let (tail, executed) = match earlier {
        Earlier::None => ("Nothing was sent.", Executed::No),
        Earlier::Forgotten | Earlier::Unproven => (UNPROVEN, Executed::Unknown),
    };
    let message = format!("{what} {name}{reason}. {tail}");
    own(code, code.status(), code.shape(), &message, None, Some(executed))
}

fn moment(time: StoreTime) -> Value {
    Timestamp::from_microsecond(time.as_micros()).map_or(Value::Null, |time| Value::from(time.to_string()))
}
