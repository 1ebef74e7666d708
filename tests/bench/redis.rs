//! A Redis of the bench's own, over loopback, and what claims and settlements take in it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use sluice::adapters::redis::Redis as Connection;
use sluice::adapters::store::redis::RedisStore;
use sluice::base::secret::Secret;
use sluice::config::{RedisConfig, RedisPlace};
use sluice::telemetry::Metrics;
use tempfile::TempDir;

use crate::store::{self, HEADING};

/// It starts, and it answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// Append-only, as a store needs it; it ends with this value.
#[derive(Debug)]
pub(crate) struct Redis {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    pub(crate) fn start(fsync: &str) -> anyhow::Result<Redis> {
        let folder = TempDir::new()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", fsync]).arg("--dir").arg(folder.path());
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("redis-server is missing")?;
        Ok(Redis { process, port, _folder: folder })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns when it answers.
    pub(crate) async fn connect(&self) -> anyhow::Result<Arc<Connection>> {
        let place = RedisPlace::Url(Secret::new(self.url()));
        let config = RedisConfig { place, ca_pem: None, timeout: PATIENCE, nodes: 1, fence: None, demands: None };
        let connection = Arc::new(Connection::new(&config, Metrics::new()?)?);
        tokio::spawn(connection.clone().keep_connected());
        connection.ready_within(PATIENCE).await.map_err(|why| anyhow!("{why}"))?;
        Ok(connection)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("the Redis cannot be ended: {error}");
        }
    }
}

/// A table as that of the embedded store; for each way to keep it on disk.
pub(crate) fn report(window: Duration) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut table = String::new();
    for fsync in ["everysec", "always"] {
        table.push_str(&format!("appendfsync {fsync}\n{HEADING}"));
        for callers in store::CONCURRENCIES {
            let redis = Redis::start(fsync)?;
            let line = runtime.block_on(async {
                let store = Arc::new(RedisStore::new(redis.connect().await?));
                store::crowd(store, callers, window).await
            })?;
            table.push_str(&line.to_string());
        }
    }
    Ok(table)
}
