//! A write, from its checked head to its answer. It reads downward.
//! From the commit on it runs in a task of its own, which a caller that hangs up does not cancel.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderName;

use super::Egress;
use super::absence::Absence;
use super::judge::SentCall;
use crate::adapters::clock::Stopwatch;
use crate::base::ids::{Environment, HoldId};
use crate::catalog::Operation;
use crate::ledger::Versioned;
use crate::node::freezes::standing;
use crate::node::holds::key;
use crate::node::{Attempt, Node, NotBegun, OpenAttempt, Withdrawn};
use crate::node::{Exchange, Snapshot, tell_decided};
use crate::policy::{Effect, Policies};
use crate::ports::{LateAnswer, SendResult};
use crate::stations::admit::Admitted;
use crate::stations::check::{CallName, CheckFailure, CheckRefusal, Intent, check};
use crate::stations::claim::{AttemptSource, Claim, ClaimStatus, Earlier, Freeze, Owner, Settlement};
use crate::stations::decide::{Decision, Grounds, decide};
use crate::stations::forward::clear;
use crate::stations::reply::{self, Closed, Refusal, Reply, refused, refused_unclaimed, settled};
use crate::stations::settle::{CallIds, Doubt, Outcome};
use crate::telemetry::Station;

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The longest that `Prefer: wait` lets a caller wait for its outcome.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const FIRST_POLL: Duration = Duration::from_millis(20);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The most decisions on one call, each on corrected facts.
const DECISIONS: usize = 4;

/// The answer to a write, and upstream's share of the time.
#[derive(Debug)]
pub struct Submitted {
    pub reply: Reply,
    /// The body is upstream's own answer to an executed call, complete and not yet checked.
    pub unchecked: bool,
    pub upstream_time: Option<Duration>,
}

pub async fn submit(
    egress: &Egress,
    node: &Arc<Node>,
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
        Err(unfit) => return not_sent(unfit_answer(node, &operation, &asker, unfit).await),
    };
    if let Some(violation) = node.prefixes.violation(&intent) {
        let refusal = CheckRefusal::Violations(vec![violation]);
        let unfit = CheckFailure { refusal, named: intent.named().cloned() };
        return not_sent(unfit_answer(node, &operation, &asker, unfit).await);
    }
    let named = intent.name();

    let carried = carry(egress.clone(), node.clone(), snapshot.clone(), intent, headers.clone(), exchange.clone());
    match egress.sending.spawn_on(carried, &egress.runtime).await {
        Ok(Ok(Carried::Submitted(submitted))) => submitted,
        Ok(Ok(Carried::Held(id))) => {
            not_sent(claimed_answer(node, &operation, &asker, &named, ClaimStatus::Held(id)).await)
        }
        Ok(Err(refused)) => not_sent(not_begun_answer(node, &operation, &asker, &named, refused).await),
        Err(error) => {
            tracing::error!(environment = %egress.environment, %error, "the task of a write ended early; its outcome is unknown");
            not_sent(settled(&Outcome::Unknown(Doubt::Broken), &operation, None, Earlier::None))
        }
    }
}

/// The result of a write whose caller may have left.
enum Carried {
    Submitted(Submitted),
    /// The call waits for people.
    Held(HoldId),
}

/// Decides, commits, sends and settles: a write that has begun ends.
async fn carry(
    egress: Egress,
    node: Arc<Node>,
    snapshot: Arc<Snapshot>,
    intent: Intent,
    headers: HeaderMap,
    exchange: Exchange,
) -> Result<Carried, (NotBegun, Earlier)> {
    match decided(&egress, &node, &snapshot, intent, &headers, &exchange).await? {
        CommittedDecision::Begun(attempt) => {
            Ok(Carried::Submitted(carry_on(egress, node, *attempt, headers, exchange).await))
        }
        CommittedDecision::Held(id) => Ok(Carried::Held(id)),
        CommittedDecision::Refused(reply) => Ok(Carried::Submitted(not_sent(reply))),
    }
}

/// Sends and settles an attempt, for a caller that waits or for approved holds.
pub(super) async fn carry_on(
    egress: Egress,
    node: Arc<Node>,
    attempt: Attempt,
    headers: HeaderMap,
    exchange: Exchange,
) -> Submitted {
    let Attempt { recorded, settlement, open } = attempt;
    let intent = recorded.intent();
    let (operation, ids, asked) = (intent.operation().clone(), CallIds::of(intent), intent.movement().cloned());
    let (caller, earlier_are_proven) = (Owner::of(intent.caller()), recorded.earlier_are_proven());
    let cleared = clear(recorded);

    let since = Stopwatch::start();
    let forwarding = exchange.spans.enter(Station::Forward);
    let (SendResult { sent, late }, credential) =
        egress.send(cleared, &forwarding.headers(&headers), &exchange.id).await;
    drop(forwarding);
    let upstream_time = Some(since.elapsed());

    let call = SentCall { operation, ids, asked, earlier_are_proven, credential };
    let (outcome, reply) = call.outcome(&egress, &node, sent);
    let unchecked = matches!(outcome, Outcome::Executed { body: Some(_), .. });
    let settling = exchange.spans.enter(Station::Settle);
    call.settle(&egress, &node, &settlement, (&outcome, &reply)).await;
    drop(settling);
    if let Some(late) = late.filter(|_| matches!(outcome, Outcome::Unknown(_))) {
        let (late_answers, counts) = (egress.late_answers.clone(), (node.metrics.clone(), egress.environment));
        late_answers.wait_for(caller, counts, listen(call, (egress, node), settlement, open, late));
    }
    Submitted { unchecked, reply, upstream_time }
}

/// Waits for the late answer to a call whose outcome is unknown, and settles the call again if it proves anything.
async fn listen(
    call: SentCall,
    (egress, node): (Egress, Arc<Node>),
    settlement: Settlement,
    open: OpenAttempt,
    late: LateAnswer,
) {
    let sent = egress.hear(late, &call.credential).await;
    let (outcome, reply) = call.outcome(&egress, &node, sent);
    if matches!(outcome, Outcome::Unknown(_)) {
        return;
    }
    tracing::info!(
        attempt = settlement.attempt.as_u64(),
        environment = %egress.environment,
        "upstream's late answer settles a call whose outcome was unknown"
    );
    call.settle(&egress, &node, &settlement, (&outcome, &reply)).await;
    drop(open);
    node.changes.happened();
}

/// A committed decision.
#[derive(Debug)]
enum CommittedDecision {
    Begun(Box<Attempt>),
    Held(HoldId),
    Refused(Reply),
}

impl CommittedDecision {
    fn effect(&self) -> Effect {
        match self {
            CommittedDecision::Begun(_) => Effect::Allow,
            CommittedDecision::Held(_) => Effect::Hold,
            CommittedDecision::Refused(_) => Effect::Deny,
        }
    }
}

/// Decides, and commits the decision; again where the store corrects an assumed fact. A refusal says what is known of
/// earlier attempts.
async fn decided(
    egress: &Egress,
    node: &Arc<Node>,
    snapshot: &Arc<Snapshot>,
    mut intent: Intent,
    headers: &HeaderMap,
    exchange: &Exchange,
) -> Result<CommittedDecision, (NotBegun, Earlier)> {
    let (environment, operation) = (intent.environment(), intent.operation().clone());
    let (mut snapshot, mut again) = (snapshot.clone(), None);
    let mut facts = node.assumed_facts(&intent, &snapshot.policies);
    for _ in 0..DECISIONS {
        let deciding = exchange.spans.enter(Station::Decide);
        let decision = decide(intent, &snapshot.policies, &facts);
        drop(deciding);
        tell_decided(&exchange.id, &decision.grounds().verdict);
        node.metrics.decided(environment.as_str(), operation.id.as_str(), &decision.grounds().verdict);
        let compare = |intent: &Intent, grounds: &Grounds| {
            if let Some(candidate) = &snapshot.candidate {
                candidate.decide(intent, &facts, &grounds.verdict, &node.metrics);
            }
        };
        let again_from = again.as_ref().map(Absence::versioned);
        let earlier = again_from.map_or(Earlier::None, |here| here.value.earlier());
        let deciding = Deciding { egress, node, policies: &snapshot.policies, headers, exchange, again: again_from };
        match deciding.commit(decision, compare).await {
            Ok(done) => {
                node.metrics.tally().count(environment, done.effect(), node.clock.now());
                return Ok(done);
            }
            Err(Withdrawn { why: NotBegun::StaleFacts(learnt), intent: Some(back) }) => {
                node.learn(environment, &mut facts, learnt);
                intent = back;
            }
            Err(Withdrawn { why: NotBegun::Claimed(record, now), intent: Some(back) }) => {
                // The call was not executed, as upstream or two people said: it is decided on by today's rules, and may be sent again.
                match Absence::of(node, &back, &record).await {
                    Ok(Some(absence)) => again = Some(absence),
                    Ok(None) => return Err((NotBegun::Claimed(record, now), earlier)),
                    Err(_) => return Err((NotBegun::StoreAway, earlier)),
                }
                intent = back;
            }
            Err(Withdrawn { why: NotBegun::OtherSet, intent: Some(back) }) => {
                let now = node.activations.look_again(environment, &snapshot).await;
                let Some(now) = now else { return Err((NotBegun::OtherSet, earlier)) };
                (snapshot, intent) = (now, back);
                facts = node.assumed_facts(&intent, &snapshot.policies);
            }
            Err(Withdrawn { why: NotBegun::Raced | NotBegun::SaidExecuted, intent: Some(back) }) if again.is_some() => {
                again = None;
                intent = back;
            }
            Err(Withdrawn { why, .. }) => return Err((why, earlier)),
        }
    }
    tracing::error!(%environment, "the facts that decisions assumed changed again and again");
    Err((NotBegun::StoreAway, Earlier::None))
}

/// The parts that committing a decision needs.
struct Deciding<'d> {
    egress: &'d Egress,
    node: &'d Arc<Node>,
    policies: &'d Policies,
    headers: &'d HeaderMap,
    exchange: &'d Exchange,
    again: Option<Versioned<'d, Claim>>,
}

impl Deciding<'_> {
    /// Commits a decision: begins the attempt, makes the hold, or records the refusal. `compare` sees each decision that
    /// was committed.
    async fn commit(
        &self,
        decision: Decision,
        compare: impl Fn(&Intent, &Grounds),
    ) -> Result<CommittedDecision, Withdrawn> {
        let Deciding { egress, node, policies, headers, exchange, again } = self;
        if !matches!(decision, Decision::Allowed(_))
            && !node.activations.is_in_force(decision.intent().environment(), policies.version())
        {
            return Err(node.withdrawn(decision.into_intent(), again.is_none(), NotBegun::OtherSet).await);
        }
        match decision {
            Decision::Allowed(allowed) => {
                let from = again.map_or(AttemptSource::Nothing, AttemptSource::Again);
                let attempt = node.begin(allowed, exchange, from).await?;
                compare(attempt.recorded.intent(), attempt.recorded.grounds());
                Ok(CommittedDecision::Begun(Box::new(attempt)))
            }
            Decision::Held(held) => {
                let committing = exchange.spans.enter(Station::Commit);
                let done = if egress.credential.is_injected() {
                    node.hold(&held, policies, headers, &exchange.id, *again).await.map(CommittedDecision::Held)
                } else {
                    // The gate has no credential of its own, and the caller's token is no longer there when people have approved.
                    let refused = node.refuse(held.intent(), held.grounds(), &exchange.id, *again).await;
                    refused.map(|earlier| {
                        CommittedDecision::Refused(reply::not_held(&held, held.intent().operation(), earlier))
                    })
                };
                drop(committing);
                match done {
                    Ok(done) => {
                        compare(held.intent(), held.grounds());
                        Ok(done)
                    }
                    Err(why) => Err(Withdrawn { why, intent: Some(held.into_intent()) }),
                }
            }
            Decision::Denied(denied) => {
                let committing = exchange.spans.enter(Station::Commit);
                let refused = node.refuse(denied.intent(), denied.grounds(), &exchange.id, *again).await;
                drop(committing);
                match refused {
                    Ok(earlier) => {
                        compare(denied.intent(), denied.grounds());
                        let reply = reply::denied(&denied, denied.intent().operation(), earlier);
                        Ok(CommittedDecision::Refused(reply))
                    }
                    Err(why) => Err(Withdrawn { why, intent: Some(denied.into_intent()) }),
                }
            }
        }
    }
}

/// The caller, and how long it waits for an outcome.
struct Asker {
    owner: Owner,
    patience: Duration,
    snapshot: Arc<Snapshot>,
    environment: Environment,
    /// Its issuer chose `holds = "refuse"`.
    refuses_holds: bool,
}

/// Answers a call that violates the contract. If its requestId was used already, the claim is answered instead.
async fn unfit_answer(node: &Arc<Node>, operation: &Operation, asker: &Asker, unfit: CheckFailure) -> Reply {
    let refusal = Refusal::Check(unfit.refusal);
    let Some(named) = unfit.named else { return refused(&refusal, Some(operation)) };
    match node.claim_status(&named, &asker.owner).await {
        // A call that was not executed may be corrected only under another requestId: this one belongs to its attempts.
        Ok(Some(ClaimStatus::Absent(earlier))) => refused_unclaimed(&refusal, operation, earlier),
        Ok(Some(said)) => claimed_answer(node, operation, asker, &named, said).await,
        Ok(None) => match standing(node, named.key.environment, Freeze::Restored).await {
            Ok(None) => refused_unclaimed(&refusal, operation, Earlier::None),
            // A claim that the store does not know may be one that it forgot.
            Ok(Some(_)) => refused(&refusal, Some(operation)),
            Err(_) => reply::closed(Closed::Store, operation),
        },
        Err(_) => reply::closed(Closed::Store, operation),
    }
}

async fn not_begun_answer(
    node: &Arc<Node>,
    operation: &Operation,
    asker: &Asker,
    named: &CallName,
    (why, earlier): (NotBegun, Earlier),
) -> Reply {
    match node.told_first(named, (why, earlier)).await {
        NotBegun::Claimed(record, now) => match node.claim_status_of(&record, named, &asker.owner, now).await {
            Ok(said) => claimed_answer(node, operation, asker, named, said).await,
            Err(_) => reply::closed(Closed::Store, operation),
        },
        NotBegun::StoreAway | NotBegun::Raced | NotBegun::SaidExecuted | NotBegun::StaleFacts(_) => {
            reply::closed(Closed::Store, operation)
        }
        NotBegun::OtherSet => reply::closed(Closed::Policies, operation),
        NotBegun::AuditAway => reply::closed(Closed::Audit(earlier), operation),
        NotBegun::Frozen => reply::closed(Closed::Frozen(earlier), operation),
        NotBegun::ClockDoubted => reply::closed(Closed::Clock(earlier), operation),
        NotBegun::Forgotten => reply::closed(Closed::Forgotten, operation),
        NotBegun::NoRoomForRefusal => reply::closed(Closed::Refusals(earlier), operation),
        NotBegun::NoPlaceForHold(full) => reply::closed(Closed::Holds(full, earlier), operation),
    }
}

/// Answers by the claim. While the call is held or being sent, a patient asker waits for the outcome.
async fn claimed_answer(
    node: &Arc<Node>,
    operation: &Operation,
    asker: &Asker,
    named: &CallName,
    mut said: ClaimStatus,
) -> Reply {
    node.metrics.claim_met(named.key.environment.as_str(), said.as_str());
    let until = node.clock.elapsed().saturating_add(asker.patience);
    let mut pause = FIRST_POLL;
    while matches!(said, ClaimStatus::InProgress | ClaimStatus::Held(_)) {
        let left = until.saturating_sub(node.clock.elapsed());
        if left.is_zero() || *node.stopping.borrow() {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(pause.min(left)) => {}
            () = node.stopped() => {}
        }
        pause = pause.saturating_mul(2).min(POLL_INTERVAL);
        match node.claim_status(named, &asker.owner).await {
            Ok(Some(now)) => said = now,
            // The requestId is free again: the caller may send it again.
            Ok(None) => break,
            Err(_) => return reply::closed(Closed::Store, operation),
        }
    }
    let ClaimStatus::Held(id) = &said else { return reply::claimed(said, operation) };
    match node.waiting(&key(asker.environment, id), &asker.snapshot, asker.refuses_holds).await {
        Ok(Some(reply)) => reply,
        Ok(None) => reply::claimed(said, operation),
        Err(_) => reply::closed(Closed::Store, operation),
    }
}

/// The seconds of `Prefer: wait=N` (RFC 7240).
fn patience(headers: &HeaderMap) -> Duration {
    let wait = headers.get_all(PREFER).iter().find_map(|h| h.to_str().ok()?.split(',').find_map(wait_secs));
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
