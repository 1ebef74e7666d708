//! The simulator: a stand-in for upstream, for demo, tests and training.
//!
//! It serves every operation of the contract from memory, over HTTP/1.1, with records that change as time goes by. Each answer
//! satisfies the contract; each request is checked against it. An operation that the contract has and
//! `operations` has no behaviour for is answered with the first good example of its answer.
//!
//! It never remembers anything beyond its process, never calls anybody, reads time from its [`Clock`] alone, and never
//! invents randomness: identifiers derive from [`Settings::seed`].
//!
//! # What it does where the interface is silent
//!
//! - A requestId that comes twice makes two effects, unless [`Settings::idempotent`]: then the first record is given again.
//! - Money may name users, wallets and accounts that it does not know; reads of unknown ones are 404.
//! - Swaps: see `swaps`. Amounts that fail on purpose: see `outcome`. Offers: see `offers`.
//! - Parameters whose names are not shown: `search` of the user list, `rail` of the KYC status, `cursor` and `limit` of the
//!   orchestration addresses.
//! - No credentials: 401 in shape A. An empty token or the token `invalid`: 401 in shape D where no shape is documented.
//!   Any other token is taken.
//!
//! # Its own addresses
//!
//! | call | does |
//! |---|---|
//! | `GET /simulator/data` | identifiers of the users, wallets, accounts, offers … that it knows from the start |
//! | `GET /simulator/journal?last=20` | calls and effects by operation and requestId, the last calls whole, the last swaps |
//! | `DELETE /simulator/journal` | forgets them; records and their effects stay |
//! | `GET /simulator/faults` | the faults that wait |
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
//! ```
//!
//! `effect` says whether the call is carried out before the fault; false without it. The `body` of `answer` is sent as it is where
//! it is a text, else written out as JSON.

mod answer;
mod call;
mod control;
mod decimal;
mod faults;
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
mod users;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::net::TcpListener;

pub use faults::{Fault, FaultKind};
pub use journal::{Journal, Received};

use answer::{Answer, Done};
use call::{Call, Head};
use faults::{Delivery, Faults, Strike};
use naming::Naming;
use refusal::Refusal;
use state::State;

use crate::base::finding::Finding;
use crate::base::ids::OperationId;
use crate::catalog::{Catalog, Operation, SchemaFiles, examples};
use crate::ports::Clock;

/// How a simulator behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether a requestId that comes again is answered with the first record instead of a second effect.
    pub idempotent: bool,
    /// How long every answer waits.
    pub latency: Duration,
    /// The time from one status of a swap or an offramp to the next.
    pub pace: Duration,
    /// What identifiers and chances derive from.
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
    state: Mutex<State>,
    faults: Mutex<Faults>,
    journal: Mutex<Journal>,
}

/// The contract with the operations, too, that are off as shipped.
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

    pub fn fault(&self, fault: Fault) {
        locked(&self.faults).add(fault);
    }

    pub fn clear_faults(&self) {
        locked(&self.faults).clear();
    }

    /// What arrived so far, and what it came to.
    pub fn journal(&self) -> Journal {
        locked(&self.journal).clone()
    }

    pub fn clear_journal(&self) {
        *locked(&self.journal) = Journal::default();
    }

    /// The identifiers that are worth knowing for a demo or a test.
    pub fn data(&self) -> Value {
        seed::data(&locked(&self.state), self.now())
    }

    /// Every swap as it stands now, oldest first: the interface has no read of them.
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
        let naming = Naming::new(settings.seed);
        let mut state = State::empty(naming, settings.idempotent, settings.pace, answers(&catalog, files));
        seed::plant(&mut state, clock.now());
        Arc::new(Simulator {
            catalog,
            clock,
            latency: settings.latency,
            state: Mutex::new(state),
            faults: Mutex::new(Faults::new(naming)),
            journal: Mutex::new(Journal::default()),
        })
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// In microseconds, as records show it.
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    fn latency(&self) -> Duration {
        self.latency
    }

    fn waiting_faults(&self) -> Vec<Fault> {
        locked(&self.faults).waiting().to_vec()
    }

    /// Which operation a head names, and what strikes it.
    fn strike(&self, head: &Head) -> (Option<Arc<Operation>>, Strike) {
        let operation = self.catalog.find(&head.method, head.path()).ok().map(|found| found.operation);
        let strike = locked(&self.faults).strike(operation.as_ref().map(|o| &o.id));
        (operation, strike)
    }

    /// Notes a request, carries it out as far as the fault lets it, and says what goes to the wire.
    fn deliver(&self, head: &Head, operation: Option<Arc<Operation>>, body: Option<&[u8]>, strike: Strike) -> Delivery {
        let id = operation.as_ref().map(|o| &o.id);
        let number = locked(&self.journal).arrived(head, id, body, strike.name(), self.now());
        let execute = || self.execute(number, head, body.unwrap_or_default(), operation.as_deref());
        strike.deliver(operation.as_deref(), execute)
    }

    fn execute(&self, number: u64, head: &Head, body: &[u8], operation: Option<&Operation>) -> Answer {
        let checked = Call::check(&self.catalog, head, body, self.now());
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
                Answer::new(status, body)
            }
            Err(refusal) => {
                let answer = Refusal::answer(&refusal, operation);
                journal.ended(number, answer.status, false);
                answer
            }
        }
    }
}

/// 201 is said where the contract leaves the status of success open; else the one that it names.
fn documented(operation: &Operation, status: u16) -> u16 {
    use crate::catalog::Statuses;
    match operation.success().map(|answer| answer.statuses) {
        Some(Statuses::One(one)) => one,
        Some(Statuses::Hundred(_) | Statuses::Default) | None => status,
    }
}

/// The first good example of each operation's answer.
fn answers(catalog: &Catalog, files: &SchemaFiles) -> BTreeMap<OperationId, Value> {
    let first = |operation: &Arc<Operation>| {
        let all = examples(files, operation).ok()?;
        let good = all.into_iter().find(|example| example.answer && example.good)?;
        Some((operation.id.clone(), good.value))
    };
    catalog.operations().iter().filter_map(first).collect()
}

/// A panic elsewhere does not make what is remembered wrong: every change is one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
