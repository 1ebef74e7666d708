//! Judges one listed record: moves its payment forward, or raises an alert.

use std::time::Duration;

use super::PaymentFollower;
use crate::catalog::{Follow, Movement, Operation, StateMeaning};
use crate::journey::foreign_payment::{log_full_list, room_in_list};
use crate::ledger::{Commit, Content, Keep, Kind, Number, Record, RecordKey, StoreFault, Versioned};
use crate::node::Snapshot;
use crate::stations::check::claim_name;
use crate::stations::claim::{self, Claim, ClaimEvent, Settlement, StoredAnswer};
use crate::stations::follow::{
    Baseline, ClaimVerdict, FollowChange, FollowedPayment, ListedRecord, RecordProblem, Sighting, advance, begin,
    decode_followed, followed_key, foreign, foreign_key, foreign_name, problem_beside, problem_of, proved_by_second,
    second_record, shown_value, verdict_on,
};

/// The most foreign records of one reading that are stored; all are counted.
const MAX_FOREIGN: usize = 256;

/// The claims and payments by which records are judged.
pub(super) struct RecordBook<'f> {
    with: &'f PaymentFollower,
    snapshot: &'f Snapshot,
    operation: &'f Operation,
    follow: &'f Follow,
    baseline: Baseline,
    /// How many more foreign records may be stored; `None` before the first.
    room: Option<usize>,
}

impl<'f> RecordBook<'f> {
    pub fn new(
        with: &'f PaymentFollower,
        snapshot: &'f Snapshot,
        operation: &'f Operation,
        follow: &'f Follow,
        baseline: &Baseline,
    ) -> RecordBook<'f> {
        RecordBook { with, snapshot, operation, follow, baseline: baseline.clone(), room: None }
    }

    /// Judges a record, and returns whether nothing is left to do until it changes.
    pub async fn judge(&mut self, record: &ListedRecord) -> Result<bool, StoreFault> {
        if self.follow.rank(&record.state).is_none() {
            self.with.node.metrics.listed_unreadable(
                self.with.egress.environment.as_str(),
                self.operation.id.as_str(),
                1,
            );
            tracing::warn!(
                environment = %self.with.egress.environment,
                record = record.id,
                state = record.state,
                "upstream lists a state that the contract does not: the payment stays in its last known state"
            );
        }
        match self.judge_known(record).await {
            Ok(judged) => Ok(judged),
            // A record that cannot be read does not stop the others.
            Err(fault @ StoreFault::Broken(_)) => {
                self.with.node.told_of(&fault);
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    async fn judge_known(&mut self, record: &ListedRecord) -> Result<bool, StoreFault> {
        let Some(request_id) = &record.request_id else { return self.judge_unknown(record).await };
        let environment = self.with.egress.environment;
        let name = claim_name(request_id);
        if let Some((stored, payment)) = self.followed(&name).await? {
            if payment.operation != self.operation.id {
                return self.raise(RecordProblem::SecondRecord, record).await;
            }
            if payment.id != record.id {
                let (key, stored) = self.claim(name).await?;
                return self.judge_second(&key, stored.as_ref(), record).await;
            }
            let key = followed_key(environment, &name);
            let here = Versioned { key: &key, version: stored.version, at: stored.at, value: &payment };
            let seen = self.sighting_of_payment(record, payment.asked.as_ref()).await?;
            return match advance(here, &seen) {
                None => Ok(true),
                Some((commit, change)) => self.commit(commit, &change, record).await,
            };
        }
        let (key, stored) = self.claim(name).await?;
        let Some(stored) = stored else { return self.judge_unknown(record).await };
        // Its end is not kept any more.
        let Content::Whole(bytes) = &stored.content else { return Ok(true) };
        let claim = claim::decode_claim(bytes).map_err(|why| StoreFault::Broken(why.to_string()))?;
        if claim.operation != self.operation.id {
            return self.raise(RecordProblem::NeverSent, record).await;
        }
        let seen = self.sighting_of_payment(record, claim.moves.as_ref()).await?;
        match verdict_on(&claim, &seen) {
            ClaimVerdict::Later => Ok(false),
            ClaimVerdict::Nothing => Ok(true),
            ClaimVerdict::Foreign(problem) => self.raise(problem, record).await,
            ClaimVerdict::Second => self.judge_second(&key, Some(&stored), record).await,
            ClaimVerdict::Proves(attempt) => {
                self.prove(&key, attempt, &stored, claim, record).await;
                // The next reading follows it.
                Ok(false)
            }
            ClaimVerdict::Follow => {
                let here = Versioned { key: &key, version: stored.version, at: stored.at, value: &claim };
                match begin(here, &seen) {
                    None => Ok(true),
                    Some((commit, change)) => self.commit(commit, &change, record).await,
                }
            }
        }
    }

    /// Judges a record beside the one of the payment: it may be an earlier attempt of which people said that nothing happened.
    /// One record proves one attempt, so the proof and the note of the record are one commit.
    async fn judge_second(
        &mut self,
        key: &RecordKey,
        stored: Option<&Record>,
        record: &ListedRecord,
    ) -> Result<bool, StoreFault> {
        let claim = match stored.map(|stored| (stored, &stored.content)) {
            Some((stored, Content::Whole(bytes))) => {
                Some((stored, claim::decode_claim(bytes).map_err(|why| StoreFault::Broken(why.to_string()))?))
            }
            Some((_, Content::Spent)) | None => None,
        };
        let (node, problem) = (&self.with.node, problem_beside(claim.as_ref().map(|(_, claim)| claim), record));
        if self.is_listed(problem, record).await? {
            return Ok(true);
        }
        if let Some((stored, claim)) = claim {
            let seen = self.sighting(record, claim.moves.as_ref());
            if let Some(attempt) = proved_by_second(&claim, &seen) {
                let answer = StoredAnswer::of_record(&record.record);
                let is_proved = node.prove_with(key, attempt, (stored, claim), answer, second_record(&seen)).await?;
                if is_proved {
                    self.tell_problem(problem, record);
                }
                // Where the claim changed meanwhile, the next reading decides.
                return Ok(is_proved);
            }
        }
        self.raise(problem, record).await
    }

    async fn claim(&self, name: String) -> Result<(RecordKey, Option<Record>), StoreFault> {
        let key = RecordKey { environment: self.with.egress.environment, kind: Kind::Claim, name };
        let (stored, _) = self.with.node.store.read(&key).await?;
        Ok((key, stored))
    }

    /// Judges a record that no claim explains.
    async fn judge_unknown(&mut self, record: &ListedRecord) -> Result<bool, StoreFault> {
        if record.is_upstreams || self.baseline.contains(&record.id, record.created) {
            return Ok(true);
        }
        self.raise(RecordProblem::UnknownRequest, record).await
    }

    /// Settles an attempt of which a record proves that it was executed, whatever was said of it.
    async fn prove(&self, key: &RecordKey, attempt: Number, stored: &Record, claim: Claim, record: &ListedRecord) {
        tracing::error!(
            environment = %self.with.egress.environment,
            attempt = attempt.as_u64(),
            record = record.id,
            "upstream lists a payment of which its claim says that it was not executed: it was, and counts in its limits"
        );
        let settlement = Settlement::of_claim(key.clone(), attempt, stored, claim);
        let answer = StoredAnswer::of_record(&record.record);
        self.with.node.settle(&settlement, ClaimEvent::Found(answer)).await;
    }

    /// Stores a foreign record and raises the alert, once.
    pub async fn raise(&mut self, problem: RecordProblem, record: &ListedRecord) -> Result<bool, StoreFault> {
        let (node, environment) = (&self.with.node, self.with.egress.environment);
        if self.is_listed(problem, record).await? {
            return Ok(true);
        }
        let room = match self.room {
            Some(room) => room,
            None => room_in_list(node, environment).await?.min(MAX_FOREIGN),
        };
        self.room = Some(room.saturating_sub(1));
        self.tell_problem(problem, record);
        if room == 0 {
            log_full_list(environment, &record.id);
            return Ok(true);
        }
        let found = record.as_foreign(&self.operation.id, problem);
        // Another gate may have stored it meanwhile.
        let keep = Keep::For { whole: self.with.pace.keep, spent: Duration::ZERO };
        Ok(node.commit(foreign(environment, &found, keep, &node.id)).await?.is_some())
    }

    async fn is_listed(&self, problem: RecordProblem, record: &ListedRecord) -> Result<bool, StoreFault> {
        let name = foreign_name(&self.operation.id, &record.id, problem);
        let (stored, _) = self.with.node.store.read(&foreign_key(self.with.egress.environment, &name)).await?;
        Ok(stored.is_some())
    }

    /// A sighting of a payment of this installation, of which the answer to its call may have told people.
    async fn sighting_of_payment<'s>(
        &'s self,
        record: &'s ListedRecord,
        asked: Option<&Movement>,
    ) -> Result<Sighting<'s>, StoreFault> {
        let is_told = match asked.and_then(|asked| problem_of(asked, &record.moves)) {
            Some(problem) => self.is_listed(problem, record).await?,
            None => false,
        };
        Ok(Sighting { is_told, ..self.sighting(record, asked) })
    }

    fn tell_problem(&self, problem: RecordProblem, record: &ListedRecord) {
        let (environment, operation) = (self.with.egress.environment.as_str(), self.operation.id.as_str());
        self.with.node.metrics.foreign(environment, operation, problem.as_str());
        tracing::error!(
            environment,
            operation,
            record = record.id,
            problem = problem.as_str(),
            "upstream lists a payment that is not one of this installation, or not as it was sent: {}; find out who made it",
            problem.in_words()
        );
    }

    async fn commit(&self, commit: Commit, change: &FollowChange, record: &ListedRecord) -> Result<bool, StoreFault> {
        let (node, environment) = (&self.with.node, self.with.egress.environment.as_str());
        if node.commit(commit).await?.is_none() {
            // Somebody else changed it meanwhile: the next reading decides.
            return Ok(false);
        }
        let operation = self.operation.id.as_str();
        if let Some((state, meaning)) = &change.moved {
            node.metrics.followed(environment, operation, state, meaning.as_str());
            if matches!(meaning, StateMeaning::Failed | StateMeaning::Returned) {
                tracing::warn!(environment, operation, record = record.id, state, "a payment failed or came back");
            }
        }
        if let Some(problem) = change.problem {
            self.tell_problem(problem, record);
        }
        Ok(true)
    }

    fn sighting<'s>(&'s self, record: &'s ListedRecord, asked: Option<&Movement>) -> Sighting<'s> {
        let now = self.with.node.clock.now().as_second();
        let valuation = &self.snapshot.policies.rules.valuation;
        Sighting {
            environment: self.with.egress.environment,
            operation: &self.operation.id,
            follow: self.follow,
            record,
            value: asked.and_then(|asked| shown_value(asked, &record.moves, valuation, now)),
            rules: &self.snapshot.policies.rules,
            is_told: false,
            node: &self.with.node.id,
            keep: self.with.pace.keep,
        }
    }

    async fn followed(&self, claim: &str) -> Result<Option<(Record, FollowedPayment)>, StoreFault> {
        let (record, _) = self.with.node.store.read(&followed_key(self.with.egress.environment, claim)).await?;
        let Some(record) = record else { return Ok(None) };
        let Content::Whole(bytes) = &record.content else { return Ok(None) };
        let payment = decode_followed(bytes).map_err(|why| StoreFault::Broken(why.to_string()))?;
        Ok(Some((record, payment)))
    }
}
