//! Sessions of people at the console.
//!
//! Only the browser has the cookie's secret: a record is found by the secret's digest. A session ends with its token,
//! after its longest time, or when it is idle for too long; the store keeps it no longer. A person has a bounded number
//! of sessions.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::folded::folded;
use crate::base::ids::Environment;
use crate::base::json;
use crate::base::secret::Secret;
use crate::ledger::{Commit, Content, Index, Keep, Kind, NodeId, Number, Record, RecordKey, Step, StoreTime};
use crate::stations::claim::Owner;
use crate::stations::hold::member_of;

/// The most sessions of one person; the oldest ends for a new one.
pub const MAX_SESSIONS: usize = 16;
/// The format of its records. No other is read.
const FORMAT: u64 = 1;
/// The characters of a session's digest that an entry names.
const SHOWN_CHARS: usize = 16;
const SECRET_BYTES: usize = 32;
/// The longest time that a session may be set to last.
const MAX_LASTING: Duration = Duration::from_secs(604_800);

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionTerms {
    /// The time without use.
    pub idle: Duration,
    /// The time however it is used.
    pub longest: Duration,
    /// The most sessions of all people.
    pub most: usize,
}

/// The secret of a session, as its cookie has it.
#[derive(Clone, Debug)]
pub struct SessionId(Secret);

impl SessionId {
    pub fn of_bytes(bytes: &[u8; SECRET_BYTES]) -> SessionId {
        SessionId(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Returns `None` where the text cannot be a secret.
    pub fn parse(text: &str) -> Option<SessionId> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == SECRET_BYTES).then(|| SessionId(Secret::new(text.to_owned())))
    }

    pub fn secret(&self) -> &Secret {
        &self.0
    }

    /// The key of its record.
    pub fn key(&self, environment: Environment) -> RecordKey {
        let digest = Fingerprint::of(&[b"session", self.0.reveal().as_bytes()]);
        key_of(environment, &digest.to_hex())
    }
}

/// The facts of the token at sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub who: Owner,
    pub roles: BTreeSet<String>,
    /// The session ends then, however it is used.
    #[serde(rename = "untilMicros")]
    pub until: StoreTime,
    /// Whether the page signs in again at the provider when it ends.
    pub renews: bool,
    /// The commit that last ended all sessions of the person before this one began; 0 where none did.
    pub after_end: Number,
}

/// The stored list of a person's sessions, by their record names, the oldest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionList {
    sessions: Vec<String>,
}

/// The record that a session has ended, or all sessions of a person that began before it: that it exists says all.
#[derive(Debug, Serialize)]
struct SessionEnd {}

/// A current session.
#[derive(Clone, Debug)]
pub struct StandingSession {
    pub session: Session,
    /// When its use was last recorded, and by which commit.
    pub at: StoreTime,
    pub version: Number,
}

impl StandingSession {
    /// The session ends then, unless it is used before.
    pub fn idle_until(&self, terms: SessionTerms) -> StoreTime {
        self.at.plus(terms.idle).min(self.session.until)
    }

    /// Returns whether its use is to be recorded now: seldom, for each record is a commit.
    pub fn is_due(&self, now: StoreTime, terms: SessionTerms) -> bool {
        now.since(self.at) >= terms.idle / 4 && self.idle_until(terms) < self.session.until
    }
}

/// Reads a session at this time. An unreadable record is nobody's session.
pub fn standing(record: &Record, now: StoreTime, terms: SessionTerms) -> Option<StandingSession> {
    let Content::Whole(bytes) = &record.content else { return None };
    let standing = StandingSession { session: decode_session(bytes)?, at: record.at, version: record.version };
    (now < standing.idle_until(terms)).then_some(standing)
}

/// Returns the sessions of one person, by their record names, the oldest first; some may be over.
pub fn of_person(record: Option<&Record>) -> Vec<String> {
    let Some(Content::Whole(bytes)) = record.map(|record| &record.content) else { return Vec::new() };
    json::from_record(bytes, FORMAT).map_or_else(|_| Vec::new(), |SessionList { sessions }| sessions)
}

/// The key of a person's list of sessions. All spellings of a name share one, so that an end of all of them is one of each.
pub fn list_key(environment: Environment, who: &Owner) -> RecordKey {
    let digest = Fingerprint::of(&[b"person", who.issuer.as_bytes(), folded(&who.subject).as_bytes()]);
    RecordKey { environment, kind: Kind::Session, name: format!("of/{digest}") }
}

/// The key of a listed session.
pub fn key_of(environment: Environment, name: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Session, name: format!("open/{name}") }
}

/// The key of the record that a session has ended. A journal has it, unlike the session.
pub fn end_key(environment: Environment, name: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::SessionEnd, name: name.to_owned() }
}

/// The key of the record that all sessions of a person have ended that began before it. A journal has it, unlike their list.
pub fn end_of_all_key(environment: Environment, who: &Owner) -> RecordKey {
    let name = list_key(environment, who).name;
    RecordKey { environment, kind: Kind::SessionEnd, name }
}

/// The sessions before one more begins.
#[derive(Clone, Debug, Default)]
pub struct EarlierSessions {
    /// The commit that last ended all of them, if one did.
    pub end: Option<Number>,
    /// The commit that wrote the list, if there is one.
    pub list: Option<Number>,
    /// The sessions that stay.
    pub names: Vec<String>,
    /// The sessions that end for the new one.
    pub ending: Vec<(String, Number)>,
    /// The sessions of anybody that ended by themselves and are still counted.
    pub lapsed: Vec<String>,
}

/// Begins a session. Guarded: the person's sessions are those before.
pub fn begin(
    id: &SessionId,
    session: &Session,
    before: EarlierSessions,
    way: &str,
    now: StoreTime,
    terms: SessionTerms,
    (environment, node): (Environment, &NodeId),
) -> Commit {
    let key = id.key(environment);
    let mut steps =
        vec![Step::Create { key: key.clone(), value: encode_session(session), keep: keep(session, now, terms) }];
    steps.push(counted(&key, session, now, terms));
    let end = end_of_all_key(environment, &session.who);
    steps.push(match before.end {
        None => Step::Absent(end),
        Some(version) => Step::Version { key: end, version },
    });
    steps.extend(before.lapsed.iter().map(|name| uncounted(name)));
    let ended: Vec<Value> = before.ending.iter().map(|(name, _)| Value::from(shown_name(name))).collect();
    for (name, version) in before.ending {
        steps.extend(ending(environment, &name, version, terms));
    }
    let mut names = before.names;
    names.push(name_of(&key).to_owned());
    let value = json::to_record(&SessionList { sessions: names }, FORMAT).into();
    let (list, keep) = (list_key(environment, &session.who), Keep::For { whole: terms.longest, spent: Duration::ZERO });
    steps.push(match before.list {
        None => Step::Create { key: list, value, keep },
        Some(version) => Step::Replace { key: list, version, value, keep },
    });
    let mut entry = session_entry(EntryKind::SignedIn, &key, session).with("way", way);
    if !ended.is_empty() {
        entry = entry.with("ended", ended);
    }
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Records the use of a session. Guarded by its version.
pub fn stay(key: &RecordKey, standing: &StandingSession, now: StoreTime, terms: SessionTerms, node: &NodeId) -> Commit {
    let (session, version) = (&standing.session, standing.version);
    let step =
        Step::Replace { key: key.clone(), version, value: encode_session(session), keep: keep(session, now, terms) };
    let entry = session_entry(EntryKind::StayedIn, key, session).to_bytes();
    let steps = vec![step, counted(key, session, now, terms)];
    Commit { environment: key.environment, node: node.clone(), steps, entry }
}

/// Ends a session. Guarded by its version.
pub fn end(key: &RecordKey, standing: &StandingSession, terms: SessionTerms, node: &NodeId) -> Commit {
    let entry = session_entry(EntryKind::SignedOut, key, &standing.session).to_bytes();
    let steps = ending(key.environment, name_of(key), standing.version, terms).to_vec();
    Commit { environment: key.environment, node: node.clone(), steps, entry }
}

/// Ends a session that the store does not show: somebody may have taken its record away, to put it back afterwards.
pub fn end_unseen(key: &RecordKey, terms: SessionTerms, node: &NodeId) -> Commit {
    let entry = Entry::of(EntryKind::SignedOut).with("session", shown_name(name_of(key))).to_bytes();
    let steps = vec![uncounted(name_of(key)), kept_end(key.environment, name_of(key), terms)];
    Commit { environment: key.environment, node: node.clone(), steps, entry }
}

/// The sessions of a person as the store shows them; somebody may have taken any away.
#[derive(Clone, Debug, Default)]
pub struct ShownSessions {
    /// The commit that wrote the list, if there is one.
    pub list: Option<Number>,
    pub open: Vec<(String, Number)>,
}

/// Ends all sessions of a person, also those that the store does not show. Guarded: `end` is the commit that ended them
/// before, and those that are shown are each of its version.
pub fn end_all(
    who: &Owner,
    end: Option<Number>,
    shown: &ShownSessions,
    (by, reason): (&Owner, &str),
    terms: SessionTerms,
    (environment, node): (Environment, &NodeId),
) -> Commit {
    let ended: Vec<Value> = shown.open.iter().map(|(name, _)| Value::from(shown_name(name))).collect();
    let (key, keep) = (end_of_all_key(environment, who), Keep::For { whole: MAX_LASTING, spent: Duration::ZERO });
    let value = json::to_record(&SessionEnd {}, FORMAT).into();
    let mut steps = vec![match end {
        None => Step::Create { key, value, keep },
        Some(version) => Step::Replace { key, version, value, keep },
    }];
    steps.extend(shown.list.map(|version| Step::Delete { key: list_key(environment, who), version }));
    steps.extend(shown.open.iter().flat_map(|(name, version)| ending(environment, name, *version, terms)));
    let entry = Entry::of(EntryKind::SessionsEnded).by(&by.issuer, &by.subject).with("person", member_of(who));
    let entry = entry.with("reason", reason).with("ended", ended);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Returns the steps that end a session, and that keep its end for as long as it could last.
fn ending(environment: Environment, name: &str, version: Number, terms: SessionTerms) -> [Step; 3] {
    [uncounted(name), Step::Delete { key: key_of(environment, name), version }, kept_end(environment, name, terms)]
}

fn kept_end(environment: Environment, name: &str, terms: SessionTerms) -> Step {
    let keep = Keep::For { whole: terms.longest, spent: Duration::ZERO };
    Step::Create { key: end_key(environment, name), value: json::to_record(&SessionEnd {}, FORMAT).into(), keep }
}

fn keep(session: &Session, now: StoreTime, terms: SessionTerms) -> Keep {
    Keep::For { whole: left(session, now, terms), spent: Duration::ZERO }
}

/// Returns how long a session lasts that is used now and not again.
fn left(session: &Session, now: StoreTime, terms: SessionTerms) -> Duration {
    terms.idle.min(session.until.since(now))
}

fn counted(key: &RecordKey, session: &Session, now: StoreTime, terms: SessionTerms) -> Step {
    Step::IndexAdd { index: Index::Session, member: name_of(key).to_owned(), due: left(session, now, terms) }
}

fn uncounted(name: &str) -> Step {
    Step::IndexRemove { index: Index::Session, member: name.to_owned() }
}

fn session_entry(what: EntryKind, key: &RecordKey, session: &Session) -> Entry {
    Entry::of(what).by(&session.who.issuer, &session.who.subject).with("session", shown_name(name_of(key)))
}

/// The name of a session's record in the lists.
pub fn name_of(key: &RecordKey) -> &str {
    key.name.strip_prefix("open/").unwrap_or_default()
}

fn shown_name(name: &str) -> String {
    name.chars().take(SHOWN_CHARS).collect()
}

fn encode_session(session: &Session) -> Bytes {
    json::to_record(session, FORMAT).into()
}

fn decode_session(bytes: &[u8]) -> Option<Session> {
    json::from_record(bytes, FORMAT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: SessionTerms =
        SessionTerms { idle: Duration::from_secs(900), longest: Duration::from_secs(28_800), most: 1_000 };

    fn session(until_secs: i64) -> Session {
        let who = Owner::named("people", "ops-1");
        Session {
            who,
            roles: BTreeSet::from(["operator".to_owned()]),
            until: StoreTime::of_micros(until_secs * 1_000_000),
            renews: false,
            after_end: Number::default(),
        }
    }

    fn secs(secs: i64) -> StoreTime {
        StoreTime::of_micros(secs * 1_000_000)
    }

    fn record(session: &Session, at: StoreTime) -> Record {
        Record { version: Number::new(7), at, content: Content::Whole(encode_session(session)) }
    }

    #[test]
    fn it_ends_unused_after_its_idle_time_and_used_at_its_end() {
        let stands = |until, at, now| standing(&record(&session(until), secs(at)), secs(now), TERMS).is_some();
        assert!(stands(28_800, 0, 899));
        assert!(!stands(28_800, 0, 900));
        assert!(stands(28_800, 28_000, 28_799));
        assert!(!stands(28_800, 28_000, 28_800));
        assert!(!stands(100, 0, 100));
        let spent = Record { content: Content::Spent, ..record(&session(28_800), secs(0)) };
        assert!(standing(&spent, secs(1), TERMS).is_none());
    }

    #[test]
    fn its_use_is_written_down_seldom_and_not_where_that_gains_nothing() {
        let is_due = |until, at, now| {
            let found = standing(&record(&session(until), secs(at)), secs(now), TERMS).unwrap();
            found.is_due(secs(now), TERMS)
        };
        assert!(!is_due(28_800, 0, 224));
        assert!(is_due(28_800, 0, 225));
        assert!(!is_due(900, 0, 800), "it ends then anyway");
    }

    #[test]
    fn a_record_is_found_by_a_digest_and_says_nothing_of_the_secret() {
        let id = SessionId::of_bytes(&[7; 32]);
        let text = id.secret().reveal().to_owned();
        let again = SessionId::parse(&text).unwrap();
        assert_eq!(id.key(Environment::Production), again.key(Environment::Production));
        let node = NodeId::parse("a").unwrap();
        let commit = begin(
            &id,
            &session(9),
            EarlierSessions::default(),
            "token",
            secs(0),
            TERMS,
            (Environment::Production, &node),
        );
        assert!(!format!("{commit:?}").contains(&text) && !format!("{id:?}").contains(&text));
        for odd in ["", "a", &text[1..], &format!("{text}A"), &format!("{}=", &text[1..])] {
            assert!(SessionId::parse(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn what_another_version_wrote_is_nobodys() {
        let good = String::from_utf8(encode_session(&session(9)).to_vec()).unwrap();
        assert_eq!(decode_session(good.as_bytes()), Some(session(9)));
        for odd in
            [good.replace("\"format\":1", "\"format\":2"), good.replace("operator\"]", "operator\",7]"), "x".to_owned()]
        {
            assert_eq!(decode_session(odd.as_bytes()), None, "{odd}");
        }
    }
}
