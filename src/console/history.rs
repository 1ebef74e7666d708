//! Search in the audit log of this node, and the history of one request.
//!
//! The log is read backwards from its end, a bounded part at a time; the answer says where the next query continues.
//! Personal names are in the log only as keyed hashes, so the names to search for are hashed with the same key first.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};

use super::form::pairs;
use super::history_query::{SoughtEntries, invalid_position, parse_position, position_text};
use super::payments::money_of_entries;
use super::render;
use super::render::name_of;
use super::request::{ActRequest, environment as served, unreadable, violated};
use super::server::ConsoleServer;
use super::state::ConsoleState;
use super::story;
use crate::adapters::audit::{FilePosition, ReadBudget, read_backwards};
use crate::audit::{Hash, LineBody, read_line, split_steps};
use crate::base::ids::Environment;
use crate::base::json::{self as strict, Limits};
use crate::catalog::{BodyPlace as Where, Violation};
use crate::ledger::{Number, Outstanding, StoreTime};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

/// How much is read for one query.
pub(super) const BUDGET: ReadBudget = ReadBudget { bytes: 64 * 1024 * 1024, time: Duration::from_secs(1) };
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;
/// The most bytes of entries that are returned at once; the answer says where the next query continues.
const MAX_FOUND_BYTES: usize = 8 << 20;
/// How many entries of one request are returned at once; few requests have more.
const MAX_HISTORY: usize = 500;

/// A search: what, how many entries, from where, and how much is read for it.
pub(super) struct HistorySearch {
    pub sought: SoughtEntries,
    pub limit: usize,
    pub after: Option<FilePosition>,
    pub budget: ReadBudget,
}

/// An entry that matches.
#[derive(Debug)]
pub(super) struct FoundEntry {
    pub environment: Environment,
    at: StoreTime,
    number: Number,
    /// Of the line, without its place in the journal.
    pub hash: Hash,
    pub json: Value,
}

pub(super) async fn search(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let search = match parse_search(inside, &asked.target_query) {
        Ok(search) => search,
        Err(violation) => return violated(vec![violation]),
    };
    match find_latest(server, asked, search).await {
        Ok((entries, next)) => ok_json(200, &answer(inside, entries, next)),
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
    let sought = SoughtEntries::of_claim(environment, claim);
    let search = HistorySearch { sought, limit: MAX_HISTORY, after, budget: BUDGET };
    match find(server, asked, search).await {
        Ok((entries, None)) if entries.is_empty() && after.is_none() => unknown(),
        Ok((mut entries, next)) => {
            entries.sort_by_key(|entry| entry.number);
            ok_json(200, &answer(inside, entries, next))
        }
        Err(reply) => *reply,
    }
}

/// Returns the numbers of the wanted entries of a claim; `None` where this part of the journal may lack some. Before the entry
/// that begins them, there is none.
pub(super) async fn numbers_of_claim(
    server: &ConsoleServer,
    asked: &ActRequest,
    (environment, claim): (Environment, String),
    is_wanted: &(dyn Fn(&Value) -> bool + Sync),
    begins: &(dyn Fn(&Value) -> bool + Sync),
) -> Result<Option<Vec<Number>>, Box<Reply>> {
    let sought = SoughtEntries::of_claim(environment, claim);
    let search = HistorySearch { sought, limit: MAX_HISTORY, after: None, budget: BUDGET };
    let (entries, next) = find(server, asked, search).await?;
    let with = |is: &dyn Fn(&Value) -> bool, found: &FoundEntry| found.json.get("entry").is_some_and(is);
    let is_whole = next.is_none() || entries.iter().any(|entry| with(begins, entry));
    let wanted = entries.iter().filter(|entry| with(is_wanted, entry)).map(|entry| entry.number).collect();
    Ok(is_whole.then_some(wanted))
}

fn answer(inside: &ConsoleState, entries: Vec<FoundEntry>, next: Option<FilePosition>) -> Value {
    let entries: Vec<Value> = entries.into_iter().map(|entry| entry.json).collect();
    let next = next.map(position_text);
    json!({ "entries": entries, "next": next, "of": inside.node.id.as_str() })
}

/// Finds entries, the latest first.
pub(super) async fn find_latest(
    server: &ConsoleServer,
    asked: &ActRequest,
    search: HistorySearch,
) -> Result<(Vec<FoundEntry>, Option<FilePosition>), Box<Reply>> {
    let (mut entries, next) = find(server, asked, search).await?;
    // The order in the file is the order of writing to disk, which can differ slightly from the order of commits.
    entries.sort_by_key(|entry| Reverse((entry.at, entry.number)));
    Ok((entries, next))
}

async fn find(
    server: &ConsoleServer,
    asked: &ActRequest,
    HistorySearch { sought, limit, after, budget }: HistorySearch,
) -> Result<(Vec<FoundEntry>, Option<FilePosition>), Box<Reply>> {
    let room = server.readers.turn(&asked.person.who).await?;
    let (folder, node) = (server.inside.audit_folder.clone(), server.inside.node.id.clone());
    let (inside, payments) = (server.inside.clone(), server.payments.clone());
    let roles: Vec<&'static str> = asked.person.roles().collect();
    let reading = tokio::task::spawn_blocking(move || {
        let _room = room;
        let shows = |found: &FoundEntry| {
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
        let (mut is_over, mut bytes) = (false, 0_usize);
        let place = read_backwards(&folder, &node, from, budget, &|first| sought.skips(first), &mut |line, place| {
            is_over = begin.is_some_and(|begin| place < begin);
            if is_over {
                return ControlFlow::Break(());
            }
            if let Some(one) = match_line(&sought, line, &needles).filter(shows) {
                bytes = bytes.saturating_add(line.len());
                found.push(one);
            }
            if found.len() >= limit || bytes >= MAX_FOUND_BYTES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        // A position that cannot be read is not the one that was asked for.
        let read = payments.caught_up(&inside.catalog()).map_err(std::io::Error::other)?;
        let entry_of = |one: &'_ FoundEntry| one.json.get("entry").cloned().unwrap_or_default();
        let entries: Vec<(Environment, Value)> = found.iter().map(|one| (one.environment, entry_of(one))).collect();
        let money = money_of_entries(&inside, &roles, &read, &entries);
        for (one, money) in found.iter_mut().zip(money) {
            if let (Some(members), false) = (one.json.as_object_mut(), money.is_null()) {
                members.insert("payment".to_owned(), money);
            }
        }
        Ok::<_, std::io::Error>((found, place.filter(|_| !is_over), read.is_filling()))
    });
    match reading.await {
        Ok(Ok((found, place, is_filling))) => {
            if is_filling {
                server.payments.fill(server.inside.catalog(), server.inside.stopping.clone());
            }
            Ok((found, place))
        }
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

/// Parses the entry of a line.
pub(super) fn entry(line: &[u8]) -> Option<(Outstanding, Value)> {
    let Ok(LineBody::Entry(outstanding)) = read_line(line).map(|line| line.body) else { return None };
    let entry = without_steps(&outstanding)?;
    Some((outstanding, entry))
}

/// Returns an entry without the steps of its commit: these are for stores, and have what not every role may see.
fn without_steps(outstanding: &Outstanding) -> Option<Value> {
    strict::parse(&split_steps(&outstanding.entry).ok()?.bare, Limits::ANSWER).ok()
}

/// Returns the entry of a line, if it is sought.
fn match_line(sought: &SoughtEntries, line: &[u8], needles: &[Vec<String>]) -> Option<FoundEntry> {
    let text = std::str::from_utf8(line).ok()?;
    if !needles.iter().all(|any| any.iter().any(|needle| text.contains(needle.as_str()))) {
        return None;
    }
    let read = read_line(line).ok()?;
    let LineBody::Entry(outstanding) = &read.body else { return None };
    let entry = without_steps(outstanding)?;
    sought.matches(outstanding, &entry).then(|| FoundEntry {
        environment: outstanding.environment,
        at: outstanding.at,
        number: outstanding.number,
        hash: read.content(),
        json: story::entry_json(outstanding, entry),
    })
}

/// Parses a query into a search.
fn parse_search(inside: &ConsoleState, query: &str) -> Result<HistorySearch, Violation> {
    let wrong = |name: &str, keyword, expected: &str| Violation::new(name, keyword, expected).inside(Where::Query);
    let pairs = pairs(query).ok_or_else(|| wrong("", "pattern", "form-encoded names and values, each name once"))?;
    let mut search =
        HistorySearch { sought: SoughtEntries::default(), limit: DEFAULT_LIMIT, after: None, budget: BUDGET };
    for (name, value) in &pairs {
        match name.as_str() {
            "limit" => {
                let number = value.parse().ok().filter(|number| (1..=MAX_LIMIT).contains(number));
                search.limit = number.ok_or_else(|| wrong(name, "maximum", "a number from 1 to 100"))?;
            }
            "after" => search.after = Some(parse_position(value).ok_or_else(invalid_position)?),
            name => search.sought.set(inside, name, value)?,
        }
    }
    Ok(search)
}
