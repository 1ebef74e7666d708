//! Acts of operators on calls with an unknown outcome.
//!
//! One function for each act, whichever way it comes. Each act is one commit with its audit entry.

use bytes::Bytes;
use serde_json::Value;

use super::Node;
use super::retry::Retry;
use super::sign_act;
use super::sign_act::{SaidWord, UnsignedAct};
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::ledger::{Commit, Index, Kind, Record, RecordKey, Step, StoreFault, Versioned};
use crate::people::joint_act::{
    FirstSignature, JointAct, JointStep, PersonWord, attempt_key, taken_back, waiting_people,
};
use crate::people::signed_act::{ActTerms, PersonAct, SignedAct};
use crate::policy::Policies;
use crate::stations::claim::{
    self, Claim, ClaimState, JointWord, RecordMismatch, ResolveRefusal, SentRequest, StoredAnswer, is_record_of,
};

/// The most claims of a state that are sorted for a list.
const MAX_CLAIMS: usize = 10_000;

/// Whether an act takes two people there. The sandbox holds nothing of value.
pub(super) fn takes_two(environment: Environment) -> bool {
    environment == Environment::Production
}

/// Returns the entry of a commit with the signatures of those whose act it is.
pub(super) fn with_signatures(commit: &Commit, signed: Option<&SignedAct>) -> Bytes {
    match signed {
        None => commit.entry.clone(),
        Some(signed) => Entry::again(&commit.entry).with("signed", signed).to_bytes(),
    }
}

/// Returns the claims of an index that follow a name, in the order of their names, at most `count`, and whether there
/// are more. A call that has left the index since its names were read is left out.
pub async fn claims(
    node: &Node,
    environment: Environment,
    index: Index,
    after: Option<&str>,
    count: usize,
) -> Result<(Vec<(RecordKey, Record, Claim)>, bool), StoreFault> {
    let due = node.store.due(environment, index, None, MAX_CLAIMS).await?;
    let mut names: Vec<String> = due.into_iter().map(|(_, name)| name).collect();
    names.sort_unstable();
    let mut left = names.into_iter().filter(|name| after.is_none_or(|after| name.as_str() > after));
    let mut found = Vec::new();
    while found.len() < count {
        let Some(name) = left.next() else { break };
        let key = RecordKey { environment, kind: Kind::Claim, name };
        match node.find(&key).await {
            Ok(Some((record, claim))) if claim.state.index() == Some(index) => found.push((key, record, claim)),
            Ok(_) => {}
            // A record that this version cannot read does not hide the others.
            Err(fault @ StoreFault::Broken(_)) => node.told_of(&fault),
            Err(fault) => return Err(fault),
        }
    }
    Ok((found, left.next().is_some()))
}

/// The outcome of a call according to a person.
#[derive(Clone, Debug)]
pub enum Resolution<'w> {
    /// Executed, with the record of upstream that shows it; in production two people must show it.
    Executed(&'w Value),
    /// An act that takes two people.
    Joint(JointWord),
}

/// The result of a person's resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    Executed,
    /// A second person must confirm it; until then the call is in this state.
    SaidOnce(&'static str),
    /// Two people have said so: the caller may send it again.
    Absent,
    /// Two people have said so: it is never sent again.
    Abandoned,
}

/// The reasons why a resolution has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    NoSuchClaim,
    /// The state that the claim has instead.
    NotInDoubt(&'static str),
    Refused(ResolveRefusal),
    NotItsRecord(RecordMismatch),
    Unsigned(UnsignedAct),
}

impl From<StoreFault> for Unresolved {
    fn from(fault: StoreFault) -> Unresolved {
        Unresolved::Unsigned(UnsignedAct::Store(fault))
    }
}

impl From<UnsignedAct> for Unresolved {
    fn from(unsigned: UnsignedAct) -> Unresolved {
        Unresolved::Unsigned(unsigned)
    }
}

/// Returns the act of a person's word on a call as it stands.
pub async fn resolving(
    node: &Node,
    catalog: &Catalog,
    key: &RecordKey,
    word: Resolution<'_>,
) -> Result<PersonAct, Unresolved> {
    let Some((_, claim)) = node.find(key).await? else { return Err(Unresolved::NoSuchClaim) };
    let not_in_doubt = Unresolved::NotInDoubt(claim.state.as_str());
    match word {
        Resolution::Joint(word) => {
            let past = claim.in_doubt().ok_or(not_in_doubt)?;
            Ok(PersonAct::on_attempt(word, key, past.number))
        }
        Resolution::Executed(shown) => {
            let made = claim.made_of(catalog, shown).map_err(Unresolved::NotItsRecord)?;
            let attempt = claim::shown_attempt_of(&claim, made).ok_or(not_in_doubt)?;
            let body = StoredAnswer::of_record(shown).body;
            Ok(JointAct::show(key, attempt, &body, Entry::of(EntryKind::SaidExecuted)).act)
        }
    }
}

pub async fn resolve(
    node: &Node,
    (catalog, policies): (&Catalog, &Policies),
    key: &RecordKey,
    said: SaidWord<'_>,
    word: Resolution<'_>,
) -> Result<Resolved, Unresolved> {
    let person = said.person;
    let mut retry = Retry::default();
    loop {
        let Some((record, claim)) = node.find(key).await? else { return Err(Unresolved::NoSuchClaim) };
        // An owner of a service asked for what it asked for.
        if claim.askers().any(|one| node.owners.owns(&one, person)) {
            return Err(Unresolved::Refused(ResolveRefusal::Owner));
        }
        let here = Versioned { key, version: record.version, at: record.at, value: &claim };
        let (commit, resolved) = match word {
            Resolution::Joint(word) => say_jointly(node, policies, here, said, word).await?,
            Resolution::Executed(shown) => say_executed(node, (catalog, policies), here, said, shown).await?,
        };
        if node.commit_lasting_act(person, commit).await?.is_some() {
            node.metrics.claim_settled(key.environment.as_str(), word_of(resolved));
            return Ok(resolved);
        }
        retry.conflict().await?;
    }
}

/// A person says that a call was not executed, or that nobody will know.
async fn say_jointly(
    node: &Node,
    policies: &Policies,
    here: Versioned<'_, Claim>,
    said: SaidWord<'_>,
    word: JointWord,
) -> Result<(Commit, Resolved), Unresolved> {
    let (environment, SaidWord { person, reason, .. }) = (here.key.environment, said);
    let now = node.time().await?;
    let past = here.value.in_doubt().ok_or(Unresolved::NotInDoubt(here.value.state.as_str()))?;
    let news = node.sender_news(environment, &past.sender).await?;
    let executed = claim::executed_key(here.key);
    let (words, read_at) = node.store.read(&executed).await?;
    let people = waiting_people(words.as_ref(), read_at);
    if let Some(other) = people.iter().find(|one| !one.is_same_person(person)) {
        return Err(Unresolved::Refused(ResolveRefusal::SaidExecuted(other.clone())));
    }
    let taken_back = words.filter(|_| !people.is_empty()).map(|words| taken_back(executed, &words, read_at, person));
    let act = PersonAct::on_attempt(word, here.key, past.number);
    let terms = ActTerms { environment, act: &act, signing: policies.rules.signing.as_ref() };
    let (signed, used) = sign_act::take(node, terms, policies.version(), said).await?;
    let first_key = attempt_key(act.kind(), here.key, past.number);
    let (before, read_at) = node.store.read(&first_key).await?;
    let before = (before.as_ref(), read_at);
    let first = FirstSignature::read(first_key, before, terms);
    let mut claim = here.value.clone();
    if terms.must_be_signed() {
        // A first word counts by its signature alone.
        claim.forget_word_unless(word, |one| first.is_of(one));
    }
    let here = Versioned { value: &claim, ..here };
    let (mut commit, next) = claim::say_jointly(here, word, (person, reason), (now, &news), &node.id, &node.terms)
        .map_err(Unresolved::Refused)?;
    let (by, step) = first.with(before, (person, signed), next.is_some());
    commit.steps.extend(step.into_iter().chain(used).chain(taken_back));
    let both = SignedAct::of(environment, &act, by.into_iter().map(Some));
    commit.entry = with_signatures(&commit, both.as_ref());
    let resolved = match (next, word) {
        (None, _) => Resolved::SaidOnce(here.value.state.as_str()),
        (Some(_), JointWord::Absent) => Resolved::Absent,
        (Some(_), JointWord::Abandoned) => Resolved::Abandoned,
    };
    Ok((commit, resolved))
}

/// A person shows upstream's record of a call.
async fn say_executed(
    node: &Node,
    (catalog, policies): (&Catalog, &Policies),
    here: Versioned<'_, Claim>,
    said: SaidWord<'_>,
    shown: &Value,
) -> Result<(Commit, Resolved), Unresolved> {
    let (key, claim, SaidWord { person, reason, .. }) = (here.key, here.value, said);
    let not_in_doubt = Unresolved::NotInDoubt(claim.state.as_str());
    let forgotten = SentRequest::forgotten();
    let sent = match &claim.state {
        ClaimState::Unknown { sent, .. } => sent,
        _ => &forgotten,
    };
    if let (Some(operation), Some(id)) = (catalog.operation(&claim.operation), &claim.request_id) {
        is_record_of(operation, id.as_str(), sent, shown).map_err(Unresolved::NotItsRecord)?;
    }
    let made = claim.made_of(catalog, shown).map_err(Unresolved::NotItsRecord)?;
    let answer = StoredAnswer::of_record(shown);
    let refused = |refusal| match refusal {
        ResolveRefusal::NotInDoubt => not_in_doubt.clone(),
        refusal => Unresolved::Refused(refusal),
    };
    let (attempt, entry) = claim::shown_attempt(here, made, person).map_err(refused)?;
    let (joint, used) = if takes_two(key.environment) {
        let joint = JointAct::show(key, attempt, &answer.body, entry);
        let (act, signing) = (joint.act.clone(), policies.rules.signing.as_ref());
        let terms = ActTerms { environment: key.environment, act: &act, signing };
        let (signed, used) = sign_act::take(node, terms, policies.version(), said).await?;
        let (before, now) = node.store.read(joint.key()).await?;
        let as_it_stands = || Step::Version { key: key.clone(), version: here.version };
        let guards = vec![claim::without_words_of(here, person).unwrap_or_else(as_it_stands)];
        let word = PersonWord { person, reason, signed };
        (joint.say((before.as_ref(), now), word, terms, guards, &node.id), used)
    } else {
        (JointStep::Second { first: person.clone(), signed: None, steps: Vec::new() }, Vec::new())
    };
    match joint {
        JointStep::SaidAlready => Err(Unresolved::Refused(ResolveRefusal::SaidAlready)),
        JointStep::First(mut commit) => {
            commit.steps.extend(used);
            Ok((commit, Resolved::SaidOnce(claim.state.as_str())))
        }
        JointStep::Second { first, signed, steps } => {
            let mut people = vec![first.to_string(), person.to_string()];
            people.dedup();
            let by = (people.as_slice(), reason);
            let settled = claim::say_executed(here, attempt, by, answer, &node.id, &node.terms);
            let mut commit = settled.map_err(refused)?;
            commit.steps.extend(steps.into_iter().chain(used));
            if claim.state == ClaimState::Held {
                commit.steps.extend(node.overtaken(key.environment, claim).await?);
            }
            commit.entry = with_signatures(&commit, signed.as_ref());
            Ok((commit, Resolved::Executed))
        }
    }
}

fn word_of(resolved: Resolved) -> &'static str {
    match resolved {
        Resolved::Executed => "said-executed",
        Resolved::SaidOnce(_) => "said-once",
        Resolved::Absent => "shown-absent",
        Resolved::Abandoned => "abandoned",
    }
}
