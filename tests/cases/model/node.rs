//! One life of a gate in a history.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::HeaderValue;
use sluice::adapters::credential::Credential;
use sluice::base::keyed::OperandKey;
use sluice::config::{BeliefConfig, CredentialConfig, UnlistedMode};
use sluice::journey::{Egress, LateAnswers};
use sluice::ledger::{JournalId, Keep, NodeId};
use sluice::node::journalling::keep_bringing;
use sluice::node::upkeep::{keep_sweeping, lapse};
use sluice::node::{Activations, ClockWatch, HoldChanges, JournalBounds, JournalRoom, Node, OpenAttempts};
use sluice::ports::Store;
use sluice::stations::claim::Terms;
use sluice::stations::forward::UpstreamOrigin;
use sluice::stations::hold::HoldRoom;
use sluice::telemetry::Metrics;
use tokio::time::sleep;
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::task::TaskTracker;

use super::fate::{Fate, Life, ModelClock, NodeClock};
use super::ports::{ANSWER_WITHIN, AuditFile, FlakyAudit, FlakyStore, FlakyUpstream, ModelUpstream};
use super::told::outlets;
use super::world::ENVIRONMENT;

pub const BEGIN_WITHIN: Duration = Duration::from_secs(20);
pub const LEASE: Duration = Duration::from_secs(60);

/// One life of a node.
pub struct ModelNode {
    pub life: Arc<Life>,
    pub books: Arc<Node>,
    pub egress: Egress,
    pub audit: Arc<FlakyAudit>,
    pub trips: Arc<AtomicU64>,
    pub work: Vec<JoinHandle<()>>,
    pub serving: bool,
}

pub fn model_node(
    at: usize,
    fate: &Arc<Fate>,
    clock: &Arc<ModelClock>,
    store: &Arc<dyn Store>,
    file: &AuditFile,
    upstream: &Arc<ModelUpstream>,
    credential: &CredentialConfig,
) -> ModelNode {
    let (life, trips) = (Arc::new(Life::default()), Arc::new(AtomicU64::new(0)));
    let of_node = Arc::new(NodeClock { clock: clock.clone(), life: life.clone() });
    let clocks: Arc<ClockWatch> = Arc::default();
    let audit = Arc::new(FlakyAudit {
        file: file.clone(),
        life: life.clone(),
        fate: fate.clone(),
        well: AtomicBool::new(true),
        gap: Notify::new(),
        skipped: AtomicU64::new(0),
    });
    let books = Arc::new(Node {
        store: Arc::new(FlakyStore {
            store: store.clone(),
            life: life.clone(),
            fate: fate.clone(),
            trips: trips.clone(),
            denied: Mutex::default(),
            clock: of_node.clone(),
            clocks: clocks.clone(),
            upstream: upstream.clone(),
        }),
        audit: audit.clone(),
        clock: of_node,
        id: NodeId::parse(&format!("node-{at}")).unwrap(),
        journal: JournalId::parse(&format!("{at:032x}")).unwrap(),
        open: OpenAttempts::default(),
        others: Arc::default(),
        terms: terms(),
        entries: Arc::new(JournalRoom::new(JournalBounds::NONE, Vec::new(), 0)),
        prefixes: Arc::default(),
        hold_room: HoldRoom { holds: 1 << 20, bytes: 1 << 40 },
        unsettled: None,
        settling: TaskTracker::new(),
        stopping: tokio::sync::watch::channel(false).1,
        changes: HoldChanges::default(),
        owners: Arc::default(),
        outlets: outlets(Duration::from_hours(24 * 365)),
        metrics: Metrics::new().unwrap(),
        watched: Arc::default(),
        heard: Arc::default(),
        operand_key: OperandKey::of(&[7; 32]).unwrap(),
        fresh: Arc::default(),
        fence: Arc::default(),
        clocks,
        contradictions: Arc::default(),
        losses: Arc::default(),
        news: Arc::default(),
        activations: Arc::new(Activations::unguarded()),
        freezing: Arc::default(),
    });
    let (upstream, life_there) = (upstream.clone(), life.clone());
    let flaky = FlakyUpstream { upstream, life: life_there, fate: fate.clone(), clock: clock.clone() };
    let egress = Egress {
        upstream: Arc::new(flaky),
        origin: UpstreamOrigin { host: HeaderValue::from_static("upstream.test"), base_path: String::new() },
        environment: ENVIRONMENT,
        credential: Arc::new(Credential::new(ENVIRONMENT, credential).unwrap()),
        belief: BeliefConfig { is_direct: true, unlisted: UnlistedMode::Proves },
        dates: Arc::default(),
        runtime: tokio::runtime::Handle::current(),
        sending: TaskTracker::new(),
        late_answers: LateAnswers::new(2, &TaskTracker::new(), &tokio::runtime::Handle::current()),
    };
    let work = vec![
        tokio::spawn(keep_bringing(books.clone(), vec![ENVIRONMENT])),
        tokio::spawn(watch(books.clone())),
        tokio::spawn(keep_sweeping(books.clone())),
    ];
    ModelNode { life, books, egress, audit, trips, work, serving: false }
}

/// As the gate does it, but more rarely.
async fn watch(books: Arc<Node>) {
    loop {
        sleep(Duration::from_secs(10)).await;
        if books.store.time().await.is_ok() {
            books.clocks.meets_store(&*books.clock);
        }
        lapse(&books, ENVIRONMENT).await.ok();
    }
}

pub fn terms() -> Terms {
    Terms {
        begin_within: BEGIN_WITHIN,
        lease: LEASE.max(BEGIN_WITHIN + ANSWER_WITHIN),
        first_look: Duration::from_secs(15),
        quiet: BEGIN_WITHIN + ANSWER_WITHIN * 2 + Duration::from_secs(15),
        keep: Keep::For { whole: Duration::from_hours(24), spent: Duration::from_hours(48) },
    }
}
