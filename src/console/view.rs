//! A hold as people see it: how far it has come, what they may say of it, what it would do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::person::{Person, Role};
use super::policies::standing;
use super::told;
use crate::base::ids::Environment;
use crate::commit::{Record, RecordKey, StoreFault, StoreTime};
use crate::gateway::Inside;
use crate::journey::Snapshot;
use crate::journey::approve::asked_now;
use crate::journey::explain::{self, Outlook};
use crate::policy::{Limit, Progress, Reservation};
use crate::stations::check::Intent;
use crate::stations::claim::Owner;
use crate::stations::decide::progress;
use crate::stations::hold::{
    Hearing, Hold, Say, StandIns, State, Stuck, Vote, in_words, may_say, member_of, read_again,
};

/// By what a person sees holds: one set of policies, and in each environment one time and whoever stands in for whom.
pub(super) struct Look<'l> {
    inside: &'l Inside,
    person: &'l Person,
    snapshot: Arc<Snapshot>,
    stand_ins: BTreeMap<Environment, (StandIns, StoreTime)>,
}

/// One hold, looked at.
pub(super) struct Seen<'s> {
    pub hold: &'s Hold,
    key: &'s RecordKey,
    record: &'s Record,
    hearing: Hearing<'s>,
    intent: Option<Intent>,
    asked: BTreeSet<Arc<str>>,
    progress: Vec<Progress>,
    stuck: Option<Stuck>,
}

impl<'l> Look<'l> {
    pub async fn of(
        inside: &'l Inside,
        person: &'l Person,
        environments: &[Environment],
    ) -> Result<Look<'l>, StoreFault> {
        let mut stand_ins = BTreeMap::new();
        for environment in environments {
            stand_ins.insert(*environment, inside.books.stand_ins(*environment).await?);
        }
        Ok(Look { inside, person, snapshot: inside.in_force.now(), stand_ins })
    }

    pub fn at<'s>(&'s self, key: &'s RecordKey, record: &'s Record, hold: &'s Hold) -> Option<Seen<'s>> {
        let policies = &*self.snapshot.policies;
        let (stand_ins, now) = self.stand_ins.get(&key.environment)?;
        let hearing = self.inside.books.hearing(policies, stand_ins, *now);
        let intent = read_again(&self.snapshot.catalog, key.environment, hold);
        let is_open = hold.state.is_open();
        let asked = match is_open {
            true => asked_now(&self.inside.books, policies, hold, intent.as_ref()),
            false => hold.asked.clone(),
        };
        let progress = progress(hold.fingerprint, &asked, policies, &hold.consent(&hearing));
        let stuck = if is_open { hearing.stuck(hold, &asked) } else { None };
        Some(Seen { hold, key, record, hearing, intent, asked, progress, stuck })
    }

    fn may(&self, seen: &Seen<'_>, say: Say) -> bool {
        let (hold, person) = ((seen.hold, seen.record.at), &self.person.who);
        self.person.has(Role::Approver)
            && may_say(hold, say, person, Some(seen.hold.fingerprint), &seen.asked, &seen.hearing).is_ok()
    }

    /// Whether it waits for this person's vote, which would bring it further.
    pub fn is_mine(&self, seen: &Seen<'_>) -> bool {
        let Hold { state, votes, fingerprint, .. } = seen.hold;
        let has_agreed = votes.iter().any(|vote| vote.person.subject == self.person.who.subject);
        if *state != State::Pending || has_agreed || !self.may(seen, Say::Approve) {
            return false;
        }
        let vote = Vote { person: self.person.who.clone(), comment: None, at: seen.hearing.now };
        let with = Hold { votes: votes.iter().cloned().chain([vote]).collect(), ..seen.hold.clone() };
        let with = progress(*fingerprint, &seen.asked, &self.snapshot.policies, &with.consent(&seen.hearing));
        seen.progress.iter().zip(&with).any(|(before, after)| after.given > before.given)
    }

    /// As it stands in a list.
    pub fn summary(&self, seen: &Seen<'_>) -> Map<String, Value> {
        let mut members = seen.told();
        members.insert("mayJudge".to_owned(), self.may(seen, Say::Approve).into());
        members.insert("mayReject".to_owned(), self.may(seen, Say::Reject).into());
        members
    }

    /// Words for every role, the exact bytes for those who judge; of one that is open, what is known beside it.
    pub async fn whole(&self, seen: &Seen<'_>) -> Result<Value, StoreFault> {
        let (mut shown, hold) = (self.summary(seen), seen.hold);
        let sees = self.person.has(Role::Approver) || self.person.has(Role::Operator);
        if let (true, Ok(body)) = (sees, std::str::from_utf8(&hold.sent.body)) {
            let sent = json!({ "method": hold.method.as_str(), "target": hold.sent.target, "body": body });
            shown.insert("sent".to_owned(), sent);
        }
        if let Some(intent) = seen.intent.as_ref().filter(|_| hold.state.is_open()) {
            let policies = &self.snapshot.policies;
            let Outlook { paid, counts } = explain::outlook(&self.inside.books, policies, intent).await?;
            let last = |(destination, at): &(String, Option<StoreTime>)| json!({ "destination": destination, "at": at.map(told::moment) });
            shown.insert("paidBefore".to_owned(), paid.iter().map(last).collect());
            let counted =
                |(reservation, used): &(Reservation, u64)| counted(&policies.rules.limits, reservation, *used);
            shown.insert("limits".to_owned(), counts.iter().filter_map(counted).collect());
        }
        Ok(Value::Object(shown))
    }
}

impl Seen<'_> {
    fn told(&self) -> Map<String, Value> {
        let Seen { hold, key, record, .. } = self;
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        put("id", json!(hold.id.as_str()));
        put("environment", json!(key.environment.as_str()));
        put("state", json!(hold.state.as_str()));
        put("operation", json!(hold.operation.as_str()));
        if let Some(id) = &hold.request_id {
            put("requestId", json!(id.as_str()));
        }
        put("fingerprint", json!(hold.fingerprint.to_hex()));
        put("owner", json!({ "issuer": hold.by.issuer, "subject": hold.by.subject }));
        put("requester", json!(hold.by.requester));
        put("reasons", json!(hold.reasons));
        put("approvals", self.progress.iter().map(approval).collect());
        if let Some(stuck) = self.stuck {
            put("stuck", json!(stuck.in_words()));
        }
        put("votes", hold.votes.iter().map(|vote| self.vote(vote)).collect());
        let note = |(person, text, at): (&Owner, &str, StoreTime)| Value::Object(spoken(person, Some(text), at));
        put("notes", hold.notes.iter().map(|one| note((&one.person, &one.text, one.at))).collect());
        put("createdAt", told::moment(hold.created(record.at)));
        put("expiresAt", told::moment(hold.deadline(record.at)));
        if !hold.state.is_open() {
            put("endedAt", told::moment(record.at));
        }
        put("trace", json!(hold.trace.as_str()));
        if hold.tries > 0 {
            put("tries", json!(hold.tries));
        }
        let line = |(name, text): (&str, String)| json!({ "name": name, "text": text });
        let words = self.intent.as_ref().map(in_words).unwrap_or_default();
        put("words", words.into_iter().map(line).collect());
        members
    }

    /// A vote, and in whose place it is given.
    fn vote(&self, vote: &Vote) -> Value {
        let mut members = spoken(&vote.person, vote.comment.as_deref(), vote.at);
        let mut voice = self.hearing.voice(self.hold, &vote.person);
        voice.remove(&member_of(&vote.person));
        if !voice.is_empty() && self.hold.state.is_open() {
            members.insert("for".to_owned(), json!(voice));
        }
        Value::Object(members)
    }
}

fn approval(one: &Progress) -> Value {
    let missing = |(group, count): &(String, u64)| json!({ "group": group, "count": count });
    let missing: Vec<Value> = one.missing.iter().map(missing).collect();
    json!({ "name": &*one.name, "needed": one.needed, "given": one.given, "missing": missing })
}

fn spoken(person: &Owner, text: Option<&str>, at: StoreTime) -> Map<String, Value> {
    let members = [
        ("issuer", json!(person.issuer)),
        ("subject", json!(person.subject)),
        ("text", json!(text)),
        ("at", told::moment(at)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What a limit has left now, and once the call has gone.
fn counted(limits: &[Limit], reservation: &Reservation, used: u64) -> Option<Value> {
    let Reservation { window, units, max, .. } = reservation;
    let mut members = standing(limits.iter().find(|limit| *limit.id == *window.limit)?, &window.key, used);
    members.insert("adds".to_owned(), json!(units));
    members.insert("leftAfter".to_owned(), json!(max.saturating_sub(used).saturating_sub(*units)));
    Some(Value::Object(members))
}
