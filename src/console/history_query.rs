//! The conditions of a search in the audit log: parsed from a query, or from the body of an export.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::payment_index::PaymentKey;
use super::payments::{day, in_order};
use super::render::{name_of, unknown_parameter};
use super::request::environment as served;
use super::state::ConsoleState;
use super::story;
use crate::adapters::audit::{FilePosition, Skip};
use crate::audit::{EntryKind, LineBody, read_line};
use crate::base::ids::Environment;
use crate::base::normal;
use crate::catalog::{BodyPlace as Where, Violation};
use crate::ledger::{Outstanding, StoreTime};

const DAY_MICROS: i64 = 86_400_000_000;

/// The search conditions; an entry must meet all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct SoughtEntries {
    environment: Option<Environment>,
    /// The name of a claim.
    claim: Option<String>,
    /// Keyed hashes of the destination's spellings; any of them matches.
    destination: Vec<String>,
    person: Option<String>,
    from: Option<StoreTime>,
    /// The first time that is not sought any more.
    until: Option<StoreTime>,
    /// Whether sign-ins and other entries of sessions are sought: there are many of them.
    with_sessions: bool,
}

/// Entries of sessions, which a search shows only if it asks for them, or for their person.
const OF_SESSIONS: [EntryKind; 3] = [EntryKind::SignedIn, EntryKind::StayedIn, EntryKind::SignedOut];
/// Entries of webhooks, which a search shows only for a person.
const OF_NOTICES: [EntryKind; 2] = [EntryKind::Telling, EntryKind::Told];

impl SoughtEntries {
    /// Seeks the entries of one claim.
    pub fn of_claim(environment: Environment, claim: String) -> SoughtEntries {
        SoughtEntries { environment: Some(environment), claim: Some(claim), ..SoughtEntries::default() }
    }

    /// Takes one parameter.
    pub fn set(&mut self, inside: &ConsoleState, name: &str, value: &str) -> Result<(), Violation> {
        let wrong = |keyword, expected: &str| Violation::new(name, keyword, expected).inside(Where::Query);
        let is_long = value.is_empty() || value.len() > 512;
        let some = || if is_long { Err(wrong("maxLength", "1 to 512 characters")) } else { Ok(value.to_owned()) };
        match name {
            "environment" => {
                let environment = served(inside, value);
                self.environment =
                    Some(environment.ok_or_else(|| wrong("enum", "an environment that this gate serves"))?);
            }
            "requestId" => self.claim = Some(name_of(value).ok_or_else(|| wrong("pattern", "a requestId"))?),
            "destination" => {
                let (key, value) = (&inside.node.operand_key, some()?);
                let spellings = [normal::wallet(None, normal::uuid(&value)), value];
                self.destination = spellings.iter().map(|spelling| key.name("name", spelling)).collect();
            }
            "person" => self.person = Some(some()?),
            "from" => self.from = Some(day(name, value, false)?),
            "until" => self.until = Some(day(name, value, true)?),
            "sessions" => {
                self.with_sessions = value.parse().map_err(|_| wrong("enum", "`true` or `false`"))?;
            }
            other => return Err(unknown_parameter(other)),
        }
        in_order(self.from, self.until)
    }

    /// Returns groups of texts: a matching line contains one text of each group. Most other lines need no parsing.
    pub fn needles(&self) -> Vec<Vec<String>> {
        let quoted = |text: &str| Value::from(text).to_string();
        let inside = |text: &str| quoted(text).trim_matches('"').to_owned();
        let mut needles = Vec::new();
        needles.extend(self.claim.as_ref().map(|claim| vec![format!("\"claim\":{}", quoted(claim))]));
        needles.extend(self.person.as_ref().map(|person| vec![inside(person)]));
        if !self.destination.is_empty() {
            needles.push(self.destination.iter().map(|name| quoted(name)).collect());
        }
        needles
    }

    /// Returns the payment whose entries are sought.
    pub fn payment(&self) -> Option<PaymentKey> {
        Some((self.environment?, self.claim.as_deref()?.into()))
    }

    pub fn matches(&self, outstanding: &Outstanding, entry: &Value) -> bool {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
        let is_of = |kinds: &[EntryKind]| kinds.iter().any(|kind| text("/what") == Some(kind.as_str()));
        let is_quiet = is_of(&OF_NOTICES) || (!self.with_sessions && is_of(&OF_SESSIONS));
        let is_there = ["user", "wallet", "externalWallet", "account"].into_iter().any(|way| {
            let stated = text(&format!("/operands/destination/{way}"));
            stated.is_some_and(|stated| self.destination.iter().any(|name| name == stated))
        });
        self.environment.is_none_or(|environment| environment == outstanding.environment)
            && self.claim.as_deref().is_none_or(|claim| text("/claim") == Some(claim))
            && (self.destination.is_empty() || is_there)
            && self.person.as_deref().map_or(!is_quiet, |person| story::is_about(entry, person))
            && self.from.is_none_or(|from| outstanding.at >= from)
            && self.until.is_none_or(|until| outstanding.at < until)
    }

    /// Decides by its first line whether a file can be skipped: a new file begins with each day. An entry taken over
    /// from another node may be slightly older.
    pub fn skips(&self, first: &[u8]) -> Skip {
        let Ok(LineBody::Header(header)) = read_line(first).map(|line| line.body) else { return Skip::No };
        let is_later = |until: StoreTime| header.at.as_micros() >= until.as_micros().saturating_add(DAY_MICROS);
        if self.until.is_some_and(is_later) {
            return Skip::This;
        }
        let is_earlier = |from: StoreTime| {
            let (begun, from) = (date(header.at)?, date(from)?);
            Some(from.yesterday().is_ok_and(|yesterday| begun < yesterday))
        };
        if self.from.and_then(is_earlier) == Some(true) { Skip::AndAllBefore } else { Skip::No }
    }
}

fn date(at: StoreTime) -> Option<Date> {
    let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
    Some(at.to_zoned(TimeZone::UTC).date())
}

pub(super) fn parse_position(text: &str) -> Option<FilePosition> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let (sequence, offset) = text.split_once('.').filter(|_| is_plain)?;
    Some(FilePosition { sequence: sequence.parse().ok()?, offset: offset.parse().ok()? })
}

pub(super) fn position_text(FilePosition { sequence, offset }: FilePosition) -> String {
    format!("{sequence}.{offset}")
}

pub(super) fn invalid_position() -> Violation {
    Violation::new("after", "pattern", "`next` of the previous answer").inside(Where::Query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{FileHeader, Hash, Highest, LineText};
    use crate::ledger::NodeId;

    fn sought(from: &str, until: &str) -> SoughtEntries {
        SoughtEntries {
            from: Some(day("from", from, false).unwrap()),
            until: Some(day("until", until, true).unwrap()),
            ..SoughtEntries::default()
        }
    }

    #[test]
    fn only_files_of_about_the_wanted_days_are_read() {
        let header = |at: &str| {
            let at = StoreTime::of_micros(at.parse::<jiff::Timestamp>().unwrap().as_microsecond());
            let node = NodeId::parse("a").unwrap();
            let header = FileHeader { node, sequence: 1, at, highest: Highest::new(), snapshot: None, anew: [].into() };
            let mut line = Vec::new();
            LineText::of_header(&header).unwrap().put_behind(Hash::NOTHING, &mut line);
            line.strip_suffix(b"\n").unwrap_or(&line).to_vec()
        };
        let (one_day, three_days) = (sought("2026-11-20", "2026-11-20"), sought("2026-11-18", "2026-11-20"));
        for (at, of_one, of_three) in [
            ("2026-11-22T00:00:00Z", Skip::This, Skip::This),
            ("2026-11-21T00:00:00Z", Skip::No, Skip::No),
            ("2026-11-20T12:00:00Z", Skip::No, Skip::No),
            ("2026-11-19T23:59:59Z", Skip::No, Skip::No),
            ("2026-11-18T23:59:59Z", Skip::AndAllBefore, Skip::No),
            ("2026-11-16T23:59:59Z", Skip::AndAllBefore, Skip::AndAllBefore),
        ] {
            assert_eq!((one_day.skips(&header(at)), three_days.skips(&header(at))), (of_one, of_three), "{at}");
            assert_eq!(SoughtEntries::default().skips(&header(at)), Skip::No);
        }
        assert_eq!(one_day.skips(b"no header"), Skip::No);
    }

    #[test]
    fn a_place_is_written_in_one_way() {
        assert_eq!(parse_position("3.77"), Some(FilePosition { sequence: 3, offset: 77 }));
        for odd in ["", "3", "3.", ".7", "3.7.1", "+3.7", "3.-7", "3.99999999999999999999"] {
            assert_eq!(parse_position(odd), None, "{odd}");
        }
    }
}
