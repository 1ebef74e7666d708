//! The list of holds: open holds, the first to expire first; or closed holds, the latest first. One page examines a
//! bounded number of them.

use serde_json::{Map, Value};

use super::form::pairs;
use super::page::PageParameters;
use super::payments::JudgedHold;
use super::rank_memory::MAX_RANKED;
use super::ranks::{HoldOrder, Ranked, ranked, read_hold};
use super::request::ActRequest;
use super::state::ConsoleState;
use super::view::{HoldView, HoldViewer};
use crate::base::ids::{Environment, HoldId};
use crate::catalog::{BodyPlace, Violation};
use crate::ledger::{Index, IndexPart, StoreFault, StoreTime};
use crate::stations::hold::{Hold, HoldState};

/// How many holds are examined for one page.
const MAX_EXAMINED: usize = 1_000;
/// How many names are fetched at once.
const BATCH: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedHolds {
    Open,
    Pending,
    Approved,
    Released,
    Declined,
    Ended,
}

const STATES: [(&str, WantedHolds); 6] = [
    ("open", WantedHolds::Open),
    ("pending", WantedHolds::Pending),
    ("approved", WantedHolds::Approved),
    ("released", WantedHolds::Released),
    ("declined", WantedHolds::Declined),
    ("ended", WantedHolds::Ended),
];

/// The filters of the list.
#[derive(Debug, Default)]
struct QueueFilter {
    operation: Option<String>,
    /// The subject of the caller, or of the person behind it.
    by: Option<String>,
    approval: Option<String>,
    /// A text in lower case that the id, the requestId, a person, a rule or the words contain.
    text: Option<String>,
    /// Only holds that wait for this person's vote.
    mine: bool,
    /// The other end of the list first: of open holds the last to expire.
    is_latest_first: bool,
    /// An order that the index does not have.
    order: Option<HoldOrder>,
    /// Whether earlier payments are told with each hold.
    with_earlier: bool,
}

/// The last hold of the previous page: its position in the index, or in another order, and its id.
type Last = (i64, String);

/// The holds of a page that were found so far.
#[derive(Default)]
struct QueuePage {
    holds: Vec<JudgedHold>,
    searched: usize,
    last: Option<String>,
}

/// Why a page of the queue cannot be read.
pub(super) enum QueueFault {
    Store(StoreFault),
    /// The order cannot be had.
    Order(Violation),
}

impl From<StoreFault> for QueueFault {
    fn from(fault: StoreFault) -> QueueFault {
        QueueFault::Store(fault)
    }
}

/// A page of the list and its filters.
pub(super) struct Queue {
    page: PageParameters<WantedHolds, Last>,
    filter: QueueFilter,
}

impl WantedHolds {
    /// Returns the index that has them, and whether the latest come first.
    fn index(self) -> (Index, bool) {
        match self {
            WantedHolds::Open | WantedHolds::Pending => (Index::Held, false),
            WantedHolds::Approved => (Index::Approved, false),
            WantedHolds::Released | WantedHolds::Declined | WantedHolds::Ended => (Index::Ended, true),
        }
    }

    fn is(self, state: &HoldState) -> bool {
        match self {
            WantedHolds::Open => state.is_open(),
            WantedHolds::Pending => *state == HoldState::Pending,
            WantedHolds::Approved => *state == HoldState::Approved,
            WantedHolds::Released => *state == HoldState::Released,
            WantedHolds::Declined => matches!(state, HoldState::Declined(_)),
            WantedHolds::Ended => !state.is_open(),
        }
    }
}

impl QueueFilter {
    fn set(&mut self, name: &str, value: &str) -> Result<bool, Violation> {
        let is_true = || {
            let wrong = |_| Violation::new(name, "enum", "`true` or `false`").inside(BodyPlace::Query);
            value.parse().map_err(wrong)
        };
        let place = match name {
            "operation" => &mut self.operation,
            "by" => &mut self.by,
            "approval" => &mut self.approval,
            "text" => {
                self.text = Some(value.to_lowercase());
                return Ok(true);
            }
            "order" => {
                let expected = "`expiry`, `latest`, `value`, `caller` or `destination`";
                let wrong = || Violation::new(name, "enum", expected).inside(BodyPlace::Query);
                (self.is_latest_first, self.order) = match value {
                    "expiry" => (false, None),
                    "latest" => (true, None),
                    "value" => (false, Some(HoldOrder::Value)),
                    "caller" => (false, Some(HoldOrder::Caller)),
                    "destination" => (false, Some(HoldOrder::Destination)),
                    _ => return Err(wrong()),
                };
                return Ok(true);
            }
            "mine" => {
                self.mine = is_true()?;
                return Ok(true);
            }
            "earlier" => {
                self.with_earlier = is_true()?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        *place = Some(value.to_owned());
        Ok(true)
    }

    /// Applies the filters that need only the record.
    fn matches(&self, hold: &Hold) -> bool {
        let is = |wanted: &Option<String>, has: &dyn Fn(&str) -> bool| wanted.as_deref().is_none_or(has);
        is(&self.operation, &|id| hold.operation.as_str() == id)
            && is(&self.by, &|who| hold.by.subject == who || hold.by.requester.as_deref() == Some(who))
            && is(&self.approval, &|name| hold.asked.contains(name))
    }
}

impl QueueFilter {
    /// Whether the hold, as the list shows it, contains the text.
    fn finds(&self, hold: &Map<String, Value>) -> bool {
        let Some(text) = &self.text else { return true };
        let pointers = ["/id", "/requestId", "/operation", "/requester", "/owner/subject", "/destination/name"];
        let hold = Value::Object(hold.clone());
        let lists =
            ["/words", "/reasons", "/destination/lists"].into_iter().filter_map(|list| hold.pointer(list)?.as_array());
        let of_lists = lists.flatten().flat_map(|one| [one.get("text"), one.get("rule"), Some(one)]);
        let all = pointers.into_iter().map(|pointer| hold.pointer(pointer)).chain(of_lists);
        all.flatten().filter_map(Value::as_str).any(|found| found.to_lowercase().contains(text.as_str()))
    }
}

impl Queue {
    pub fn of(inside: &ConsoleState, asked: &ActRequest) -> Result<Queue, Violation> {
        let mut filter = QueueFilter::default();
        let further = |name: &str, value: &str| filter.set(name, value);
        let odd =
            || Violation::new("", "pattern", "form-encoded names and values, each name once").inside(BodyPlace::Query);
        let query = pairs(&asked.target_query).ok_or_else(odd)?;
        let page = PageParameters::of(inside, &query, &STATES, WantedHolds::Open, last, further)?;
        if filter.order.is_some() && page.state.index().1 {
            return Err(bad_order("`latest`: only open holds have another order"));
        }
        Ok(Queue { page, filter })
    }

    /// Reads a page and returns the position of the next one. A page may have fewer holds than its limit without
    /// being the last.
    pub async fn read(
        &self,
        inside: &ConsoleState,
        asked: &ActRequest,
    ) -> Result<(Vec<JudgedHold>, Option<String>), QueueFault> {
        let PageParameters { environments, state, after, .. } = &self.page;
        let viewer = HoldViewer::of(inside, &asked.person, environments).await?;
        let (index, is_closed) = state.index();
        let backwards = is_closed || self.filter.is_latest_first;
        let mut page = QueuePage::default();
        for environment in environments {
            let behind = match after {
                Some((at, _)) if environment < at => continue,
                Some((at, last)) if environment == at => Some(last),
                Some(_) | None => None,
            };
            if let Some(order) = self.filter.order {
                let ranks = ranked((inside, &viewer), *environment, index, order).await?;
                let Ranked::Holds(names) = ranks else {
                    return Err(QueueFault::Order(bad_order(&format!(
                        "`expiry` or `latest`: more than {MAX_RANKED} holds are open"
                    ))));
                };
                // A hold that is gone leaves its place to those behind it.
                let begin = behind.map_or(0, |(at, last)| {
                    let found = names.iter().position(|name| name == last).map(|at| at.saturating_add(1));
                    found.unwrap_or_else(|| usize::try_from(*at).unwrap_or_default())
                });
                for (at, name) in names.iter().enumerate().skip(begin) {
                    if self.is_full(&page) {
                        return Ok((page.holds, page.last));
                    }
                    page.searched = page.searched.saturating_add(1);
                    page.holds.extend(self.one(inside, &viewer, *environment, name).await?);
                    page.last = Some(format!("{environment}:{at}:{name}"));
                }
                continue;
            }
            let mut behind = behind.map(|(micros, name)| (StoreTime::of_micros(*micros), name.clone()));
            loop {
                let part = IndexPart { backwards, behind: behind.take(), count: BATCH };
                let part = inside.node.store.part(*environment, index, part).await?;
                let is_last = part.len() < BATCH;
                for (due, name) in part {
                    if self.is_full(&page) {
                        return Ok((page.holds, page.last));
                    }
                    page.searched = page.searched.saturating_add(1);
                    page.holds.extend(self.one(inside, &viewer, *environment, &name).await?);
                    page.last = Some(format!("{environment}:{}:{name}", due.as_micros()));
                    behind = Some((due, name));
                }
                if is_last {
                    break;
                }
            }
        }
        Ok((page.holds, None))
    }

    fn is_full(&self, page: &QueuePage) -> bool {
        page.holds.len() >= self.page.limit || page.searched >= MAX_EXAMINED
    }

    /// Reads one hold, and returns it if it matches.
    async fn one(
        &self,
        inside: &ConsoleState,
        viewer: &HoldViewer<'_>,
        environment: Environment,
        name: &str,
    ) -> Result<Option<JudgedHold>, StoreFault> {
        let Some((key, record, hold)) = read_hold(inside, environment, name).await? else { return Ok(None) };
        let is_shown = viewer.shows(environment, &hold);
        if !is_shown || !self.page.state.is(&hold.state) || !self.filter.matches(&hold) {
            return Ok(None);
        }
        let view = viewer.view(&key, &record, &hold).await?;
        let is_wanted = |view: &HoldView<'_>| {
            (!self.filter.mine || viewer.is_mine(view)) && self.filter.finds(&viewer.summary(view))
        };
        let Some(view) = view.filter(is_wanted) else { return Ok(None) };
        let earlier = view.earlier_query().filter(|_| self.filter.with_earlier);
        Ok(Some(JudgedHold { json: viewer.row(&view).await?, earlier }))
    }
}

fn bad_order(expected: &str) -> Violation {
    Violation::new("order", "enum", expected).inside(BodyPlace::Query)
}

fn last(text: &str) -> Option<Last> {
    let (micros, id) = text.split_once(':')?;
    Some((micros.parse().ok()?, HoldId::parse(id)?.to_string()))
}
