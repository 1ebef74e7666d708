//! Of all that happens is told what the audit chain says, once each, and nothing else; whatever breaks. And what nobody
//! takes costs little, and goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use sluice::adapters::rate::Local;
use sluice::adapters::webhook::Webhook;
use sluice::audit::{Entry, EntryKind};
use sluice::base::secret::Secret;
use sluice::config::{CredentialConfig, WebhookConfig};
use sluice::ledger::{Commit, Content, Index, Keep, Kind, Number, RecordKey, Step};
use sluice::node::deliver::{Delivering, deliver};
use sluice::node::rates::Rates;
use sluice::node::{InForce, Node, Outlets};
use sluice::notify;
use sluice::notify::{NoticeEvent, Outlet, PayloadFormat};
use sluice::ports::Store;
use sluice::telemetry::Metrics;
use tokio::time::sleep;

use super::fate::{Fate, ModelClock};
use super::holds::SHARED;
use super::in_model_time;
use super::node::model_node;
use super::ports::{AuditFile, ModelUpstream};
use super::quorum::SETS;
use super::world::{ENVIRONMENT, in_memory};

const NAME: &str = "all";

/// One that is told everything, and keeps it.
pub fn outlets(keep: Duration) -> Arc<Outlets> {
    let (events, environments) = (NoticeEvent::ALL.into(), BTreeSet::from([ENVIRONMENT]));
    Arc::new(Outlets::new(vec![Outlet { name: NAME.to_owned(), events, environments, keep }]))
}

/// By the hold, or the claim where there is none, and what happened.
type Count = BTreeMap<(String, &'static str), usize>;

/// Every message has its Entry, and every Entry that is told its message.
pub async fn check(store: &Arc<dyn Store>, files: &[AuditFile]) {
    let outbox = store.outbox(ENVIRONMENT, Number::new(0), usize::MAX).await.unwrap();
    let mut entries: BTreeMap<u64, Bytes> =
        outbox.into_iter().map(|entry| (entry.number.as_u64(), entry.entry)).collect();
    for file in files {
        let file = file.lock().unwrap();
        entries.extend(file.values().map(|entry| (entry.number.as_u64(), entry.entry.clone())));
    }
    let mut expected = Count::new();
    for entry in entries.values() {
        let entry: Value = serde_json::from_slice(entry).unwrap();
        for (whose, event) in told_of(&entry) {
            let count = expected.entry((whose, event)).or_default();
            // An attempt that is made again is told once.
            let is_once = matches!(event, "hold.released" | "hold.not-sent");
            *count = if is_once { 1 } else { *count + 1 };
        }
    }
    let (mut found, mut names) = (Count::new(), BTreeSet::new());
    for (_, name) in store.due(ENVIRONMENT, Index::Message, None, usize::MAX).await.unwrap() {
        let (record, _) = store.read(&RecordKey { environment: ENVIRONMENT, kind: Kind::Message, name }).await.unwrap();
        let Content::Whole(bytes) = record.unwrap().content else { panic!("a message is spent") };
        let message = notify::decode_message(&bytes).unwrap();
        assert!(names.insert(message.id.clone()), "two messages of one name");
        let whose = message.hold.map_or_else(String::new, |hold| hold.to_string());
        *found.entry((whose, message.event.as_str())).or_default() += 1;
    }
    assert_eq!(found, expected, "what is told is not what happened");
}

fn told_of(entry: &Value) -> Vec<(String, &'static str)> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let hold = text("hold").to_owned();
    let has_hold = !hold.is_empty();
    let event = match text("what") {
        "held" => "hold.held",
        "voted" => "hold.voted",
        "withdrawn" => "hold.withdrawn",
        "reopened" => "hold.reopened",
        "reminded" => "hold.reminder",
        "rejected" => "hold.rejected",
        "expired" => "hold.expired",
        "cancelled" => "hold.cancelled",
        "blocked" => "hold.blocked",
        "sending" if has_hold => "hold.released",
        "undone" if has_hold => "hold.not-sent",
        "executed" if has_hold => "hold.executed",
        "not-executed" if has_hold => "hold.not-executed",
        "unknown" if entry.get("looks").is_none() => "request.in-doubt",
        _ => return Vec::new(),
    };
    let approved = (entry["complete"] == true).then(|| (hold.clone(), "hold.approved"));
    [(hold, event)].into_iter().chain(approved).collect()
}

/// The books of a node, and the webhook of this outlet: at an address to which nothing is ever sent.
fn unreachable(keep: Duration) -> (Arc<Node>, Delivering) {
    rustls::crypto::ring::default_provider().install_default().ok();
    let (fate, clock) = (Arc::new(Fate::calm()), Arc::new(ModelClock::new()));
    let upstream = Arc::new(ModelUpstream {
        effects: Mutex::default(),
        sends: Mutex::default(),
        files: Vec::new(),
        begin: tokio::time::Instant::now(),
        wrong: Mutex::default(),
    });
    let (store, file) = (in_memory(clock.clone()), AuditFile::default());
    let made = model_node(0, &fate, &clock, &store, &file, &upstream, &CredentialConfig::Forward);
    let books = Arc::new(Node { outlets: outlets(keep), store, ..Node::clone(&made.books) });
    let metrics = Metrics::new().unwrap();
    let rates = Rates::new(Vec::new(), Arc::new(Local::new(0)), &metrics);
    let webhook = WebhookConfig {
        name: NAME.to_owned(),
        url: Secret::new("https://127.0.0.1:1/".to_owned()),
        secrets: Vec::new(),
        events: NoticeEvent::ALL.into(),
        environments: BTreeSet::from([ENVIRONMENT]),
        format: PayloadFormat::Chat,
        details: false,
        allow_private: false,
        ca_pem: None,
        timeout: Duration::from_secs(10),
        keep,
    };
    let delivering = Delivering {
        node: books.clone(),
        environments: vec![ENVIRONMENT],
        webhooks: vec![Arc::new(Webhook::new(&webhook).unwrap())],
        in_force: Arc::new(InForce::new(SHARED.clone(), SETS[0].clone(), rates, metrics)),
        console: None,
    };
    (books, delivering)
}

/// A call comes to be in doubt.
async fn doubt(books: &Node, name: String) {
    let key = RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name };
    let steps = vec![Step::Create { key, value: Bytes::from_static(b"{}"), keep: Keep::Forever }];
    let entry = Entry::of(EntryKind::Unknown).to_bytes();
    let commit = Commit { environment: ENVIRONMENT, node: books.id.clone(), steps, entry };
    assert!(books.commit(commit).await.unwrap().is_some(), "it stood in the way of what happened");
}

async fn waiting(books: &Node) -> usize {
    books.store.due(ENVIRONMENT, Index::Message, None, usize::MAX).await.unwrap().len()
}

/// The value of a series; 0 if it is not there.
fn metric(books: &Node, series: &str) -> u64 {
    let text = String::from_utf8(books.metrics.text().unwrap()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
    line.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn what_nobody_takes_is_tried_seldom_and_dropped_in_the_end() {
    in_model_time(async {
        let keep = Duration::from_secs(3_600);
        let (books, delivering) = unreachable(keep);
        let delivering = tokio::spawn(deliver(delivering));
        for n in 0..300 {
            doubt(&books, format!("request/{n}")).await;
        }
        sleep(Duration::from_secs(1_800)).await;
        assert_eq!(waiting(&books).await, 300);
        let oldest = format!("sluice_webhook_oldest_seconds{{environment=\"production\",webhook=\"{NAME}\"}}");
        assert!((1_790..=1_801).contains(&metric(&books, &oldest)), "{}", metric(&books, &oldest));
        sleep(keep).await;
        assert_eq!(waiting(&books).await, 0);
        let dropped = format!("sluice_webhook_dropped_total{{webhook=\"{NAME}\",why=\"late\"}}");
        assert_eq!(metric(&books, &dropped), 300);
        let tried = format!("sluice_webhook_deliveries_total{{outcome=\"forbidden\",webhook=\"{NAME}\"}}");
        let tried = metric(&books, &tried);
        assert!((10..60).contains(&tried), "tried {tried} times in an hour");
        // Each attempt, and each handful that is dropped, leaves an Entry; nothing else does.
        let last = books.store.last(ENVIRONMENT).await.unwrap().as_u64();
        assert!(last <= 300 + tried + 4, "{last} commits");
        delivering.abort();
    });
}

#[test]
fn what_is_full_takes_no_more_and_stops_nothing() {
    in_model_time(async {
        let (books, delivering) = unreachable(Duration::from_secs(120));
        let delivering = tokio::spawn(deliver(delivering));
        for n in 0..4_096 {
            doubt(&books, format!("request/{n}")).await;
        }
        sleep(Duration::from_secs(3)).await;
        for n in 0..10 {
            doubt(&books, format!("more/{n}")).await;
        }
        assert_eq!(waiting(&books).await, 4_096);
        let lost = format!("sluice_webhook_dropped_total{{webhook=\"{NAME}\",why=\"full\"}}");
        assert_eq!(metric(&books, &lost), 10);
        sleep(Duration::from_secs(200)).await;
        doubt(&books, "after/1".to_owned()).await;
        assert_eq!(waiting(&books).await, 1, "there is room again");
        delivering.abort();
    });
}
