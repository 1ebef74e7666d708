//! What a commit takes, alone and in crowds: on the embedded store, and on any other.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use sluice::adapters::clock::{Stopwatch, SystemClock};
use sluice::adapters::store::embedded::{Embedded, Options};
use sluice::base::ids::Environment;
use sluice::ledger::{
    Commit, Index, JournalId, Keep, Kind, NodeId, Number, RecordKey, Sender, Step, WindowKey, WindowSpan,
};
use sluice::ports::Store;
use tempfile::TempDir;
use tokio::task::JoinSet;

pub(crate) const CONCURRENCIES: [usize; 3] = [1, 16, 256];
pub(crate) const HEADING: &str = "callers  claims/s  claim µs p50      p99  settle µs p50      p99\n";

/// So many callers at once, and what their claims and settlements took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    callers: usize,
    per_second: u64,
    claim: Times,
    settle: Times,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    p50: Duration,
    p99: Duration,
}

/// A table of what crowds of callers take, each claiming and settling one after the other on the disk of `parent`.
pub(crate) fn report(parent: &Path, window: Duration) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut table = HEADING.to_owned();
    for callers in CONCURRENCIES {
        let folder = TempDir::new_in(parent)?;
        let store = Arc::new(Embedded::open(folder.path(), Arc::new(SystemClock), Options::default())?);
        table.push_str(&runtime.block_on(crowd(store, callers, window))?.to_string());
    }
    Ok(table)
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Crowd { callers, per_second, claim, settle } = self;
        let [a, b, c, d] = [claim.p50, claim.p99, settle.p50, settle.p99].map(|time| time.as_micros());
        writeln!(f, "{callers:>7}{per_second:>10}{a:>14}{b:>9}{c:>15}{d:>9}")
    }
}

pub(crate) async fn crowd(store: Arc<dyn Store>, callers: usize, window: Duration) -> anyhow::Result<Crowd> {
    let node = NodeId::parse("bench").context("not a name")?;
    let since = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let (store, node) = (Arc::clone(&store), node.clone());
        let journal = JournalId::parse(&"0".repeat(32)).map(|journal| Sender { node: node.clone(), journal });
        let journal = journal.context("the name of a journal")?;
        tasks.spawn(async move {
            let mut taken = Vec::new();
            for at in 0_u64.. {
                if since.elapsed() >= window {
                    break;
                }
                let name = format!("{caller}-{at}");
                let watch = Stopwatch::start();
                let claimed = store.commit(claim(&node, &name)).await.map_err(|error| anyhow!("{error:?}"))?;
                let claim = watch.elapsed();
                let watch = Stopwatch::start();
                store.commit(settle(&node, &name, claimed.number())).await.map_err(|error| anyhow!("{error:?}"))?;
                taken.push((claim, watch.elapsed()));
                store.kept(Environment::Production, &journal, claimed.number()).await?;
            }
            anyhow::Ok(taken)
        });
    }
    let mut taken = Vec::new();
    for caller in tasks.join_all().await {
        taken.extend(caller?);
    }
    let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let per_second = (taken.len() as u64).saturating_mul(1_000).checked_div(millis).unwrap_or(0);
    let claim = times(taken.iter().map(|(claim, _)| *claim).collect());
    let settle = times(taken.iter().map(|(_, settle)| *settle).collect());
    Ok(Crowd { callers, per_second, claim, settle })
}

fn times(mut all: Vec<Duration>) -> Times {
    all.sort_unstable();
    let at = |percent: usize| all.get(all.len().saturating_mul(percent) / 100).copied().unwrap_or_default();
    Times { p50: at(50), p99: at(99) }
}

fn claim(node: &NodeId, name: &str) -> Commit {
    let steps = vec![
        Step::Create { key: key(name), value: Bytes::from(vec![b'x'; 600]), keep: Keep::Forever },
        Step::IndexAdd { index: Index::Sending, member: name.to_owned(), due: Duration::from_secs(30) },
        Step::Reserve { window: window(), span: day(), holder: name.to_owned(), units: 1, max: 1 << 50 },
    ];
    commit(node, steps)
}

fn settle(node: &NodeId, name: &str, version: Number) -> Commit {
    let keep = Keep::For { whole: Duration::from_secs(35 * 86_400), spent: Duration::from_secs(400 * 86_400) };
    let steps = vec![
        Step::Replace { key: key(name), version, value: Bytes::from(vec![b'x'; 1_500]), keep },
        Step::IndexRemove { index: Index::Sending, member: name.to_owned() },
        Step::Settle { window: window(), holder: name.to_owned() },
    ];
    commit(node, steps)
}

fn commit(node: &NodeId, steps: Vec<Step>) -> Commit {
    Commit { environment: Environment::Production, node: node.clone(), steps, entry: Bytes::from(vec![b' '; 400]) }
}

fn key(name: &str) -> RecordKey {
    RecordKey { environment: Environment::Production, kind: Kind::Claim, name: name.to_owned() }
}

fn window() -> WindowKey {
    WindowKey { limit: "org-day".to_owned(), key: "production".to_owned() }
}

fn day() -> WindowSpan {
    WindowSpan::Rolling { bucket: Duration::from_secs(3600), count: 24 }
}
