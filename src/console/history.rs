//! Search in the audit log of this node, and the history of one request.
//!
//! The log is read backwards from its end, a bounded part at a time; the answer says where the next query continues.
//! Personal names are in the log only as keyed hashes, so the names to search for are hashed with the same key first.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::form::pairs;
use super::payment_index::PaymentKey;
use super::render;
use super::render::name_of;
use super::request::{ActRequest, environment as served, violated};
use super::server::ConsoleServer;
use super::state::ConsoleState;
use super::story;
use crate::adapters::audit::{FilePosition, ReadBudget, Skip, read_backwards};
use crate::audit::EntryKind;
use crate::audit::{LineBody, read_line};
use crate::base::ids::Environment;
use crate::base::json::{self as strict, Limits};
use crate::base::normal;
use crate::catalog::{BodyPlace as Where, Violation};
use crate::ledger::{Number, Outstanding, StoreTime};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

/// How much is read for one query.
pub(super) const BUDGET: ReadBudget = ReadBudget { bytes: 64 * 1024 * 1024, time: Duration::from_secs(1) };
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;
/// How many entries of one request are returned at once; few requests have more.
const MAX_HISTORY: usize = 500;

/// The search conditions; an entry must meet all of them.
#[derive(Clone, Debug, Default)]
struct SoughtEntries {
    environment: Option<Environment>,
    /// The name of a claim.
    claim: Option<String>,
    /// Keyed hashes of the destination's spellings; any of them matches.
    destination: Vec<String>,
    person: Option<String>,
    day: Option<Date>,
}

/// An entry that matches.
#[derive(Debug)]
struct FoundEntries {
    environment: Environment,
    at: StoreTime,
    number: Number,
    json: Value,
}

pub(super) async fn search(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let (sought, limit, after) = match parse_search(inside, &asked.target_query) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    match find(server, asked, sought, limit, after).await {
        Ok((mut entries, next)) => {
            // The order in the file is the order of writing to disk, which can differ slightly from the order of
            // commits.
            entries.sort_by_key(|entry| Reverse((entry.at, entry.number)));
            ok_json(200, &answer(inside, entries, next))
        }
        Err(reply) => *reply,
    }
}

/// Returns the entries of one request, oldest first.
pub(super) async fn of_request(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let mut after = None;
    for (name, value) in &asked.query {
        match (name.as_str(), parse_position(value)) {
            ("after", Some(place)) => after = Some(place),
            ("after", None) => return violated(vec![invalid_position()]),
            (other, _) => return violated(vec![render::unknown_parameter(other)]),
        }
    }
    let unknown =
        || error_json(Code::RequestNotFound, "the audit log of this node has no entries of this request.", None);
    let [environment, request] = asked.path.as_slice() else { return unknown() };
    let (Some(environment), Some(claim)) = (served(inside, environment), name_of(request)) else { return unknown() };
    let sought = SoughtEntries { environment: Some(environment), claim: Some(claim), ..SoughtEntries::default() };
    match find(server, asked, sought, MAX_HISTORY, after).await {
        Ok((entries, None)) if entries.is_empty() && after.is_none() => unknown(),
        Ok((mut entries, next)) => {
            entries.sort_by_key(|entry| entry.number);
            ok_json(200, &answer(inside, entries, next))
        }
        Err(reply) => *reply,
    }
}

fn answer(inside: &ConsoleState, entries: Vec<FoundEntries>, next: Option<FilePosition>) -> Value {
    let entries: Vec<Value> = entries.into_iter().map(|entry| entry.json).collect();
    let next = next.map(|FilePosition { sequence, offset }| format!("{sequence}.{offset}"));
    json!({ "entries": entries, "next": next, "of": inside.node.id.as_str() })
}

async fn find(
    server: &ConsoleServer,
    asked: &ActRequest,
    sought: SoughtEntries,
    limit: usize,
    after: Option<FilePosition>,
) -> Result<(Vec<FoundEntries>, Option<FilePosition>), Box<Reply>> {
    let busy = || {
        Box::new(error_json(
            Code::Overloaded,
            "too many searches of the audit log are running; try again shortly.",
            None,
        ))
    };
    let room = server.readers.clone().try_acquire_owned().map_err(|_| busy())?;
    let (folder, node) = (server.inside.audit_folder.clone(), server.inside.node.id.clone());
    let (inside, payments) = (server.inside.clone(), server.payments.clone());
    let roles: Vec<&'static str> = asked.person.roles().collect();
    let reading = tokio::task::spawn_blocking(move || {
        let _room = room;
        let shows = |found: &FoundEntries| {
            found.json.get("entry").is_some_and(|entry| inside.shows_entry(&roles, found.environment, entry))
        };
        let (needles, mut found) = (sought.needles(), Vec::new());
        let span = match sought.payment() {
            Some(payment) => payments.span_of(&inside.catalog(), &payment)?,
            None => None,
        };
        let (begin, end) = (span.and_then(|span| span.begin), span.map(|span| span.end));
        // Where `after` is earlier than all that is sought, nothing is found.
        let from = after.into_iter().chain(end).min();
        let mut is_over = false;
        let place = read_backwards(&folder, &node, from, BUDGET, &|first| sought.skips(first), &mut |line, place| {
            is_over = begin.is_some_and(|begin| place < begin);
            if is_over {
                return ControlFlow::Break(());
            }
            found.extend(sought.match_line(line, &needles).filter(shows));
            if found.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok::<_, std::io::Error>((found, place.filter(|_| !is_over)))
    });
    match reading.await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidInput => {
            Err(Box::new(violated(vec![invalid_position()])))
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot read the audit log");
            Err(Box::new(unreadable()))
        }
        Err(error) => {
            tracing::error!(%error, "a task that read the audit log failed");
            Err(Box::new(unreadable()))
        }
    }
}

pub(super) fn unreadable() -> Reply {
    error_json(Code::AuditUnavailable, "the audit log cannot be read at the moment; nothing was done.", None)
}

/// Parses the entry of a line.
pub(super) fn entry(line: &[u8]) -> Option<(Outstanding, Value)> {
    let Ok(LineBody::Entry(outstanding)) = read_line(line).map(|line| line.body) else { return None };
    let entry = strict::parse(&outstanding.entry, Limits::ANSWER).ok()?;
    Some((outstanding, entry))
}

impl SoughtEntries {
    /// Returns groups of texts: a matching line contains one text of each group. Most other lines need no parsing.
    fn needles(&self) -> Vec<Vec<String>> {
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
    fn payment(&self) -> Option<PaymentKey> {
        Some((self.environment?, self.claim.as_deref()?.into()))
    }

    fn match_line(&self, line: &[u8], needles: &[Vec<String>]) -> Option<FoundEntries> {
        let text = std::str::from_utf8(line).ok()?;
        if !needles.iter().all(|any| any.iter().any(|needle| text.contains(needle.as_str()))) {
            return None;
        }
        let (outstanding, entry) = entry(line)?;
        self.matches(&outstanding, &entry).then(|| FoundEntries {
            environment: outstanding.environment,
            at: outstanding.at,
            number: outstanding.number,
            json: story::entry_json(&outstanding, entry),
        })
    }

    fn matches(&self, outstanding: &Outstanding, entry: &Value) -> bool {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
        // These entries appear only in a search for the person.
        let quiet = [EntryKind::StayedIn, EntryKind::Telling, EntryKind::Told].map(EntryKind::as_str);
        let is_quiet = text("/what").is_some_and(|what| quiet.contains(&what));
        let is_there = ["user", "wallet", "externalWallet", "account"].into_iter().any(|way| {
            let stated = text(&format!("/operands/destination/{way}"));
            stated.is_some_and(|stated| self.destination.iter().any(|name| name == stated))
        });
        self.environment.is_none_or(|environment| environment == outstanding.environment)
            && self.claim.as_deref().is_none_or(|claim| text("/claim") == Some(claim))
            && (self.destination.is_empty() || is_there)
            && self.person.as_deref().map_or(!is_quiet, |person| story::is_about(entry, person))
            && self.day.is_none_or(|day| date(outstanding.at) == Some(day))
    }

    /// Decides whether a file can be skipped by its first day. An entry taken over from another node may be slightly
    /// older.
    fn skips(&self, first: &[u8]) -> Skip {
        let (Some(day), Ok(LineBody::Header(header))) = (self.day, read_line(first).map(|line| line.body)) else {
            return Skip::No;
        };
        let Some(begun) = date(header.at) else { return Skip::No };
        if day.tomorrow().is_ok_and(|tomorrow| begun > tomorrow) {
            Skip::This
        } else if day.yesterday().is_ok_and(|yesterday| begun < yesterday) {
            Skip::AndAllBefore
        } else {
            Skip::No
        }
    }
}

fn date(at: StoreTime) -> Option<Date> {
    let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
    Some(at.to_zoned(TimeZone::UTC).date())
}

/// Parses a query into conditions, a limit and a position.
fn parse_search(inside: &ConsoleState, query: &str) -> Result<(SoughtEntries, usize, Option<FilePosition>), Violation> {
    let wrong = |name: &str, keyword, expected: &str| Violation::new(name, keyword, expected).inside(Where::Query);
    let pairs = pairs(query).ok_or_else(|| wrong("", "pattern", "form-encoded names and values, each name once"))?;
    let (mut sought, mut limit, mut after) = (SoughtEntries::default(), DEFAULT_LIMIT, None);
    for (name, value) in &pairs {
        let is_long = value.is_empty() || value.len() > 512;
        let some = || if is_long { Err(wrong(name, "maxLength", "1 to 512 characters")) } else { Ok(value.clone()) };
        match name.as_str() {
            "environment" => {
                let environment = served(inside, value);
                let environment =
                    environment.ok_or_else(|| wrong(name, "enum", "an environment that this gate serves"))?;
                sought.environment = Some(environment);
            }
            "requestId" => {
                let claim = name_of(value).ok_or_else(|| wrong(name, "pattern", "a requestId"))?;
                sought.claim = Some(claim);
            }
            "destination" => {
                let (key, value) = (&inside.node.operand_key, some()?);
                let spellings = [normal::wallet(None, normal::uuid(&value)), value];
                sought.destination = spellings.iter().map(|spelling| key.name("name", spelling)).collect();
            }
            "person" => sought.person = Some(some()?),
            "day" => {
                let day: Option<Date> = value.parse().ok().filter(|_| value.len() == "2026-11-20".len());
                sought.day = Some(day.ok_or_else(|| wrong(name, "format", "a day such as 2026-11-20"))?);
            }
            "limit" => {
                let number = value.parse().ok().filter(|number| (1..=MAX_LIMIT).contains(number));
                limit = number.ok_or_else(|| wrong(name, "maximum", "a number from 1 to 100"))?;
            }
            "after" => after = Some(parse_position(value).ok_or_else(invalid_position)?),
            other => return Err(render::unknown_parameter(other)),
        }
    }
    Ok((sought, limit, after))
}

fn parse_position(text: &str) -> Option<FilePosition> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let (sequence, offset) = text.split_once('.').filter(|_| is_plain)?;
    Some(FilePosition { sequence: sequence.parse().ok()?, offset: offset.parse().ok()? })
}

fn invalid_position() -> Violation {
    Violation::new("after", "pattern", "`next` of the previous answer").inside(Where::Query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{FileHeader, Hash, Highest, LineText};
    use crate::ledger::NodeId;

    fn sought(day: &str) -> SoughtEntries {
        SoughtEntries { day: Some(day.parse().unwrap()), ..SoughtEntries::default() }
    }

    #[test]
    fn only_files_of_about_the_day_are_read() {
        let header = |at: &str| {
            let at = StoreTime::of_micros(at.parse::<jiff::Timestamp>().unwrap().as_microsecond());
            let node = NodeId::parse("a").unwrap();
            let header = FileHeader { node, sequence: 1, at, highest: Highest::new(), snapshot: None, anew: [].into() };
            let mut line = Vec::new();
            LineText::of_header(&header).unwrap().put_behind(Hash::NOTHING, &mut line);
            line.strip_suffix(b"\n").unwrap_or(&line).to_vec()
        };
        let day = sought("2026-11-20");
        for (at, skip) in [
            ("2026-11-22T00:00:00Z", Skip::This),
            ("2026-11-21T00:00:00Z", Skip::No),
            ("2026-11-20T12:00:00Z", Skip::No),
            ("2026-11-19T23:59:59Z", Skip::No),
            ("2026-11-18T23:59:59Z", Skip::AndAllBefore),
        ] {
            assert_eq!(day.skips(&header(at)), skip, "{at}");
            assert_eq!(SoughtEntries::default().skips(&header(at)), Skip::No);
        }
        assert_eq!(day.skips(b"no header"), Skip::No);
    }

    #[test]
    fn a_place_is_written_in_one_way() {
        assert_eq!(parse_position("3.77"), Some(FilePosition { sequence: 3, offset: 77 }));
        for odd in ["", "3", "3.", ".7", "3.7.1", "+3.7", "3.-7", "3.99999999999999999999"] {
            assert_eq!(parse_position(odd), None, "{odd}");
        }
    }
}
