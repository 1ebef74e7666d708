//! The statement of one day: which payments were sent, how they ended, and which are open, by operation, caller and
//! destination.
//!
//! Each line adds up: the payments that were open when the day began, with those that were sent or reopened, less those
//! that ended, are those that are open or unknown when the day ends. The next day begins with them.

mod day;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use self::day::StatementDay;
use super::destinations::DestinationNames;
use super::filter::{PaymentFilter, wrong};
use super::rows::RowMaker;
use super::{is_visible, parameters, put_extent, read_in_turn};
use crate::base::ids::{Environment, OperationId};
use crate::base::money::Decimal;
use crate::base::word_enum::word_enum;
use crate::catalog::{Catalog, Violation};
use crate::console::payment_index::{
    ForeignFact, PaymentKey, PaymentRow, PaymentStage, PaymentTerms, ReadBook, StageMark,
};
use crate::console::person::Person;
use crate::console::render::unknown_parameter;
use crate::console::request::{ActRequest, violated};
use crate::console::server::ConsoleServer;
use crate::console::state::ConsoleState;
use crate::ledger::StoreTime;
use crate::stations::reply::{Reply, ok_json};

/// The most lines of one statement.
const MAX_LINES: usize = 5_000;
/// The filters that it takes, besides the day.
const FILTERS: [&str; 5] = ["environment", "operation", "caller", "destination", "currency"];

word_enum! {
    /// The sums of each line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum StatementColumn {
        /// Open or unknown when the day began.
        Opening = "opening",
        /// Sent on this day.
        Sent = "sent",
        /// It had ended, and the end was not its last word: it went on, or ended in another way.
        Reopened = "reopened",
        Settled = "settled",
        Failed = "failed",
        Returned = "returned",
        /// Upstream refused it, or certainly never had it.
        NotExecuted = "notExecuted",
        /// Two people said that upstream did not execute it.
        Absent = "absent",
        /// Two people gave it up.
        GivenUp = "givenUp",
        /// Under way when the day ended.
        Open = "open",
        /// Nobody knew the outcome when the day ended.
        Unknown = "unknown",
        /// Found on this day: no gate sent it, or not like that.
        Foreign = "foreign",
    }
}

/// The statement that one person asks for.
pub(super) struct StatementQuery {
    pub day: StatementDay,
    filter: PaymentFilter,
}

/// What the payments of a line have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LineKey {
    environment: Environment,
    operation: String,
    /// Issuer and subject; `None` for records that no claim explains.
    owner: Option<(String, String)>,
    to: Option<Arc<str>>,
    currency: Option<String>,
    chain: Option<String>,
}

/// The number and the sum of some payments.
#[derive(Clone, Copy, Debug)]
struct CountedMoney {
    count: u64,
    /// `None` where one of them states no amount, or the sum has too many digits.
    amount: Option<Decimal>,
}

type ColumnSums = BTreeMap<StatementColumn, CountedMoney>;

#[derive(Debug, Default)]
struct StatementLine {
    sums: ColumnSums,
    /// One of its payments.
    sample: Option<PaymentKey>,
}

/// The lines of a day.
#[derive(Debug)]
pub(super) struct DayStatement {
    begin: StoreTime,
    end: StoreTime,
    lines: BTreeMap<LineKey, StatementLine>,
}

/// A payment of each line, which names its destination.
pub(super) type LineSamples = HashMap<PaymentKey, PaymentRow>;

/// Where a payment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unsent,
    /// Open, or unknown.
    UnderWay(StatementColumn),
    Ended(StatementColumn),
}

impl StatementQuery {
    pub fn parse(
        inside: &ConsoleState,
        names: &DestinationNames,
        parameters: &[(String, String)],
    ) -> Result<StatementQuery, Violation> {
        let value = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let day = value("day").ok_or_else(|| wrong("day", "required", "a day such as 2026-11-20"))?;
        let day = StatementDay::of(day, value("zone"))?;
        let mut filter = PaymentFilter::default();
        for (name, value) in parameters {
            match name.as_str() {
                "day" | "zone" => {}
                name if FILTERS.contains(&name) => filter.set(inside, names, name, value)?,
                other => return Err(unknown_parameter(other)),
            }
        }
        Ok(StatementQuery { day, filter })
    }

    /// Sums what the person may see.
    pub fn statement(&self, inside: &ConsoleState, person: &Person, read: &ReadBook) -> DayStatement {
        let mut statement = DayStatement::new(self.day.begin, self.day.end);
        let roles: Vec<&str> = person.roles().collect();
        let catalog = inside.catalog();
        let filtered = self.filter.on(&read.book);
        // Few terms are looked up, and many payments have them.
        let mut followed: HashMap<*const PaymentTerms, bool> = HashMap::new();
        let seen = read.book.rows().filter(|(key, row)| filtered.matches(key, row));
        for (key, row) in seen.filter(|(key, row)| is_visible(&inside.visibility, &roles, key.0, &row.terms)) {
            let of_operation = || is_followed(&catalog, &row.terms.operation);
            let is_followed = *followed.entry(Arc::as_ptr(&row.terms)).or_insert_with(of_operation);
            statement.add(key, row, is_followed);
        }
        let is_of = |fact: &&ForeignFact| {
            self.filter.matches_foreign(fact) && inside.visibility.shows(&roles, fact.environment, None)
        };
        read.book.foreign().filter(is_of).for_each(|fact| statement.add_foreign(fact));
        statement
    }
}

/// Whether upstream's list tells how payments of an operation end.
fn is_followed(catalog: &Catalog, operation: &str) -> bool {
    catalog.operation(&OperationId::new(operation)).is_some_and(|known| known.follow.is_some())
}

impl DayStatement {
    pub fn new(begin: StoreTime, end: StoreTime) -> DayStatement {
        DayStatement { begin, end, lines: BTreeMap::new() }
    }

    /// Takes a payment in.
    pub fn add(&mut self, key: &PaymentKey, row: &PaymentRow, is_followed: bool) {
        let mut columns = match is_over(&row.stages, is_followed, self.begin) {
            true => Vec::new(),
            false => columns_of(&row.stages, is_followed, self.begin, self.end),
        };
        if row.problem().is_some_and(|at| at >= self.begin && at < self.end) {
            columns.push(StatementColumn::Foreign);
        }
        if columns.is_empty() {
            return;
        }
        let terms = &*row.terms;
        let line = self.lines.entry(LineKey {
            environment: key.0,
            operation: terms.operation.clone(),
            owner: Some((terms.issuer.clone(), terms.subject.clone())),
            to: row.to.clone(),
            currency: terms.currency.clone(),
            chain: terms.chain.clone(),
        });
        let line = line.or_default();
        line.sample.get_or_insert_with(|| key.clone());
        columns.into_iter().for_each(|column| count(&mut line.sums, column, 1, row.amount()));
    }

    pub fn add_foreign(&mut self, fact: &ForeignFact) {
        if fact.at < self.begin || fact.at >= self.end {
            return;
        }
        let line = self.lines.entry(LineKey {
            environment: fact.environment,
            operation: fact.operation.clone(),
            owner: None,
            to: None,
            currency: fact.currency.clone(),
            chain: fact.chain.clone(),
        });
        count(&mut line.or_default().sums, StatementColumn::Foreign, 1, fact.amount);
    }

    pub fn samples(&self, read: &ReadBook) -> LineSamples {
        let keys = self.lines.values().filter_map(|line| line.sample.as_ref()).take(MAX_LINES);
        keys.filter_map(|key| Some((key.clone(), read.book.row(key)?.clone()))).collect()
    }

    /// Returns each line; `None` where there are too many.
    pub fn lines_json(&self, maker: &RowMaker<'_>, samples: &LineSamples) -> Option<Vec<Value>> {
        if self.lines.len() > MAX_LINES {
            return None;
        }
        let to = |line: &StatementLine| {
            let key = line.sample.as_ref()?;
            maker.row(key, samples.get(key)?).0.get("to").cloned()
        };
        let one = |(key, line): (&LineKey, &StatementLine)| {
            json!({
                "environment": key.environment.as_str(),
                "operation": key.operation,
                "owner": key.owner.as_ref().map(|(issuer, subject)| json!({ "issuer": issuer, "subject": subject })),
                "to": to(line),
                "currency": key.currency,
                "chain": key.chain,
                "sums": sums_json(&line.sums),
            })
        };
        Some(self.lines.iter().map(one).collect())
    }

    /// Returns the sums of all lines by environment, currency and network.
    pub fn totals_json(&self) -> Vec<Value> {
        let mut totals: BTreeMap<(Environment, Option<&str>, Option<&str>), ColumnSums> = BTreeMap::new();
        for (key, line) in &self.lines {
            let sums = totals.entry((key.environment, key.currency.as_deref(), key.chain.as_deref())).or_default();
            line.sums.iter().for_each(|(column, money)| count(sums, *column, money.count, money.amount));
        }
        let one =
            |((environment, currency, chain), sums): (&(Environment, Option<&str>, Option<&str>), &ColumnSums)| {
                json!({
                    "environment": environment.as_str(),
                    "currency": currency,
                    "chain": chain,
                    "sums": sums_json(sums),
                })
            };
        totals.iter().map(one).collect()
    }
}

fn count(sums: &mut ColumnSums, column: StatementColumn, count: u64, amount: Option<Decimal>) {
    let sum = sums.get(&column).copied().unwrap_or_else(nothing);
    let amount = sum.amount.zip(amount).and_then(|(sum, amount)| sum.plus(amount));
    sums.insert(column, CountedMoney { count: sum.count.saturating_add(count), amount });
}

fn nothing() -> CountedMoney {
    CountedMoney { count: 0, amount: Some(Decimal::ZERO) }
}

fn sums_json(sums: &ColumnSums) -> Value {
    let one = |column: StatementColumn| {
        let sum = sums.get(&column).copied().unwrap_or_else(nothing);
        let sum = json!({ "count": sum.count, "amount": sum.amount.map(|amount| amount.to_string()) });
        (column.as_str().to_owned(), sum)
    };
    Value::Object(StatementColumn::ALL.map(one).into_iter().collect::<Map<_, _>>())
}

/// Whether a payment certainly ended before a day, so that no column of it counts it: nearly all payments have.
fn is_over(stages: &[StageMark], is_followed: bool, begin: StoreTime) -> bool {
    let is_of_list = |mark: &StageMark| {
        use PaymentStage::{Failed, Open, Returned, Settled};
        matches!(mark.stage, Open | Settled | Failed | Returned)
    };
    let Some(last) = stages.iter().max_by_key(|mark| (mark.at, mark.number)) else { return true };
    let has_ended = match last.stage {
        // What the list showed before stands.
        PaymentStage::Executed => !is_followed && !stages.iter().any(is_of_list),
        stage => matches!(standing_of(stage, is_followed), Standing::Ended(_)),
    };
    last.at < begin && has_ended
}

/// Returns the columns that count a payment on a day.
fn columns_of(stages: &[StageMark], is_followed: bool, begin: StoreTime, end: StoreTime) -> Vec<StatementColumn> {
    let mut stages: Vec<StageMark> = stages.iter().filter(|mark| mark.at < end).copied().collect();
    stages.sort_by_key(|mark| (mark.at, mark.number));
    let (mut here, mut is_listed, mut columns) = (Standing::Unsent, false, Vec::new());
    let begun = stages.partition_point(|mark| mark.at < begin);
    for (place, mark) in stages.iter().enumerate() {
        if place == begun && matches!(here, Standing::UnderWay(_)) {
            columns.push(StatementColumn::Opening);
        }
        // What the list showed stands.
        if is_listed && mark.stage == PaymentStage::Executed {
            continue;
        }
        is_listed |= matches!(
            mark.stage,
            PaymentStage::Open | PaymentStage::Settled | PaymentStage::Failed | PaymentStage::Returned
        );
        let next = standing_of(mark.stage, is_followed);
        if place >= begun {
            columns.extend(moved(here, next, mark.stage).into_iter().flatten());
        }
        here = next;
    }
    if let Standing::UnderWay(column) = here {
        // None of its entries is of this day.
        columns.extend((begun == stages.len()).then_some(StatementColumn::Opening));
        columns.push(column);
    }
    columns
}

fn standing_of(stage: PaymentStage, is_followed: bool) -> Standing {
    match stage {
        PaymentStage::Executed if !is_followed => Standing::Ended(StatementColumn::Settled),
        PaymentStage::Sending | PaymentStage::Executed | PaymentStage::Open => {
            Standing::UnderWay(StatementColumn::Open)
        }
        PaymentStage::Unknown => Standing::UnderWay(StatementColumn::Unknown),
        PaymentStage::Settled => Standing::Ended(StatementColumn::Settled),
        PaymentStage::Failed => Standing::Ended(StatementColumn::Failed),
        PaymentStage::Returned => Standing::Ended(StatementColumn::Returned),
        PaymentStage::NotExecuted => Standing::Ended(StatementColumn::NotExecuted),
        PaymentStage::Absent => Standing::Ended(StatementColumn::Absent),
        PaymentStage::GivenUp => Standing::Ended(StatementColumn::GivenUp),
    }
}

/// Returns the columns that count one step of a payment, so that the line adds up.
fn moved(here: Standing, next: Standing, stage: PaymentStage) -> [Option<StatementColumn>; 2] {
    let begins = match (here, next) {
        (Standing::Unsent, _) => Some(StatementColumn::Sent),
        (Standing::Ended(_), Standing::UnderWay(_)) if stage == PaymentStage::Sending => Some(StatementColumn::Sent),
        (Standing::Ended(one), Standing::Ended(other)) if one == other => return [None, None],
        (Standing::Ended(_), _) => Some(StatementColumn::Reopened),
        (Standing::UnderWay(_), _) => None,
    };
    let ends = match next {
        Standing::Ended(column) => Some(column),
        Standing::Unsent | Standing::UnderWay(_) => None,
    };
    [begins, ends]
}

pub(in crate::console) async fn statement(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let names = DestinationNames::of(&server.inside);
    let parsed = parameters(asked).and_then(|parameters| StatementQuery::parse(&server.inside, &names, &parameters));
    let query = match parsed {
        Ok(query) => query,
        Err(violation) => return violated(vec![violation]),
    };
    let person = asked.person.clone();
    let turn = match server.readers.turn(&asked.person.who).await {
        Ok(turn) => turn,
        Err(refusal) => return *refusal,
    };
    let find = move |inside: &ConsoleState, read: &mut ReadBook| {
        let statement = query.statement(inside, &person, read);
        let mut answer = Value::Object(query.day.members(now_of(inside)));
        put_extent(&mut answer, inside, read);
        (answer, statement.samples(read), statement)
    };
    let make = move |inside: &ConsoleState, (mut answer, samples, statement): (Value, LineSamples, DayStatement)| {
        let catalog = inside.catalog();
        let maker = RowMaker { inside, catalog: &catalog, names: &names };
        let Some(lines) = statement.lines_json(&maker, &samples) else { return violated(vec![too_many()]) };
        if let Some(members) = answer.as_object_mut() {
            members.insert("lines".to_owned(), lines.into());
            members.insert("totals".to_owned(), statement.totals_json().into());
        }
        ok_json(200, &answer)
    };
    read_in_turn(server, turn, find, make).await.unwrap_or_else(|refusal| *refusal)
}

pub(super) fn now_of(inside: &ConsoleState) -> StoreTime {
    StoreTime::of_micros(inside.node.clock.now().as_microsecond())
}

/// Refuses a statement with too many lines.
pub(super) fn too_many() -> Violation {
    wrong("day", "maxItems", "at most 5,000 lines: name an operation, a caller, a destination or a currency")
}

#[cfg(test)]
mod tests;
