//! The watch of the store: whether it answers, accepts writes, and is open for money.
//!
//! It looks every second, also when no call comes, so that metrics, probes, the console and the log know of a store
//! that is away. It reports each change once.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::Node;
use super::frozen_index::FrozenIndex;
use crate::adapters::redis::FenceStop;
use crate::base::ids::Environment;
use crate::base::word_enum::word_enum;
use crate::ledger::{StoreFault, StoreTime, WriteRefusal};
use crate::stations::claim::{Freeze, Owner};

const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The last finding of the watch.
#[derive(Debug)]
pub struct StoreWatch {
    seen: ArcSwap<WatchedStore>,
    /// Why this node does not use the store yet; `None` once it does.
    starting: Mutex<Option<String>>,
    /// The environments of which this gate's journal lacks what was before it begins, and since when.
    lacking: Mutex<BTreeMap<Environment, Duration>>,
    /// The environments in which the journal is about to go on without some entries.
    skipping: Mutex<BTreeSet<Environment>>,
    /// Wakes the watch.
    changed: Notify,
    /// The faults that were reported last, and when.
    reported: Mutex<BTreeMap<String, Duration>>,
}

/// A fault is reported again after this time: with busy callers each call meets it.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// How many different faults are reported within that time.
const MAX_REPORTED: usize = 32;

/// How many looks in a row must find that the store's writes are not durable: replicas may be late once.
const LOOKS: u32 = 2;

/// The finding of one look.
#[derive(Clone, Debug, Default)]
struct WatchedStore {
    state: StoreCondition,
    /// The freezes that stop all money.
    stops: Vec<(Environment, Freeze, StoreTime)>,
    /// The environments whose writes are not as durable as the configuration demands.
    undurable: Vec<UndurableStore>,
    /// The fences that are closed.
    fenced: Vec<(Environment, FenceStop)>,
    /// Whose reads are frozen; while the store is away, as it was known before.
    unread: BTreeMap<Environment, FrozenReads>,
}

/// The frozen reads of an environment.
#[derive(Clone, Debug, Default)]
struct FrozenReads {
    callers: HashSet<Owner>,
    /// More is frozen than this gate reads, so that it must not serve anybody's reads.
    all: bool,
}

/// A store whose writes a failover or a crash could undo.
#[derive(Clone, Debug)]
struct UndurableStore {
    environment: Environment,
    why: String,
    /// How many looks in a row found it.
    looks: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum StoreCondition {
    /// Nothing was found yet.
    #[default]
    Unknown,
    Up,
    Refuses(WriteRefusal),
    /// Why, and of which environment, if others can be used.
    Away(String, Option<Environment>),
}

impl StoreCondition {
    /// Returns the condition, from a fault of an environment; `is_partial` says that another environment can be used.
    fn of(
        refusal: Result<Option<WriteRefusal>, StoreFault>,
        fault: Option<(Environment, StoreFault)>,
        starting: Option<String>,
        is_partial: bool,
    ) -> StoreCondition {
        match (refusal, fault, starting) {
            (Ok(Some(refusal)), ..) => StoreCondition::Refuses(refusal),
            (_, Some(_), Some(starting)) => StoreCondition::Away(starting, None),
            (_, Some((environment, why)), None) => StoreCondition::Away(text(&why), is_partial.then_some(environment)),
            (Err(why), None, _) => StoreCondition::Away(text(&why), None),
            (Ok(None), None, _) => StoreCondition::Up,
        }
    }
}

word_enum! {
    /// The reasons why money cannot move.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StopReason {
        Draining = "draining",
        UpstreamUnknown = "upstream-unknown",
        KeysUnknown = "keys-unknown",
        StoreAway = "store-away",
        StoreRefusesWrites = "store-refuses-writes",
        StoreNotDurable = "store-not-durable",
        AuditFailing = "audit-failing",
        DiskKept = "disk-kept",
        Unwitnessed = "unwitnessed",
        JournalBegins = "journal-begins",
        PoliciesNotRun = "policies-not-run",
        Frozen = "frozen",
        Restored = "restored",
        Clock = "clock",
        GateClock = "gate-clock",
        Fence = "fence",
    }
}

/// One reason why money cannot move, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoneyStop {
    pub reason: StopReason,
    /// `None` if it stops every environment.
    pub environment: Option<Environment>,
    pub text: String,
    /// The time of a freeze; other reasons have none of the store.
    pub since: Option<StoreTime>,
}

impl Default for StoreWatch {
    fn default() -> StoreWatch {
        let starting = Mutex::new(Some("this gate has just started".to_owned()));
        StoreWatch {
            seen: ArcSwap::default(),
            starting,
            lacking: Mutex::default(),
            skipping: Mutex::default(),
            changed: Notify::new(),
            reported: Mutex::default(),
        }
    }
}

impl StoreWatch {
    /// Notes whether the journal lacks what was before it begins. Returns since when it does.
    pub(super) fn set_lacking(&self, environment: Environment, lacks: bool, now: Duration) -> Duration {
        let mut lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        if lacks {
            return *lacking.entry(environment).or_insert(now);
        }
        lacking.remove(&environment);
        now
    }

    /// Notes that the journal is about to go on without some entries: it lacks them from now on, whatever it has yet.
    pub(super) fn begins_to_skip(&self, environment: Environment) {
        self.skipping.lock().unwrap_or_else(PoisonError::into_inner).insert(environment);
    }

    /// Notes that the journal goes on without some entries.
    pub(super) fn has_skipped(&self, environment: Environment, now: Duration) {
        self.set_lacking(environment, true, now);
        self.skipping.lock().unwrap_or_else(PoisonError::into_inner).remove(&environment);
    }

    pub(super) fn lacks_what_was_before(&self, environment: Environment) -> bool {
        self.skipping.lock().unwrap_or_else(PoisonError::into_inner).contains(&environment)
            || self.lacking.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&environment)
    }

    /// Notes why this node does not use the store yet; `None` once it does.
    pub fn starts(&self, why: Option<String>) {
        *self.starting.lock().unwrap_or_else(PoisonError::into_inner) = why;
        self.changed.notify_one();
    }

    fn starting(&self) -> Option<String> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a fault is to be reported now: the same one was not within the last second.
    pub(super) fn reports(&self, fault: &StoreFault, now: Duration) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.retain(|_, at| now.saturating_sub(*at) < REPORT_INTERVAL);
        let fault = fault.to_string();
        if reported.contains_key(&fault) || reported.len() >= MAX_REPORTED {
            return false;
        }
        reported.insert(fault, now);
        true
    }

    /// Whether the last look found that the store is away, or refuses writes.
    pub fn is_away(&self) -> bool {
        matches!(self.seen.load().state, StoreCondition::Refuses(_) | StoreCondition::Away(..))
    }

    /// Returns why the store refuses writes, if it does.
    pub fn refusal(&self) -> Option<WriteRefusal> {
        match self.seen.load().state {
            StoreCondition::Refuses(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns whether the reads of a caller are frozen, as the last look found.
    pub fn freezes_reads(&self, environment: Environment, (issuer, subject): (&str, &str)) -> bool {
        self.seen.load().unread.get(&environment).is_some_and(|frozen| {
            frozen.all || !frozen.callers.is_empty() && frozen.callers.contains(&Owner::named(issuer, subject))
        })
    }

    /// Returns why the store stops money; empty if it does not.
    pub fn stops(&self) -> Vec<MoneyStop> {
        let seen = self.seen.load();
        let stop = |reason, text: String| MoneyStop { reason, environment: None, text, since: None };
        let away = |why: &str| stop(StopReason::StoreAway, format!("the store cannot be used: {why}"));
        let mut stops = match &seen.state {
            StoreCondition::Refuses(refusal) => {
                let text = format!("the store refuses writes: {}", refusal.explanation());
                vec![stop(StopReason::StoreRefusesWrites, text)]
            }
            StoreCondition::Away(why, environment) => vec![MoneyStop { environment: *environment, ..away(why) }],
            StoreCondition::Unknown => vec![away("it was not looked at yet")],
            StoreCondition::Up => Vec::new(),
        };
        if let (true, Some(why)) = (stops.is_empty(), self.starting()) {
            stops.push(away(&why));
        }
        if stops.is_empty() {
            let lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
            stops.extend(lacking.keys().map(|environment| {
                let text =
                    "this gate's journal begins in the middle, and no gate has told it yet what was before".to_owned();
                MoneyStop { reason: StopReason::JournalBegins, environment: Some(*environment), text, since: None }
            }));
        }
        stops.extend(seen.undurable.iter().filter(|one| one.looks >= LOOKS).map(|one| {
            let text = format!("writes are less durable than `redis.durability` demands: {}", one.why);
            let environment = Some(one.environment);
            MoneyStop { reason: StopReason::StoreNotDurable, environment, text, since: None }
        }));
        // A store that is away has no primary to name.
        let fenced = seen.fenced.iter().filter(|_| seen.state == StoreCondition::Up);
        stops.extend(fenced.map(|(environment, fence)| {
            let text = format!("a split is fenced off: {}", fence.text());
            MoneyStop { reason: StopReason::Fence, environment: Some(*environment), text, since: None }
        }));
        stops.extend(seen.stops.iter().map(|(environment, freeze, since)| {
            let (reason, text) = match freeze {
                Freeze::Restored => (
                    StopReason::Restored,
                    "money is closed: the store may have lost payments; `sluice doctor` says what is missing, and people open \
                     money with `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT`",
                ),
                Freeze::Clock => (StopReason::Clock, "money is closed: the clock of the store leapt"),
                Freeze::GateClock(_) => (
                    StopReason::GateClock,
                    "the money of this gate is closed: the clock of its machine was not that of others when it started",
                ),
                _ => (StopReason::Frozen, "money is frozen"),
            };
            MoneyStop { reason, environment: Some(*environment), text: text.to_owned(), since: Some(*since) }
        }));
        stops
    }
}

/// Watches the store as long as the process lives.
pub async fn watch_store(node: Arc<Node>, environments: Vec<Environment>) {
    // Whether it refused writes since it was up the last time.
    let mut has_refused = false;
    loop {
        let seen = view_of_store(&node, &environments).await;
        let before = node.watched.seen.load_full();
        node.metrics.store_up(seen.state == StoreCondition::Up);
        node.metrics.store_refuses_writes(match seen.state {
            StoreCondition::Refuses(refusal) => Some(refusal),
            _ => None,
        });
        let state = seen.state.clone();
        tell_durability(&before, &seen);
        tell_of_too_many_freezes(&before, &seen);
        for environment in &environments {
            let is_closed = seen.fenced.iter().any(|(one, _)| one == environment);
            node.metrics.fence_closed(environment.as_str(), is_closed);
            let is_doubted =
                seen.stops.iter().any(|(one, freeze, _)| one == environment && matches!(freeze, Freeze::GateClock(_)));
            let is_closed = is_doubted || node.clocks.uncompared().contains(environment);
            node.metrics.clock_doubted(environment.as_str(), is_closed);
        }
        node.watched.seen.store(Arc::new(seen));
        match (&before.state, &state) {
            (before, now) if before == now => {}
            (StoreCondition::Away(_, before), StoreCondition::Away(_, now)) if before == now => {}
            (_, StoreCondition::Unknown) => {}
            (StoreCondition::Unknown, StoreCondition::Up) => {}
            (_, StoreCondition::Up) if has_refused => tracing::info!("the store accepts writes again"),
            (_, StoreCondition::Up) => tracing::info!("the store is available again"),
            (_, StoreCondition::Away(why, None)) => {
                tracing::warn!(why, "the store is away: money and changes get 503, reads go on");
            }
            (_, StoreCondition::Away(why, Some(environment))) => {
                tracing::warn!(%environment, why, "the store is away: money and changes of this environment get 503, reads go on");
            }
            (_, StoreCondition::Refuses(refusal)) => tracing::error!(
                why = refusal.explanation(),
                remedy = refusal.remedy(),
                "the store refuses writes: money and changes get 503, reads go on"
            ),
        }
        has_refused = match state {
            StoreCondition::Up => false,
            StoreCondition::Refuses(_) => true,
            StoreCondition::Unknown | StoreCondition::Away(..) => has_refused,
        };
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            () = node.watched.changed.notified() => {}
        }
    }
}

/// Logs where writes began to be, or ceased to be, less durable than demanded.
fn tell_durability(before: &WatchedStore, now: &WatchedStore) {
    let closed = |seen: &WatchedStore| -> BTreeMap<Environment, String> {
        let found = seen.undurable.iter().filter(|one| one.looks >= LOOKS);
        found.map(|one| (one.environment, one.why.clone())).collect()
    };
    let (before, now) = (closed(before), closed(now));
    for (environment, why) in now.iter().filter(|(environment, _)| !before.contains_key(environment)) {
        let environment = environment.as_str();
        tracing::error!(environment, why, "the store's writes are not durable enough: money and changes get 503");
    }
    for environment in before.keys().filter(|environment| !now.contains_key(environment)) {
        tracing::info!(environment = environment.as_str(), "the store's writes are durable again");
    }
}

/// Logs where more is frozen than this gate reads.
fn tell_of_too_many_freezes(before: &WatchedStore, now: &WatchedStore) {
    let is_cut = |seen: &WatchedStore, environment| seen.unread.get(environment).is_some_and(|frozen| frozen.all);
    for environment in now.unread.keys().filter(|one| is_cut(now, one) && !is_cut(before, one)) {
        let environment = environment.as_str();
        tracing::error!(
            environment,
            "the store has more freezes than a gate reads: reads of all callers get 503 until fewer are left"
        );
    }
}

async fn view_of_store(node: &Node, environments: &[Environment]) -> WatchedStore {
    let refusal = node.store.refusal().await;
    let (mut stops, mut unread, mut undurable) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut faults = Vec::new();
    for environment in environments {
        match stops_of(node, *environment).await {
            Ok(found) => {
                undurable.extend(undurable_store(node, *environment).await);
                let mut reads = FrozenReads { all: found.has_more, ..FrozenReads::default() };
                for (since, freeze) in found.freezes {
                    match freeze {
                        Freeze::Reads(owner) => drop(reads.callers.insert(owner)),
                        Freeze::All | Freeze::Restored | Freeze::Clock => stops.push((*environment, freeze, since)),
                        Freeze::GateClock(gate) if gate == node.id => {
                            stops.push((*environment, Freeze::GateClock(gate), since));
                        }
                        Freeze::GateClock(_) | Freeze::Operation(_) | Freeze::Caller(_) => {}
                    }
                }
                unread.insert(*environment, reads);
            }
            Err(why) => {
                let before = node.watched.seen.load();
                unread.extend(before.unread.get(environment).map(|reads| (*environment, reads.clone())));
                faults.push((*environment, why));
            }
        }
    }
    let is_partial = faults.len() < environments.len();
    let state = StoreCondition::of(refusal, faults.pop(), node.watched.starting(), is_partial);
    let now = node.clock.elapsed();
    let fenced = environments.iter().filter_map(|one| Some((*one, node.fence.open_at(*one, now).err()?))).collect();
    if state != StoreCondition::Up {
        // This says more.
        undurable.clear();
    }
    WatchedStore { state, stops, undurable, fenced, unread }
}

/// Returns why what the store has could be undone, if it could.
async fn undurable_store(node: &Node, environment: Environment) -> Option<UndurableStore> {
    let why = text(&node.store.is_durable(environment).await.err()?);
    let before = node.watched.seen.load();
    let before = before.undurable.iter().find(|one| one.environment == environment).map_or(0, |one| one.looks);
    Some(UndurableStore { environment, why, looks: before.saturating_add(1) })
}

/// Returns the freezes of an environment.
async fn stops_of(node: &Node, environment: Environment) -> Result<FrozenIndex, StoreFault> {
    // Unlike a query of an index, this fails where the store is not open for this node.
    node.store.last(environment).await?;
    FrozenIndex::read(&*node.store, environment, Some(&node.id)).await
}

fn text(fault: &StoreFault) -> String {
    match fault {
        StoreFault::Away(why) | StoreFault::InDoubt(why) | StoreFault::Broken(why) => why.clone(),
        StoreFault::AwaitsJournals | StoreFault::FencedOff | StoreFault::NoRoomForEntry { .. } => fault.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_away_names_the_environment_if_others_can_be_used() {
        let watch = StoreWatch::default();
        watch.starts(None);
        let away = |environment| Some((environment, StoreFault::Away("no answer".to_owned())));
        let named = |state: StoreCondition| {
            watch.seen.store(Arc::new(WatchedStore { state, ..WatchedStore::default() }));
            let stops = watch.stops().into_iter().map(|stop| (stop.reason, stop.environment, stop.text));
            stops.collect::<Vec<_>>()
        };
        let text = "the store cannot be used: no answer".to_owned();
        for environment in [Environment::Production, Environment::Sandbox] {
            let partly = StoreCondition::of(Ok(None), away(environment), None, true);
            assert_eq!(named(partly), [(StopReason::StoreAway, Some(environment), text.clone())]);
            let wholly = StoreCondition::of(Ok(None), away(environment), None, false);
            assert_eq!(named(wholly), [(StopReason::StoreAway, None, text.clone())]);
        }
        // A gate that starts uses the store of no environment.
        let starting = StoreCondition::of(Ok(None), away(Environment::Sandbox), Some("it starts".to_owned()), true);
        assert_eq!(named(starting), [(StopReason::StoreAway, None, "the store cannot be used: it starts".to_owned())]);
        assert_eq!(named(StoreCondition::of(Ok(None), None, None, false)), []);
    }
}
