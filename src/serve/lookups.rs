//! The workers that read upstream's lists for the gate itself.

use std::sync::Arc;

use super::workers::Workers;
use crate::config::Config;
use crate::journey::Egress;
use crate::journey::follow::{FollowPace, PaymentFollower, follow};
use crate::journey::reconcile::{LookupPauses, reconcile};
use crate::node::{InForce, Node};

/// Starts to look for calls whose outcome is unknown, and to follow payments, in one environment.
pub(super) fn start_lookups(
    config: &Config,
    node: &Arc<Node>,
    egress: &Egress,
    in_force: &Arc<InForce>,
    workers: &Workers,
) {
    let pauses = LookupPauses { first: config.reconcile.pause, longest: config.reconcile.longest_pause };
    workers.spawn_required("reconciliation", reconcile(node.clone(), egress.clone(), in_force.clone(), pauses));
    if config.follow.is_enabled {
        let pace = FollowPace {
            interval: config.follow.interval,
            longest_pause: config.follow.longest_pause,
            overlap: config.follow.overlap,
            reach: config.follow.reach,
            pages: config.follow.pages,
            keep: config.store.answers.saturating_add(config.store.spent),
        };
        workers.spawn_required(
            "following",
            follow(PaymentFollower::new(node.clone(), egress.clone(), in_force.clone(), pace)),
        );
    }
}
