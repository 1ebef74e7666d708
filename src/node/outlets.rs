//! The outlets that get events, and which of them are full.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::base::ids::Environment;
use crate::ledger::{Commit, Step};
use crate::notify::{NoticeEvent, Outlet, filed};
use crate::telemetry::Metrics;

/// The most notices that wait for one outlet in one environment; further events are dropped.
pub const MAX_WAITING: usize = 4_096;

/// The outlets of this node.
#[derive(Debug, Default)]
pub struct Outlets {
    all: Vec<OutletState>,
    news: Notify,
}

#[derive(Debug)]
struct OutletState {
    outlet: Outlet,
    /// For production, and for the sandbox.
    is_full: [AtomicBool; 2],
}

impl Outlets {
    pub fn new(outlets: Vec<Outlet>) -> Outlets {
        let kept = |outlet| OutletState { outlet, is_full: Default::default() };
        Outlets { all: outlets.into_iter().map(kept).collect(), news: Notify::new() }
    }

    /// Returns the steps that file notices of a commit, to be written with it. They never prevent the commit: a
    /// full outlet gets no notice.
    pub fn filed(&self, commit: &Commit, metrics: &Metrics) -> Vec<Step> {
        let is_full = |kept: &&OutletState| kept.full(commit.environment).load(Ordering::Relaxed);
        for kept in self.all.iter().filter(is_full) {
            let lost = filed(commit, std::iter::once(&kept.outlet)).len() / 2;
            if lost > 0 {
                tracing::error!(webhook = kept.outlet.name, lost, "an outlet is full: this notice is dropped");
                metrics.webhook_dropped(&kept.outlet.name, "full", lost);
            }
        }
        let with_room = self.all.iter().filter(|kept| !is_full(kept)).map(|kept| &kept.outlet);
        filed(commit, with_room)
    }

    /// Wakes the delivery: something was filed.
    pub fn has_news(&self) {
        self.news.notify_one();
    }

    pub async fn news(&self) {
        self.news.notified().await;
    }

    pub fn waiting(&self, name: &str, environment: Environment, count: usize) {
        if let Some(kept) = self.all.iter().find(|kept| kept.outlet.name == name) {
            kept.full(environment).store(count >= MAX_WAITING, Ordering::Relaxed);
        }
    }

    /// Returns whether any outlet wants this event.
    pub fn takes(&self, event: NoticeEvent, environment: Environment) -> bool {
        self.all.iter().any(|kept| kept.outlet.takes(event, environment))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Outlet> {
        self.all.iter().map(|kept| &kept.outlet)
    }
}

impl OutletState {
    fn full(&self, environment: Environment) -> &AtomicBool {
        let [production, sandbox] = &self.is_full;
        match environment {
            Environment::Production => production,
            Environment::Sandbox => sandbox,
        }
    }
}
