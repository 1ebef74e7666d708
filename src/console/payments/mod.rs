//! The acts on payments: list them with their sums, show one, sum them day by day, and export them.
//!
//! | module | contents |
//! |---|---|
//! | `filter` | which payments are wanted |
//! | `tally` | exact sums, and the rows of a page |
//! | `callers` | the callers whose calls are in the list |
//! | `destinations` | names and addresses of the ends |
//! | `earlier` | earlier payments to the destinations of holds |
//! | `paid_alike` | paid addresses that look like the destinations of holds |
//! | `entry_money` | the money that the calls of audit entries move |
//! | `rows` | a payment as JSON |
//! | `statement` | what was sent, ended and is open on one day |
//! | `export` | CSV and JSON lines, with their audit entry |

mod callers;
mod destinations;
mod earlier;
mod entry_money;
mod export;
mod filter;
mod paid_alike;
mod rows;
mod statement;
mod tally;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use self::destinations::DestinationNames;
use self::filter::{PaymentFilter, wrong};
use self::rows::RowMaker;
use self::tally::{DailyMoney, PaymentTally, SortKey};
use super::form::pairs;
use super::payment_index::{PaymentBook, PaymentDay, PaymentIndex, PaymentKey, PaymentRow, PaymentTerms, ReadBook};
use super::readers::JournalTurn;
use super::render::{moment, name_of};
use super::request::{ActRequest, environment as served, unreadable, violated};
use super::server::ConsoleServer;
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::ledger::StoreTime;
use crate::people::visibility::Visibility;
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Reply, error_json, ok_json};

pub(super) use callers::known_callers;
pub(super) use earlier::{EarlierQuery, JudgedHold, put_earlier};
pub(super) use entry_money::money_of_entries;
pub(super) use export::export;
pub(super) use filter::{day, in_order};
pub(super) use statement::statement;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;
const MAX_DAYS: i64 = 90;
const DEFAULT_DAYS: i64 = 30;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PaymentOrder {
    /// The latest first.
    #[default]
    Time,
    /// The largest value first.
    Value,
}

/// The payments that one person asks for.
struct PaymentQuery {
    filter: PaymentFilter,
    order: PaymentOrder,
    limit: usize,
    after: Option<SortKey>,
}

impl PaymentOrder {
    fn key(self, row: &PaymentRow) -> SortKey {
        let by = if self == PaymentOrder::Value { row.value.unwrap_or(0) } else { 0 };
        (by, row.at.as_micros(), row.number)
    }
}

impl PaymentQuery {
    fn parse(
        inside: &ConsoleState,
        names: &DestinationNames,
        parameters: &[(String, String)],
    ) -> Result<PaymentQuery, Violation> {
        let (filter, order, limit, after) = (PaymentFilter::default(), PaymentOrder::Time, DEFAULT_LIMIT, None);
        let mut query = PaymentQuery { filter, order, limit, after };
        for (name, value) in parameters {
            match (name.as_str(), value.as_str()) {
                ("sort", "time") => query.order = PaymentOrder::Time,
                ("sort", "value") => query.order = PaymentOrder::Value,
                ("sort", _) => return Err(wrong(name, "enum", "`time` or `value`")),
                ("limit", value) => {
                    let number = value.parse().ok().filter(|number| (1..=MAX_LIMIT).contains(number));
                    query.limit = number.ok_or_else(|| wrong(name, "maximum", "a number from 1 to 100"))?;
                }
                ("after", value) => {
                    let after = parse_position(value);
                    query.after = Some(after.ok_or_else(|| wrong(name, "pattern", "`next` of the previous page"))?);
                }
                (name, value) => query.filter.set(inside, names, name, value)?,
            }
        }
        Ok(query)
    }

    /// Sums what a person with these roles may see, and finds the rows of the page.
    fn tally(&self, visibility: &Visibility, roles: &[&str], book: &PaymentBook) -> PaymentTally {
        self.tally_and_tell(visibility, roles, book, &mut |_| ())
    }

    /// Sums and finds; tells each payment that it looks at.
    fn tally_and_tell(
        &self,
        visibility: &Visibility,
        roles: &[&str],
        book: &PaymentBook,
        looked_at: &mut dyn FnMut(&PaymentRow),
    ) -> PaymentTally {
        let mut tally = PaymentTally::new(self.limit, self.after);
        let is_seen = |environment, terms: &PaymentTerms| is_visible(visibility, roles, environment, terms);
        let filtered = self.filter.on(book);
        let is_wanted = |key: &PaymentKey, row: &PaymentRow| filtered.matches(key, row) && is_seen(key.0, &row.terms);
        if !self.filter.is_of_groups() {
            for (key, row) in book.rows() {
                looked_at(row);
                if is_wanted(key, row) {
                    tally.add(key.0, row.status, &row.terms, row.sum());
                    self.offer(key, row, &mut tally);
                }
            }
            return tally;
        }
        let (mut days, mut parts) = (BTreeSet::new(), BTreeSet::new());
        for (group, sum) in book.groups() {
            if self.filter.matches_group(group) && is_seen(group.environment, &group.terms) {
                days.insert(group.day);
                if self.filter.wants_whole(group.day) {
                    tally.add(group.environment, group.status, &group.terms, *sum);
                } else {
                    parts.insert(group.day);
                }
            }
        }
        for (key, row) in parts.into_iter().flat_map(|day| book.payments_of_day(day, None)) {
            looked_at(row);
            if is_wanted(key, row) {
                tally.add(key.0, row.status, &row.terms, row.sum());
            }
        }
        for (key, row) in self.candidates(days, book) {
            looked_at(row);
            // Most payments are not of this page: this is asked first.
            if tally.wants(self.order.key(row)) && is_wanted(key, row) {
                self.offer(key, row, &mut tally);
            }
            if self.order == PaymentOrder::Time && tally.is_full() {
                break;
            }
        }
        tally
    }

    /// Returns the payments among which those of the page are; in the order of time, the latest first.
    fn candidates<'b>(
        &self,
        days: BTreeSet<PaymentDay>,
        book: &'b PaymentBook,
    ) -> Box<dyn Iterator<Item = (&'b PaymentKey, &'b PaymentRow)> + 'b> {
        let before = self.after.map(|(_, at, number)| (StoreTime::of_micros(at), number));
        match self.order {
            PaymentOrder::Value => Box::new(book.rows()),
            PaymentOrder::Time => {
                Box::new(days.into_iter().rev().flat_map(move |day| book.payments_of_day(day, before)))
            }
        }
    }

    fn offer(&self, key: &PaymentKey, row: &PaymentRow, tally: &mut PaymentTally) {
        let sort = self.order.key(row);
        if tally.wants(sort) {
            tally.put(key, sort);
        }
    }
}

/// Whether a person with these roles sees a payment with these terms.
fn is_visible(visibility: &Visibility, roles: &[&str], environment: Environment, terms: &PaymentTerms) -> bool {
    visibility.shows(roles, environment, Some((&terms.issuer, &terms.subject)))
}

pub(super) async fn list(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let names = DestinationNames::of(&server.inside);
    let parsed = parameters(asked).and_then(|parameters| PaymentQuery::parse(&server.inside, &names, &parameters));
    let query = match parsed {
        Ok(query) => query,
        Err(violation) => return violated(vec![violation]),
    };
    let person = asked.person.clone();
    with_book(server, &asked.person.who, move |inside, read| {
        let tally = query.tally(&inside.visibility, &person.roles().collect::<Vec<_>>(), &read.book);
        let (sums, count) = (tally.sums_json(), tally.count);
        let (page, next) = tally.page();
        let catalog = inside.catalog();
        let maker = RowMaker { inside, catalog: &catalog, names: &names };
        let rows = page.iter().filter_map(|key| Some(maker.row(key, read.book.row(key)?).0));
        let rows: Vec<Value> = rows.collect();
        let next = next.map(position_text);
        let mut answer = json!({ "payments": rows, "next": next, "count": count, "sums": sums });
        put_extent(&mut answer, inside, read);
        ok_json(200, &answer)
    })
    .await
}

pub(super) async fn show(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let unknown = || error_json(Code::RequestNotFound, "the list of payments has no call with this name.", None);
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![super::render::unknown_parameter(name)]);
    }
    let [environment, request] = asked.path.as_slice() else { return unknown() };
    let (Some(environment), Some(claim)) = (served(&server.inside, environment), name_of(request)) else {
        return unknown();
    };
    let (names, person) = (DestinationNames::of(&server.inside), asked.person.clone());
    with_book(server, &asked.person.who, move |inside, read| {
        let key = (environment, Arc::from(claim));
        let roles: Vec<&str> = person.roles().collect();
        let Some(row) = read.book.row(&key).filter(|row| is_visible(&inside.visibility, &roles, key.0, &row.terms))
        else {
            return if read.is_filling() { still_reading(read) } else { unknown() };
        };
        let catalog = inside.catalog();
        let maker = RowMaker { inside, catalog: &catalog, names: &names };
        ok_json(200, &maker.row(&key, row).0)
    })
    .await
}

/// Sums the money of each of the last days.
pub(super) async fn by_day(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let (mut days, mut environment) = (DEFAULT_DAYS, None);
    for (name, value) in &asked.query {
        match name.as_str() {
            "days" => match value.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days)) {
                Some(wanted) => days = wanted,
                None => return violated(vec![wrong(name, "maximum", "a number from 1 to 90")]),
            },
            "environment" => match served(inside, value) {
                Some(served) => environment = Some(served),
                None => return violated(vec![wrong(name, "enum", "an environment that this gate serves")]),
            },
            other => return violated(vec![super::render::unknown_parameter(other)]),
        }
    }
    let today = inside.node.clock.now().to_zoned(TimeZone::UTC).date();
    let all_days: Vec<Date> =
        (0..days).rev().filter_map(|ago| today.checked_sub(jiff::Span::new().try_days(ago).ok()?).ok()).collect();
    let person = asked.person.clone();
    with_book(server, &asked.person.who, move |inside, read| {
        let mut money = DailyMoney::default();
        let roles: Vec<&str> = person.roles().collect();
        let wanted = read.book.groups().filter(|(group, _)| environment.is_none_or(|one| group.environment == one));
        wanted
            .filter(|(group, _)| is_visible(&inside.visibility, &roles, group.environment, &group.terms))
            .for_each(|(group, sum)| money.add(group, *sum));
        let mut answer = json!({ "days": money.to_json(&all_days) });
        put_extent(&mut answer, inside, read);
        ok_json(200, &answer)
    })
    .await
}

/// Says that a payment may be among those that are still to be read.
fn still_reading(read: &ReadBook) -> Reply {
    let back_to = read.since().map(moment);
    let back_to =
        back_to.as_ref().and_then(Value::as_str).map_or_else(String::new, |at| format!(", back to {at} so far"));
    let message =
        format!("the gate still reads its audit log{back_to}, and has not met this payment yet; try again shortly.");
    error_json(Code::Overloaded, &message, None)
}

/// Says which payments an answer is about.
fn put_extent(answer: &mut Value, inside: &ConsoleState, read: &ReadBook) {
    let extent = [
        ("since", read.since().map_or(Value::Null, moment)),
        ("complete", read.is_complete().into()),
        ("reading", read.is_filling().into()),
        ("of", inside.node.id.as_str().into()),
        ("auditFolder", inside.audit_folder.display().to_string().into()),
    ];
    if let Some(members) = answer.as_object_mut() {
        members.extend(extent.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// Parses the query of a list.
fn parameters(asked: &ActRequest) -> Result<Vec<(String, String)>, Violation> {
    let odd = || wrong("", "pattern", "form-encoded names and values, each name once");
    pairs(&asked.target_query).ok_or_else(odd)
}

/// Answers from the book of payments, after it was read as far as one answer may take.
async fn with_book(
    server: &ConsoleServer,
    who: &Owner,
    answer: impl FnOnce(&ConsoleState, &ReadBook) -> Reply + Send + 'static,
) -> Reply {
    read_book(server, who, |inside, read| answer(inside, read)).await.unwrap_or_else(|refusal| *refusal)
}

/// Returns what is found in the book of payments, after it was read as far as one answer may take.
async fn read_book<T: Send + 'static>(
    server: &ConsoleServer,
    who: &Owner,
    find: impl FnOnce(&ConsoleState, &mut ReadBook) -> T + Send + 'static,
) -> Result<T, Box<Reply>> {
    let turn = server.readers.turn(who).await?;
    read_in_turn(server, turn, find, |_, found| found).await
}

/// The same in a turn. What is found is made into an answer once others can read the book.
async fn read_in_turn<F, T: Send + 'static>(
    server: &ConsoleServer,
    turn: JournalTurn,
    find: impl FnOnce(&ConsoleState, &mut ReadBook) -> F + Send + 'static,
    make: impl FnOnce(&ConsoleState, F) -> T + Send + 'static,
) -> Result<T, Box<Reply>> {
    let (inside, index): (ConsoleState, Arc<PaymentIndex>) = (server.inside.clone(), server.payments.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let (found, is_filling) = {
            let mut read = index.caught_up(&inside.catalog())?;
            (find(&inside, &mut read), read.is_filling())
        };
        Ok::<_, std::io::Error>((make(&inside, found), is_filling))
    });
    match reading.await {
        Ok(Ok((made, is_filling))) => {
            if is_filling {
                server.payments.fill(server.inside.catalog(), server.inside.stopping.clone());
            }
            Ok(made)
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

fn parse_position(text: &str) -> Option<SortKey> {
    let mut parts = text.split('.');
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let position = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (is_plain && parts.next().is_none()).then_some(position)
}

fn position_text((by, at, number): SortKey) -> String {
    format!("{by}.{at}.{number}")
}

#[cfg(test)]
mod tests;
