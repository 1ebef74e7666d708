//! Stand-ins: people who vote in a member's place for a time.
//!
//! A member names a person. From then on that person may vote in the member's place or in their own, one of the two
//! within an approval; the member's vote counts once, whoever of the two gives it. Nobody votes for the requesters of a
//! call, and no requester votes for others. A stand-in cannot name another in turn.
//!
//! All stand-ins of an environment are one record: votes and releases read it, and their commits guard its version.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::owners::member_of;
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step, StoreTime};
use crate::stations::claim::Owner;

/// The format of the record. No other is read.
const FORMAT: u64 = 1;
/// The longest period of one stand-in.
pub const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);
/// The most stand-ins of an environment.
const MAX_STAND_INS: usize = 200;
/// The most stand-ins of one member; fewer where that would leave none for a further member.
const MAX_STAND_INS_OF_MEMBER: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    pub member: Owner,
    /// The person who votes in the member's place.
    pub person: Owner,
    #[serde(rename = "fromMicros")]
    pub from: StoreTime,
    #[serde(rename = "untilMicros")]
    pub until: StoreTime,
    pub reason: String,
}

/// The stored form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StandInsRecord {
    all: Vec<StandIn>,
}

/// A record that is not a list of stand-ins in this version's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the record of stand-ins cannot be read by this version")]
pub struct UnreadableStandIns;

/// The reasons why a stand-in is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandInError {
    /// Members cannot name themselves.
    Oneself,
    /// The period ends before it begins, or is over.
    Over,
    TooLong,
    TooMany,
}

/// The stand-ins of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandIns {
    all: Vec<StandIn>,
    version: Option<Number>,
}

impl StandIn {
    pub fn is_on(&self, now: StoreTime) -> bool {
        self.from <= now && now < self.until
    }

    fn is_of(&self, member: &Owner, person: &Owner) -> bool {
        self.member == *member && self.person == *person
    }
}

impl StandIns {
    pub fn key(environment: Environment) -> RecordKey {
        RecordKey { environment, kind: Kind::StandIns, name: "all".to_owned() }
    }

    pub fn read(record: Option<&Record>) -> Result<StandIns, UnreadableStandIns> {
        let unreadable = UnreadableStandIns;
        let Some(record) = record else { return Ok(StandIns::default()) };
        let Content::Whole(bytes) = &record.content else { return Err(unreadable) };
        let StandInsRecord { all } = json::from_record(bytes, FORMAT).map_err(|_| unreadable)?;
        Ok(StandIns { all, version: Some(record.version) })
    }

    /// Returns the current and future stand-ins, the earliest end first.
    pub fn standing(&self, now: StoreTime) -> Vec<&StandIn> {
        let mut standing: Vec<&StandIn> = self.all.iter().filter(|one| now < one.until).collect();
        standing.sort_by_key(|one| one.until);
        standing
    }

    /// Returns the members for whom a person stands in now.
    pub fn members(&self, person: &Owner, now: StoreTime) -> impl Iterator<Item = &Owner> {
        self.all.iter().filter(move |one| one.person == *person && one.is_on(now)).map(|one| &one.member)
    }

    /// Guards that these people still stand in for their members; empty where none does.
    pub fn guards<'p>(
        &self,
        environment: Environment,
        people: impl Iterator<Item = &'p Owner>,
        now: StoreTime,
    ) -> Vec<Step> {
        let of = |person: &'p Owner| self.all.iter().filter(move |one| one.person == *person && one.is_on(now));
        let first = people.flat_map(of).map(|one| one.until).min();
        let Some((until, version)) = first.zip(self.version) else { return Vec::new() };
        vec![Step::Version { key: StandIns::key(environment), version }, Step::Before(until)]
    }

    /// Names a person, or changes the period. Guarded: no other stand-in changed meanwhile.
    pub fn name(
        &self,
        named: StandIn,
        now: StoreTime,
        environment: Environment,
        node: &NodeId,
    ) -> Result<Commit, StandInError> {
        if named.member.is_same_person(&named.person) {
            return Err(StandInError::Oneself);
        }
        if named.until <= now || named.until <= named.from {
            return Err(StandInError::Over);
        }
        if named.until > named.from.max(now).plus(LONGEST) || named.from > now.plus(LONGEST) {
            return Err(StandInError::TooLong);
        }
        let others = self.all.iter().filter(|one| now < one.until && !one.is_of(&named.member, &named.person));
        let mut all: Vec<StandIn> = others.cloned().collect();
        let of_member = all.iter().filter(|one| one.member.is_same_person(&named.member)).count();
        let free = MAX_STAND_INS.saturating_sub(all.len());
        if of_member >= MAX_STAND_INS_OF_MEMBER.min(free.saturating_sub(1)) {
            return Err(StandInError::TooMany);
        }
        let entry = entry(EntryKind::StandIn, &named.member, &named).with("reason", named.reason.as_str());
        let entry = entry.with("fromMicros", named.from.as_micros()).with("untilMicros", named.until.as_micros());
        all.push(named);
        Ok(self.commit(all, &entry, environment, node))
    }

    /// Revokes a stand-in; `None` where there is none.
    pub fn revoke(
        &self,
        (member, person): (&Owner, &Owner),
        now: StoreTime,
        (by, reason): (&Owner, &str),
        environment: Environment,
        node: &NodeId,
    ) -> Option<Commit> {
        let revoked = self.all.iter().find(|one| now < one.until && one.is_of(member, person))?;
        let others = self.all.iter().filter(|one| now < one.until && !one.is_of(member, person));
        let entry = entry(EntryKind::StandInRevoked, by, revoked).with("reason", reason);
        Some(self.commit(others.cloned().collect(), &entry, environment, node))
    }

    fn commit(&self, all: Vec<StandIn>, entry: &Entry, environment: Environment, node: &NodeId) -> Commit {
        let value = json::to_record(&StandInsRecord { all }, FORMAT).into();
        let (key, keep) = (StandIns::key(environment), Keep::Forever);
        let step = match self.version {
            None => Step::Create { key, value, keep },
            Some(version) => Step::Replace { key, version, value, keep },
        };
        Commit { environment, node: node.clone(), steps: vec![step], entry: entry.to_bytes() }
    }
}

fn entry(what: EntryKind, by: &Owner, of: &StandIn) -> Entry {
    let StandIn { member, person, .. } = of;
    Entry::of(what).by(&by.issuer, &by.subject).with("member", member_of(member)).with("person", member_of(person))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn who(subject: &str) -> Owner {
        Owner::named("people", subject)
    }

    fn at(days: u32) -> StoreTime {
        StoreTime::of_micros(0).plus(DAY * days)
    }

    fn named(member: &str, person: &str, from: u32, until: u32) -> StandIn {
        StandIn { member: who(member), person: who(person), from: at(from), until: at(until), reason: "away".into() }
    }

    /// Returns the record that a commit leaves, as it is read again.
    fn after(commit: &Commit, version: u64) -> StandIns {
        let value = commit.steps.iter().find_map(|step| match step {
            Step::Create { value, .. } | Step::Replace { value, .. } => Some(value.clone()),
            _ => None,
        });
        let content = Content::Whole(value.unwrap());
        StandIns::read(Some(&Record { version: Number::new(version), at: at(0), content })).unwrap()
    }

    fn with(before: &StandIns, one: StandIn, now: u32, version: u64) -> StandIns {
        let node = NodeId::parse("gate").unwrap();
        after(&before.name(one, at(now), Environment::Production, &node).unwrap(), version)
    }

    fn members(of: &StandIns, person: &str, now: u32) -> Vec<String> {
        of.members(&who(person), at(now)).map(|owner| owner.subject.clone()).collect()
    }

    #[test]
    fn a_person_stands_in_from_one_time_to_another() {
        let one = with(&StandIns::default(), named("ann", "bob", 2, 5), 1, 7);
        assert_eq!([1, 2, 4, 5].map(|now| members(&one, "bob", now).len()), [0, 1, 1, 0]);
        let again = with(&one, named("ann", "bob", 2, 4), 3, 8);
        assert_eq!((members(&again, "bob", 3).len(), members(&again, "bob", 4).len()), (1, 0), "the last word counts");
        let both = with(&again, named("cid", "bob", 3, 9), 3, 9);
        assert_eq!(members(&both, "bob", 3), ["ann", "cid"]);
        let chained = with(&both, named("bob", "dan", 3, 9), 3, 10);
        assert_eq!(members(&chained, "dan", 3), ["bob"], "what bob was given stays with bob");
        assert_eq!(chained.standing(at(4)).len(), 2);
        // What is over is not written again.
        assert_eq!(with(&chained, named("eve", "bob", 5, 6), 5, 11).all.len(), 3);
    }

    #[test]
    fn nobody_is_named_forever_or_for_themselves() {
        let node = NodeId::parse("gate").unwrap();
        let name = |one: StandIn| StandIns::default().name(one, at(10), Environment::Production, &node).map(|_| ());
        for same in ["ann", "ANN", "\u{ff41}nn"] {
            assert_eq!(name(named("ann", same, 10, 12)), Err(StandInError::Oneself), "{same}");
        }
        assert_eq!(name(named("ann", "bob", 9, 10)), Err(StandInError::Over));
        assert_eq!(name(named("ann", "bob", 12, 12)), Err(StandInError::Over));
        assert_eq!(name(named("ann", "bob", 10, 41)), Ok(()));
        assert_eq!(name(named("ann", "bob", 10, 42)), Err(StandInError::TooLong));
        assert_eq!(name(named("ann", "bob", 0, 42)), Err(StandInError::TooLong));
        assert_eq!(name(named("ann", "bob", 42, 43)), Err(StandInError::TooLong));
    }

    #[test]
    fn no_member_takes_the_places_of_others() {
        let node = NodeId::parse("gate").unwrap();
        let of = |member: &str, count: usize| -> Vec<StandIn> {
            (0..count).map(|n| named(member, &format!("p-{n}"), 1, 20)).collect()
        };
        let name = |all: Vec<StandIn>, member: &str, person: &str| {
            let before = StandIns { all, version: None };
            before.name(named(member, person, 10, 12), at(10), Environment::Production, &node).map(|_| ())
        };
        let full = of("ann", MAX_STAND_INS_OF_MEMBER);
        assert_eq!(name(full.clone(), "ann", "bob"), Err(StandInError::TooMany));
        assert_eq!(name(full.clone(), "\u{ff21}NN", "bob"), Err(StandInError::TooMany), "the same member");
        assert_eq!(name(full.clone(), "ann", "p-3"), Ok(()), "a changed period is no further stand-in");
        assert_eq!(name(full, "cid", "bob"), Ok(()));
        // Many members together leave a place for a further member, but not for a second of one of them.
        let crowd: Vec<StandIn> = (0..MAX_STAND_INS - 2).flat_map(|n| of(&format!("m-{n}"), 1)).collect();
        assert_eq!(name(crowd.clone(), "m-0", "bob"), Err(StandInError::TooMany));
        assert_eq!(name(crowd, "cid", "bob"), Ok(()));
    }

    #[test]
    fn what_stood_when_it_was_looked_at_is_guarded() {
        let both = with(&StandIns::default(), named("ann", "bob", 2, 5), 1, 7);
        let both = with(&both, named("cid", "bob", 2, 4), 1, 8);
        let guards = |people: &[Owner], now| both.guards(Environment::Production, people.iter(), at(now));
        let key = StandIns::key(Environment::Production);
        let expected = vec![Step::Version { key, version: Number::new(8) }, Step::Before(at(4))];
        assert_eq!(guards(&[who("eve"), who("bob")], 3), expected);
        assert_eq!(guards(&[who("ann")], 3), Vec::new());
        assert_eq!(guards(&[who("bob")], 1), Vec::new(), "it has not begun");
    }

    #[test]
    fn who_is_revoked_stands_in_no_more() {
        let (node, environment) = (NodeId::parse("gate").unwrap(), Environment::Production);
        let one = with(&StandIns::default(), named("ann", "bob", 2, 5), 1, 7);
        let (ann, bob, op) = (who("ann"), who("bob"), who("op"));
        let revoke = |pair, now| one.revoke(pair, at(now), (&op, "back"), environment, &node);
        assert!(revoke((&bob, &ann), 3).is_none() && revoke((&ann, &bob), 5).is_none());
        let commit = revoke((&ann, &bob), 3).unwrap();
        assert_eq!(after(&commit, 8).all, []);
        let entry: Value = serde_json::from_slice(&commit.entry).unwrap();
        assert_eq!((&entry["what"], &entry["by"]["subject"]), (&json!("stand-in-revoked"), &json!("op")));
        assert_eq!((&entry["member"], &entry["person"]), (&json!("people:ann"), &json!("people:bob")));
    }

    #[test]
    fn what_another_version_wrote_is_refused() {
        for text in ["", "{}", r#"{"format":2,"all":[]}"#, r#"{"format":1}"#, r#"{"format":1,"all":[{}]}"#] {
            let content = Content::Whole(Bytes::copy_from_slice(text.as_bytes()));
            assert!(StandIns::read(Some(&Record { version: Number::new(1), at: at(0), content })).is_err(), "{text}");
        }
        let spent = Record { version: Number::new(1), at: at(0), content: Content::Spent };
        assert!(StandIns::read(Some(&spent)).is_err());
        assert_eq!(StandIns::read(None), Ok(StandIns::default()));
    }
}
