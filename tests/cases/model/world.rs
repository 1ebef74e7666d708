//! Three nodes, upstream and some callers, in one thread and by one seed; and what must be true of all that happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::HeaderValue;
use serde_json::Value;
use sluice::adapters::redis::Fence;
use sluice::adapters::store::memory::MemoryStore;
use sluice::base::ids::Environment;
use sluice::catalog::{Catalog, SchemaFiles};
use sluice::config::CredentialConfig;
use sluice::journey::submit::submit;
use sluice::ledger::{Content, Index, Kind, NodeId, Number, Outstanding, RecordKey, Versioned};
use sluice::node::Node;
use sluice::node::upkeep::recover;
use sluice::ports::{Clock as _, Store};
use sluice::stations::claim::{self, ClaimState, JointWord, Owner, SenderNews, StoredAnswer, say_jointly};
use sluice::stations::reply::{Executed, Reply};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::REQUEST_IDS;
use super::callers::{CALLERS, admitted, exchange};
use super::fate::{Fate, ModelClock};
use super::losses::{LostMemory, says_unused};
use super::node::{BEGIN_WITHIN, LEASE, ModelNode, model_node, terms};
use super::ports::{Asked, AuditFile, Effect, ModelUpstream};

/// How many gates share the store.
pub const NODES: usize = 3;
pub const ENVIRONMENT: Environment = Environment::Production;
/// Callers' own tokens go on.
const FORWARD: &CredentialConfig = &CredentialConfig::Forward;

/// One history.
pub struct World {
    pub fate: Arc<Fate>,
    pub clock: Arc<ModelClock>,
    pub store: Arc<dyn Store>,
    pub upstream: Arc<ModelUpstream>,
    pub files: Vec<AuditFile>,
    pub nodes: Vec<Mutex<ModelNode>>,
    /// The store as each node reaches it, and its fence.
    sides: Vec<(Arc<dyn Store>, Arc<Fence>)>,
    told: Mutex<Vec<Told>>,
    pub lost: LostMemory,
    /// How many requestIds were asked for.
    pub asked: AtomicU64,
    /// The nodes of which the store hears nothing.
    pub unheard: Mutex<BTreeSet<usize>>,
}

/// What a caller heard.
#[derive(Debug)]
struct Told {
    request_id: String,
    trace: String,
    /// When it began to ask.
    began: Duration,
    status: u16,
    executed: Option<Executed>,
    body: Bytes,
    asked: Asked,
}

pub static CATALOG: LazyLock<Arc<Catalog>> =
    LazyLock::new(|| Arc::new(Catalog::build(&SchemaFiles::built_in(), &[]).unwrap()));

impl World {
    pub fn new(seed: u64, store: impl FnOnce(Arc<ModelClock>) -> Arc<dyn Store>) -> Arc<World> {
        World::of(Fate::new(seed), ModelClock::leaping(seed), store)
    }

    pub fn of(fate: Fate, clock: ModelClock, store: impl FnOnce(Arc<ModelClock>) -> Arc<dyn Store>) -> Arc<World> {
        let clock = Arc::new(clock);
        let store = store(clock.clone());
        let sides = (0..NODES).map(|_| (store.clone(), Arc::default())).collect();
        World::with_sides(fate, clock, store, sides)
    }

    /// Each node reaches the store in its own way.
    pub fn with_sides(
        fate: Fate,
        clock: Arc<ModelClock>,
        store: Arc<dyn Store>,
        sides: Vec<(Arc<dyn Store>, Arc<Fence>)>,
    ) -> Arc<World> {
        let fate = Arc::new(fate);
        let files: Vec<AuditFile> = (0..NODES).map(|_| AuditFile::default()).collect();
        let lost = LostMemory::default();
        let upstream = Arc::new(ModelUpstream {
            effects: Mutex::default(),
            sends: Mutex::default(),
            files: files.iter().chain(lost.files()).cloned().collect(),
            begin: tokio::time::Instant::now(),
            wrong: Mutex::default(),
        });
        let (nodes, told, unheard) = (Vec::new(), Mutex::default(), Mutex::default());
        let asked = AtomicU64::new(REQUEST_IDS);
        let mut world = World { fate, clock, store, upstream, files, nodes, sides, told, lost, asked, unheard };
        world.nodes = (0..NODES).map(|at| Mutex::new(world.life_of(at, &world.fate))).collect();
        Arc::new(world)
    }

    /// The next life of a node.
    fn life_of(&self, at: usize, fate: &Arc<Fate>) -> ModelNode {
        let (store, fence) = &self.sides[at];
        let mut made = model_node(at, fate, &self.clock, store, &self.files[at], &self.upstream, FORWARD);
        made.books = Arc::new(Node { fence: fence.clone(), ..Node::clone(&made.books) });
        made
    }

    /// A node begins its next life. What its journal went on without stays.
    fn renew(&self, node: &mut ModelNode, at: usize, fate: &Arc<Fate>) {
        node.life.end();
        node.work.iter().for_each(JoinHandle::abort);
        let next = self.life_of(at, fate);
        next.audit.skipped.store(node.audit.skipped.load(Ordering::SeqCst), Ordering::SeqCst);
        *node = next;
    }

    pub fn fence(&self, at: usize) -> &Fence {
        &self.sides[at].1
    }

    /// A node begins to serve, and begins anew whenever it has ended.
    pub async fn keep_alive(self: Arc<World>, at: usize) {
        loop {
            let books = self.nodes[at].lock().unwrap().books.clone();
            if let Ok(Ok(())) = timeout(Duration::from_secs(120), recover(&books, &[ENVIRONMENT])).await {
                self.nodes[at].lock().unwrap().serving = true;
                while !self.nodes[at].lock().unwrap().life.is_over() {
                    sleep(Duration::from_secs(2)).await;
                }
            }
            sleep(self.fate.millis(20_000)).await;
            self.renew(&mut self.nodes[at].lock().unwrap(), at, &self.fate);
        }
    }

    /// Machines are paused, for moments or for longer than a lease.
    pub async fn pauses(self: Arc<World>) {
        loop {
            sleep(self.fate.millis(60_000)).await;
            if !self.fate.chance(self.fate.trouble * 5) {
                continue;
            }
            let longest = if self.fate.chance(300) { 200_000 } else { 5_000 };
            let (at, time) = (self.fate.below(NODES as u64) as usize, self.fate.millis(longest));
            self.nodes[at].lock().unwrap().life.pause(time);
        }
    }

    /// Nothing goes wrong, and every node serves.
    pub fn calm() -> Arc<World> {
        let world = World::of(Fate::calm(), ModelClock::new(), in_memory);
        world.nodes.iter().for_each(|node| node.lock().unwrap().serving = true);
        world
    }

    /// Asks once, of a node that has just seen its audit chain fail.
    pub async fn ask_unwell(&self, request_id: &str) -> (u16, Option<Executed>) {
        for node in &self.nodes {
            node.lock().unwrap().audit.well.store(false, Ordering::SeqCst);
        }
        let reply = self.ask(request_id, "t-1", "10", false).await.unwrap();
        for node in &self.nodes {
            node.lock().unwrap().audit.well.store(true, Ordering::SeqCst);
        }
        (reply.status, reply.executed)
    }

    /// The store was taken in from elsewhere.
    pub async fn restore(&self) {
        let (node, why) = (NodeId::parse("people").unwrap(), ("a test", "to see"));
        self.store.commit(claim::restored(ENVIRONMENT, None, Number::new(0), why, &node)).await.unwrap();
    }

    /// Asks once; what was said of it, and how often the store was asked for it.
    pub async fn ask_counted(&self, request_id: &str) -> (Option<Executed>, u64) {
        let trips = || self.nodes.iter().map(|node| node.lock().unwrap().trips.load(Ordering::SeqCst)).sum::<u64>();
        let before = trips();
        let reply = self.ask(request_id, "t-1", "10", false).await.unwrap();
        (reply.executed, trips() - before)
    }

    /// Asks until it knows, or gives up.
    pub async fn caller(self: Arc<World>, request_id: String) {
        for _ in 0..12 {
            sleep(self.fate.millis(4_000)).await;
            if self.lost.is_retracted(&request_id) {
                return;
            }
            let odd = self.fate.chance(60);
            let stranger = odd && self.fate.chance(500);
            let amount = if odd && !stranger { "11" } else { "10" };
            let (began, trace) = (self.clock.elapsed(), format!("t-{}", self.fate.next()));
            let reply = self.ask(&request_id, &trace, amount, stranger).await;
            let Some(reply) = reply else { continue };
            let conclusive = matches!(reply.executed, Some(Executed::Yes)) && !odd;
            let token = CALLERS[usize::from(stranger)].0.clone();
            let asked = Asked { token, amount: amount.to_owned() };
            let Reply { status, executed, body, .. } = reply;
            let request_id = request_id.clone();
            self.told.lock().unwrap().push(Told { request_id, trace, began, status, executed, body, asked });
            if conclusive && self.fate.chance(700) {
                return;
            }
        }
    }

    async fn ask(&self, request_id: &str, trace: &str, amount: &str, stranger: bool) -> Option<Reply> {
        let (egress, books) = {
            let node = self.nodes[self.fate.below(NODES as u64) as usize].lock().unwrap();
            if !node.serving || node.life.is_over() {
                return None;
            }
            (node.egress.clone(), node.books.clone())
        };
        let body = format!(
            r#"{{"requestId":"{request_id}","source":{{"chain":"POLYGON","currency":"usdt","amount":"{amount}"}},"destination":{{"chain":"POLYGON","currency":"usdc","walletAddress":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}"#
        );
        let (admitted, mut headers) = admitted(stranger);
        if self.fate.chance(200) {
            headers.insert("prefer", HeaderValue::from_static("wait=20"));
        }
        let trace = exchange(trace);
        let patience = Duration::from_secs(if self.fate.chance(100) { 1 } else { 60 });
        let submitted = submit(&egress, &books, &self.limit().snapshot, admitted, &headers, body.as_bytes(), &trace);
        timeout(patience, submitted).await.ok().map(|submitted| submitted.reply)
    }

    /// Two people look at calls in doubt when whatever could become of them has become of them.
    pub async fn people(self: Arc<World>) {
        loop {
            sleep(Duration::from_secs(30)).await;
            self.people_look().await;
        }
    }

    /// They see what upstream has done so far, and say of what it has not done that it was not done. That it may still
    /// do it is not theirs to know.
    pub async fn people_look(&self) {
        let people = ["ann", "bob"].map(|subject| Owner::named("console", subject));
        for (_, name) in self.store.due(ENVIRONMENT, Index::Unknown, None, usize::MAX).await.unwrap() {
            let request_id = name.strip_prefix("request/").unwrap().to_owned();
            if !self.upstream.effects_of(&request_id).is_empty() {
                continue;
            }
            let key = RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name };
            let node = NodeId::parse("people").unwrap();
            for person in &people {
                let (record, _) = self.store.read(&key).await.unwrap();
                let Some(record) = record else { break };
                let Content::Whole(bytes) = &record.content else { panic!("a claim in doubt is whole") };
                let claim = claim::decode_claim(bytes).unwrap();
                let here = Versioned { key: &key, version: record.version, at: record.at, value: &claim };
                let now = self.store.time().await.unwrap();
                let said = (person, "looked");
                let said = say_jointly(here, JointWord::Absent, said, (now, &self.news()), &node, &terms());
                let Ok((commit, _)) = said else { break };
                self.store.commit(commit).await.ok();
            }
        }
    }

    /// What the nodes that run tell of themselves.
    fn news(&self) -> SenderNews {
        let unheard = self.unheard.lock().unwrap().clone();
        let heard = self.nodes.iter().enumerate().filter(|(at, _)| !unheard.contains(at));
        let nodes = heard.map(|(_, node)| node.lock().unwrap());
        let running = nodes.filter(|node| node.serving && !node.life.is_over());
        SenderNews { gates: running.map(|node| node.books.heard_itself(ENVIRONMENT)).collect(), is_gone: false }
    }

    /// Everything comes to rest: nothing goes wrong any more, and every lease is over.
    pub async fn rest(&self) {
        for at in 0..NODES {
            let mut now = self.nodes[at].lock().unwrap();
            self.renew(&mut now, at, &Arc::new(Fate::calm()));
            now.serving = true;
        }
        for at in 0..NODES {
            let books = self.nodes[at].lock().unwrap().books.clone();
            recover(&books, &[ENVIRONMENT]).await.unwrap();
        }
        sleep(LEASE * 2).await;
    }

    /// What happened, but for names that are another each time.
    pub fn told(&self) -> Vec<String> {
        let effects = self.upstream.effects.lock().unwrap();
        let effects = effects.iter().map(|e| format!("{} {:?} {} {}", e.request_id, e.sent, e.trace, e.asked.amount));
        let told = self.told.lock().unwrap();
        let told =
            told.iter().map(|t| format!("{} {:?} {} {} {:?}", t.request_id, t.began, t.trace, t.status, t.executed));
        effects.chain(told).collect()
    }

    /// The promises.
    pub async fn check(&self) {
        self.check_seen();
        self.check_told();
        self.check_claims().await;
        if self.lost.is_all_known() {
            self.check_limit().await;
            self.check_audit().await;
        }
    }

    /// No part of the world saw anything that must not be.
    pub fn check_seen(&self) {
        let wrong = self.upstream.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
        self.check_sent_in_time();
    }

    fn check_told(&self) {
        let told = self.told.lock().unwrap();
        let mut answers: BTreeMap<&str, &Bytes> = BTreeMap::new();
        for one in told.iter() {
            let effects = self.upstream.effects_of(&one.request_id);
            assert!(effects.len() <= 1, "{}: {} effects", one.request_id, effects.len());
            match one.executed {
                Some(Executed::Yes) => {
                    assert_eq!(effects.len(), 1, "{}: told executed", one.request_id);
                    assert_eq!(effects[0].asked, one.asked, "{}: told to somebody else", one.request_id);
                    let first = answers.entry(&one.request_id).or_insert(&one.body);
                    let is_same = *first == &one.body || self.lost.is_answer_lost();
                    assert!(is_same, "{}: two answers", one.request_id);
                }
                Some(Executed::No) => {
                    // What another call did meanwhile may have come after this word.
                    let lied = |effect: &&Effect| effect.sent < one.began || effect.trace == one.trace;
                    let before = effects.iter().find(lied);
                    assert!(before.is_none(), "{}: told not executed ({})", one.request_id, one.status);
                }
                Some(Executed::Held | Executed::Unknown) | None => {}
            }
        }
    }

    /// What was sent left within the time of its commit, however long its gate or its machine stood still.
    fn check_sent_in_time(&self) {
        let mut committed: BTreeMap<(String, String), i64> = BTreeMap::new();
        for file in self.files.iter().chain(self.lost.files()) {
            for Outstanding { at, entry, .. } in file.lock().unwrap().values() {
                let entry: Value = serde_json::from_slice(entry).unwrap();
                let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
                if entry["what"] == "sending" {
                    let last = committed.entry((text("requestId"), text("trace"))).or_default();
                    *last = at.as_micros().max(*last);
                }
            }
        }
        for effect in self.upstream.effects.lock().unwrap().iter() {
            let sent = 1_800_000_000_000_000 + i64::try_from(effect.sent.as_micros()).unwrap();
            let began = committed.get(&(effect.request_id.clone(), effect.trace.clone())).expect("an entry");
            let late = sent - began - i64::try_from(BEGIN_WITHIN.as_micros()).unwrap();
            assert!(late < 1_000_000, "{}: sent {late} microseconds too late", effect.request_id);
        }
    }

    async fn check_claims(&self) {
        let sending = self.store.due(ENVIRONMENT, Index::Sending, None, usize::MAX).await.unwrap();
        assert!(sending.is_empty(), "left in sending: {sending:?}");
        for (request_id, state) in self.claims().await {
            let effects = self.upstream.effects_of(&request_id);
            if self.lost.is_retracted(&request_id) {
                continue;
            }
            match state {
                None | Some(ClaimState::Absent) => assert!(effects.is_empty(), "{request_id}: absent, and executed"),
                Some(ClaimState::Abandoned) => panic!("{request_id}: nobody gives up"),
                Some(ClaimState::Done { executed, .. }) => {
                    assert_eq!(effects.len(), usize::from(executed), "{request_id}: done")
                }
                Some(ClaimState::Unknown { .. }) => {
                    assert!(effects.len() <= 1, "{request_id}: {} effects", effects.len())
                }
                Some(ClaimState::Sending { .. }) => panic!("{request_id}: left in sending"),
                Some(ClaimState::Held | ClaimState::Declined(_)) => {
                    assert!(effects.is_empty(), "{request_id}: never sent")
                }
            }
        }
    }

    /// Every requestId that was ever asked for, and its claim.
    pub async fn claims(&self) -> Vec<(String, Option<ClaimState>)> {
        let asked = (0..self.asked.load(Ordering::SeqCst)).map(|n| format!("request-{n}"));
        let mut claims = Vec::new();
        for request_id in asked {
            let key = RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name: format!("request/{request_id}") };
            let (record, _) = self.store.read(&key).await.unwrap();
            let state = record.map(|record| match record.content {
                Content::Whole(bytes) => claim::decode_claim(&bytes).unwrap().state,
                Content::Spent => {
                    assert!(self.lost.is_answer_lost(), "nothing is old enough to be spent");
                    let answer = StoredAnswer { status: 0, headers: HeaderMap::new(), body: Bytes::new() };
                    ClaimState::Done { executed: false, answer }
                }
            });
            claims.push((request_id, state));
        }
        claims
    }

    /// The numbers of all files together are without a gap, and stand identically in each.
    async fn check_audit(&self) {
        let outbox = self.store.outbox(ENVIRONMENT, Number::new(0), usize::MAX).await.unwrap();
        let written = self
            .files
            .iter()
            .chain(self.lost.files())
            .flat_map(|file| file.lock().unwrap().values().cloned().collect::<Vec<_>>());
        let mut entries = BTreeMap::new();
        for entry in written.chain(outbox) {
            let known = entries.entry(entry.number.as_u64()).or_insert_with(|| entry.clone());
            assert_eq!(*known, entry, "two files differ in a number");
        }
        let mut last = 0;
        for (number, entry) in entries {
            // A rebuild leaves numbers free, and says so.
            let is_explained = says_unused(&entry, last);
            assert!(number == last + 1 || is_explained, "the numbers of the audit chain: {number} behind {last}");
            last = number;
        }
    }
}

/// The store of most histories.
pub fn in_memory(clock: Arc<ModelClock>) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(clock))
}
