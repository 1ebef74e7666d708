//! What an orderly stop waits for, so that it leaves no doubt; and what ends although the store never takes it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use sluice::adapters::audit::AuditFolder;
use sluice::adapters::rate::Local;
use sluice::adapters::store::sealed::Seals;
use sluice::adapters::unsettled_outcomes::Unsettled;
use sluice::base::ids::{Environment, HoldId, RequestId};
use sluice::base::secret::Secret;
use sluice::config::{CredentialConfig, CredentialSource};
use sluice::journey::release::{Releasing, expire, release};
use sluice::journey::submit::submit;
use sluice::ledger::{
    Commit, CommitError, Content, Index, Keep, Kind, NodeId, Number, Query, QueryAnswer, Receipt, RecordKey, Sender,
    Step, StoreFault,
};
use sluice::node::holds::{Cancelled, key};
use sluice::node::rates::Rates;
use sluice::node::{InForce, Node};
use sluice::ports::Store;
use sluice::stations::claim::{
    self, Booking, Claim, ClaimEvent, ClaimState, Owner, SentRequest, Settlement, StoredAnswer, gone_key,
};
use sluice::stations::hold::{self, Hold};
use sluice::telemetry::Metrics;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::callers::{admitted, exchange};
use super::fate::{Fate, ModelClock};
use super::holds::SHARED;
use super::in_model_time;
use super::limits::NARROW;
use super::node::{LEASE, ModelNode, model_node};
use super::ports::{AuditFile, ModelUpstream};
use super::quorum::SETS;
use super::world::{ENVIRONMENT, in_memory};

const EXPIRES: Duration = Duration::from_secs(600);

/// A store that may keep a commit to itself, or take its time with what is approved.
#[derive(Debug)]
struct SlowStore {
    store: Arc<dyn Store>,
    /// The next commit is made when the test makes it; its caller hears nothing.
    doubts: Mutex<bool>,
    kept: Mutex<Option<Commit>>,
    /// A look for what is approved waits for this, once it has said that it is there.
    is_slow: bool,
    is_asked: Notify,
    goes_on: Notify,
}

impl SlowStore {
    fn over(store: Arc<dyn Store>) -> SlowStore {
        let (doubts, kept) = (Mutex::new(false), Mutex::default());
        SlowStore { store, doubts, kept, is_slow: false, is_asked: Notify::new(), goes_on: Notify::new() }
    }
}

#[async_trait]
impl Store for SlowStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        if std::mem::take(&mut *self.doubts.lock().unwrap()) {
            *self.kept.lock().unwrap() = Some(commit);
            return Err(CommitError::Fault(StoreFault::InDoubt("the model says nothing".to_owned())));
        }
        self.store.commit(commit).await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        if self.is_slow && matches!(query, Query::Due { index: Index::Approved, .. }) {
            self.is_asked.notify_one();
            self.goes_on.notified().await;
        }
        self.store.query(query).await
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.store.kept(environment, by, up_to).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.store.sweep().await
    }
}

/// One node, with its store, its audit file and its stop.
struct Stopping {
    store: Arc<dyn Store>,
    file: AuditFile,
    made: ModelNode,
    node: Arc<Node>,
    in_force: Arc<InForce>,
    stop: watch::Sender<bool>,
    stopping: watch::Receiver<bool>,
    home: tempfile::TempDir,
}

impl Stopping {
    fn new(store: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Stopping {
        let (fate, clock, file) = (Arc::new(Fate::calm()), Arc::new(ModelClock::new()), AuditFile::default());
        let store = store(in_memory(clock.clone()));
        let upstream = Arc::new(ModelUpstream {
            effects: Mutex::default(),
            sends: Mutex::default(),
            files: vec![file.clone()],
            begin: tokio::time::Instant::now(),
            wrong: Mutex::default(),
        });
        let credential = CredentialConfig::Inject(CredentialSource::Given(Secret::new("gate".to_owned())));
        let made = model_node(0, &fate, &clock, &store, &file, &upstream, &credential);
        let ((stop, stopping), home) = (watch::channel(false), tempfile::tempdir().unwrap());
        let unsettled = Some(Unsettled::beside(AuditFolder::at(home.path()), Seals::default()));
        let node = Arc::new(Node { stopping: stopping.clone(), unsettled, ..Node::clone(&made.books) });
        let metrics = Metrics::new().unwrap();
        let rates = Rates::new(Vec::new(), Arc::new(Local::new(0)), &metrics);
        let in_force = Arc::new(InForce::new(SHARED.clone(), SETS[0].clone(), rates, metrics));
        Stopping { store, file, made, node, in_force, stop, stopping, home }
    }

    /// Everything that an orderly stop waits for is over.
    async fn is_over(&self, within: Duration) -> bool {
        let all = async {
            for tracker in [&self.node.settling, &self.made.egress.sending] {
                tracker.close();
                tracker.wait().await;
            }
        };
        timeout(within, all).await.is_ok()
    }

    async fn waiting(&self) -> Vec<ClaimEvent> {
        let unsettled = Unsettled::beside(AuditFolder::at(self.home.path()), Seals::default());
        unsettled.waiting().await.unwrap().outcomes.into_iter().map(|outcome| outcome.event).collect()
    }

    async fn write(&self, steps: Vec<Step>) {
        let node = NodeId::parse("people").unwrap();
        let entry = Bytes::from_static(b"{}");
        self.store.commit(Commit { environment: ENVIRONMENT, node, steps, entry }).await.unwrap();
    }

    /// A call that waits for people.
    async fn hold(&self, request_id: &str) -> (RecordKey, Hold) {
        let (admitted, headers) = admitted(false);
        let (trace, snapshot) = (exchange("t-1"), self.in_force.now());
        let body = body(request_id);
        let (egress, node) = (&self.made.egress, &self.node);
        submit(egress, node, &snapshot, admitted, &headers, body.as_bytes(), &trace).await;
        let (_, claim) = self.node.find(&claim_key(request_id)).await.unwrap().unwrap();
        let key = key(ENVIRONMENT, &claim.hold.unwrap());
        let (_, hold) = self.node.find_hold(&key).await.unwrap().unwrap();
        (key, hold)
    }

    /// The state of a hold, and why.
    async fn state(&self, id: &HoldId) -> String {
        let (record, _) = self.store.read(&key(ENVIRONMENT, id)).await.unwrap();
        let Content::Whole(bytes) = record.unwrap().content else { panic!("a hold that is over is kept") };
        match hold::decode_hold(&bytes).unwrap().state {
            hold::HoldState::Declined(declined) => {
                format!("{}: {}", declined.how.as_str(), declined.reason.unwrap_or_default())
            }
            state => state.as_str().to_owned(),
        }
    }

    /// The reasons of the entries of this kind.
    fn reasons(&self, what: &str) -> Vec<String> {
        let file = self.file.lock().unwrap();
        let entries = file.values().map(|entry| serde_json::from_slice::<serde_json::Value>(&entry.entry).unwrap());
        let told = entries.filter(|entry| entry["what"] == what);
        told.map(|entry| entry["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn body(request_id: &str) -> String {
    format!(
        r#"{{"requestId":"{request_id}","source":{{"chain":"POLYGON","currency":"usdt","amount":"10"}},"destination":{{"chain":"POLYGON","currency":"usdc","walletAddress":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}}}"#
    )
}

fn claim_key(request_id: &str) -> RecordKey {
    RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name: format!("request/{request_id}") }
}

fn answer(status: u16) -> StoredAnswer {
    StoredAnswer { status, headers: HeaderMap::new(), body: Bytes::from_static(b"{}") }
}

#[test]
fn no_release_begins_when_an_orderly_stop_has_looked_for_the_last_one() {
    in_model_time(async {
        let slow = Arc::new(Mutex::new(None::<Arc<SlowStore>>));
        let of_test = slow.clone();
        let world = Stopping::new(|store| {
            let store = Arc::new(SlowStore { is_slow: true, ..SlowStore::over(store) });
            *of_test.lock().unwrap() = Some(store.clone());
            store
        });
        let slow = slow.lock().unwrap().clone().unwrap();
        let releasing = Releasing {
            node: world.node.clone(),
            egress: world.made.egress.clone(),
            in_force: world.in_force.clone(),
            tracer: None,
        };
        let releases = tokio::spawn(release(releasing, world.stopping.clone()));
        slow.is_asked.notified().await;
        // The pass has begun: what it finds may be sent.
        world.stop.send_replace(true);
        assert!(!world.is_over(Duration::from_secs(5)).await, "the stop did not wait for a pass that may release");
        slow.goes_on.notify_one();
        assert!(world.is_over(Duration::from_secs(5)).await);
        let again = timeout(Duration::from_secs(60), slow.is_asked.notified()).await;
        assert!(again.is_err(), "another pass began behind the stop");
        releases.abort();
    });
}

#[test]
fn an_orderly_stop_undoes_a_commit_of_which_the_store_said_nothing() {
    in_model_time(async {
        let slow = Arc::new(Mutex::new(None::<Arc<SlowStore>>));
        let of_test = slow.clone();
        let world = Stopping::new(|store| {
            let store = Arc::new(SlowStore::over(store));
            *of_test.lock().unwrap() = Some(store.clone());
            store
        });
        let slow = slow.lock().unwrap().clone().unwrap();
        *slow.doubts.lock().unwrap() = true;
        let (admitted, headers) = admitted(false);
        let (egress, trace, body) = (&world.made.egress, exchange("t-1"), body("request-1"));
        let reply =
            submit(egress, &world.node, &NARROW.snapshot, admitted, &headers, body.as_bytes(), &trace).await.reply;
        assert_eq!(reply.status, 503);
        world.stop.send_replace(true);
        assert!(!world.is_over(Duration::from_secs(5)).await, "the stop did not wait");
        // Now the store makes it after all.
        let kept = slow.kept.lock().unwrap().take().unwrap();
        slow.store.commit(kept).await.unwrap();
        assert!(world.is_over(LEASE).await, "the stop never ends");
        let (left, _) = world.store.read(&claim_key("request-1")).await.unwrap();
        assert!(left.is_none(), "nothing was sent, and the call is in doubt");
    });
}

#[test]
fn an_outcome_that_the_store_refuses_waits_on_disk_and_holds_up_no_stop() {
    in_model_time(async {
        let executed = || ClaimEvent::Executed(answer(201));
        let refused = || ClaimEvent::Refused(answer(422));
        for (is_gone, event, is_open) in [(false, executed(), true), (true, refused(), false)] {
            let world = Stopping::new(|store| store);
            let sent = sent(&world.node);
            let value = if is_gone { claim::encode_claim(&sent) } else { Bytes::from_static(b"no claim") };
            let key = claim_key("request-1");
            world.write(vec![Step::Create { key: key.clone(), value, keep: Keep::Forever }]).await;
            let (record, _) = world.store.read(&key).await.unwrap();
            let record = record.unwrap();
            if is_gone {
                let key = gone_key(ENVIRONMENT, &world.node.sender());
                world.write(vec![Step::Create { key, value: Bytes::from_static(b"{}"), keep: Keep::Forever }]).await;
            } else {
                // Somebody wrote it again since it was sent.
                let (key, version, value) = (key.clone(), record.version, Bytes::from_static(b"no claim"));
                world.write(vec![Step::Replace { key, version, value, keep: Keep::Forever }]).await;
            }
            let attempt = record.version;
            let settlement = Settlement::of_claim(key, attempt, &record, sent);
            let settled = timeout(LEASE, world.node.settle(&settlement, event.clone())).await;
            assert!(settled.is_ok() && world.is_over(LEASE).await, "the stop never ends");
            assert_eq!(world.waiting().await, [event]);
            // Until the proof is stored, people must not say otherwise.
            assert_eq!(world.node.open.earliest(ENVIRONMENT), is_open.then_some(attempt));
        }
    });
}

/// A claim that is being sent by this node.
fn sent(node: &Node) -> Claim {
    Claim {
        owner: Owner::named("main", "service"),
        requester: None,
        operation: sluice::base::ids::OperationId::new("createSwap"),
        fingerprint: sluice::base::digest::Fingerprint::of(&[]),
        request_id: RequestId::parse("request-1"),
        trace: sluice::base::ids::TraceId::parse("t-1").unwrap(),
        moves: None,
        hold: None,
        attempts: Vec::new(),
        state: ClaimState::Sending {
            sender: node.sender(),
            booked: Booking::default(),
            lease: LEASE,
            sent: SentRequest { target: "/v2/wallets/swaps".to_owned(), body: Bytes::new() },
        },
    }
}

#[test]
fn a_hold_ends_whose_claim_waits_for_it_no_longer() {
    in_model_time(async {
        let world = Stopping::new(|store| store);
        let (_, deleted) = world.hold("request-1").await;
        let (done_key, done) = world.hold("request-2").await;
        let claim_of = |request_id: &'static str| {
            let world = &world;
            async move { world.node.find(&claim_key(request_id)).await.unwrap().unwrap() }
        };
        let (record, _) = claim_of("request-1").await;
        world.write(vec![Step::Delete { key: claim_key("request-1"), version: record.version }]).await;
        let (record, claim) = claim_of("request-2").await;
        let executed = Claim { state: ClaimState::Done { executed: true, answer: answer(201) }, ..claim };
        let (key, version, value) = (claim_key("request-2"), record.version, claim::encode_claim(&executed));
        world.write(vec![Step::Replace { key, version, value, keep: Keep::Forever }]).await;

        // It was executed without the hold: its caller cannot cancel it any more.
        let owner = Owner::named("main", "service");
        assert_eq!(world.node.cancel(&done_key, &owner).await, Ok(Some(Cancelled::TooLate)));
        assert_eq!(world.state(&done.id).await, "blocked: another attempt of this call was executed");
        let (_, still) = claim_of("request-2").await;
        assert_eq!(still, executed, "its answer stays");

        assert_eq!(world.state(&deleted.id).await, "pending");
        sleep(EXPIRES).await;
        expire(&world.node, ENVIRONMENT).await.unwrap();
        assert_eq!(world.state(&deleted.id).await, "blocked: its claim was deleted");
        let open = world.store.due(ENVIRONMENT, Index::Held, None, usize::MAX).await.unwrap();
        assert!(open.is_empty(), "{open:?}");
        sleep(Duration::from_secs(5)).await;
        assert_eq!(world.reasons("blocked"), ["another attempt of this call was executed", "its claim was deleted"]);
        assert!(world.node.clock.elapsed() > EXPIRES);
    });
}
