//! Whether a sandbox bears out what following payments relies on: its list is read twice, at the begin and at the end, and
//! its pages are compared with each other and with the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::ProbeClient;
use super::probes::{Probe, ProbeKind};
use crate::base::money::Decimal;
use crate::base::normal;
use crate::base::word_enum::word_enum;
use crate::catalog::{Catalog, Follow, Operation};
use crate::stations::follow::{ListedPage, ListedRecord, listed_page};

/// The most records of a page, and the most pages of a reading.
const PAGE: usize = 100;
const MAX_PAGES: usize = 5;
/// Pages overlap by so much.
const OVERLAP_MICROS: i64 = 1_000;

word_enum! {
    /// What following relies on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum FollowFact {
        /// Pages come latest first, and the next one can overlap the one before.
        Pages = "pages",
        /// Records of one moment are all listed, wherever a page ends.
        EqualTimes = "equal-times",
        /// Each state is one of the contract.
        States = "states",
        /// States move only forward in the order of the contract.
        Ranks = "ranks",
        /// Each record says whether upstream made it by itself.
        MadeByUpstream = "made-by-upstream",
        /// Each record states an amount that can be counted.
        Amounts = "amounts",
        /// Each record that a caller made has a requestId, and no two have the same.
        RequestIds = "request-ids",
        /// The record of each call that `--request-id` names is listed under it.
        NamedCalls = "named-calls",
    }
}

word_enum! {
    /// What the sandbox showed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum FactResult {
        BorneOut = "borne-out",
        Differs = "differs",
        /// The sandbox has no records that would show it.
        NotShown = "not-shown",
    }
}

/// One fact of one list.
#[derive(Debug)]
pub(super) struct FactRow {
    pub operation: String,
    pub fact: FollowFact,
    pub result: FactResult,
    pub detail: String,
}

impl FactRow {
    pub fn to_json(&self) -> Value {
        json!({
            "operation": self.operation,
            "fact": self.fact.as_str(),
            "result": self.result.as_str(),
            "detail": self.detail,
        })
    }
}

/// The lists of followed payments as they were at first.
pub(super) struct FollowTrial {
    lists: Vec<(Arc<Operation>, Vec<ListedPage>)>,
}

impl FollowTrial {
    /// Reads each list.
    pub async fn begin(catalog: &Catalog, client: &ProbeClient) -> FollowTrial {
        let mut lists = Vec::new();
        for operation in catalog.operations().iter().filter(|operation| operation.enabled) {
            if let Some(follow) = &operation.follow {
                lists.push((operation.clone(), read_pages(catalog, client, operation, follow).await));
            }
        }
        FollowTrial { lists }
    }

    /// Reads each list again, and judges both readings.
    pub async fn end(self, catalog: &Catalog, client: &ProbeClient, named: &[String]) -> Vec<FactRow> {
        let mut rows = Vec::new();
        for (operation, first) in &self.lists {
            let Some(follow) = &operation.follow else { continue };
            let second = read_pages(catalog, client, operation, follow).await;
            let equal = equal_times(catalog, client, operation, follow, &second).await;
            let records: Vec<&ListedRecord> = second.iter().flat_map(|page| &page.records).collect();
            let facts = [
                (FollowFact::Pages, pages(&second)),
                (FollowFact::EqualTimes, equal),
                (FollowFact::States, states(follow, &records)),
                (FollowFact::Ranks, ranks(follow, first, &records)),
                (FollowFact::MadeByUpstream, made_by_upstream(follow, &records)),
                (FollowFact::Amounts, amounts(&records)),
                (FollowFact::RequestIds, request_ids(&records)),
                (FollowFact::NamedCalls, named_calls(&records, named)),
            ];
            let row = |(fact, (result, detail)): (FollowFact, Judgement)| FactRow {
                operation: operation.id.to_string(),
                fact,
                result,
                detail,
            };
            rows.extend(facts.map(row));
        }
        rows
    }
}

type Judgement = (FactResult, String);

fn borne_out(detail: String) -> Judgement {
    (FactResult::BorneOut, detail)
}

fn differs(detail: String) -> Judgement {
    (FactResult::Differs, detail)
}

fn not_shown(detail: &str) -> Judgement {
    (FactResult::NotShown, detail.to_owned())
}

/// Reads a list from the latest record on, each page overlapping the one before.
async fn read_pages(
    catalog: &Catalog,
    client: &ProbeClient,
    operation: &Operation,
    follow: &Follow,
) -> Vec<ListedPage> {
    let (mut pages, mut before) = (Vec::new(), None);
    while pages.len() < MAX_PAGES {
        let Some(page) = read_page(catalog, client, (operation, follow), PAGE, before).await else { break };
        let (last, count) = (page.last, page.count);
        pages.push(page);
        let next = last.map(|last| last.saturating_add(OVERLAP_MICROS));
        if count == 0 || next.is_none() || before.zip(next).is_some_and(|(before, next)| next >= before) {
            break;
        }
        before = next;
    }
    pages
}

async fn read_page(
    catalog: &Catalog,
    client: &ProbeClient,
    (operation, follow): (&Operation, &Follow),
    limit: usize,
    before: Option<i64>,
) -> Option<ListedPage> {
    let list = catalog.operation(&follow.operation)?.clone();
    let before = match before {
        Some(micros) => format!("&createdBefore={}", Timestamp::from_microsecond(micros).ok()?),
        None => String::new(),
    };
    let target = format!("{}?limit={limit}{before}", list.template.fill(&[]));
    let answer = client.send(&Probe { operation: list, kind: ProbeKind::Read, target, body: None }).await.ok()?;
    if answer.status != 200 {
        return None;
    }
    listed_page(operation, follow, &answer.body, PAGE)
}

fn pages(pages: &[ListedPage]) -> Judgement {
    let Some(first) = pages.first() else { return differs("the list cannot be read".to_owned()) };
    let unreadable: usize = pages.iter().map(|page| page.unreadable).sum();
    if unreadable > 0 {
        return differs(format!("{unreadable} records have no id, state or time, or another form"));
    }
    if pages.iter().any(|page| !page.records.is_sorted_by(|newer, older| newer.created >= older.created)) {
        return differs("a page is not sorted, the latest first".to_owned());
    }
    let Some((last, second)) = first.records.last().zip(pages.get(1)) else {
        return not_shown("the list is empty");
    };
    // A page that begins a millisecond after the last record of the page before has that record again.
    if !second.records.iter().any(|record| record.id == last.id) {
        return differs(
            "`createdBefore` is not read to the millisecond: a page does not overlap the one before".to_owned(),
        );
    }
    borne_out(format!("{} pages", pages.len()))
}

/// Asks for a page that ends between two records of one moment, and for the next one.
async fn equal_times(
    catalog: &Catalog,
    client: &ProbeClient,
    operation: &Operation,
    follow: &Follow,
    pages: &[ListedPage],
) -> Judgement {
    let records = pages.first().map(|page| page.records.as_slice()).unwrap_or_default();
    let pair = records.windows(2).enumerate().find_map(|(place, pair)| match pair {
        [one, other] if one.created == other.created => Some((place, one, other)),
        _ => None,
    });
    let Some((place, one, other)) = pair else { return not_shown("no two records have the same time") };
    let limit = place.saturating_add(1);
    let Some(cut) = read_page(catalog, client, (operation, follow), limit, None).await else {
        return differs(format!("a page of {limit} records cannot be read"));
    };
    let next = cut.last.map(|last| last.saturating_add(OVERLAP_MICROS));
    let next = read_page(catalog, client, (operation, follow), PAGE, next).await;
    let has = |page: &ListedPage, record: &ListedRecord| page.records.iter().any(|one| one.id == record.id);
    match next {
        Some(next) if [one, other].iter().all(|record| has(&cut, record) || has(&next, record)) => {
            borne_out("two records of one moment, on either side of the end of a page".to_owned())
        }
        Some(_) => differs("a record is lost where a page ends between two of one moment".to_owned()),
        None => differs("the page behind two records of one moment cannot be read".to_owned()),
    }
}

fn states(follow: &Follow, records: &[&ListedRecord]) -> Judgement {
    let seen: BTreeSet<&str> = records.iter().map(|record| record.state.as_str()).collect();
    let unknown: Vec<&str> = seen.iter().copied().filter(|state| follow.rank(state).is_none()).collect();
    match (seen.len(), unknown.as_slice()) {
        (0, _) => not_shown("the list is empty"),
        (_, []) => borne_out(format!("{} of {}", seen.len(), follow.states.len())),
        (_, unknown) => differs(format!("the contract does not list {}", unknown.join(", "))),
    }
}

fn ranks(follow: &Follow, first: &[ListedPage], records: &[&ListedRecord]) -> Judgement {
    let before: BTreeMap<&str, &str> =
        first.iter().flat_map(|page| &page.records).map(|record| (record.id.as_str(), record.state.as_str())).collect();
    let moved = records.iter().filter_map(|record| {
        let before = *before.get(record.id.as_str())?;
        (before != record.state).then_some((before, record.state.as_str()))
    });
    let moved: BTreeSet<(&str, &str)> = moved.collect();
    let back = moved.iter().find(|(before, after)| follow.rank(after) < follow.rank(before));
    match (moved.len(), back) {
        (_, Some((before, after))) => differs(format!("a payment went from {before} back to {after}")),
        (0, None) => not_shown("no state changed between the two readings; `--watch-secs` waits longer"),
        (count, None) => borne_out(format!("{count} kinds of changes, all forward")),
    }
}

fn made_by_upstream(follow: &Follow, records: &[&ListedRecord]) -> Judgement {
    let Some(pointer) = &follow.made_by_upstream else { return not_shown("the contract names no field for it") };
    if records.is_empty() {
        return not_shown("the list is empty");
    }
    let has_none = |record: &&&ListedRecord| pointer.get(&record.record).is_none();
    let missing = records.iter().filter(has_none).count();
    let made = records.iter().filter(|record| record.is_upstreams).count();
    match (missing, made) {
        (1.., _) => differs(format!("`{pointer}` is missing in {missing} of {} records", records.len())),
        (0, 0) => not_shown("every record was made by a caller"),
        (0, made) => borne_out(format!("{made} of {} were made by upstream", records.len())),
    }
}

fn amounts(records: &[&ListedRecord]) -> Judgement {
    let can_count = |text: &Option<String>| text.as_ref().is_some_and(|text| Decimal::parse(text).is_ok());
    let is_stated = |record: &&&ListedRecord| {
        let (source, destination) = (&record.moves.source, &record.moves.destination);
        (can_count(&source.amount) && source.currency.is_some())
            || (can_count(&destination.amount) && destination.currency.is_some())
    };
    let stated = records.iter().filter(is_stated).count();
    match records.len() {
        0 => not_shown("the list is empty"),
        all if all == stated => borne_out(format!("{all} records state an amount and its currency")),
        all => differs(format!("{} of {all} records state no amount with its currency", all.saturating_sub(stated))),
    }
}

fn request_ids(records: &[&ListedRecord]) -> Judgement {
    let made: Vec<&&ListedRecord> = records.iter().filter(|record| !record.is_upstreams).collect();
    let mut records_of: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for record in &made {
        if let Some(id) = &record.request_id {
            records_of.entry(normal::uuid(id)).or_default().insert(&record.id);
        }
    }
    let without = made.iter().filter(|record| record.request_id.is_none()).count();
    let repeated = records_of.values().filter(|ids| ids.len() > 1).count();
    match (made.len(), without, repeated) {
        (0, ..) => not_shown("no record was made by a caller"),
        (_, 0, 0) => borne_out(format!("{} records have one of their own", records_of.len())),
        (_, without, repeated) => {
            differs(format!("{without} records have none, and {repeated} requestIds have several records"))
        }
    }
}

fn named_calls(records: &[&ListedRecord], named: &[String]) -> Judgement {
    let is_listed = |id: &&String| {
        let id = normal::uuid(id);
        records.iter().any(|record| record.request_id.as_ref().is_some_and(|other| normal::uuid(other) == id))
    };
    let found = named.iter().filter(is_listed).count();
    match named.len() {
        0 => not_shown("name a call that you made in the sandbox with `--request-id`"),
        all if all == found => borne_out(format!("{all} of {all} calls are listed")),
        all => differs(format!("{found} of {all} calls are listed")),
    }
}
