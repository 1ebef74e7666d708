//! The store in a Redis: what is special of it.

use std::sync::Arc;
use std::time::Duration;

use sluice::adapters::redis::Redis as Connection;
use sluice::base::secret::Secret;
use sluice::config::RedisConfig;
use sluice::telemetry::Metrics;

pub fn config(url: &str) -> RedisConfig {
    // On a busy machine all takes its time.
    let timeout = Duration::from_secs(5);
    RedisConfig { url: Secret::new(url.to_owned()), ca_pem: None, timeout, nodes: 2 }
}

pub async fn connected(url: &str) -> Arc<Connection> {
    connected_by(&config(url)).await
}

pub async fn connected_by(config: &RedisConfig) -> Arc<Connection> {
    let connection = Arc::new(Connection::new(config, Metrics::new().unwrap()).unwrap());
    tokio::spawn(connection.clone().keep_connected());
    assert!(connection.is_there_within(Duration::from_secs(10)).await, "the Redis is not there");
    connection
}
