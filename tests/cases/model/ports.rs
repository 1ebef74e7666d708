//! The ports of a node of the model: each call may be late, lost, done without a word, or the node's last.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use sluice::audit::OnDisk;
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, CommitError, Number, Outstanding, Query, QueryAnswer, Receipt, Sender, StoreFault};
use sluice::node::ClockWatch;
use sluice::ports::{AuditFault, AuditSink, Clock as _, LateAnswer, SendResult, Store, Upstream};
use sluice::stations::forward::{AnswerBody, Loss, Outgoing, Sent};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::fate::{Fate, Life, ModelClock, NodeClock};
use super::losses::says_unused;

/// How long upstream's answer is waited for.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How far the store's time may be from what it should be, in microseconds: it follows a clock that differs a little.
const MAX_OFF: u64 = 3_000_000;

#[derive(Debug)]
pub struct FlakyStore {
    pub store: Arc<dyn Store>,
    pub life: Arc<Life>,
    pub fate: Arc<Fate>,
    /// Commits and reads: the round trips that a call can cost.
    pub trips: Arc<AtomicU64>,
    /// Until when the store refuses writes, and still answers.
    pub denied: Mutex<Option<tokio::time::Instant>>,
    pub clock: Arc<NodeClock>,
    pub clocks: Arc<ClockWatch>,
    /// Where it says what no node may do.
    pub upstream: Arc<ModelUpstream>,
}

impl FlakyStore {
    /// A node whose machine was paused begins nothing before it met its store.
    fn begins_awake(&self, commit: &Commit) {
        let entry: Value = serde_json::from_slice(&commit.entry).unwrap_or_default();
        if entry["what"] == "sending" && self.clocks.has_slept(&*self.clock) {
            self.upstream.wrong.lock().unwrap().push(format!("begun behind a pause: {}", entry["requestId"]));
        }
    }

    /// The store's time is what it should be, whatever its clock shows: otherwise windows, claims and holds would end.
    fn is_on_time(&self, receipt: &Receipt) {
        let right = self.clock.clock.true_time().as_microsecond();
        if receipt.at().as_micros().abs_diff(right) > MAX_OFF {
            let wrong = format!("number {}: committed at {:?}", receipt.number(), receipt.at());
            self.upstream.wrong.lock().unwrap().push(wrong);
        }
    }

    async fn there(&self) -> Result<(), StoreFault> {
        self.life.moment(&self.fate).await;
        match self.fate.chance(self.fate.trouble) {
            true => Err(StoreFault::Away("the model lost the call".to_owned())),
            false => Ok(()),
        }
    }

    /// At times the store takes no writes for a while: it is full, or a replica.
    fn takes_writes(&self) -> Result<(), StoreFault> {
        let mut denied = self.denied.lock().unwrap();
        let now = tokio::time::Instant::now();
        if denied.is_none() && self.fate.chance(self.fate.trouble / 6) {
            *denied = Some(now + self.fate.millis(90_000));
        }
        if denied.is_some_and(|until| now < until) {
            return Err(StoreFault::Away("the model's store takes no writes".to_owned()));
        }
        *denied = None;
        Ok(())
    }

    async fn back<T>(&self, result: Result<T, StoreFault>) -> Result<T, StoreFault> {
        self.life.moment(&self.fate).await;
        match self.fate.chance(self.fate.trouble) {
            true => Err(StoreFault::Away("the model lost the answer".to_owned())),
            false => result,
        }
    }
}

#[async_trait]
impl Store for FlakyStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.trips.fetch_add(1, Ordering::SeqCst);
        self.begins_awake(&commit);
        self.there().await.map_err(CommitError::Fault)?;
        self.takes_writes().map_err(CommitError::Fault)?;
        let in_doubt = || Err(CommitError::Fault(StoreFault::InDoubt("the model says nothing".to_owned())));
        if self.fate.chance(self.fate.trouble / 2) {
            // It is done when nobody expects it any more.
            let (store, delay, fate) = (self.store.clone(), self.fate.millis(20_000), self.fate.clone());
            let losses = fate.losses.load(Ordering::SeqCst);
            tokio::spawn(async move {
                sleep(delay).await;
                if fate.losses.load(Ordering::SeqCst) == losses {
                    store.commit(commit).await.ok();
                }
            });
            return in_doubt();
        }
        let result = self.store.commit(commit).await.inspect(|receipt| self.is_on_time(receipt));
        self.life.moment(&self.fate).await;
        if self.fate.chance(self.fate.trouble) { in_doubt() } else { result }
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        if matches!(query, Query::Record(_)) {
            self.trips.fetch_add(1, Ordering::SeqCst);
        }
        self.there().await?;
        self.back(self.store.query(query).await).await
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.there().await?;
        self.takes_writes()?;
        self.back(self.store.kept(environment, by, up_to).await).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.there().await?;
        self.takes_writes()?;
        self.back(self.store.sweep().await).await
    }
}

/// The audit file of a node: it outlives the node's lives.
pub type AuditFile = Arc<Mutex<BTreeMap<Number, Outstanding>>>;

#[derive(Debug)]
pub struct FlakyAudit {
    pub file: AuditFile,
    pub life: Arc<Life>,
    pub fate: Arc<Fate>,
    pub well: AtomicBool,
    pub gap: Notify,
    /// Entries up to this number were left to the files of other nodes.
    pub skipped: AtomicU64,
}

/// How long an entry waits for those before it.
const WAITS: u64 = 5_000;

impl FlakyAudit {
    /// Whether the file went on without one of the entries: then it never takes it.
    fn went_on_without(&self, entries: &[Outstanding]) -> bool {
        let file = self.file.lock().unwrap();
        let last = file.last_key_value().map_or(0, |(last, _)| last.as_u64());
        let last = last.max(self.skipped.load(Ordering::SeqCst));
        entries.iter().any(|entry| entry.number.as_u64() <= last && !file.contains_key(&entry.number))
    }

    /// Writes the entries, unless one before them is missing.
    fn write(&self, entries: &[Outstanding]) -> bool {
        let mut file = self.file.lock().unwrap();
        for entry in entries {
            let number = entry.number;
            let last = file.last_key_value().map_or(0, |(last, _)| last.as_u64());
            let last = last.max(self.skipped.load(Ordering::SeqCst));
            let is_explained = || says_unused(entry, last);
            if number.as_u64() > last + 1 && !is_explained() {
                return false;
            }
            if let Some(there) = file.insert(number, entry.clone()) {
                assert_eq!(there, *entry, "two entries of number {number} in one file");
            }
        }
        true
    }
}

#[async_trait]
impl AuditSink for FlakyAudit {
    async fn append(&self, entries: Vec<Outstanding>) -> Result<OnDisk, AuditFault> {
        self.life.moment(&self.fate).await;
        let fails = self.fate.chance(self.fate.trouble);
        self.well.store(!fails || self.fate.chance(500), Ordering::SeqCst);
        if fails && self.fate.chance(500) {
            return Err(AuditFault::Disk("the model's disk is full".to_owned()));
        }
        let mut waited = 0;
        loop {
            if self.went_on_without(&entries) {
                return Err(AuditFault::Store("an entry comes too late".to_owned()));
            }
            if self.write(&entries) {
                break;
            }
            if waited >= WAITS {
                return Err(AuditFault::Disk("an entry before it was not there in time".to_owned()));
            }
            self.gap.notify_one();
            sleep(Duration::from_millis(50)).await;
            waited += 50;
        }
        let on_disk = OnDisk::new(&entries);
        self.life.moment(&self.fate).await;
        if fails { Err(AuditFault::Disk("the model's disk did not say".to_owned())) } else { Ok(on_disk) }
    }

    fn highest(&self, _: Environment) -> Number {
        let last = self.file.lock().unwrap().last_key_value().map_or(0, |(last, _)| last.as_u64());
        Number::new(last.max(self.skipped.load(Ordering::SeqCst)))
    }

    async fn suspend(&self, _: Environment) -> Result<(), AuditFault> {
        Ok(())
    }

    fn resume(&self, _: Environment) {}

    async fn skip(&self, _: Environment, up_to: Number) -> Result<(), AuditFault> {
        self.skipped.fetch_max(up_to.as_u64(), Ordering::SeqCst);
        Ok(())
    }

    async fn begin_again(&self, environment: Environment, behind: Number) -> Result<(), AuditFault> {
        self.skip(environment, behind).await
    }

    async fn gap(&self) {
        self.gap.notified().await;
    }

    fn is_well(&self) -> bool {
        // It finds out by itself when it is well again.
        self.well.swap(true, Ordering::SeqCst)
    }
}

/// One thing that upstream did.
#[derive(Clone, Debug)]
pub struct Effect {
    pub request_id: String,
    /// When it was sent.
    pub sent: Duration,
    /// Of which exchange.
    pub trace: String,
    /// Whose call it was, and how much it moved.
    pub asked: Asked,
}

/// What makes two requests of one requestId the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub token: String,
    pub amount: String,
}

/// Upstream: every call that reaches it whole has an effect, however often it comes.
#[derive(Debug)]
pub struct ModelUpstream {
    pub effects: Mutex<Vec<Effect>>,
    pub sends: Mutex<BTreeMap<String, usize>>,
    pub files: Vec<AuditFile>,
    pub begin: tokio::time::Instant,
    pub wrong: Mutex<Vec<String>>,
}

/// Upstream as one node reaches it.
#[derive(Debug)]
pub struct FlakyUpstream {
    pub clock: Arc<ModelClock>,
    pub upstream: Arc<ModelUpstream>,
    pub life: Arc<Life>,
    pub fate: Arc<Fate>,
}

impl ModelUpstream {
    pub fn effects_of(&self, request_id: &str) -> Vec<Effect> {
        self.effects.lock().unwrap().iter().filter(|e| e.request_id == request_id).cloned().collect()
    }

    /// A call is on its way: its Entry must be on a disk by now.
    fn sent(&self, request_id: &str) {
        let mut sends = self.sends.lock().unwrap();
        let count = sends.entry(request_id.to_owned()).or_default();
        *count += 1;
        let told = |entry: &&Outstanding| {
            let entry: Value = serde_json::from_slice(&entry.entry).unwrap();
            entry["what"] == "sending" && entry["requestId"] == request_id
        };
        let on_disk: usize = self.files.iter().map(|file| file.lock().unwrap().values().filter(told).count()).sum();
        if on_disk < *count {
            self.wrong.lock().unwrap().push(format!("{request_id}: sent {count} times, {on_disk} entries on disk"));
        }
    }

    fn act(&self, request_id: &str, sent: Duration, trace: &str, asked: Asked) -> usize {
        let mut effects = self.effects.lock().unwrap();
        effects.push(Effect { request_id: request_id.to_owned(), sent, trace: trace.to_owned(), asked });
        effects.len()
    }
}

#[async_trait]
impl Upstream for FlakyUpstream {
    async fn send(&self, outgoing: Outgoing) -> SendResult {
        match self.sent(outgoing).await {
            Ok(sent) => SendResult::only(sent),
            Err(late) => SendResult { sent: Sent::Lost(Loss::Silent), late: Some(late) },
        }
    }
}

impl FlakyUpstream {
    /// What comes of it in time, or what comes late.
    async fn sent(&self, outgoing: Outgoing) -> Result<Sent, LateAnswer> {
        self.life.moment(&self.fate).await;
        let fate = &self.fate;
        if fate.chance(fate.trouble) {
            // The node was held up, for longer than its lease at times, and than people wait.
            sleep(fate.millis(400_000)).await;
        }
        if fate.chance(fate.trouble) || !outgoing.may_leave(self.clock.elapsed()) {
            return Ok(Sent::NotWritten);
        }
        let body = outgoing.body().cloned().unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let id = body["requestId"].as_str().unwrap().to_owned();
        let token = outgoing.headers()["authorization"].to_str().unwrap().to_owned();
        let trace = outgoing.headers()["x-request-id"].to_str().unwrap().to_owned();
        let asked = Asked { token, amount: body["source"]["amount"].as_str().unwrap().to_owned() };
        let sent = self.upstream.begin.elapsed();
        self.upstream.sent(&id);
        let troubled = fate.chance(50 + fate.trouble * 4);
        let kind = if troubled { fate.below(12) } else { 12 };
        if kind <= 1 {
            // It never arrives, or its effect comes after everybody has given up.
            if kind == 1 {
                let (upstream, delay) = (self.upstream.clone(), fate.millis(ANSWER_WITHIN.as_millis() as u64 * 2));
                tokio::spawn(async move {
                    sleep(delay).await;
                    upstream.act(&id, sent, &trace, asked);
                });
            }
            self.life.moment(fate).await;
            return Ok(Sent::Lost(Loss::Broken));
        }
        if kind == 9 || kind == 10 {
            // It is read from a queue late, and answered on the same connection: done, or refused.
            let (upstream, life, fate_then) = (self.upstream.clone(), self.life.clone(), self.fate.clone());
            let delay = fate.millis(ANSWER_WITHIN.as_millis() as u64);
            let answer = async move {
                sleep(delay).await;
                let answer = match kind {
                    9 => record(upstream.act(&id, sent, &trace, asked), &id),
                    _ => answered(400, Bytes::from(refusal(400))),
                };
                life.moment(&fate_then).await;
                answer
            };
            // Upstream goes on when nobody listens.
            let answer = tokio::spawn(answer);
            sleep(ANSWER_WITHIN).await;
            self.life.moment(fate).await;
            return Err(LateAnswer::new(async move { answer.await.unwrap_or(Sent::Lost(Loss::Broken)) }));
        }
        sleep(fate.millis(300)).await;
        if kind == 11 && !self.upstream.effects_of(&id).is_empty() {
            // It knows the requestId.
            let known =
                r#"{"code":400,"error":"BAD_REQUEST","errorDetails":"this transaction request already exists"}"#;
            self.life.moment(fate).await;
            return Ok(answered(400, Bytes::from(known)));
        }
        let refused = |status: u16| answered(status, Bytes::from(refusal(status)));
        let result = match kind {
            2 => refused(400),
            3 => refused(401),
            4 => refused(429),
            5 => refused(409),
            6 => {
                // It did it, and says 500.
                self.upstream.act(&id, sent, &trace, asked);
                refused(500)
            }
            7 => {
                self.upstream.act(&id, sent, &trace, asked);
                sleep(ANSWER_WITHIN).await;
                Sent::Lost(Loss::Silent)
            }
            8 => {
                let number = self.upstream.act(&id, sent, &trace, asked);
                let Sent::Answered { body, .. } = record(number, &id) else { panic!("a record is an answer") };
                let whole = body.whole().unwrap();
                // It breaks off before or behind the requestId.
                let beginning = whole.slice(..if number.is_multiple_of(2) { 12 } else { whole.len() - 1 });
                let (headers, loss) = (json_headers(), Loss::Broken);
                Sent::Answered { status: 201, headers, body: AnswerBody::Incomplete { loss, beginning } }
            }
            _ => {
                let number = self.upstream.act(&id, sent, &trace, asked);
                record(number, &id)
            }
        };
        self.life.moment(fate).await;
        Ok(result)
    }
}

fn record(number: usize, request_id: &str) -> Sent {
    let record = format!(r#"{{"transferDetails":{{"id":{number},"requestId":"{request_id}"}}}}"#);
    answered(201, Bytes::from(record))
}

fn refusal(status: u16) -> String {
    format!(r#"{{"code":{status},"error":"X","errorDetails":"y"}}"#)
}

fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

fn answered(status: u16, body: Bytes) -> Sent {
    Sent::Answered { status, headers: json_headers(), body: AnswerBody::Complete(body) }
}
