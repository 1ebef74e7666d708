//! Answers to calls that wait for people, or waited in vain.

use http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Code, Executed, Reply, bare, own};
use crate::base::ids::RequestId;
use crate::commit::StoreTime;
use crate::policy::Progress;
use crate::stations::claim::{Decline, Declined};
use crate::stations::hold::Hold;

/// When it is worth asking again what people said.
const RETRY_SECS: u32 = 10;

/// A hold as its caller is told of it: who said what is not theirs to know.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'h> {
    pub hold: &'h Hold,
    /// When its record was written.
    pub at: StoreTime,
    pub progress: &'h [Progress],
}

impl Waiting<'_> {
    pub fn told(&self) -> Value {
        let hold = self.hold;
        let approval = |one: &Progress| json!({ "name": &*one.name, "needed": one.needed, "given": one.given });
        let mut told = json!({
            "id": hold.id.as_str(),
            "state": hold.state.as_str(),
            "operation": hold.operation.as_str(),
            "fingerprint": hold.fingerprint.to_hex(),
            "reasons": hold.reasons,
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

/// The answer to a call that waits. `as_refusal`: its client takes whatever is not an error for done.
pub fn held(waiting: Waiting<'_>, as_refusal: bool) -> Reply {
    let told = waiting.told();
    let mut reply = if as_refusal {
        let message = "this call waits for the approval of people, and nothing was sent yet: repeat it for its answer.";
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

/// The answer to a call that waited in vain. `name`: what its caller calls it by. What a store has forgotten may be that
/// it was sent.
pub fn declined(why: &Declined, name: &str) -> Reply {
    let (code, what) = match why.how {
        Decline::Rejected => (Code::ApprovalRejected, "people rejected this"),
        Decline::Expired => (Code::ApprovalExpired, "people did not agree in time to this"),
        Decline::Cancelled => (Code::ApprovalCancelled, "its caller cancelled this"),
        Decline::Blocked => (Code::ApprovalBlocked, "people agreed, and the rules do not allow any more this"),
        Decline::Forgotten => {
            let message = format!(
                "what people said of this {name} may have been forgotten. This attempt sent nothing; whether an earlier one \
                 did is not known: look before it is asked for again."
            );
            let code = Code::ApprovalExpired;
            return own(code, code.status(), code.shape(), &message, None, Some(Executed::Unknown));
        }
    };
    let reason = why.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let message = format!("{what} {name}{reason}. Nothing was sent.");
    own(code, code.status(), code.shape(), &message, None, Some(Executed::No))
}

fn moment(time: StoreTime) -> Value {
    Timestamp::from_microsecond(time.as_micros()).map_or(Value::Null, |time| Value::from(time.to_string()))
}
