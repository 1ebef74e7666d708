//! Whether as many replicas follow the Redis as the configuration demands.

use super::START_REPLICAS;
use super::report::DoctorReport;
use crate::adapters::redis::{Redis, ShardConnections};
use crate::base::ids::Environment;
use crate::config::Durability;

/// Reports the replicas of an environment's Redis. Says nothing where none are demanded, or the Redis does not tell.
pub(super) async fn check(redis: &ShardConnections, environment: Environment, report: &mut DoctorReport) {
    let redis = redis.of(environment);
    let durability = redis.demands().map(|demands| demands.durability);
    let Some(Durability::Replicated { replicas: demanded }) = durability else { return };
    let Some(online) = online(redis).await else { return };
    if online >= demanded {
        return report.well("replicas", Some(environment), &format!("that follow the Redis: {online} of {demanded}"));
    }
    let text = format!("that follow the Redis are too few: {online} of {demanded}; money and changes get 503");
    report.money(environment, false);
    report.problem("replicas", Some(environment), &text, START_REPLICAS);
}

/// Returns how many replicas have everything, and take what is new.
async fn online(redis: &Redis) -> Option<u64> {
    let [connected] = redis.info(["connected_slaves"]).await.ok()?;
    let (connected, mut online) = (connected?.parse::<u64>().ok()?, 0_u64);
    for nth in 0..connected {
        let [line] = redis.info([&format!("slave{nth}")]).await.ok()?;
        if line?.contains("state=online") {
            online = online.saturating_add(1);
        }
    }
    Some(online)
}
