//! What people say of a call that waits: one function, whoever asks for it and by whatever way.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Books;
use super::books::TRIES;
use super::operate::changing;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId};
use crate::catalog::Catalog;
use crate::commit::{Record, RecordKey, StoreFault, StoreTime};
use crate::policy::{Policies, Progress};
use crate::stations::check::Intent;
use crate::stations::claim::{Decline, Declined, Owner};
use crate::stations::decide::{decide, progress};
use crate::stations::hold::{self, Hearing, Here, Hold, Note, Say, StandIns, Unheard, Vote, may_say, read_again};

/// What a person says, and of which bytes.
#[derive(Clone, Copy, Debug)]
pub struct Said<'s> {
    pub say: Say,
    pub person: &'s Owner,
    pub seen: Option<Fingerprint>,
    /// A comment, or the reason of a rejection.
    pub text: Option<&'s str>,
}

/// Why nothing came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsaid {
    NoSuchHold,
    Unheard(Unheard),
    Store(StoreFault),
}

impl From<StoreFault> for Unsaid {
    fn from(fault: StoreFault) -> Unsaid {
        Unsaid::Store(fault)
    }
}

/// `false`: it was so already.
pub async fn say(
    books: &Arc<Books>,
    catalog: &Catalog,
    policies: &Policies,
    key: &RecordKey,
    said: Said<'_>,
) -> Result<bool, Unsaid> {
    for _ in 0..TRIES {
        let (stand_ins, now) = books.stand_ins(key.environment).await?;
        let Some((record, hold)) = books.find_hold(key).await? else { return Err(Unsaid::NoSuchHold) };
        let here = Here { key, version: record.version, at: record.at, hold: &hold };
        let intent = read_again(catalog, key.environment, &hold);
        let asked = asked_now(books, policies, &hold, intent.as_ref());
        let hearing = books.hearing(policies, &stand_ins, now);
        may_say((&hold, record.at), said.say, said.person, said.seen, &asked, &hearing).map_err(Unsaid::Unheard)?;
        let has_agreed = hold.votes.iter().any(|vote| vote.person.subject == said.person.subject);
        let text = said.text.map(str::to_owned);
        let is_done = match said.say {
            Say::Approve => {
                let vote = Vote { person: said.person.clone(), comment: text, at: now };
                match approve(books, policies, here, vote, asked, &hearing).await? {
                    Some(is_done) => is_done,
                    None => return Ok(false),
                }
            }
            Say::Withdraw if !has_agreed => return Ok(false),
            Say::Withdraw => match hold::withdraw(here, said.person, &books.node) {
                Some(commit) => books.commit(commit).await?.is_some(),
                None => return Err(Unsaid::Unheard(Unheard::Over(hold.state.as_str()))),
            },
            Say::Comment => {
                let note = Note { person: said.person.clone(), text: text.unwrap_or_default(), at: now };
                books.commit(hold::note(here, note, &books.node)).await?.is_some()
            }
            Say::Reject => {
                let note = Note { person: said.person.clone(), text: text.clone().unwrap_or_default(), at: now };
                books.decline(here, Declined { how: Decline::Rejected, reason: text }, Some(note)).await?
            }
        };
        if is_done {
            if said.say != Say::Reject {
                books.metrics.hold(key.environment.as_str(), word(said.say));
            }
            books.changes.happened();
            return Ok(true);
        }
    }
    Err(Unsaid::Store(changing()))
}

/// `None`: they had agreed before, and nothing comes of it. Who is a member again, and says it again, may complete it.
async fn approve(
    books: &Books,
    policies: &Policies,
    here: Here<'_>,
    vote: Vote,
    asked: BTreeSet<Arc<str>>,
    hearing: &Hearing<'_>,
) -> Result<Option<bool>, StoreFault> {
    let mut with = here.hold.clone();
    with.votes.retain(|before| before.person.subject != vote.person.subject);
    let has_agreed = with.votes.len() < here.hold.votes.len();
    with.votes.push(vote.clone());
    let progress = progress(here.hold.fingerprint, &asked, policies, &with.consent(hearing));
    let complete = progress.iter().all(Progress::is_reached) && here.hold.state == hold::State::Pending;
    if has_agreed && !complete {
        return Ok(None);
    }
    let voters = with.votes.iter().map(|vote| &vote.person);
    let guards = hearing.stand_ins.guards(here.key.environment, voters, hearing.now);
    let voice = hearing.voice(here.hold, &vote.person);
    let mut commit = hold::vote(here, vote, voice, complete, asked, &books.node);
    commit.steps.extend(guards);
    Ok(Some(books.commit(commit).await?.is_some()))
}

/// The approvals that it takes: those that were asked for before, as far as there still are such, and those that today's
/// rules ask for.
pub fn asked_now(books: &Books, policies: &Policies, hold: &Hold, intent: Option<&Intent>) -> BTreeSet<Arc<str>> {
    let today = intent.map(|intent| {
        let decision = decide(intent, policies, &books.facts(intent, policies));
        decision.grounds().verdict.approvals.clone()
    });
    let before = hold.asked.iter().filter(|name| policies.rules.approvals.contains_key(*name)).cloned();
    before.chain(today.unwrap_or_default()).collect()
}

/// How far people have come with the approvals that were asked for.
pub async fn progress_of(
    books: &Books,
    environment: Environment,
    hold: &Hold,
    policies: &Policies,
) -> Result<Vec<Progress>, StoreFault> {
    let (stand_ins, now) = books.stand_ins(environment).await?;
    let consent = hold.consent(&books.hearing(policies, &stand_ins, now));
    Ok(progress(hold.fingerprint, &hold.asked, policies, &consent))
}

impl Books {
    /// Who stands in for whom, and the store's time at which that was so.
    pub async fn stand_ins(&self, environment: Environment) -> Result<(StandIns, StoreTime), StoreFault> {
        let (record, now) = self.store.read(&StandIns::key(environment)).await?;
        self.heard.time(now, self.clock.elapsed());
        let stand_ins = StandIns::read(record.as_ref());
        Ok((stand_ins.map_err(|unreadable| self.unreadable(&unreadable))?, now))
    }

    pub fn hearing<'h>(&'h self, policies: &'h Policies, stand_ins: &'h StandIns, now: StoreTime) -> Hearing<'h> {
        Hearing { rules: &policies.rules, owners: &self.owners, stand_ins, now }
    }
}

/// The hold of this name in one of these environments.
pub async fn find(
    books: &Books,
    environments: &[Environment],
    id: &HoldId,
) -> Result<Option<(RecordKey, Record, Hold)>, StoreFault> {
    for environment in environments {
        let key = super::holds::key(*environment, id);
        if let Some((record, hold)) = books.find_hold(&key).await? {
            return Ok(Some((key, record, hold)));
        }
    }
    Ok(None)
}

fn word(say: Say) -> &'static str {
    match say {
        Say::Approve => "voted",
        Say::Withdraw => "withdrawn",
        Say::Reject => "rejected",
        Say::Comment => "noted",
    }
}
