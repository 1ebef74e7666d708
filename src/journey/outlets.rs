//! Where what happens is told, as far as this node knows: the outlets, and which have as much waiting as is kept.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::base::ids::Environment;
use crate::commit::{Commit, Step};
use crate::stations::tell::{Event, Outlet, filed};
use crate::telemetry::Metrics;

/// As many messages wait for one outlet in one environment; what happens while there are more is not told it.
pub const MOST_WAITING: usize = 4_096;

/// See the module.
#[derive(Debug, Default)]
pub struct Outlets {
    all: Vec<Kept>,
    news: Notify,
}

#[derive(Debug)]
struct Kept {
    outlet: Outlet,
    /// Of production, and of the sandbox.
    is_full: [AtomicBool; 2],
}

impl Outlets {
    pub fn new(outlets: Vec<Outlet>) -> Outlets {
        let kept = |outlet| Kept { outlet, is_full: Default::default() };
        Outlets { all: outlets.into_iter().map(kept).collect(), news: Notify::new() }
    }

    /// What is written besides, in the commit of what happened. Nothing ever stands in the way of that: where there is no
    /// room, it is not told.
    pub fn filed(&self, commit: &Commit, metrics: &Metrics) -> Vec<Step> {
        let is_full = |kept: &&Kept| kept.full(commit.environment).load(Ordering::Relaxed);
        for kept in self.all.iter().filter(is_full) {
            let lost = filed(commit, std::iter::once(&kept.outlet)).len() / 2;
            if lost > 0 {
                tracing::error!(
                    webhook = kept.outlet.name,
                    lost,
                    "as much waits to be told as is kept: this is not told"
                );
                metrics.untold(&kept.outlet.name, "full", lost);
            }
        }
        let with_room = self.all.iter().filter(|kept| !is_full(kept)).map(|kept| &kept.outlet);
        filed(commit, with_room)
    }

    /// Something was filed.
    pub fn has_news(&self) {
        self.news.notify_one();
    }

    pub async fn news(&self) {
        self.news.notified().await;
    }

    pub fn waiting(&self, name: &str, environment: Environment, count: usize) {
        if let Some(kept) = self.all.iter().find(|kept| kept.outlet.name == name) {
            kept.full(environment).store(count >= MOST_WAITING, Ordering::Relaxed);
        }
    }

    /// Whether anybody is told of it.
    pub fn takes(&self, event: Event, environment: Environment) -> bool {
        self.all.iter().any(|kept| kept.outlet.takes(event, environment))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Outlet> {
        self.all.iter().map(|kept| &kept.outlet)
    }
}

impl Kept {
    fn full(&self, environment: Environment) -> &AtomicBool {
        let [production, sandbox] = &self.is_full;
        match environment {
            Environment::Production => production,
            Environment::Sandbox => sandbox,
        }
    }
}
