//! The request of an act, and the answers that all acts have in common.

use std::net::{IpAddr, Ipv4Addr};

use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use pingora::protocols::Stream;
use serde_json::Value;

use super::person::Person;
use super::state::ConsoleState;
use crate::adapters::rate::RoomShare;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::edge::listen::network;
use crate::ledger::StoreFault;
use crate::stations::check::CheckRefusal;
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Refusal, Reply, error_json, refused};

/// The answer to an act that a rebuild of the store would lose.
const FENCED_OFF: &str = "this gate is cut off from the majority of the Sentinels, or of the cluster, and another Redis may be in use: \
                          what you do here may be lost, so nothing was done. Use another gate, or try again when `sluice doctor` says \
                          that no split is fenced off.";
const AWAITS_JOURNALS: &str = "the store waits for the journals of other gates, and may be rebuilt without what you do now; nothing was done. `sluice doctor` says \
     which gates are awaited. Freezing works.";

/// The network address that a request comes from; those without one count as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub IpAddr);

impl PeerAddress {
    pub fn of(stream: &Stream) -> PeerAddress {
        let digest = stream.get_socket_digest();
        let address = digest.as_deref().and_then(|digest| digest.peer_addr()?.as_inet()).map(|inet| inet.ip());
        PeerAddress(network(address.unwrap_or(Ipv4Addr::UNSPECIFIED.into())))
    }
}

/// The sender of a body: a person, or an address where nobody is needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum BodySender {
    Person(Owner),
    Address(IpAddr),
}

/// A request that is authorized.
pub(super) struct ActRequest {
    pub person: Person,
    pub peer: IpAddr,
    /// The variable parts of the path, as written.
    pub path: Vec<String>,
    pub query: Vec<(String, String)>,
    /// The query, as written.
    pub target_query: String,
    pub headers: HeaderMap,
    pub body: Value,
    /// The room of the body, until the act is done.
    pub _room: RoomShare<BodySender>,
}

/// Returns the environment with this name, if it is served.
pub(super) fn environment(inside: &ConsoleState, name: &str) -> Option<Environment> {
    Environment::parse(name).filter(|environment| inside.environments.contains(environment))
}

/// Answers that the audit log cannot be read.
pub(super) fn unreadable() -> Reply {
    error_json(Code::AuditUnavailable, "the audit log cannot be read at the moment; nothing was done.", None)
}

/// Answers that the store failed; every act may be repeated.
pub(super) fn store_failed(inside: &ConsoleState, fault: &StoreFault) -> Reply {
    inside.node.told_of(fault);
    if let (StoreFault::Away(_), Some(refusal)) = (fault, inside.node.watched.refusal()) {
        let why = refusal.explanation();
        let message = format!("the store refuses writes: {why}; nothing was done. Try again when it accepts writes.");
        return error_json(Code::StoreUnavailable, &message, None);
    }
    let message = match fault {
        StoreFault::Away(_) => "the store does not answer at the moment; nothing was done. Try again.",
        StoreFault::InDoubt(_) => {
            "the store did not confirm the change: check whether it was made, or try again, which is harmless."
        }
        StoreFault::Broken(_) => "the store has a record that cannot be read; nothing was done.",
        StoreFault::AwaitsJournals => AWAITS_JOURNALS,
        StoreFault::FencedOff => FENCED_OFF,
        StoreFault::NoRoomForEntry { retry_secs } => return no_room_for_entry(*retry_secs),
    };
    error_json(Code::StoreUnavailable, message, None)
}

/// Answers that the person's acts may leave no further entries within this hour.
fn no_room_for_entry(retry_secs: u64) -> Reply {
    let message = format!(
        "your acts have left as many entries in the audit log of this gate as they may within an hour \
         (`console.entries_per_hour`); nothing was done. Try again in {retry_secs} s. Freezing, rejecting and withdrawing \
         a vote go on."
    );
    let mut reply = error_json(Code::RateLimited, &message, None);
    reply.headers.insert(RETRY_AFTER, HeaderValue::from(retry_secs));
    reply
}

/// Answers that an act was done, although the store failed when its result was read.
pub(super) fn done_unread(inside: &ConsoleState, fault: &StoreFault) -> Reply {
    inside.node.told_of(fault);
    let message = "this was done, but the store does not tell at the moment how it stands now: look again.";
    error_json(Code::StoreUnavailable, message, None)
}

/// Answers that an act which changes nothing was given up, because the process ends.
pub(super) fn ending() -> Reply {
    error_json(Code::Overloaded, "the gate ends, and gave this up; nothing was done. Try again when it runs.", None)
}

/// Answers a request that violates the API document.
pub(super) fn violated(violations: Vec<Violation>) -> Reply {
    refused(&Refusal::Check(CheckRefusal::Violations(violations)), None)
}
