//! A write, from its checked head to its answer.
//!
//! Reads downward. From the commit on it runs in a task of its own, which the caller's hanging up does not cancel.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderName;

use super::books::{Attempt, Books, NotBegun};
use super::holds::key;
use super::operate::standing;
use super::{Exchange, Road, Snapshot, tell_decided};
use crate::adapters::clock::Stopwatch;
use crate::base::ids::{Environment, HoldId};
use crate::catalog::Operation;
use crate::policy::Effect;
use crate::stations::admit::Admitted;
use crate::stations::check::{Intent, Named, Unfit, check};
use crate::stations::claim::{Freeze, From, Owner, Said};
use crate::stations::decide::{Decision, decide};
use crate::stations::forward::{AnswerBody, clear};
use crate::stations::reply::{self, Closed, Refusal, Reply, refused, refused_unclaimed, settled};
use crate::stations::settle::{Doubt, Outcome, event, settle};
use crate::telemetry::Station;

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The longest that a caller may wait for the answer to a call that is being sent.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often a decision is made at most: each time on what the store said instead of what was assumed.
const DECISIONS: usize = 4;

/// The answer to a write, and how long upstream took for its part.
#[derive(Debug)]
pub struct Submitted {
    pub reply: Reply,
    /// It is upstream's own answer to an executed call, whole, and not checked.
    pub unchecked: bool,
    pub upstream_time: Option<Duration>,
}

pub async fn submit(
    road: &Road,
    books: &Arc<Books>,
    snapshot: &Arc<Snapshot>,
    admitted: Admitted,
    headers: &HeaderMap,
    body: &[u8],
    exchange: &Exchange,
) -> Submitted {
    let operation = admitted.operation().clone();
    let asker = Asker {
        owner: Owner::of(admitted.caller()),
        patience: patience(headers),
        snapshot: snapshot.clone(),
        environment: admitted.environment(),
        refuses_holds: admitted.caller().refuses_holds(),
    };

    let checking = exchange.spans.enter(Station::Check);
    let checked = check(admitted, headers, body);
    drop(checking);
    let intent = match checked {
        Ok(intent) => intent,
        Err(unfit) => return not_sent(unfit_answer(books, &operation, &asker, unfit).await),
    };
    let named = intent.name();

    let carried = carry(road.clone(), books.clone(), snapshot.clone(), intent, headers.clone(), exchange.clone());
    match road.sending.spawn_on(carried, &road.runtime).await {
        Ok(Ok(Carried::Submitted(submitted))) => submitted,
        Ok(Ok(Carried::Held(id))) => not_sent(claimed_answer(books, &operation, &asker, &named, Said::Held(id)).await),
        Ok(Err(not_begun)) => not_sent(not_begun_answer(books, &operation, &asker, &named, not_begun).await),
        Err(error) => {
            tracing::error!(%error, "a task that was sending did not end; its outcome is unknown");
            not_sent(settled(&Outcome::Unknown(Doubt::Broken), &operation, None))
        }
    }
}

/// What came of a write whose caller may have left.
enum Carried {
    Submitted(Submitted),
    /// It waits for people.
    Held(HoldId),
}

/// Decide, commit, and what follows: once it has begun, it ends.
async fn carry(
    road: Road,
    books: Arc<Books>,
    snapshot: Arc<Snapshot>,
    intent: Intent,
    headers: HeaderMap,
    exchange: Exchange,
) -> Result<Carried, NotBegun> {
    match decided(&road, &books, &snapshot, &intent, &headers, &exchange).await? {
        Decided::Begun(attempt) => {
            Ok(Carried::Submitted(carry_on(road, books, intent, attempt, headers, exchange).await))
        }
        Decided::Held(id) => Ok(Carried::Held(id)),
        Decided::Refused(reply) => Ok(Carried::Submitted(not_sent(reply))),
    }
}

/// Forward and settle what the store and the audit chain know of: of a caller that waits, or of people who agreed.
pub(super) async fn carry_on(
    road: Road,
    books: Arc<Books>,
    intent: Intent,
    attempt: Attempt,
    headers: HeaderMap,
    exchange: Exchange,
) -> Submitted {
    let operation = intent.operation().clone();
    let request_id = intent.named().and_then(|named| named.request_id.clone());
    let number = attempt.begun.attempt();
    let cleared = clear(intent, &attempt.begun);

    let since = Stopwatch::start();
    let forwarding = exchange.spans.enter(Station::Forward);
    let sent = road.send(cleared, Some(attempt.lease), &forwarding.headers(&headers), &exchange.id).await;
    drop(forwarding);
    let upstream_time = Some(since.elapsed());

    let outcome = settle(&operation, road.credential.is_injected(), sent);
    let unchecked = matches!(outcome, Outcome::Executed { body: AnswerBody::Complete(_), .. });
    let happened = |reply: &Reply| event(&outcome, reply.kept());
    let reply = settled(&outcome, &operation, request_id.as_ref());
    let settling = exchange.spans.enter(Station::Settle);
    books.settle(&attempt.place, number, happened(&reply)).await;
    drop(settling);
    Submitted { unchecked, reply, upstream_time }
}

/// What came of deciding: it may be sent, or it is answered.
#[derive(Debug)]
enum Decided {
    Begun(Attempt),
    Held(HoldId),
    Refused(Reply),
}

impl Decided {
    fn effect(&self) -> Effect {
        match self {
            Decided::Begun(_) => Effect::Allow,
            Decided::Held(_) => Effect::Hold,
            Decided::Refused(_) => Effect::Deny,
        }
    }
}

/// Decides, and commits to what was decided; again, where the store says that what was assumed is otherwise.
async fn decided(
    road: &Road,
    books: &Arc<Books>,
    snapshot: &Snapshot,
    intent: &Intent,
    headers: &HeaderMap,
    exchange: &Exchange,
) -> Result<Decided, NotBegun> {
    let operation = intent.operation();
    let mut facts = books.facts(intent, &snapshot.policies);
    for _ in 0..DECISIONS {
        let deciding = exchange.spans.enter(Station::Decide);
        let decision = decide(intent, &snapshot.policies, &facts);
        drop(deciding);
        tell_decided(&exchange.id, &decision.grounds().verdict);
        books.metrics.decided(intent.environment().as_str(), operation.id.as_str(), &decision.grounds().verdict);
        let done = match &decision {
            Decision::Allowed(allowed) => {
                books.begin(intent, allowed, exchange, From::Nothing).await.map(Decided::Begun)
            }
            Decision::Held(held) if road.credential.is_injected() => {
                let _committing = exchange.spans.enter(Station::Commit);
                books.hold(intent, held, &snapshot.policies, headers, &exchange.id).await.map(Decided::Held)
            }
            // What only its caller's own token could send cannot be sent later.
            Decision::Held(held) => {
                let _committing = exchange.spans.enter(Station::Commit);
                let refused = books.refuse(intent, held.grounds(), &exchange.id).await;
                refused.map(|earlier| Decided::Refused(reply::not_held(held, operation, earlier)))
            }
            Decision::Denied(denied) => {
                let _committing = exchange.spans.enter(Station::Commit);
                let refused = books.refuse(intent, denied.grounds(), &exchange.id).await;
                refused.map(|earlier| Decided::Refused(reply::denied(denied, operation, earlier)))
            }
        };
        match done {
            Err(NotBegun::Otherwise(learnt)) => books.learn(intent.environment(), &mut facts, learnt),
            done => {
                if let Ok(done) = &done {
                    books.metrics.tally().count(intent.environment(), done.effect(), books.clock.now());
                }
                if let Some(candidate) = &snapshot.candidate {
                    candidate.decide(intent, &facts, &decision.grounds().verdict, &books.metrics);
                }
                return done;
            }
        }
    }
    tracing::error!("what decisions stand on changed again and again");
    Err(NotBegun::StoreAway)
}

/// Who asks, and how long it would wait for the answer to a call that is being sent.
struct Asker {
    owner: Owner,
    patience: Duration,
    snapshot: Arc<Snapshot>,
    environment: Environment,
    /// It takes any 2xx for done.
    refuses_holds: bool,
}

/// A call that is not what the contract says. If it was made already, in whatever form was right then, that is told.
async fn unfit_answer(books: &Arc<Books>, operation: &Operation, asker: &Asker, unfit: Unfit) -> Reply {
    let refusal = Refusal::Check(unfit.refusal);
    let Some(named) = unfit.named else { return refused(&refusal, Some(operation)) };
    match books.said(&named, &asker.owner).await {
        Ok(Some(said)) => claimed_answer(books, operation, asker, &named, said).await,
        Ok(None) => match standing(books, named.key.environment, Freeze::Restored).await {
            Ok(None) => refused_unclaimed(&refusal, operation),
            // What the store does not know, it may have forgotten.
            Ok(Some(_)) => refused(&refusal, Some(operation)),
            Err(_) => reply::closed(Closed::Store, operation),
        },
        Err(_) => reply::closed(Closed::Store, operation),
    }
}

async fn not_begun_answer(
    books: &Arc<Books>,
    operation: &Operation,
    asker: &Asker,
    named: &Named,
    why: NotBegun,
) -> Reply {
    match why {
        NotBegun::Claimed(record, now) => match books.said_by(&record, named, &asker.owner, now) {
            Ok(said) => claimed_answer(books, operation, asker, named, said).await,
            Err(_) => reply::closed(Closed::Store, operation),
        },
        NotBegun::StoreAway | NotBegun::Moved | NotBegun::Otherwise(_) => reply::closed(Closed::Store, operation),
        NotBegun::AuditAway => reply::closed(Closed::Audit, operation),
        NotBegun::Frozen => reply::closed(Closed::Frozen, operation),
        NotBegun::Forgotten => reply::closed(Closed::Forgotten, operation),
    }
}

/// What the claim says; while it waits or is being sent, what it says when that is over, if its asker will wait.
async fn claimed_answer(
    books: &Arc<Books>,
    operation: &Operation,
    asker: &Asker,
    named: &Named,
    mut said: Said,
) -> Reply {
    books.metrics.claim_met(named.key.environment.as_str(), said.as_str());
    let until = books.clock.elapsed().saturating_add(asker.patience);
    let mut pause = FIRST_LOOK;
    while matches!(said, Said::InProgress | Said::Held(_)) {
        let left = until.saturating_sub(books.clock.elapsed());
        if left.is_zero() || *books.stopping.borrow() {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(pause.min(left)) => {}
            () = books.stopped() => {}
        }
        pause = pause.saturating_mul(2).min(LOOK_EVERY);
        match books.said(named, &asker.owner).await {
            Ok(Some(now)) => said = now,
            // It is free again: whoever asks anew may send it.
            Ok(None) => break,
            Err(_) => return reply::closed(Closed::Store, operation),
        }
    }
    let Said::Held(id) = &said else { return reply::claimed(said, operation) };
    match books.waiting(&key(asker.environment, id), &asker.snapshot.policies, asker.refuses_holds).await {
        Ok(Some(reply)) => reply,
        Ok(None) => reply::claimed(said, operation),
        Err(_) => reply::closed(Closed::Store, operation),
    }
}

/// `Prefer: wait=N`, in seconds (RFC 7240).
fn patience(headers: &HeaderMap) -> Duration {
    let texts = headers.get_all(PREFER).iter().filter_map(|h| h.to_str().ok());
    let wait = texts.flat_map(|text| text.split(',')).find_map(wait_secs);
    Duration::from_secs(wait.unwrap_or(0)).min(LONGEST_WAIT)
}

fn wait_secs(preference: &str) -> Option<u64> {
    let (name, value) = preference.split(';').next()?.split_once('=')?;
    let is_wait = name.trim().eq_ignore_ascii_case("wait");
    is_wait.then(|| value.trim().trim_matches('"').parse().ok()).flatten()
}

fn not_sent(reply: Reply) -> Submitted {
    Submitted { reply, unchecked: false, upstream_time: None }
}
