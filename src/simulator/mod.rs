//! The simulator: a stand-in for upstream, for demo, tests and training.
//!
//! The simulator serves every operation of the contract from memory, over HTTP/1.1, with records that change over time. Each
//! answer satisfies the contract; each request is checked against it. An operation without a behaviour in
//! `operations` is answered with the first good example of its answer.
//!
//! The simulator never stores anything beyond its process, never calls another service, reads the time from its [`Clock`] only,
//! and has no real randomness: identifiers derive from [`Settings::seed`].
//!
//! # Behaviour where the interface is silent
//!
//! - A repeated requestId makes a second effect, unless [`Settings::idempotent`] is set: then the first record is
//!   returned.
//! - Money may name users, wallets and accounts that it does not know; reads of unknown ones are 404.
//! - Swaps: see `swaps`. Amounts and requestIds that fail on purpose: see `triggers` and `outcome`. Offers: see `offers`.
//! - Parameters whose names are not shown: `search` of the user list, `rail` of the KYC status, `cursor` and `limit` of the
//!   orchestration addresses.
//! - No credentials: 401 in shape A. An empty token or the token `invalid`: 401 in shape D where no shape is documented.
//!   Any other token is accepted.
//!
//! # Control interface
//!
//! | call | does |
//! |---|---|
//! | `GET /simulator/data` | identifiers of the users, wallets, accounts, offers … of the seed |
//! | `GET /simulator/journal?last=20` | calls and effects by operation and requestId, the last calls whole, the last swaps |
//! | `DELETE /simulator/journal` | clears the journal; records and their effects stay |
//! | `GET /simulator/faults` | the pending faults, and how many calls each struck |
//! | `POST /simulator/faults` | adds one: `{"kind": "hang", "operation": "createSwap", "times": 1, "percent": 100}` |
//! | `DELETE /simulator/faults` | clears them |
//!
//! A fault strikes calls of its `operation` (all without it), `times` times (until cleared without it), about `percent` of
//! them (all without it). The kinds are those of [`FaultKind`]:
//!
//! ```json
//! {"kind": "delay", "ms": 500, "operation": "createSwap", "times": 1, "percent": 50}
//! {"kind": "resetBeforeReading"}
//! {"kind": "resetAfterReceiving"}
//! {"kind": "closeAfterReceiving"}
//! {"kind": "hang"}
//! {"kind": "hangBeforeEffect"}
//! {"kind": "cutBody"}
//! {"kind": "stallBody"}
//! {"kind": "answer", "status": 409, "contentType": "application/json", "body": {"error": "busy"}, "effect": false}
//! {"kind": "html500", "effect": true}
//! {"kind": "garbage", "effect": true}
//! {"kind": "brokenJson"}
//! {"kind": "redirect", "location": "https://elsewhere.example.com/", "effect": false}
//! {"kind": "wrongShape"}
//! {"kind": "oversize", "bytes": 5000000}
//! {"kind": "lateEffect", "ms": 1500}
//! {"kind": "foreignRecord"}
//! {"kind": "interim", "count": 5}
//! {"kind": "drip", "ms": 2}
//! {"kind": "echoCredential"}
//! {"kind": "alreadyExists", "status": 409}
//! ```
//!
//! `effect` says whether the call is carried out before the fault; false without it. The `body` of `answer` is sent as it is where
//! it is a text, else written out as JSON.
//!
//! With `alreadyExists`, upstream knows which requestIds it has seen. It answers a repeat with the first record if `status` is
//! 200, else with a refusal of this status (400 to 499). A call that another fault strikes is not compared.
//!
//! Some lies are made of these: an answer that comes too late is a `delay` beyond the caller's timeout; a page of maintenance
//! is an `answer` with status 200 and an HTML body; a 429 after the effect is an `answer` with `"effect": true`.

mod answer;
mod call;
mod control;
mod decimal;
mod delivery;
mod faults;
mod faulty_answers;
mod journal;
mod naming;
mod offers;
mod offramps;
mod operations;
mod outcome;
mod quote;
mod records;
mod refusal;
mod seed;
mod server;
mod settlement;
mod state;
mod swaps;
mod triggers;
mod users;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::net::TcpListener;

pub use faults::{FaultKind, InjectedFault};
pub use journal::{Journal, Received};
pub use triggers::triggers;

use answer::{Done, SimulatorAnswer};
use call::{CallHead, SimulatedCall};
use delivery::Delivery;
use faults::{FaultPlan, Strike, StruckCall, WaitingFault};
use naming::NameSource;
use refusal::SimulatorRefusal;
use state::SimulatorState;

use crate::base::finding::Finding;
use crate::base::ids::OperationId;
use crate::base::json::{self, Limits};
use crate::catalog::{Catalog, Operation, SchemaFiles, examples};
use crate::ports::Clock;

/// The settings of a simulator.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether a repeated requestId is answered with the first record instead of a second effect.
    pub idempotent: bool,
    /// The delay of every answer.
    pub latency: Duration,
    /// The time from one status of a swap or an offramp to the next.
    pub pace: Duration,
    /// The source of identifiers and chances.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { idempotent: false, latency: Duration::ZERO, pace: Duration::from_secs(2), seed: 1 }
    }
}

#[derive(Debug)]
pub struct Simulator {
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    latency: Duration,
    state: Mutex<SimulatorState>,
    faults: Mutex<FaultPlan>,
    journal: Mutex<Journal>,
}

/// Builds the contract with all operations, including those that are off by default.
pub fn whole_catalog(files: &SchemaFiles) -> Result<Catalog, Vec<Finding>> {
    let shipped = Catalog::build(files, &[])?;
    let every: Vec<String> = shipped.operations().iter().map(|o| o.id.to_string()).collect();
    Catalog::build(files, &every)
}

impl Simulator {
    /// Serves the enabled operations of a catalogue; [`whole_catalog`] enables them all.
    pub fn new(catalog: Arc<Catalog>, clock: Arc<dyn Clock>, settings: Settings) -> Arc<Simulator> {
        Simulator::with_examples(catalog, &SchemaFiles::built_in(), clock, settings)
    }

    /// Serves every operation of a contract.
    pub fn of_files(
        files: &SchemaFiles,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Arc<Simulator>, Vec<Finding>> {
        Ok(Simulator::with_examples(Arc::new(whole_catalog(files)?), files, clock, settings))
    }

    /// Accepts connections until it is dropped; they end with it.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        server::serve(self, listener).await;
    }

    pub fn fault(&self, fault: InjectedFault) {
        locked(&self.faults).add(fault);
    }

    pub fn clear_faults(&self) {
        locked(&self.faults).clear();
    }

    /// Returns the requests so far, and their results.
    pub fn journal(&self) -> Journal {
        locked(&self.journal).clone()
    }

    pub fn clear_journal(&self) {
        *locked(&self.journal) = Journal::default();
    }

    /// Returns identifiers that a demo or a test needs.
    pub fn data(&self) -> Value {
        seed::data(&locked(&self.state), self.now())
    }

    /// Returns the current state of every swap, oldest first: the interface has no read of them.
    pub fn swaps(&self) -> Vec<Value> {
        let now = self.now();
        locked(&self.state).swaps.iter().map(|swap| swap.to_json(now)).collect()
    }

    fn with_examples(
        catalog: Arc<Catalog>,
        files: &SchemaFiles,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Arc<Simulator> {
        let naming = NameSource::new(settings.seed);
        let mut state = SimulatorState::empty(naming, settings.idempotent, settings.pace, answers(&catalog, files));
        seed::plant(&mut state, clock.now());
        Arc::new(Simulator {
            catalog,
            clock,
            latency: settings.latency,
            state: Mutex::new(state),
            faults: Mutex::new(FaultPlan::new(naming)),
            journal: Mutex::new(Journal::default()),
        })
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the time in microseconds, as records show it.
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    fn latency(&self) -> Duration {
        self.latency
    }

    fn waiting_faults(&self) -> Vec<WaitingFault> {
        locked(&self.faults).waiting().to_vec()
    }

    /// Returns the operation that a head names, and its faults.
    fn strike(&self, head: &CallHead) -> (Option<Arc<Operation>>, Strike) {
        let operation = self.catalog.find(&head.method, head.path()).ok().map(|found| found.operation);
        let strike = locked(&self.faults).strike(operation.as_ref().map(|o| &o.id));
        (operation, strike)
    }

    /// Records a request, executes it unless the fault prevents that, and returns the bytes to send.
    fn deliver(
        &self,
        head: &CallHead,
        operation: Option<Arc<Operation>>,
        body: Option<&[u8]>,
        strike: Strike,
    ) -> Delivery {
        let id = operation.as_ref().map(|o| &o.id);
        let number = locked(&self.journal).arrived(head, id, body, strike.name(), self.now());
        let execute = || self.execute(number, head, body.unwrap_or_default(), operation.as_deref());
        let earlier = body.and_then(|body| self.earlier_record(body));
        let credential = head.header("authorization").unwrap_or_default();
        let call = StruckCall { operation: operation.as_deref(), credential: &credential, earlier: earlier.as_ref() };
        strike.deliver(call, execute)
    }

    /// Returns the record that an earlier call with this body's requestId made.
    fn earlier_record(&self, body: &[u8]) -> Option<Value> {
        let body = json::parse(body, Limits::REQUEST).ok()?;
        locked(&self.state).record_of(body.get("requestId")?.as_str()?, self.now())
    }

    fn execute(&self, number: u64, head: &CallHead, body: &[u8], operation: Option<&Operation>) -> SimulatorAnswer {
        let checked = SimulatedCall::check(&self.catalog, head, body, self.now());
        // The state stays locked until the effect is counted, so that the journal never lags behind the records.
        let mut state = locked(&self.state);
        let carried_out = checked.and_then(|call| operations::carry_out(&mut state, &call).map(|done| (call, done)));
        let mut journal = locked(&self.journal);
        match carried_out {
            Ok((call, Done { status, body, effect })) => {
                if effect {
                    journal.carried_out(&call);
                }
                let status = documented(&call.operation, status);
                journal.ended(number, status, effect);
                SimulatorAnswer::new(status, body)
            }
            Err(refusal) => {
                let answer = SimulatorRefusal::answer(&refusal, operation);
                journal.ended(number, answer.status, false);
                answer
            }
        }
    }
}

/// Returns 201 if the contract leaves the status of success open; else the status that it names.
fn documented(operation: &Operation, status: u16) -> u16 {
    use crate::catalog::Statuses;
    match operation.success().map(|answer| answer.statuses) {
        Some(Statuses::One(one)) => one,
        Some(Statuses::Hundred(_) | Statuses::Default) | None => status,
    }
}

/// Returns the first good example of each operation's answer.
fn answers(catalog: &Catalog, files: &SchemaFiles) -> BTreeMap<OperationId, Value> {
    let first = |operation: &Arc<Operation>| {
        let all = examples(files, operation).ok()?;
        let good = all.into_iter().find(|example| example.answer && example.good)?;
        Some((operation.id.clone(), good.value))
    };
    catalog.operations().iter().filter_map(first).collect()
}

/// Locks a mutex, poisoned or not: every change is one step, so a panic elsewhere leaves the state consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
