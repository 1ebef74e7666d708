//! Asks for the date at a start, so that the clock of this machine is compared before money moves.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::workers::Workers;
use crate::adapters::heard_dates::HeardDates;
use crate::adapters::upstream::PinnedUpstream;
use crate::base::ids::Environment;
use crate::config::Config;
use crate::node::Node;
use crate::node::date_check::check_date;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Compares the clock of this machine with the dates of upstream and of issuers. The issuers' come with their keys, which
/// are fetched at every start.
pub(super) fn compare_clock(
    config: &Config,
    node: &Arc<Node>,
    dates: &Arc<HeardDates>,
    upstreams: &[Arc<PinnedUpstream>],
    workers: &Workers,
) {
    let environments: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
    workers.spawn_optional("the date of others", check_date(node.clone(), dates.clone(), environments));
    let asked = config.environments.iter().zip(upstreams).filter(|(one, _)| one.asks_date);
    let asked = asked.map(|(_, upstream)| upstream.clone()).collect();
    workers.spawn_optional("the question for the date", ask(asked, dates.clone()));
}

/// Asks all again and again, until somebody tells a date.
async fn ask(upstreams: Vec<Arc<PinnedUpstream>>, dates: Arc<HeardDates>) {
    let mut pause = FIRST_PAUSE;
    while !upstreams.is_empty() && !dates.is_told() {
        let mut asking: JoinSet<()> = JoinSet::new();
        for upstream in upstreams.clone() {
            let dates = dates.clone();
            asking.spawn(async move {
                if let Some(headers) = upstream.answer_head().await {
                    dates.hear("upstream", &headers);
                }
            });
        }
        asking.join_all().await;
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}
