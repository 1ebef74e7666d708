//! Which holds are listed: those that wait, those that expire first before all others; or those that are over, the latest
//! first. However many there are, one page looks at a bounded part of them.

use serde_json::Value;

use super::asked::Asked;
use super::page::Page;
use super::view::{Look, Seen};
use crate::base::ids::{Environment, HoldId};
use crate::catalog::{Place, Violation};
use crate::commit::{Index, StoreFault, StoreTime};
use crate::gateway::Inside;
use crate::journey::holds::key;
use crate::ports::Part;
use crate::stations::hold::{Hold, State};

/// So many are looked at for one page, if they have to be searched.
const SEARCHED: usize = 1_000;
/// So many names are fetched at one stroke.
const STRIDE: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Open,
    Pending,
    Approved,
    Released,
    Declined,
    Ended,
}

const STATES: [(&str, Wanted); 6] = [
    ("open", Wanted::Open),
    ("pending", Wanted::Pending),
    ("approved", Wanted::Approved),
    ("released", Wanted::Released),
    ("declined", Wanted::Declined),
    ("ended", Wanted::Ended),
];

/// What they must be besides.
#[derive(Debug, Default)]
struct Filter {
    operation: Option<String>,
    /// The subject of the caller, or of the person behind it.
    by: Option<String>,
    approval: Option<String>,
    /// They wait for the vote of whoever asks.
    mine: bool,
}

/// Of the page before, the last: its place in the index.
type Last = (i64, String);

/// What is asked for.
pub(super) struct Queue {
    page: Page<Wanted, Last>,
    filter: Filter,
}

impl Wanted {
    /// Where they stand, and whether the latest come first.
    fn index(self) -> (Index, bool) {
        match self {
            Wanted::Open | Wanted::Pending => (Index::Held, false),
            Wanted::Approved => (Index::Approved, false),
            Wanted::Released | Wanted::Declined | Wanted::Ended => (Index::Ended, true),
        }
    }

    fn is(self, state: &State) -> bool {
        match self {
            Wanted::Open => state.is_open(),
            Wanted::Pending => *state == State::Pending,
            Wanted::Approved => *state == State::Approved,
            Wanted::Released => *state == State::Released,
            Wanted::Declined => matches!(state, State::Declined(_)),
            Wanted::Ended => !state.is_open(),
        }
    }
}

impl Filter {
    fn set(&mut self, name: &str, value: &str) -> Result<bool, Violation> {
        let place = match name {
            "operation" => &mut self.operation,
            "by" => &mut self.by,
            "approval" => &mut self.approval,
            "mine" => {
                let wrong = || Violation::new(name, "enum", "`true` or `false`").inside(Place::Query);
                self.mine = value.parse().map_err(|_| wrong())?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        *place = Some(value.to_owned());
        Ok(true)
    }

    /// By what stands in the record alone.
    fn lets_pass(&self, hold: &Hold) -> bool {
        let is = |wanted: &Option<String>, has: &dyn Fn(&str) -> bool| wanted.as_deref().is_none_or(has);
        is(&self.operation, &|id| hold.operation.as_str() == id)
            && is(&self.by, &|who| hold.by.subject == who || hold.by.requester.as_deref() == Some(who))
            && is(&self.approval, &|name| hold.asked.contains(name))
    }
}

impl Queue {
    pub fn of(inside: &Inside, asked: &Asked) -> Result<Queue, Violation> {
        let mut filter = Filter::default();
        let further = |name: &str, value: &str| filter.set(name, value);
        let page = Page::of(inside, &asked.query, &STATES, Wanted::Open, last, further)?;
        Ok(Queue { page, filter })
    }

    /// A page of them, and where the next one begins: it may hold fewer than were asked for, and still not be the last.
    pub async fn read(&self, inside: &Inside, asked: &Asked) -> Result<(Vec<Value>, Option<String>), StoreFault> {
        let Page { environments, state, limit, after } = &self.page;
        let look = Look::of(inside, &asked.person, environments).await?;
        let (index, backwards) = state.index();
        let (mut holds, mut searched, mut last) = (Vec::new(), 0_usize, None);
        for environment in environments {
            let mut behind = match after {
                Some((at, _)) if environment < at => continue,
                Some((at, (micros, name))) if environment == at => Some((StoreTime::of_micros(*micros), name.clone())),
                Some(_) | None => None,
            };
            loop {
                let part = Part { backwards, behind: behind.take(), count: STRIDE };
                let part = inside.books.store.part(*environment, index, part).await?;
                let is_last = part.len() < STRIDE;
                for (due, name) in part {
                    if holds.len() >= *limit || searched >= SEARCHED {
                        return Ok((holds, last));
                    }
                    searched = searched.saturating_add(1);
                    holds.extend(self.one(inside, &look, *environment, &name).await?);
                    last = Some(format!("{environment}:{}:{name}", due.as_micros()));
                    behind = Some((due, name));
                }
                if is_last {
                    break;
                }
            }
        }
        Ok((holds, None))
    }

    /// One of them, if it is what is asked for.
    async fn one(
        &self,
        inside: &Inside,
        look: &Look<'_>,
        environment: Environment,
        name: &str,
    ) -> Result<Option<Value>, StoreFault> {
        let Some(id) = HoldId::parse(name) else { return Ok(None) };
        let key = key(environment, &id);
        let (record, hold) = match inside.books.find_hold(&key).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            // One that cannot be read does not hide the others.
            Err(fault @ StoreFault::Broken(_)) => {
                inside.books.told_of(&fault);
                return Ok(None);
            }
            Err(fault) => return Err(fault),
        };
        if !self.page.state.is(&hold.state) || !self.filter.lets_pass(&hold) {
            return Ok(None);
        }
        let seen = look.at(&key, &record, &hold);
        let is_wanted = |seen: &Seen<'_>| !self.filter.mine || look.is_mine(seen);
        Ok(seen.filter(is_wanted).map(|seen| Value::Object(look.summary(&seen))))
    }
}

fn last(text: &str) -> Option<Last> {
    let (micros, id) = text.split_once(':')?;
    Some((micros.parse().ok()?, HoldId::parse(id)?.to_string()))
}
