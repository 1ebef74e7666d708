//! What happened, from the audit chain of this node: searched, and told of one request.
//!
//! The chain is read from its end, a bounded part at a time; who asks goes on where the answer says. Personal names stand
//! in it under a key alone, so what is looked for is put under that key first.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::asked::{Asked, environment as served, violated};
use super::desk::Desk;
use super::form::pairs;
use super::story;
use super::told::{self, name_of};
use crate::adapters::audit::{Budget, ReadPlace as Place, Skip, read_backwards};
use crate::base::ids::Environment;
use crate::base::json::{self as strict, Limits};
use crate::base::normal;
use crate::catalog::{Place as Where, Violation};
use crate::chain::{Body, read_line};
use crate::commit::{Number, Outstanding, StoreTime};
use crate::gateway::Inside;
use crate::stations::record::What;
use crate::stations::reply::{Code, Reply, said, unsaid};

/// As much is read for one question.
pub(super) const BUDGET: Budget = Budget { bytes: 64 * 1024 * 1024, time: Duration::from_secs(1) };
const USUAL: usize = 50;
const LONGEST: usize = 100;
/// Of one request there is seldom more.
const LONGEST_STORY: usize = 500;

/// What is looked for; all of it must be so.
#[derive(Clone, Debug, Default)]
struct Sought {
    environment: Option<Environment>,
    /// The name of a claim.
    claim: Option<String>,
    /// Names under the audit key, any of them.
    destination: Vec<String>,
    person: Option<String>,
    day: Option<Date>,
}

/// An Entry that is what was looked for.
#[derive(Debug)]
struct Found {
    at: StoreTime,
    number: Number,
    told: Value,
}

pub(super) async fn search(desk: &Desk, asked: &Asked) -> Reply {
    let inside = &desk.inside;
    let (sought, limit, after) = match wanted(inside, &asked.target_query) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    match find(desk, sought, limit, after).await {
        Ok((mut entries, next)) => {
            // In the file an Entry stands where it was brought to disk, which may be a little later than others.
            entries.sort_by_key(|entry| Reverse((entry.at, entry.number)));
            said(200, &answer(inside, entries, next))
        }
        Err(reply) => *reply,
    }
}

/// The story of one request, in its order.
pub(super) async fn tell(desk: &Desk, asked: &Asked) -> Reply {
    let inside = &desk.inside;
    let mut after = None;
    for (name, value) in &asked.query {
        match (name.as_str(), place(value)) {
            ("after", Some(place)) => after = Some(place),
            ("after", None) => return violated(vec![no_place()]),
            (other, _) => return violated(vec![told::unknown_parameter(other)]),
        }
    }
    let unknown = || unsaid(Code::RequestNotFound, "the chain of this node tells nothing of this call.", None);
    let [environment, request] = asked.path.as_slice() else { return unknown() };
    let (Some(environment), Some(claim)) = (served(inside, environment), name_of(request)) else { return unknown() };
    let sought = Sought { environment: Some(environment), claim: Some(claim), ..Sought::default() };
    match find(desk, sought, LONGEST_STORY, after).await {
        Ok((entries, None)) if entries.is_empty() && after.is_none() => unknown(),
        Ok((mut entries, next)) => {
            entries.sort_by_key(|entry| entry.number);
            said(200, &answer(inside, entries, next))
        }
        Err(reply) => *reply,
    }
}

fn answer(inside: &Inside, entries: Vec<Found>, next: Option<Place>) -> Value {
    let entries: Vec<Value> = entries.into_iter().map(|entry| entry.told).collect();
    let next = next.map(|Place { sequence, offset }| format!("{sequence}.{offset}"));
    json!({ "entries": entries, "next": next, "of": inside.books.node.as_str() })
}

async fn find(
    desk: &Desk,
    sought: Sought,
    limit: usize,
    after: Option<Place>,
) -> Result<(Vec<Found>, Option<Place>), Box<Reply>> {
    let busy = || Box::new(unsaid(Code::Overloaded, "as many are looking back as may be.", None));
    let room = desk.readers.clone().try_acquire_owned().map_err(|_| busy())?;
    let (folder, node) = (desk.inside.audit_folder.clone(), desk.inside.books.node.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let _room = room;
        let (needles, mut found) = (sought.needles(), Vec::new());
        let place = read_backwards(&folder, &node, after, BUDGET, &|first| sought.skips(first), &mut |line, _| {
            found.extend(sought.found(line, &needles));
            if found.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        place.map(|place| (found, place))
    });
    match reading.await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidInput => Err(Box::new(violated(vec![no_place()]))),
        Ok(Err(error)) => {
            tracing::error!(%error, "the audit chain cannot be read back");
            Err(Box::new(unreadable()))
        }
        Err(error) => {
            tracing::error!(%error, "a task that read the audit chain did not end");
            Err(Box::new(unreadable()))
        }
    }
}

pub(super) fn unreadable() -> Reply {
    unsaid(Code::AuditUnavailable, "the audit chain cannot be read at this moment; nothing was done.", None)
}

/// An Entry of a line, and what it says.
pub(super) fn entry(line: &[u8]) -> Option<(Outstanding, Value)> {
    let Ok(Body::Entry(outstanding)) = read_line(line).map(|line| line.body) else { return None };
    let entry = strict::parse(&outstanding.entry, Limits::ANSWER).ok()?;
    Some((outstanding, entry))
}

impl Sought {
    /// Texts that stand in every line that is sought, one of each: most lines need not be taken apart.
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

    fn found(&self, line: &[u8], needles: &[Vec<String>]) -> Option<Found> {
        let text = std::str::from_utf8(line).ok()?;
        if !needles.iter().all(|any| any.iter().any(|needle| text.contains(needle.as_str()))) {
            return None;
        }
        let (outstanding, entry) = entry(line)?;
        self.is_it(&outstanding, &entry).then(|| Found {
            at: outstanding.at,
            number: outstanding.number,
            told: story::as_told(&outstanding, entry),
        })
    }

    fn is_it(&self, outstanding: &Outstanding, entry: &Value) -> bool {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
        // Of no interest but to who looks for the person.
        let quiet = [What::StayedIn, What::Telling, What::Told].map(What::as_str);
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

    /// A file begins with the day and ends with it; what was taken over from another node may be a little older.
    fn skips(&self, first: &[u8]) -> Skip {
        let (Some(day), Ok(Body::Header(header))) = (self.day, read_line(first).map(|line| line.body)) else {
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

/// What a query asks for.
fn wanted(inside: &Inside, query: &str) -> Result<(Sought, usize, Option<Place>), Violation> {
    let wrong = |name: &str, keyword, expected: &str| Violation::new(name, keyword, expected).inside(Where::Query);
    let pairs = pairs(query).ok_or_else(|| wrong("", "pattern", "names and values as in a form, each name once"))?;
    let (mut sought, mut limit, mut after) = (Sought::default(), USUAL, None);
    for (name, value) in &pairs {
        let is_long = value.is_empty() || value.len() > 512;
        let some = || if is_long { Err(wrong(name, "maxLength", "1 to 512 characters")) } else { Ok(value.clone()) };
        match name.as_str() {
            "environment" => {
                let environment = served(inside, value);
                let environment =
                    environment.ok_or_else(|| wrong(name, "enum", "an environment that is served here"))?;
                sought.environment = Some(environment);
            }
            "requestId" => {
                let claim = name_of(value).ok_or_else(|| wrong(name, "pattern", "a requestId"))?;
                sought.claim = Some(claim);
            }
            "destination" => {
                let (key, value) = (&inside.books.operand_key, some()?);
                let spellings = [normal::wallet(None, normal::uuid(&value)), value];
                sought.destination = spellings.iter().map(|spelling| key.name("name", spelling)).collect();
            }
            "person" => sought.person = Some(some()?),
            "day" => {
                let day: Option<Date> = value.parse().ok().filter(|_| value.len() == "2026-11-20".len());
                sought.day = Some(day.ok_or_else(|| wrong(name, "format", "a day, as 2026-11-20"))?);
            }
            "limit" => {
                let number = value.parse().ok().filter(|number| (1..=LONGEST).contains(number));
                limit = number.ok_or_else(|| wrong(name, "maximum", "a number from 1 to 100"))?;
            }
            "after" => after = Some(place(value).ok_or_else(no_place)?),
            other => return Err(told::unknown_parameter(other)),
        }
    }
    Ok((sought, limit, after))
}

fn place(text: &str) -> Option<Place> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let (sequence, offset) = text.split_once('.').filter(|_| is_plain)?;
    Some(Place { sequence: sequence.parse().ok()?, offset: offset.parse().ok()? })
}

fn no_place() -> Violation {
    Violation::new("after", "pattern", "`next` of the answer before").inside(Where::Query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Hash, Header, Highest, Text};
    use crate::commit::NodeId;

    fn sought(day: &str) -> Sought {
        Sought { day: Some(day.parse().unwrap()), ..Sought::default() }
    }

    #[test]
    fn only_files_of_about_the_day_are_read() {
        let header = |at: &str| {
            let at = StoreTime::of_micros(at.parse::<jiff::Timestamp>().unwrap().as_microsecond());
            let node = NodeId::parse("a").unwrap();
            let header = Header { node, sequence: 1, at, highest: Highest::new() };
            let mut line = Vec::new();
            Text::of_header(&header).unwrap().put_behind(Hash::NOTHING, &mut line);
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
            assert_eq!(Sought::default().skips(&header(at)), Skip::No);
        }
        assert_eq!(day.skips(b"no header"), Skip::No);
    }

    #[test]
    fn a_place_is_written_in_one_way() {
        assert_eq!(place("3.77"), Some(Place { sequence: 3, offset: 77 }));
        for odd in ["", "3", "3.", ".7", "3.7.1", "+3.7", "3.-7", "3.99999999999999999999"] {
            assert_eq!(place(odd), None, "{odd}");
        }
    }
}
