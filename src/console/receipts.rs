//! The acts that give receipts: of a payment, of the votes on a hold, and of one's own act.
//!
//! A receipt has whole lines of the journal. Where the journal keeps records in plain text, these show the exact bytes of a
//! call: then a receipt is for approvers and operators, who see them on the page as well.

use serde_json::Value;

use super::history::numbers_of_claim;
use super::holds;
use super::named_call::claim_key;
use super::person::{Person, Role};
use super::request::{ActRequest, environment as served, store_failed};
use super::server::ConsoleServer;
use crate::adapters::audit::{EntryNumbers, NoReceipt};
use crate::audit::{EntryKind, split_steps};
use crate::base::ids::Environment;
use crate::base::json::{self as strict, Limits};
use crate::gateway::{keeps_plain, receipt_reply};
use crate::ledger::{Number, Outstanding};
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Reply, error_json};

/// The most entries of a receipt.
const MAX_ENTRIES: usize = 50;
/// The entries that say that a payment was sent, and how it ended.
const OF_PAYMENTS: [EntryKind; 8] = [
    EntryKind::Refused,
    EntryKind::Sending,
    EntryKind::Executed,
    EntryKind::NotExecuted,
    EntryKind::Undone,
    EntryKind::Unknown,
    EntryKind::Late,
    EntryKind::Abandoned,
];
/// The entries that say who agreed to a hold, and how it ended.
const OF_HOLDS: [EntryKind; 9] = [
    EntryKind::Held,
    EntryKind::Voted,
    EntryKind::Withdrawn,
    EntryKind::Approved,
    EntryKind::Reopened,
    EntryKind::Rejected,
    EntryKind::Expired,
    EntryKind::Cancelled,
    EntryKind::Blocked,
];
/// Entries whose records belong to a session of the console: they are no acts.
const OF_SESSIONS: [EntryKind; 4] =
    [EntryKind::SignedIn, EntryKind::StayedIn, EntryKind::SignedOut, EntryKind::SessionsEnded];

pub(super) async fn of_payment(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let unknown =
        || error_json(Code::RequestNotFound, "the audit log of this node has no entries of this request.", None);
    let Some(key) = claim_key(inside, asked) else { return unknown() };
    let of_claim = (key.environment, key.name.clone());
    let found = numbers_of_claim(server, asked, of_claim, &|entry| is_of(entry, &OF_PAYMENTS), &|_| false).await;
    let numbers = match found {
        Ok(Some(numbers)) => numbers,
        // Its record knows those of a payment that is too old for a search.
        Ok(None) => match inside.node.find(&key).await {
            Ok(Some((record, claim)))
                if inside.shows_call(&asked.person, key.environment, &claim.owner.issuer, &claim.owner.subject) =>
            {
                claim.entry_numbers(record.version)
            }
            Ok(Some(_)) => return unknown(),
            // Nothing but its journal knows of it any more: the command line reads that whole.
            Ok(None) => return receipt_reply(Err(NoReceipt::NotAtHand)),
            Err(fault) => return store_failed(inside, &fault),
        },
        Err(reply) => return *reply,
    };
    if numbers.is_empty() {
        return unknown();
    }
    let sees_plain = sees_calls(&asked.person);
    let may_have = move |entry: &Value, is_plain: bool| {
        text(entry, "/claim") == Some(key.name.as_str()) && is_of(entry, &OF_PAYMENTS) && (sees_plain || !is_plain)
    };
    receipt(server, asked, (key.environment, numbers), may_have).await
}

pub(super) async fn of_hold(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let (key, record, hold) = match holds::find_hold(&server.inside, asked).await {
        Ok(Some(found)) => found,
        Ok(None) => return holds::unknown(),
        Err(fault) => return store_failed(&server.inside, &fault),
    };
    let is_its = |entry: &Value| text(entry, "/hold") == Some(hold.id.as_str());
    let of_hold = |entry: &Value| is_its(entry) && is_of(entry, &OF_HOLDS);
    let begins = |entry: &Value| is_its(entry) && is_of(entry, &[EntryKind::Held]);
    let numbers = match numbers_of_claim(server, asked, (key.environment, hold.claim.clone()), &of_hold, &begins).await
    {
        Ok(Some(numbers)) => numbers,
        // Its record knows those of a hold that is too old for a search, or has too many.
        Ok(None) => hold.entry_numbers(record.version),
        Err(reply) => return *reply,
    };
    let sees_plain = sees_calls(&asked.person);
    let id = hold.id.to_string();
    let may_have = move |entry: &Value, is_plain: bool| {
        text(entry, "/hold") == Some(id.as_str()) && is_of(entry, &OF_HOLDS) && (sees_plain || !is_plain)
    };
    receipt(server, asked, (key.environment, numbers), may_have).await
}

/// The receipt of one entry, for the person who did what it says.
pub(super) async fn of_act(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let unknown = || error_json(Code::RequestNotFound, "the audit log has no act of yours with this number.", None);
    let [environment, number, ..] = asked.path.as_slice() else { return unknown() };
    let number = number.parse().ok().filter(|parsed: &u64| parsed.to_string() == *number);
    let (Some(environment), Some(number)) = (served(&server.inside, environment), number) else { return unknown() };
    let (person, sees_plain) = (asked.person.who.clone(), sees_calls(&asked.person));
    let sees_plain = sees_plain || asked.person.has(Role::PolicyAdmin);
    let (inside, roles): (_, Vec<&str>) = (server.inside.clone(), asked.person.roles().collect());
    let is_own = move |entry: &Value, is_plain: bool| {
        is_by(entry, &person)
            && !is_of(entry, &OF_SESSIONS)
            && (sees_plain || !is_plain)
            && inside.shows_entry(&roles, environment, entry)
    };
    let sought = EntryNumbers { environment, numbers: vec![Number::new(number)] };
    let made = server.inside.receipts.make(asked.person.who.clone(), sought, as_filter(is_own)).await;
    match made {
        Err(NoReceipt::NoEntries) => unknown(),
        made => receipt_reply(made),
    }
}

async fn receipt(
    server: &ConsoleServer,
    asked: &ActRequest,
    (environment, numbers): (Environment, Vec<Number>),
    may_have: impl Fn(&Value, bool) -> bool + Send + 'static,
) -> Reply {
    let sought = EntryNumbers { environment, numbers: few(numbers) };
    receipt_reply(server.inside.receipts.make(asked.person.who.clone(), sought, as_filter(may_have)).await)
}

/// Keeps the first one, which says what is held, and the newest others: each takes a search of its own.
fn few(mut numbers: Vec<Number>) -> Vec<Number> {
    numbers.sort_unstable();
    let over = numbers.len().saturating_sub(MAX_ENTRIES);
    if over > 0 {
        numbers.drain(1..=over);
    }
    numbers
}

/// Makes a filter of entries out of one that gets the JSON, and whether the entry keeps records in plain text.
fn as_filter(
    may_have: impl Fn(&Value, bool) -> bool + Send + 'static,
) -> impl Fn(&Outstanding) -> bool + Send + 'static {
    move |outstanding| {
        let Ok(split) = split_steps(&outstanding.entry) else { return false };
        strict::parse(&split.bare, Limits::ANSWER).is_ok_and(|entry| may_have(&entry, keeps_plain(&split)))
    }
}

/// Whether a person sees the exact bytes of calls.
fn sees_calls(person: &Person) -> bool {
    person.has(Role::Approver) || person.has(Role::Operator)
}

fn text<'e>(entry: &'e Value, pointer: &str) -> Option<&'e str> {
    entry.pointer(pointer).and_then(Value::as_str)
}

fn is_of(entry: &Value, kinds: &[EntryKind]) -> bool {
    text(entry, "/what").and_then(EntryKind::parse).is_some_and(|kind| kinds.contains(&kind))
}

fn is_by(entry: &Value, person: &Owner) -> bool {
    (text(entry, "/by/issuer"), text(entry, "/by/subject"))
        == (Some(person.issuer.as_str()), Some(person.subject.as_str()))
}
