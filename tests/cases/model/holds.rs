//! Histories of calls that wait for people: two nodes that die and forget, people who agree, change their minds, reject,
//! come too late and name others in their place, and policies that change meanwhile, at one gate before the other, all by
//! one seed. What is sent had the quorum of its moment, by the set that was in force then, once at most, and nothing after
//! an acknowledged no.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use sluice::adapters::rate::Local;
use sluice::base::secret::Secret;
use sluice::catalog::{Catalog, SchemaFiles};
use sluice::config::{CredentialConfig, CredentialSource};
use sluice::journey::release::{Releasing, release};
use sluice::journey::submit::submit;
use sluice::ledger::{Content, Kind, NodeId, Record, RecordKey};
use sluice::node::approve::{VoteRequest, vote};
use sluice::node::holds::{Cancelled, key};
use sluice::node::rates::Rates;
use sluice::node::reminders::remind;
use sluice::node::stand_ins::{StandInPeriod, name, revoke};
use sluice::node::upkeep::recover;
use sluice::node::{Activations, InForce, Node};
use sluice::people::activation::{ActiveSet, SetInForce, activate, active, in_force_key};
use sluice::ports::Store;
use sluice::stations::claim::{self, Claim, ClaimState, Decline, Owner};
use sluice::stations::hold::{self, Hold, VoteAction};
use sluice::telemetry::Metrics;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::callers::{admitted, exchange};
use super::fate::{Fate, ModelClock};
use super::node::{BEGIN_WITHIN, LEASE, ModelNode, model_node};
use super::ports::{AuditFile, ModelUpstream};
use super::quorum::{SETS, sent_by_a_former_set, without_quorum};
use super::world::{CATALOG, ENVIRONMENT, in_memory};
use super::{in_model_time, told, variable};

const EXPIRES: Duration = Duration::from_secs(600);
const REMINDS_BEFORE: Duration = Duration::from_secs(120);
const HISTORIES: u64 = 32;
const REQUEST_IDS: u64 = 4;
/// Their own call, by a second credential, is among what they try.
const PEOPLE: [&str; 5] = ["ops-1", "ops-2", "finance-1", "service", "dora"];

pub(super) static SHARED: LazyLock<Arc<Catalog>> =
    LazyLock::new(|| Arc::new(Catalog::build(&SchemaFiles::built_in(), &[]).unwrap()));

/// What became of calls, over all histories: each end must have been met.
#[derive(Debug, Default)]
struct Ends {
    executed: AtomicUsize,
    unknown: AtomicUsize,
    declined: [AtomicUsize; 5],
}

struct World {
    fate: Arc<Fate>,
    clock: Arc<ModelClock>,
    store: Arc<dyn Store>,
    upstream: Arc<ModelUpstream>,
    files: Vec<AuditFile>,
    /// What each node has in force: it follows the store, some time later.
    in_force: Vec<Arc<InForce>>,
    activations: Vec<Mutex<Arc<Activations>>>,
    nodes: Vec<Mutex<ModelNode>>,
    /// It looks every second, and so many histories are enough.
    reminds: bool,
    /// The requestIds of which somebody was told that they are rejected or cancelled.
    refused: Mutex<Vec<String>>,
    /// Nothing begins that is never told to stop.
    _running: watch::Sender<bool>,
    stopping: watch::Receiver<bool>,
}

#[test]
fn no_history_of_calls_that_wait_breaks_a_promise() {
    let seeds: Vec<u64> = match variable("SLUICE_SEED") {
        Some(seed) => vec![seed],
        None => (1..=variable("SLUICE_HISTORIES").map_or(HISTORIES, |all| all.div_ceil(8))).collect(),
    };
    let ends = Ends::default();
    for seed in &seeds {
        eprintln!("history {seed}; SLUICE_SEED={seed} runs it alone");
        history(*seed, &ends);
    }
    let count = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    let [rejected, expired, cancelled, blocked, forgotten] = ends.declined.each_ref().map(count);
    assert_eq!(forgotten, 0, "no store forgets");
    let met = [count(&ends.executed), count(&ends.unknown), rejected, expired, cancelled, blocked];
    assert!(seeds.len() < 50 || met.iter().all(|met| *met > 0), "{ends:?}");
}

fn history(seed: u64, ends: &Ends) {
    in_model_time(async {
        let world = World::new(seed);
        world.activate(0).await;
        let alive: Vec<_> = (0..2).map(|at| tokio::spawn(world.clone().keep_alive(at))).collect();
        let mut work = Vec::new();
        for n in 0..REQUEST_IDS {
            let request_id = format!("request-{n}");
            // Some calls come when another set may be in force.
            let first = world.fate.millis(if n < 2 { 1_000 } else { 900_000 });
            work.extend((0..2).map(|_| tokio::spawn(world.clone().caller(request_id.clone(), first))));
            work.extend(PEOPLE.map(|who| tokio::spawn(world.clone().person(who, request_id.clone()))));
        }
        work.push(tokio::spawn(world.clone().reloads()));
        work.push(tokio::spawn(world.clone().stand_ins()));
        let following: Vec<_> = (0..2).map(|at| tokio::spawn(world.clone().follow(at))).collect();
        let pauses = tokio::spawn(world.clone().pauses());
        for one in work {
            timeout(Duration::from_secs(36_000), one).await.expect("somebody never ended").unwrap();
        }
        alive.iter().chain(&following).chain([&pauses]).for_each(JoinHandle::abort);
        world.rest().await;
        world.check(ends).await;
    });
}

impl World {
    fn new(seed: u64) -> Arc<World> {
        let (fate, clock) = (Arc::new(Fate::new(seed)), Arc::new(ModelClock::leaping(seed)));
        let store = in_memory(clock.clone());
        let files = vec![AuditFile::default(), AuditFile::default()];
        let upstream = Arc::new(ModelUpstream {
            effects: Mutex::default(),
            sends: Mutex::default(),
            files: files.clone(),
            begin: tokio::time::Instant::now(),
            wrong: Mutex::default(),
        });
        let metrics = Metrics::new().unwrap();
        let in_force = || {
            let rates = Rates::new(Vec::new(), Arc::new(Local::new(0)), &metrics);
            Arc::new(InForce::new(SHARED.clone(), SETS[0].clone(), rates, metrics.clone()))
        };
        let (running, stopping) = watch::channel(false);
        let mut world = World {
            fate,
            clock,
            store,
            upstream,
            files,
            in_force: (0..2).map(|_| in_force()).collect(),
            activations: (0..2).map(|_| Mutex::default()).collect(),
            nodes: Vec::new(),
            reminds: seed.is_multiple_of(4),
            refused: Mutex::default(),
            _running: running,
            stopping,
        };
        world.nodes = (0..2).map(|at| Mutex::new(world.model_node(at, &world.fate))).collect();
        Arc::new(world)
    }

    fn model_node(&self, at: usize, fate: &Arc<Fate>) -> ModelNode {
        let credential = CredentialConfig::Inject(CredentialSource::Given(Secret::new("gate".to_owned())));
        let mut made = model_node(at, fate, &self.clock, &self.store, &self.files[at], &self.upstream, &credential);
        // A new life knows nothing of the set in force, and begins with the one that the last life had.
        let activations = Arc::new(Activations::default());
        *self.activations[at].lock().unwrap() = activations.clone();
        made.books = Arc::new(Node { activations, ..Node::clone(&made.books) });
        let releasing = Releasing {
            node: made.books.clone(),
            egress: made.egress.clone(),
            in_force: self.in_force[at].clone(),
            tracer: None,
        };
        made.work.push(tokio::spawn(release(releasing, self.stopping.clone())));
        if self.reminds {
            made.work.push(tokio::spawn(remind(made.books.clone(), ENVIRONMENT, REMINDS_BEFORE)));
        }
        made
    }

    async fn keep_alive(self: Arc<World>, at: usize) {
        loop {
            let books = self.nodes[at].lock().unwrap().books.clone();
            if let Ok(Ok(())) = timeout(Duration::from_secs(120), recover(&books, &[ENVIRONMENT])).await {
                self.nodes[at].lock().unwrap().serving = true;
                while !self.nodes[at].lock().unwrap().life.is_over() {
                    sleep(Duration::from_secs(2)).await;
                }
            }
            sleep(self.fate.millis(20_000)).await;
            self.begin_anew(at, &self.fate);
        }
    }

    fn begin_anew(&self, at: usize, fate: &Arc<Fate>) {
        let mut now = self.nodes[at].lock().unwrap();
        now.life.end();
        now.work.iter().for_each(JoinHandle::abort);
        *now = self.model_node(at, fate);
    }

    fn any(&self) -> Option<(Arc<Node>, sluice::journey::Egress, Arc<InForce>)> {
        let at = self.fate.below(2) as usize;
        let (node, in_force) = (self.nodes[at].lock().unwrap(), self.in_force[at].clone());
        (node.serving && !node.life.is_over()).then(|| (node.books.clone(), node.egress.clone(), in_force))
    }

    /// Asks again and again, and cancels at times.
    async fn caller(self: Arc<World>, request_id: String, first: Duration) {
        sleep(first).await;
        for _ in 0..12 {
            sleep(self.fate.millis(90_000)).await;
            let Some((books, egress, in_force)) = self.any() else { continue };
            let body = format!(
                r#"{{"requestId":"{request_id}","source":{{"chain":"POLYGON","currency":"usdt","amount":"10"}},"destination":{{"chain":"POLYGON","currency":"usdc","walletAddress":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}"#
            );
            let (admitted, headers) = admitted(false);
            let (trace, snapshot) = (exchange("t-1"), in_force.now());
            let asked = submit(&egress, &books, &snapshot, admitted, &headers, body.as_bytes(), &trace);
            timeout(Duration::from_secs(60), asked).await.ok();
            if self.fate.chance(15) {
                let Some((_, _, hold)) = self.found(&request_id).await else { continue };
                let owner = Owner::named("main", "service");
                let (books, key) = (books.clone(), key(ENVIRONMENT, &hold.id));
                let cancelled = timeout(Duration::from_secs(60), async move { books.cancel(&key, &owner).await }).await;
                if matches!(cancelled, Ok(Ok(Some(Cancelled::Now)))) {
                    self.refused.lock().unwrap().push(request_id.clone());
                }
            }
        }
    }

    /// Looks at what waits, and says something of it, or not in time.
    async fn person(self: Arc<World>, who: &'static str, request_id: String) {
        let person = Owner::named("people", who);
        for _ in 0..4 {
            sleep(self.fate.millis(280_000)).await;
            let (Some((books, _, in_force)), Some((_, _, hold))) = (self.any(), self.found(&request_id).await) else {
                continue;
            };
            let act = match self.fate.below(20) {
                0 => VoteAction::Reject,
                1 | 2 => VoteAction::Withdraw,
                3..=8 => continue,
                _ => VoteAction::Approve,
            };
            let key = key(ENVIRONMENT, &hold.id);
            let said =
                VoteRequest { say: act, person: &person, seen: hold.seen(), text: Some("seen"), signature: None };
            let policies = in_force.now().policies.clone();
            let told = timeout(Duration::from_secs(60), vote(&books, &CATALOG, &policies, &key, said)).await;
            if let Ok(Ok(changed)) = told {
                assert_ne!(who, "service", "whoever asked for it was heard");
                if act == VoteAction::Reject && changed {
                    self.refused.lock().unwrap().push(request_id.clone());
                }
            }
        }
    }

    /// Machines are paused, for moments or for longer than a lease.
    async fn pauses(self: Arc<World>) {
        loop {
            sleep(self.fate.millis(120_000)).await;
            if self.fate.chance(self.fate.trouble * 5) {
                let (at, time) = (self.fate.below(2) as usize, self.fate.millis(100_000));
                self.nodes[at].lock().unwrap().life.pause(time);
            }
        }
    }

    /// Another set comes into force in the store: as it was, tighter, of other people, looser, denying, allowing.
    async fn reloads(self: Arc<World>) {
        for _ in 0..6 {
            sleep(self.fate.millis(300_000)).await;
            let set = if self.fate.chance(300) { 0 } else { self.fate.below(SETS.len() as u64 + 2) as usize };
            // The last one, which asks nobody, comes more often.
            let set = set.min(SETS.len() - 1);
            self.activate(set).await;
        }
    }

    async fn activate(&self, set: usize) {
        let before = self.active().await;
        let from = before.as_ref().map_or("", |before| before.set.version.as_str());
        let (version, contract) = (SETS[set].version().to_owned(), "the model's".to_owned());
        let next = SetInForce { version, contract, two_people: false, successions: 0 };
        let node = NodeId::parse("people").unwrap();
        let commit = activate(ENVIRONMENT, (before.as_ref(), from), &next, Vec::new(), (None, None), &node);
        self.store.commit(commit).await.unwrap();
    }

    async fn active(&self) -> Option<ActiveSet> {
        let (record, _) = self.store.read(&in_force_key(ENVIRONMENT)).await.unwrap();
        record.map(|record| active(&record).unwrap())
    }

    /// A gate takes the set in force, long after it changed at times.
    async fn follow(self: Arc<World>, at: usize) {
        loop {
            // What this gate cannot run, it knows to be in force all the same.
            let can_run = !self.fate.chance(300);
            self.follow_once(at, can_run).await;
            let activations = self.activations[at].lock().unwrap().clone();
            let (longest, is_slow) =
                if self.fate.chance(300) { (120_000, self.fate.chance(500)) } else { (2_000, false) };
            tokio::select! {
                () = sleep(self.fate.millis(longest)) => {}
                // A call met another set in the store.
                () = activations.asked(), if !is_slow => {}
            }
        }
    }

    async fn follow_once(&self, at: usize, can_run: bool) {
        let Some(active) = self.active().await else { return };
        let set = SETS.iter().find(|set| set.version() == active.set.version).expect("a set of the model");
        let (activations, in_force) = (self.activations[at].lock().unwrap().clone(), &self.in_force[at]);
        let runs = can_run || in_force.now().policies.version() == set.version();
        if runs {
            in_force.replace(SHARED.clone(), set.clone());
        }
        activations.note_active(ENVIRONMENT, &active);
        activations.cannot_run((!runs).then(|| "this gate cannot read it".to_owned()));
        activations.looked(in_force.now());
    }

    /// Somebody names a person in their place, or takes it back.
    async fn stand_ins(self: Arc<World>) {
        let who = |name: &str| Owner::named("people", name);
        for _ in 0..8 {
            sleep(self.fate.millis(200_000)).await;
            let Some((books, _, in_force)) = self.any() else { continue };
            let [member, person] = [0, 0].map(|_| who(PEOPLE[self.fate.below(PEOPLE.len() as u64) as usize]));
            let (pair, why) = ((&member, &person), "away");
            if self.fate.chance(250) {
                timeout(Duration::from_secs(60), revoke(&books, ENVIRONMENT, pair, (&member, why))).await.ok();
                continue;
            }
            let now = sluice::ledger::StoreTime::of_micros(self.clock.true_time().as_microsecond());
            let from = self.fate.chance(300).then(|| now.plus(self.fate.millis(200_000)));
            let until = from.unwrap_or(now).plus(Duration::from_secs(20) + self.fate.millis(400_000));
            let (policies, period) = (in_force.now().policies.clone(), StandInPeriod { from, until });
            let named = name(&books, &policies, ENVIRONMENT, pair, period, why);
            timeout(Duration::from_secs(60), named).await.ok();
        }
    }

    async fn claim(&self, request_id: &str) -> Option<Claim> {
        let name = format!("request/{request_id}");
        let (record, _) =
            self.store.read(&RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name }).await.unwrap();
        let Content::Whole(bytes) = record?.content else { return None };
        Some(claim::decode_claim(&bytes).unwrap())
    }

    async fn found(&self, request_id: &str) -> Option<(Claim, Record, Hold)> {
        let claim = self.claim(request_id).await?;
        let (record, _) = self.store.read(&key(ENVIRONMENT, claim.hold.as_ref()?)).await.unwrap();
        let record = record?;
        let Content::Whole(bytes) = &record.content else { return None };
        let hold = hold::decode_hold(bytes).unwrap();
        Some((claim, record, hold))
    }

    /// Nothing goes wrong any more, and every lease and every hold's time is over.
    async fn rest(&self) {
        let calm = Arc::new(Fate::calm());
        for at in 0..2 {
            self.begin_anew(at, &calm);
            self.follow_once(at, true).await;
            let books = self.nodes[at].lock().unwrap().books.clone();
            recover(&books, &[ENVIRONMENT]).await.unwrap();
        }
        sleep(EXPIRES + LEASE * 2).await;
    }

    async fn check(&self, ends: &Ends) {
        let wrong = self.upstream.wrong.lock().unwrap().clone();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(sent_by_a_former_set(&self.files), [""; 0]);
        let refused = self.refused.lock().unwrap().clone();
        told::check(&self.store, &self.files).await;
        let mut seen = BTreeMap::new();
        for request_id in (0..REQUEST_IDS).map(|n| format!("request-{n}")) {
            let effects = self.upstream.effects_of(&request_id);
            assert!(effects.len() <= 1, "{request_id}: {} effects", effects.len());
            assert_eq!(without_quorum(&self.files, &request_id), [""; 0], "{request_id}: sent without its quorum");
            let Some((claim, record, hold)) = self.found(&request_id).await else {
                let claim = self.claim(&request_id).await;
                let may_be_executed = claim.as_ref().is_some_and(|claim| match &claim.state {
                    ClaimState::Done { executed, .. } => *executed,
                    state => matches!(state, ClaimState::Unknown { .. }),
                });
                assert!(effects.is_empty() || may_be_executed, "{request_id}: sent, and {claim:?}");
                continue;
            };
            assert!(seen.insert(hold.id.clone(), request_id.clone()).is_none(), "one hold, two calls");
            let was_refused = refused.contains(&request_id);
            assert!(!was_refused || effects.is_empty(), "{request_id}: sent after an acknowledged no");
            assert!(!was_refused || matches!(claim.state, ClaimState::Declined(_)), "{request_id}: {:?}", claim.state);
            assert!(!hold.state.is_open(), "{request_id}: left {}", hold.state.as_str());
            match &claim.state {
                ClaimState::Declined(declined) => {
                    assert!(effects.is_empty(), "{request_id}: {:?}, and sent", declined.how);
                    let at = Decline::ALL.iter().position(|how| *how == declined.how).unwrap();
                    ends.declined[at].fetch_add(1, Ordering::SeqCst);
                }
                ClaimState::Done { executed, .. } => {
                    assert_eq!(effects.len(), usize::from(*executed), "{request_id}: done")
                }
                ClaimState::Unknown { .. } => {
                    assert!(effects.len() <= 1, "{request_id}: {} effects", effects.len());
                    ends.unknown.fetch_add(1, Ordering::SeqCst);
                }
                ClaimState::Held | ClaimState::Sending { .. } | ClaimState::Absent | ClaimState::Abandoned => {
                    panic!("{request_id}: left {}", claim.state.as_str())
                }
            }
            if let Some(effect) = effects.first() {
                ends.executed.fetch_add(1, Ordering::SeqCst);
                let since_begin =
                    Duration::from_micros((hold.deadline(record.at).as_micros() - 1_800_000_000_000_000) as u64);
                assert!(effect.sent < since_begin + BEGIN_WITHIN, "{request_id}: sent behind its time");
            }
        }
    }
}
