//! Commits in few words.

use std::time::Duration;

use bytes::Bytes;
use sluice::base::ids::Environment;
use sluice::ledger::{
    Commit, CommitError, Conflict, ConflictCause, Content, Index, JournalId, Keep, Kind, NodeId, Number, Outstanding,
    Receipt, Record, RecordKey, Sender, Step, StoreTime, WindowKey, WindowSpan,
};
use sluice::ports::Store;

pub const ENVIRONMENT: Environment = Environment::Sandbox;

pub fn node() -> NodeId {
    NodeId::parse("node-1").unwrap()
}

pub fn commit(steps: Vec<Step>) -> Commit {
    Commit { environment: ENVIRONMENT, node: node(), steps, entry: Bytes::from_static(b"{}") }
}

pub fn claim(name: &str) -> RecordKey {
    RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name: name.to_owned() }
}

pub fn create(name: &str, value: &str) -> Step {
    Step::Create { key: claim(name), value: bytes(value), keep: Keep::Forever }
}

pub fn create_for(name: &str, whole: Duration, spent: Duration) -> Step {
    Step::Create { key: claim(name), value: bytes("value"), keep: Keep::For { whole, spent } }
}

pub fn replace(name: &str, version: Number, value: &str) -> Step {
    Step::Replace { key: claim(name), version, value: bytes(value), keep: Keep::Forever }
}

pub fn delete(name: &str, version: Number) -> Step {
    Step::Delete { key: claim(name), version }
}

pub fn add(index: Index, member: &str, due: Duration) -> Step {
    Step::IndexAdd { index, member: member.to_owned(), due }
}

pub fn window(limit: &str, key: &str) -> WindowKey {
    WindowKey { limit: limit.to_owned(), key: key.to_owned() }
}

pub fn day() -> WindowKey {
    window("org-day", "sandbox")
}

pub fn rolling(bucket: Duration, count: u32) -> WindowSpan {
    WindowSpan::Rolling { bucket, count }
}

pub fn reserve(span: WindowSpan, holder: &str, units: u64, max: u64) -> Step {
    Step::Reserve { window: day(), span, holder: holder.to_owned(), units, max }
}

pub fn force(span: WindowSpan, holder: &str, units: u64) -> Step {
    Step::Force { window: day(), span, holder: holder.to_owned(), units }
}

pub fn book(span: WindowSpan, units: u64, at: StoreTime) -> Step {
    Step::Book { window: day(), span, units, at }
}

pub fn unbook(span: WindowSpan, units: u64, at: StoreTime) -> Step {
    Step::Unbook { window: day(), span, units, at }
}

pub fn settle(holder: &str) -> Step {
    Step::Settle { window: day(), holder: holder.to_owned() }
}

pub fn give_back(holder: &str) -> Step {
    Step::GiveBack { window: day(), holder: holder.to_owned() }
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

pub fn at(micros: i64) -> StoreTime {
    StoreTime::of_micros(micros)
}

/// It goes through.
pub async fn does(store: &dyn Store, steps: Vec<Step>) -> Receipt {
    store.commit(commit(steps)).await.unwrap()
}

/// It does not; what stood in the way.
pub async fn stands(store: &dyn Store, steps: Vec<Step>) -> Vec<(usize, ConflictCause)> {
    match store.commit(commit(steps)).await {
        Err(CommitError::Rejected { conflicts, .. }) => {
            conflicts.into_iter().map(|Conflict { step, found }| (step, found)).collect()
        }
        other => panic!("it was to be refused: {other:?}"),
    }
}

pub async fn value(store: &dyn Store, name: &str) -> Option<String> {
    whole(store.read(&claim(name)).await.unwrap().0?)
}

/// The content as text; nothing if it is spent.
pub fn whole(record: Record) -> Option<String> {
    match record.content {
        Content::Whole(value) => Some(String::from_utf8(value.to_vec()).unwrap()),
        Content::Spent => None,
    }
}

pub async fn used(store: &dyn Store, span: WindowSpan) -> u64 {
    store.used(ENVIRONMENT, &day(), span).await.unwrap()
}

/// The journal that tells what it has.
pub fn journal() -> Sender {
    Sender { node: node(), journal: JournalId::parse(&"0".repeat(32)).unwrap() }
}

/// Every entry that waits.
pub async fn outbox(store: &dyn Store) -> Vec<Outstanding> {
    store.outbox(ENVIRONMENT, Number::new(0), usize::MAX).await.unwrap()
}
