//! The use of limits: the windows of the limits in force are read page by page, and the fullest are told.
//!
//! A page is one short command of the store, however many windows there are; the gate's own windows are not read. Memory is
//! bounded: of many windows, the fullest are kept.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::Node;
use crate::base::ids::Environment;
use crate::ledger::{StoreFault, StoreTime, WindowKey, WindowSpan};
use crate::policy::{Limit, Policies};

/// How many windows one command of the store reads.
const PAGE: usize = 100;
/// How many windows one question of a person reads at most, the last pages included.
const MAX_READ: usize = 50_000;
/// The most windows that one answer lists, beside the fullest one of each limit.
const MAX_LISTED: usize = 1_000;

/// The amount spent under a limit for one value of its key.
#[derive(Debug)]
pub struct LimitUsage<'p> {
    pub environment: Environment,
    pub limit: &'p Limit,
    pub key: String,
    pub used: u64,
}

/// The fullest windows of limits.
#[derive(Debug, Default)]
pub struct FullestWindows<'p> {
    /// The fullest first; the fullest one of each limit is among them.
    pub windows: Vec<LimitUsage<'p>>,
    /// How many others are in use, of those that were read.
    pub unlisted: usize,
    /// Whether there are windows that were not read, which may be fuller.
    pub has_unread: bool,
}

/// The windows of one limit that are read page by page.
struct WindowPages<'n, 'p> {
    node: &'n Node,
    environment: Environment,
    limit: &'p Limit,
    span: WindowSpan,
    behind: Option<WindowKey>,
    is_done: bool,
}

impl<'p> LimitUsage<'p> {
    /// Compares shares of maximums: the fuller one is first.
    pub fn fuller_first(&self, other: &LimitUsage<'p>) -> Ordering {
        let part = |one: &LimitUsage<'_>, other: &LimitUsage<'_>| {
            u128::from(one.used).saturating_mul(u128::from(other.limit.max.units()))
        };
        let by_name = || {
            let name = |one: &LimitUsage<'p>| (one.limit.id.clone(), one.environment);
            name(self).cmp(&name(other)).then_with(|| self.key.cmp(&other.key))
        };
        part(other, self).cmp(&part(self, other)).then_with(by_name)
    }
}

impl<'p> FullestWindows<'p> {
    fn add(&mut self, page: Vec<LimitUsage<'p>>) {
        self.windows.extend(page);
        if self.windows.len() > MAX_LISTED.saturating_mul(2) {
            self.cut();
        }
    }

    /// Keeps the fullest windows, and the fullest one of each limit.
    fn cut(&mut self) {
        self.windows.sort_by(LimitUsage::fuller_first);
        let (all, mut others, mut limits) = (self.windows.len(), 0_usize, BTreeSet::new());
        self.windows.retain(|one| {
            let limit: &'p Limit = one.limit;
            if limits.insert((one.environment, &*limit.id)) {
                return true;
            }
            others = others.saturating_add(1);
            others <= MAX_LISTED
        });
        self.unlisted = self.unlisted.saturating_add(all.saturating_sub(self.windows.len()));
    }
}

impl<'n, 'p> WindowPages<'n, 'p> {
    /// Returns `None` where the limit has no window at this time.
    fn of(node: &'n Node, environment: Environment, limit: &'p Limit, now: StoreTime) -> Option<WindowPages<'n, 'p>> {
        let span = limit.span(now)?;
        Some(WindowPages { node, environment, limit, span, behind: None, is_done: false })
    }

    /// Returns the windows of the next page that count.
    async fn next(&mut self) -> Result<Vec<LimitUsage<'p>>, StoreFault> {
        let (node, environment, limit) = (self.node, self.environment, self.limit);
        let mut page = node.store.windows_behind(environment, Some(&limit.id), self.behind.take(), PAGE).await?;
        self.is_done = page.len() < PAGE;
        self.behind = page.last().cloned();
        // Windows of another `per` or unit, which the limit had before.
        page.retain(|window| limit.has_window(&window.key));
        let used = match page.is_empty() {
            true => Vec::new(),
            false => node.store.used_of(environment, page.clone(), self.span).await?,
        };
        let usage = |(window, used): (WindowKey, u64)| LimitUsage { environment, limit, key: window.key, used };
        Ok(page.into_iter().zip(used).filter(|(_, used)| *used > 0).map(usage).collect())
    }
}

/// Returns the amount in the fullest window of a limit, of all its windows.
pub async fn fullest(node: &Node, environment: Environment, limit: &Limit) -> Result<u64, StoreFault> {
    let Some(mut pages) = WindowPages::of(node, environment, limit, node.time().await?) else { return Ok(0) };
    let mut most = 0;
    while !pages.is_done {
        most = pages.next().await?.iter().map(|one| one.used).fold(most, u64::max);
        tokio::task::yield_now().await;
    }
    Ok(most)
}

/// Returns the fullest windows of the limits in force, or of one of them. Limits with many windows leave others their turn.
pub async fn usage<'p>(
    node: &Node,
    policies: &'p Policies,
    environments: &[Environment],
    limit: Option<&str>,
) -> Result<FullestWindows<'p>, StoreFault> {
    let (mut unread, mut found, mut read) = (Vec::new(), FullestWindows::default(), 0_usize);
    let now = node.time().await?;
    for environment in environments.iter().copied() {
        for one in policies.rules.limits.iter().filter(|one| limit.is_none_or(|limit| *one.id == *limit)) {
            unread.extend(WindowPages::of(node, environment, one, now));
        }
    }
    while !unread.is_empty() && read < MAX_READ {
        for pages in &mut unread {
            found.add(pages.next().await?);
            read = read.saturating_add(PAGE);
            tokio::task::yield_now().await;
        }
        unread.retain(|pages| !pages.is_done);
    }
    found.has_unread = !unread.is_empty();
    found.cut();
    Ok(found)
}

/// Returns the amount in one window, where the limit has a window now.
pub async fn used_in(node: &Node, environment: Environment, limit: &Limit, key: &str) -> Result<u64, StoreFault> {
    let Some(span) = limit.span(node.time().await?) else { return Ok(0) };
    let window = WindowKey { limit: limit.id.to_string(), key: key.to_owned() };
    node.store.used(environment, &window, span).await
}
