//! Commits in few words.

use std::time::Duration;

use bytes::Bytes;
use sluice::base::ids::Environment;
use sluice::commit::{
    Commit, CommitError, Committed, Content, Found, Index, Keep, Kind, NodeId, Number, Obstacle, Record, RecordKey,
    Span, Step, StoreTime, WindowKey,
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

pub fn rolling(bucket: Duration, count: u32) -> Span {
    Span::Rolling { bucket, count }
}

pub fn reserve(span: Span, holder: &str, units: u64, max: u64) -> Step {
    Step::Reserve { window: day(), span, holder: holder.to_owned(), units, max }
}

pub fn force(span: Span, holder: &str, units: u64) -> Step {
    Step::Force { window: day(), span, holder: holder.to_owned(), units }
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
pub async fn does(store: &dyn Store, steps: Vec<Step>) -> Committed {
    store.commit(commit(steps)).await.unwrap()
}

/// It does not; what stood in the way.
pub async fn stands(store: &dyn Store, steps: Vec<Step>) -> Vec<(usize, Found)> {
    match store.commit(commit(steps)).await {
        Err(CommitError::Stood { obstacles, .. }) => {
            obstacles.into_iter().map(|Obstacle { step, found }| (step, found)).collect()
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

pub async fn used(store: &dyn Store, span: Span) -> u64 {
    store.used(ENVIRONMENT, &day(), span).await.unwrap()
}
