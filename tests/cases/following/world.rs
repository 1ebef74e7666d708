//! Gates that follow one list, of an upstream whose pages are late, repeated, reordered or missing, over a store that
//! loses calls and answers. Time is that of the test's runtime, which is paused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use jiff::Timestamp;
use serde_json::{Value, json};
use sluice::adapters::credential::Credential;
use sluice::adapters::rate::Local;
use sluice::audit::OnDisk;
use sluice::base::digest::Fingerprint;
use sluice::base::ids::{Environment, OperationId, RequestId, TraceId};
use sluice::base::keyed::OperandKey;
use sluice::base::secret::Secret;
use sluice::catalog::{Catalog, SchemaFiles};
use sluice::config::{BeliefConfig, CredentialConfig, CredentialSource, UnlistedMode};
use sluice::journey::follow::{FollowPace, PaymentFollower};
use sluice::journey::{Egress, LateAnswers};
use sluice::ledger::{
    Commit, CommitError, JournalId, Keep, Kind, NodeId, Number, Outstanding, Query, QueryAnswer, Receipt, RecordKey,
    Sender, Step, StoreFault, WindowKey, WindowSpan,
};
use sluice::node::rates::Rates;
use sluice::node::{Activations, HoldChanges, InForce, JournalBounds, JournalRoom, Node, OpenAttempts};
use sluice::policy::{KnownNames, read_policies};
use sluice::ports::{AuditFault, AuditSink, Clock, SendResult, Store, Upstream};
use sluice::stations::claim::{
    AttemptEnd, BookedWindow, Booking, Claim, ClaimState, Owner, PastAttempt, StoredAnswer, Terms, encode_claim,
};
use sluice::stations::forward::{AnswerBody, Loss, Outgoing, Sent, UpstreamOrigin};
use sluice::stations::hold::HoldRoom;
use sluice::telemetry::Metrics;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::dice::Dice;
use super::paused_clock::PausedClock;
use super::{ACCOUNT, RULES, id};

pub const ENVIRONMENT: Environment = Environment::Sandbox;
const TERMS: Terms = Terms {
    begin_within: Duration::from_secs(20),
    lease: Duration::from_secs(60),
    first_look: Duration::from_secs(15),
    quiet: Duration::from_secs(120),
    keep: Keep::Forever,
};

pub const PACE: FollowPace = FollowPace {
    interval: Duration::from_secs(60),
    longest_pause: Duration::from_secs(120),
    overlap: Duration::from_secs(3_600),
    reach: Duration::from_hours(24 * 60),
    pages: 10,
    keep: Duration::from_hours(24 * 400),
};

/// Who made a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Gate,
    Stranger,
    Upstream,
}

/// A payment as upstream has it.
#[derive(Clone, Debug)]
pub struct Listed {
    pub n: usize,
    pub maker: Maker,
    pub created: i64,
    /// The time of its making that the list shows, where that is not the time that it is ordered by.
    pub false_time: Option<i64>,
    /// Each state with the time from which on it is so.
    pub states: Vec<(i64, &'static str)>,
    /// In micro-USD, as it was asked for and as the record shows it.
    pub asked: u64,
    pub shown: u64,
}

impl Listed {
    fn state_at(&self, at: i64) -> Option<(i64, &'static str)> {
        self.states.iter().rev().find(|(since, _)| *since <= at).copied()
    }

    fn to_json(&self, since: i64, state: &str) -> Value {
        let address = (self.maker == Maker::Upstream).then(|| id(1));
        let amount: Value = serde_json::from_str(&decimal(self.shown)).unwrap();
        json!({"transferType": "OFFRAMP", "transferDetails": {
            "id": record_id(self.n), "requestId": id(self.n), "orchestrationAddressId": address,
            "createdAt": time(self.false_time.unwrap_or(self.created)), "updatedAt": time(since), "status": state,
            "source": {"currency": "usdc", "chain": "POLYGON", "amount": amount},
            "destination": {"accountId": ACCOUNT, "currency": "usd"},
        }})
    }
}

fn decimal(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn time(micros: i64) -> String {
    Timestamp::from_microsecond(micros).unwrap().to_string()
}

/// Upstream's list.
#[derive(Debug)]
pub struct ListUpstream {
    clock: Arc<PausedClock>,
    pub payments: Mutex<Vec<Listed>>,
    /// In percent.
    pub trouble: Mutex<u64>,
    dice: Arc<Dice>,
    pub pages: Mutex<usize>,
    /// The most records that it gives at once, whatever was asked for; 0: it is away.
    pub most: Mutex<usize>,
}

#[async_trait]
impl Upstream for ListUpstream {
    async fn send(&self, outgoing: Outgoing) -> SendResult {
        let (trouble, dice) = (*self.trouble.lock().unwrap(), &self.dice);
        sleep(Duration::from_millis(dice.below(40))).await;
        *self.pages.lock().unwrap() += 1;
        let most = *self.most.lock().unwrap();
        if most == 0 || dice.percent(trouble / 2) {
            return SendResult::only(Sent::Lost(Loss::Broken));
        }
        let parameter = |name: &str| {
            let (_, query) = outgoing.target().split_once('?')?;
            let text = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
            Some(text.replace("%3A", ":"))
        };
        let limit: usize = parameter("limit").unwrap().parse().unwrap();
        let before = parameter("createdBefore").map(|text| text.parse::<Timestamp>().unwrap().as_microsecond());
        // The page of a replica that lags.
        let lag = if dice.percent(trouble) { dice.below(7_200) } else { 0 };
        let at = self.clock.now().as_microsecond() - i64::try_from(lag).unwrap() * 1_000_000;
        let mut records: Vec<Value> = {
            // In the order of their times.
            let payments = self.payments.lock().unwrap();
            let end = before.map_or(payments.len(), |before| payments.partition_point(|one| one.created < before));
            let shown = payments[..end].iter().rev();
            let listed = shown.filter_map(|one| one.state_at(at).map(|(since, state)| one.to_json(since, state)));
            listed.take(limit.min(most)).collect()
        };
        if dice.percent(trouble) && records.len() > 2 {
            let (from, to) = (dice.below(records.len() as u64 - 1), dice.below(records.len() as u64 - 1));
            records.swap(from as usize, to as usize);
            let again = records[from as usize].clone();
            records[to as usize] = again;
        }
        let body = json!({"count": records.len(), "records": records, "nextCursor": ""}).to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        SendResult::only(Sent::Answered { status: 200, headers, body: AnswerBody::Complete(Bytes::from(body)) })
    }
}

/// A store that loses calls, and answers to what it did.
#[derive(Debug)]
struct LossyStore {
    store: Arc<dyn Store>,
    upstream: Arc<ListUpstream>,
}

impl LossyStore {
    async fn moment(&self) -> bool {
        let (trouble, dice) = (*self.upstream.trouble.lock().unwrap(), &self.upstream.dice);
        sleep(Duration::from_millis(dice.below(3))).await;
        dice.percent(trouble / 4)
    }
}

#[async_trait]
impl Store for LossyStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        if self.moment().await {
            return Err(CommitError::Fault(StoreFault::Away("lost".to_owned())));
        }
        let done = self.store.commit(commit).await;
        match self.moment().await {
            true => Err(CommitError::Fault(StoreFault::InDoubt("it said nothing".to_owned()))),
            false => done,
        }
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        match self.moment().await {
            true => Err(StoreFault::Away("lost".to_owned())),
            false => self.store.query(query).await,
        }
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.store.kept(environment, by, up_to).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.store.sweep().await
    }
}

/// A journal that takes everything.
#[derive(Debug)]
struct OpenJournal;

#[async_trait]
impl AuditSink for OpenJournal {
    async fn append(&self, entries: Vec<Outstanding>) -> Result<OnDisk, AuditFault> {
        Ok(OnDisk::new(&entries))
    }

    fn highest(&self, _: Environment) -> Number {
        Number::new(0)
    }

    async fn skip(&self, _: Environment, _: Number) -> Result<(), AuditFault> {
        Ok(())
    }

    async fn begin_again(&self, _: Environment, _: Number) -> Result<(), AuditFault> {
        Ok(())
    }

    async fn suspend(&self, _: Environment) -> Result<(), AuditFault> {
        Ok(())
    }

    fn resume(&self, _: Environment) {}

    async fn gap(&self) {
        std::future::pending().await
    }

    fn is_well(&self) -> bool {
        true
    }
}

/// Everything that gates share.
pub struct FollowWorld {
    pub dice: Arc<Dice>,
    pub upstream: Arc<ListUpstream>,
    pub store: Arc<dyn Store>,
    /// The clocks of the gates and of the store; upstream's is right.
    pub gates_clock: Arc<PausedClock>,
    pub stores_clock: Arc<PausedClock>,
    in_force: Arc<InForce>,
    pub metrics: Metrics,
}

/// Upstream's name of a payment.
fn record_id(n: usize) -> String {
    id(n + 1_000_000)
}

/// The windows that count each payment: one its value, one the call.
pub fn windows() -> [(WindowKey, WindowSpan); 2] {
    let span = WindowSpan::Rolling { bucket: Duration::from_hours(24), count: 365 };
    let window = |limit: &str, key: &str| WindowKey { limit: limit.to_owned(), key: key.to_owned() };
    [
        (window("day", r#"{"environment":"sandbox"}"#), span),
        (window("calls", r#"{"environment":"sandbox","unit":"calls"}"#), span),
    ]
}

impl FollowWorld {
    pub fn new(seed: u64) -> FollowWorld {
        let now = Instant::now();
        let [clock, gates_clock, stores_clock] = [(); 3].map(|()| PausedClock::since(now));
        let dice = Arc::new(Dice::of(seed));
        let upstream = Arc::new(ListUpstream {
            clock: clock.clone(),
            payments: Mutex::default(),
            trouble: Mutex::new(0),
            dice: dice.clone(),
            pages: Mutex::default(),
            most: Mutex::new(usize::MAX),
        });
        let store = Arc::new(sluice::adapters::store::memory::MemoryStore::new(stores_clock.clone()));
        let catalog = Arc::new(Catalog::build(&SchemaFiles::built_in(), &[]).unwrap());
        let known = KnownNames { catalog: &catalog, issuers: &["main"], can_share: false };
        let policies = read_policies(&[("rules.toml".to_owned(), RULES.to_owned())], &known).unwrap().policies;
        let metrics = Metrics::new().unwrap();
        let rates = Rates::new(Vec::new(), Arc::new(Local::new(0)), &metrics);
        let in_force = Arc::new(InForce::new(catalog, policies, rates, metrics.clone()));
        FollowWorld { dice, upstream, store, gates_clock, stores_clock, in_force, metrics }
    }

    pub fn now(&self) -> i64 {
        self.upstream.clock.now().as_microsecond()
    }

    /// A gate's life: one that is dropped was killed.
    pub fn follower(&self, gate: usize) -> PaymentFollower {
        self.follower_at(gate, PACE)
    }

    pub fn follower_at(&self, gate: usize, pace: FollowPace) -> PaymentFollower {
        let node = Arc::new(Node {
            store: Arc::new(LossyStore { store: self.store.clone(), upstream: self.upstream.clone() }),
            audit: Arc::new(OpenJournal),
            clock: self.gates_clock.clone(),
            id: NodeId::parse(&format!("gate-{gate}")).unwrap(),
            journal: JournalId::parse(&format!("{gate:032x}")).unwrap(),
            open: OpenAttempts::default(),
            others: Arc::default(),
            terms: TERMS,
            entries: Arc::new(JournalRoom::new(JournalBounds::NONE, Vec::new(), 0)),
            prefixes: Arc::default(),
            hold_room: HoldRoom { holds: 1, bytes: 1 },
            unsettled: None,
            settling: TaskTracker::new(),
            stopping: tokio::sync::watch::channel(false).1,
            changes: HoldChanges::default(),
            owners: Arc::default(),
            outlets: Arc::default(),
            metrics: self.metrics.clone(),
            watched: Arc::default(),
            heard: Arc::default(),
            operand_key: OperandKey::of(&[7; 32]).unwrap(),
            fresh: Arc::default(),
            fence: Arc::default(),
            clocks: Arc::default(),
            contradictions: Arc::default(),
            losses: Arc::default(),
            news: Arc::default(),
            activations: Arc::new(Activations::unguarded()),
            freezing: Arc::default(),
        });
        let credential = CredentialConfig::Inject(CredentialSource::Given(Secret::new("of-the-gate".to_owned())));
        let egress = Egress {
            upstream: self.upstream.clone(),
            origin: UpstreamOrigin { host: HeaderValue::from_static("upstream.test"), base_path: String::new() },
            environment: ENVIRONMENT,
            credential: Arc::new(Credential::new(ENVIRONMENT, &credential).unwrap()),
            belief: BeliefConfig { is_direct: true, unlisted: UnlistedMode::Proves },
            dates: Arc::default(),
            runtime: tokio::runtime::Handle::current(),
            sending: TaskTracker::new(),
            late_answers: LateAnswers::new(2, &TaskTracker::new(), &tokio::runtime::Handle::current()),
        };
        PaymentFollower::new(node, egress, self.in_force.clone(), pace)
    }

    /// A payment that a gate sent, and upstream executed: its claim, and what it booked.
    pub async fn pay(&self, listed: Listed) {
        let holder = format!("holder-{}", listed.n);
        let booked: Vec<BookedWindow> = windows()
            .into_iter()
            .zip([listed.asked, 1])
            .map(|((window, span), units)| BookedWindow { window, span, units })
            .collect();
        let reserve = |one: &BookedWindow| Step::Reserve {
            window: one.window.clone(),
            span: one.span,
            holder: holder.clone(),
            units: one.units,
            max: u64::MAX >> 11,
        };
        let receipt = self.commit(booked.iter().map(reserve).collect()).await;
        let settle = |one: &BookedWindow| Step::Settle { window: one.window.clone(), holder: holder.clone() };
        let mut steps: Vec<Step> = booked.iter().map(settle).collect();
        let body = json!({
            "source": {"chain": "POLYGON", "currency": "usdc", "amount": decimal(listed.asked)},
            "destination": {"accountId": ACCOUNT},
        });
        let answer = json!({"transferDetails": {"id": record_id(listed.n)}});
        let operation = OperationId::new("createOfframp");
        let claim = Claim {
            owner: Owner::named("main", "payroll"),
            requester: None,
            operation: operation.clone(),
            fingerprint: Fingerprint::of(&[]),
            request_id: RequestId::parse(&id(listed.n)),
            trace: TraceId::parse("t-1").unwrap(),
            moves: self.in_force.now().catalog.operation(&operation).unwrap().movement(&body),
            hold: None,
            attempts: vec![PastAttempt {
                number: receipt.number(),
                sender: Sender {
                    node: NodeId::parse("gate-0").unwrap(),
                    journal: JournalId::parse(&"0".repeat(32)).unwrap(),
                },
                since: receipt.at(),
                booked: Booking { holder: holder.clone(), windows: booked, pays: Vec::new(), is_approved: false },
                end: AttemptEnd::Executed,
            }],
            state: ClaimState::Done {
                executed: true,
                answer: StoredAnswer { status: 200, headers: HeaderMap::new(), body: answer.to_string().into() },
            },
        };
        let key = RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name: format!("request/{}", id(listed.n)) };
        steps.push(Step::Create { key, value: encode_claim(&claim), keep: Keep::Forever });
        self.commit(steps).await;
        self.upstream.payments.lock().unwrap().push(listed);
    }

    async fn commit(&self, steps: Vec<Step>) -> Receipt {
        let (node, entry) = (NodeId::parse("gate-0").unwrap(), Bytes::from_static(b"{\"what\":\"test\"}"));
        self.store.commit(Commit { environment: ENVIRONMENT, node, steps, entry }).await.unwrap()
    }

    /// What the windows hold: value and calls.
    pub async fn used(&self) -> [u64; 2] {
        let mut used = [0; 2];
        for ((window, span), used) in windows().into_iter().zip(&mut used) {
            *used = self.store.used(ENVIRONMENT, &window, span).await.unwrap();
        }
        used
    }

    pub async fn read(&self, kind: Kind, name: &str) -> Option<Bytes> {
        let key = RecordKey { environment: ENVIRONMENT, kind, name: name.to_owned() };
        match self.store.read(&key).await.unwrap().0?.content {
            sluice::ledger::Content::Whole(bytes) => Some(bytes),
            sluice::ledger::Content::Spent => None,
        }
    }

    /// The problem of each foreign payment that is listed, by upstream's name of it.
    pub async fn foreign(&self) -> BTreeMap<String, &'static str> {
        self.problems().await.into_iter().filter_map(|(name, problems)| Some((name, *problems.last()?))).collect()
    }

    /// All problems of each record that is listed.
    pub async fn problems(&self) -> BTreeMap<String, Vec<&'static str>> {
        let members = self.store.due(ENVIRONMENT, sluice::ledger::Index::Foreign, None, usize::MAX).await.unwrap();
        let mut found: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        for (_, name) in members {
            let bytes = self.read(Kind::Followed, &name).await.unwrap();
            let record = sluice::stations::follow::decode_foreign(&bytes).unwrap();
            found.entry(record.id).or_default().push(record.problem.as_str());
        }
        found
    }
}
