//! Who votes in another's place, for a time.
//!
//! A member names another person. From then on that person may fill the member's seat: theirs or their own, one of them
//! within an approval; and the member sits once, whoever of the two agrees. Nobody speaks for those who asked for a call,
//! and nobody who asked for it speaks for others. A stand-in passes nothing on: whom they name fills their own seat.
//!
//! All that stand in an environment are one record: a vote and a release read it, and their commits guard its version.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::people::member_of;
use super::written::UnreadableHold;
use crate::base::ids::Environment;
use crate::commit::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step, StoreTime};
use crate::stations::claim::Owner;
use crate::stations::record::{Entry, What};

/// The form of the record. A newer one is refused.
const FORM: u64 = 1;
/// Nobody is stood in for longer at one stroke.
pub const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);
/// As many stand at one time in an environment.
const MOST: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandIn {
    pub member: Owner,
    /// Who votes in their place.
    pub person: Owner,
    pub from: StoreTime,
    pub until: StoreTime,
    pub reason: String,
}

/// Why a person is not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNamed {
    /// A person is their own.
    Oneself,
    /// It ends before it begins, or is over already.
    Over,
    TooLong,
    TooMany,
}

/// All that are named in an environment.
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

    fn told(&self) -> Value {
        let who = |who: &Owner| json!({ "issuer": who.issuer, "subject": who.subject });
        json!({
            "member": who(&self.member),
            "person": who(&self.person),
            "fromMicros": self.from.as_micros(),
            "untilMicros": self.until.as_micros(),
            "reason": self.reason,
        })
    }

    fn read(value: &Value) -> Option<StandIn> {
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let who = |name: &str| {
            let who = value.get(name)?;
            Some(Owner { issuer: text(who, "issuer")?, subject: text(who, "subject")? })
        };
        let time = |name: &str| Some(StoreTime::of_micros(value.get(name)?.as_i64()?));
        Some(StandIn {
            member: who("member")?,
            person: who("person")?,
            from: time("fromMicros")?,
            until: time("untilMicros")?,
            reason: text(value, "reason")?,
        })
    }
}

impl StandIns {
    pub fn key(environment: Environment) -> RecordKey {
        RecordKey { environment, kind: Kind::StandIns, name: "all".to_owned() }
    }

    pub fn read(record: Option<&Record>) -> Result<StandIns, UnreadableHold> {
        let unreadable = UnreadableHold("who stands in for whom is not as this version writes it");
        let Some(record) = record else { return Ok(StandIns::default()) };
        let Content::Whole(bytes) = &record.content else { return Err(unreadable) };
        let value: Value = serde_json::from_slice(bytes).map_err(|_| unreadable.clone())?;
        if value.get("form").and_then(Value::as_u64) != Some(FORM) {
            return Err(unreadable);
        }
        let all = value.get("all").and_then(Value::as_array).ok_or(unreadable.clone())?;
        let all: Option<Vec<StandIn>> = all.iter().map(StandIn::read).collect();
        Ok(StandIns { all: all.ok_or(unreadable)?, version: Some(record.version) })
    }

    /// Those that are not over, the earliest end first.
    pub fn standing(&self, now: StoreTime) -> Vec<&StandIn> {
        let mut standing: Vec<&StandIn> = self.all.iter().filter(|one| now < one.until).collect();
        standing.sort_by_key(|one| one.until);
        standing
    }

    /// For whom a person stands in now.
    pub fn members(&self, person: &Owner, now: StoreTime) -> impl Iterator<Item = &Owner> {
        self.all.iter().filter(move |one| one.person == *person && one.is_on(now)).map(|one| &one.member)
    }

    /// That these people still stand in for whomever they do now; nothing where none of them does.
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

    /// A member names a person, or names them for another time. Guarded: all others stand as they did.
    pub fn name(
        &self,
        named: StandIn,
        now: StoreTime,
        environment: Environment,
        node: &NodeId,
    ) -> Result<Commit, NotNamed> {
        if named.member.subject == named.person.subject {
            return Err(NotNamed::Oneself);
        }
        if named.until <= now || named.until <= named.from {
            return Err(NotNamed::Over);
        }
        if named.until > named.from.max(now).plus(LONGEST) || named.from > now.plus(LONGEST) {
            return Err(NotNamed::TooLong);
        }
        let others = self.all.iter().filter(|one| now < one.until && !one.is_of(&named.member, &named.person));
        let mut all: Vec<StandIn> = others.cloned().collect();
        if all.len() >= MOST {
            return Err(NotNamed::TooMany);
        }
        let entry = entry(What::StandIn, &named.member, &named).with("reason", named.reason.as_str());
        let entry = entry.with("fromMicros", named.from.as_micros()).with("untilMicros", named.until.as_micros());
        all.push(named);
        Ok(self.commit(&all, &entry, environment, node))
    }

    /// A person stands in for a member no longer; nothing if they did not.
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
        let entry = entry(What::StandInRevoked, by, revoked).with("reason", reason);
        Some(self.commit(&others.cloned().collect::<Vec<_>>(), &entry, environment, node))
    }

    fn commit(&self, all: &[StandIn], entry: &Entry, environment: Environment, node: &NodeId) -> Commit {
        let all: Vec<Value> = all.iter().map(StandIn::told).collect();
        let value = Bytes::from(json!({ "form": FORM, "all": all }).to_string());
        let (key, keep) = (StandIns::key(environment), Keep::Forever);
        let step = match self.version {
            None => Step::Create { key, value, keep },
            Some(version) => Step::Replace { key, version, value, keep },
        };
        Commit { environment, node: node.clone(), steps: vec![step], entry: entry.to_bytes() }
    }
}

fn entry(what: What, by: &Owner, of: &StandIn) -> Entry {
    let StandIn { member, person, .. } = of;
    Entry::of(what).by(&by.issuer, &by.subject).with("member", member_of(member)).with("person", member_of(person))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn who(subject: &str) -> Owner {
        Owner { issuer: "people".to_owned(), subject: subject.to_owned() }
    }

    fn at(days: u32) -> StoreTime {
        StoreTime::of_micros(0).plus(DAY * days)
    }

    fn named(member: &str, person: &str, from: u32, until: u32) -> StandIn {
        StandIn { member: who(member), person: who(person), from: at(from), until: at(until), reason: "away".into() }
    }

    /// What a commit leaves, as it is read again.
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
        assert_eq!(name(named("ann", "ann", 10, 12)), Err(NotNamed::Oneself));
        assert_eq!(name(named("ann", "bob", 9, 10)), Err(NotNamed::Over));
        assert_eq!(name(named("ann", "bob", 12, 12)), Err(NotNamed::Over));
        assert_eq!(name(named("ann", "bob", 10, 41)), Ok(()));
        assert_eq!(name(named("ann", "bob", 10, 42)), Err(NotNamed::TooLong));
        assert_eq!(name(named("ann", "bob", 0, 42)), Err(NotNamed::TooLong));
        assert_eq!(name(named("ann", "bob", 42, 43)), Err(NotNamed::TooLong));
        let all = (0..MOST).map(|n| named("ann", &format!("p-{n}"), 1, 20)).collect();
        let full = StandIns { all, version: None };
        let name = |person: &str| full.name(named("ann", person, 10, 12), at(10), Environment::Production, &node);
        assert_eq!(name("bob"), Err(NotNamed::TooMany));
        assert!(name("p-3").is_ok());
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
        for text in ["", "{}", r#"{"form":2,"all":[]}"#, r#"{"form":1}"#, r#"{"form":1,"all":[{}]}"#] {
            let content = Content::Whole(Bytes::copy_from_slice(text.as_bytes()));
            assert!(StandIns::read(Some(&Record { version: Number::new(1), at: at(0), content })).is_err(), "{text}");
        }
        let spent = Record { version: Number::new(1), at: at(0), content: Content::Spent };
        assert!(StandIns::read(Some(&spent)).is_err());
        assert_eq!(StandIns::read(None), Ok(StandIns::default()));
    }
}
