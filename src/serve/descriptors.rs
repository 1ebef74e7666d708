//! Fits connections and calls to the file descriptors that this process may have.
//!
//! Each connection needs one, each call in progress one more for its connection to upstream, and each late answer, too. A
//! process that runs out of them can neither pay nor read a file, so listeners admit no more than there is room for, and
//! some stay for the gate itself. The share of an address follows from that: no address can take all.

use super::start_error::StartError;
use crate::adapters::machine::{FileLimits, raise_file_limit};
use crate::base::finding::Finding;
use crate::config::Config;

/// The descriptors of the gate itself: its store, its audit log, its listeners, webhooks and a Redis.
const OWN: usize = 256;
/// The connections to upstream that an environment keeps open between calls.
const KEPT: usize = 160;
/// The most connections of the console, and of the probes.
const MAX_SIDE_CONNECTIONS: usize = 512;
/// The least room for late answers of an environment.
const LEAST_LATE_ANSWERS: usize = 1_024;
/// With fewer descriptors no gate can open its files, its listeners and the pollers of its runtimes.
const LEAST_DESCRIPTORS: usize = 40;
/// The least of each number, however few descriptors there are: each needs room for two users.
const LEAST: usize = 2;

/// The most connections and calls that this process admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FittedLimits {
    /// To the listener of an environment.
    pub connections: usize,
    /// To the console, and to the probes.
    pub side_connections: usize,
    /// In progress, of an environment.
    pub calls: usize,
    /// That an environment waits for.
    pub late_answers: usize,
}

impl FittedLimits {
    /// Raises the limit of this process to what the configuration needs, as far as it may, and warns where that is too low.
    /// Fails where no gate could run.
    pub(super) fn of_process(config: &Config) -> Result<FittedLimits, StartError> {
        let needed = needed(config);
        let limits = raise_file_limit(needed).unwrap_or_else(|error| {
            tracing::warn!(%error, "the limit of file descriptors cannot be raised");
            FileLimits::of_process()
        });
        let limit = usize::try_from(limits.current).unwrap_or(usize::MAX);
        if limit < LEAST_DESCRIPTORS {
            return Err(StartError::Descriptors { limit, needed: LEAST_DESCRIPTORS, remedy: REMEDY });
        }
        let fitted = FittedLimits::fit(config, limit);
        if limit < needed {
            let FittedLimits { connections, side_connections, calls, .. } = fitted;
            tracing::warn!(
                limit,
                needed,
                connections,
                side_connections,
                calls,
                remedy = REMEDY,
                "there are too few file descriptors for `limits.connections` and `limits.calls`; fewer are admitted"
            );
        }
        Ok(fitted)
    }

    /// Returns what is configured, or a part of it for which so many descriptors suffice.
    fn fit(config: &Config, limit: usize) -> FittedLimits {
        let configured = FittedLimits::configured(config);
        let environments = config.environments.len();
        if limit >= needed(config) {
            return configured;
        }
        let room = limit.saturating_sub(own(environments).min(limit / 2));
        let all = configured.all(environments).max(1);
        let part = |of: usize| of.saturating_mul(room).checked_div(all).unwrap_or(of).max(LEAST).min(of);
        FittedLimits {
            connections: part(configured.connections),
            side_connections: part(configured.side_connections),
            calls: part(configured.calls),
            late_answers: part(configured.late_answers),
        }
    }

    fn configured(config: &Config) -> FittedLimits {
        let limits = &config.limits;
        FittedLimits {
            connections: limits.connections,
            side_connections: limits.connections.min(MAX_SIDE_CONNECTIONS),
            calls: limits.calls,
            late_answers: limits.calls.max(LEAST_LATE_ANSWERS),
        }
    }

    fn all(self, environments: usize) -> usize {
        let of_one = self.connections.saturating_add(self.calls).saturating_add(self.late_answers);
        of_one.saturating_mul(environments).saturating_add(self.side_connections.saturating_mul(2))
    }
}

/// The remedy where a process may have too few descriptors.
const REMEDY: &str = "raise the hard limit of this process (`LimitNOFILE` of systemd, `ulimit -Hn` of a shell, `ulimits` of a container), or \
                      lower `limits.connections` and `limits.calls`";

/// Warns where a process with these limits cannot have the descriptors that the configuration needs.
pub fn too_few_descriptors(config: &Config, file: &str, limits: FileLimits) -> Option<Finding> {
    let (needed, limit) = (needed(config), limits.maximum);
    let text = format!(
        "`limits.connections` ({}) and `limits.calls` ({}) need {needed} file descriptors, and a process may have {limit} here: the gate \
         admits fewer",
        config.limits.connections, config.limits.calls
    );
    (limit < needed as u64).then(|| Finding::warning(file, text).remedy(REMEDY))
}

/// Returns how many descriptors a gate needs at most.
fn needed(config: &Config) -> usize {
    let environments = config.environments.len();
    FittedLimits::configured(config).all(environments).saturating_add(own(environments))
}

fn own(environments: usize) -> usize {
    environments.saturating_mul(KEPT).saturating_add(OWN)
}
