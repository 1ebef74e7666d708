//! Sessions of people at the console: what stands behind a cookie.
//!
//! The cookie's secret is nowhere but in the browser: a record is found by the digest of it. A session ends with the token
//! that it was made from, after its longest time, and after so long without use; the store keeps it no longer than that.
//! One person has few of them at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::claim::Owner;
use super::hold::member_of;
use super::record::{Entry, What};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::commit::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step, StoreTime};

/// So many sessions of one person are open at a time; the oldest ends for a new one.
pub const MOST: usize = 16;
/// The form of its records.
const FORM: u64 = 1;
/// What an Entry calls a session by, of its digest.
const TOLD_CHARS: usize = 16;
const SECRET_BYTES: usize = 32;

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionTerms {
    /// Without use.
    pub idle: Duration,
    /// However they are used.
    pub longest: Duration,
}

/// The secret of a session, as its cookie says it.
#[derive(Clone, Debug)]
pub struct SessionId(Secret);

impl SessionId {
    pub fn of_bytes(bytes: &[u8; SECRET_BYTES]) -> SessionId {
        SessionId(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Nothing where it could not be one.
    pub fn parse(text: &str) -> Option<SessionId> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == SECRET_BYTES).then(|| SessionId(Secret::new(text.to_owned())))
    }

    pub fn secret(&self) -> &Secret {
        &self.0
    }

    /// Where its record stands.
    pub fn key(&self, environment: Environment) -> RecordKey {
        let digest = Fingerprint::of(&[b"session", self.0.reveal().as_bytes()]);
        key_of(environment, &digest.to_hex())
    }
}

/// What a person's token said when they signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub who: Owner,
    pub roles: BTreeSet<String>,
    /// It ends then, however it is used.
    pub until: StoreTime,
}

/// A session that stands.
#[derive(Clone, Debug)]
pub struct Standing {
    pub session: Session,
    /// When it was last written down that it is used, and by which commit.
    pub at: StoreTime,
    pub version: Number,
}

impl Standing {
    /// It ends then, unless it is used before.
    pub fn idle_until(&self, terms: SessionTerms) -> StoreTime {
        self.at.plus(terms.idle).min(self.session.until)
    }

    /// Whether it is time to write down that it is used: seldom, for each time is a commit.
    pub fn is_due(&self, now: StoreTime, terms: SessionTerms) -> bool {
        now.since(self.at) >= terms.idle / 4 && self.idle_until(terms) < self.session.until
    }
}

/// What stands behind a record at this time. One that cannot be read is nobody's.
pub fn standing(record: &Record, now: StoreTime, terms: SessionTerms) -> Option<Standing> {
    let Content::Whole(bytes) = &record.content else { return None };
    let standing = Standing { session: read(bytes)?, at: record.at, version: record.version };
    (now < standing.idle_until(terms)).then_some(standing)
}

/// The sessions of one person, by the names of their records, the oldest first; some may be over.
pub fn of_person(record: Option<&Record>) -> Vec<String> {
    let Some(Content::Whole(bytes)) = record.map(|record| &record.content) else { return Vec::new() };
    let Ok(told) = serde_json::from_slice::<Value>(bytes) else { return Vec::new() };
    let names = told.get("sessions").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Where the names of a person's sessions stand.
pub fn list_key(environment: Environment, who: &Owner) -> RecordKey {
    let digest = Fingerprint::of(&[b"person", who.issuer.as_bytes(), who.subject.as_bytes()]);
    RecordKey { environment, kind: Kind::Session, name: format!("of/{digest}") }
}

/// Where the record of a listed session stands.
pub fn key_of(environment: Environment, name: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Session, name: format!("open/{name}") }
}

/// Which sessions a person had, when one more was to begin.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The commit that wrote the list, if there is one.
    pub list: Option<Number>,
    /// Those that stay.
    pub names: Vec<String>,
    /// Those that end for it.
    pub ending: Vec<(String, Number)>,
}

/// A person signs in. Guarded: their sessions are those before.
pub fn begin(
    id: &SessionId,
    session: &Session,
    before: Before,
    way: &str,
    now: StoreTime,
    terms: SessionTerms,
    (environment, node): (Environment, &NodeId),
) -> Commit {
    let key = id.key(environment);
    let mut steps = vec![Step::Create { key: key.clone(), value: write(session), keep: keep(session, now, terms) }];
    let ended: Vec<Value> = before.ending.iter().map(|(name, _)| Value::from(told(name))).collect();
    for (name, version) in before.ending {
        steps.push(Step::Delete { key: key_of(environment, &name), version });
    }
    let mut names = before.names;
    names.push(name_of(&key).to_owned());
    let value = Bytes::from(json!({ "v": FORM, "sessions": names }).to_string());
    let (list, keep) = (list_key(environment, &session.who), Keep::For { whole: terms.longest, spent: Duration::ZERO });
    steps.push(match before.list {
        None => Step::Create { key: list, value, keep },
        Some(version) => Step::Replace { key: list, version, value, keep },
    });
    let mut entry = of(What::SignedIn, &key, session).with("way", way);
    if !ended.is_empty() {
        entry = entry.with("ended", ended);
    }
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// It is used. Guarded: it stands as it was seen.
pub fn stay(key: &RecordKey, standing: &Standing, now: StoreTime, terms: SessionTerms, node: &NodeId) -> Commit {
    let (session, version) = (&standing.session, standing.version);
    let step = Step::Replace { key: key.clone(), version, value: write(session), keep: keep(session, now, terms) };
    let entry = of(What::StayedIn, key, session).to_bytes();
    Commit { environment: key.environment, node: node.clone(), steps: vec![step], entry }
}

/// Its person ends it. Guarded: it stands as it was seen.
pub fn end(key: &RecordKey, standing: &Standing, node: &NodeId) -> Commit {
    let step = Step::Delete { key: key.clone(), version: standing.version };
    let entry = of(What::SignedOut, key, &standing.session).to_bytes();
    Commit { environment: key.environment, node: node.clone(), steps: vec![step], entry }
}

/// All that a person has open end. Guarded: these are all, and each stands as it was seen.
pub fn end_all(
    who: &Owner,
    list: Number,
    open: Vec<(String, Number)>,
    (by, reason): (&Owner, &str),
    (environment, node): (Environment, &NodeId),
) -> Commit {
    let ended: Vec<Value> = open.iter().map(|(name, _)| Value::from(told(name))).collect();
    let delete = |key, version| Step::Delete { key, version };
    let mut steps = vec![delete(list_key(environment, who), list)];
    steps.extend(open.into_iter().map(|(name, version)| delete(key_of(environment, &name), version)));
    let entry = Entry::of(What::SessionsEnded).by(&by.issuer, &by.subject).with("person", member_of(who));
    let entry = entry.with("reason", reason).with("ended", ended);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

fn keep(session: &Session, now: StoreTime, terms: SessionTerms) -> Keep {
    Keep::For { whole: terms.idle.min(session.until.since(now)), spent: Duration::ZERO }
}

fn of(what: What, key: &RecordKey, session: &Session) -> Entry {
    Entry::of(what).by(&session.who.issuer, &session.who.subject).with("session", told(name_of(key)))
}

fn name_of(key: &RecordKey) -> &str {
    key.name.strip_prefix("open/").unwrap_or_default()
}

fn told(name: &str) -> String {
    name.chars().take(TOLD_CHARS).collect()
}

fn write(session: &Session) -> Bytes {
    let Session { who, roles, until } = session;
    let members = json!({
        "v": FORM,
        "issuer": who.issuer,
        "subject": who.subject,
        "roles": roles,
        "untilMicros": until.as_micros(),
    });
    Bytes::from(members.to_string())
}

fn read(bytes: &[u8]) -> Option<Session> {
    let told: Value = serde_json::from_slice(bytes).ok()?;
    if told.get("v").and_then(Value::as_u64) != Some(FORM) {
        return None;
    }
    let text = |name: &str| told.get(name).and_then(Value::as_str).map(str::to_owned);
    let roles = told.get("roles")?.as_array()?.iter().map(|role| role.as_str().map(str::to_owned));
    Some(Session {
        who: Owner { issuer: text("issuer")?, subject: text("subject")? },
        roles: roles.collect::<Option<_>>()?,
        until: StoreTime::of_micros(told.get("untilMicros")?.as_i64()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: SessionTerms = SessionTerms { idle: Duration::from_secs(900), longest: Duration::from_secs(28_800) };

    fn session(until_secs: i64) -> Session {
        let who = Owner { issuer: "people".to_owned(), subject: "ops-1".to_owned() };
        Session {
            who,
            roles: BTreeSet::from(["operator".to_owned()]),
            until: StoreTime::of_micros(until_secs * 1_000_000),
        }
    }

    fn secs(secs: i64) -> StoreTime {
        StoreTime::of_micros(secs * 1_000_000)
    }

    fn record(session: &Session, at: StoreTime) -> Record {
        Record { version: Number::new(7), at, content: Content::Whole(write(session)) }
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
        let commit =
            begin(&id, &session(9), Before::default(), "token", secs(0), TERMS, (Environment::Production, &node));
        assert!(!format!("{commit:?}").contains(&text) && !format!("{id:?}").contains(&text));
        for odd in ["", "a", &text[1..], &format!("{text}A"), &format!("{}=", &text[1..])] {
            assert!(SessionId::parse(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn what_another_version_wrote_is_nobodys() {
        let good = String::from_utf8(write(&session(9)).to_vec()).unwrap();
        assert_eq!(read(good.as_bytes()), Some(session(9)));
        for odd in [good.replace("\"v\":1", "\"v\":2"), good.replace("operator\"]", "operator\",7]"), "x".to_owned()] {
            assert_eq!(read(odd.as_bytes()), None, "{odd}");
        }
    }
}
