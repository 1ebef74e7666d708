//! `sluice simulate`: runs the simulator of upstream on a port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::print;
use crate::adapters::clock::SystemClock;
use crate::catalog::SchemaFiles;
use crate::simulator::{Settings, Simulator, triggers};

/// Run a simulator of upstream, from memory
#[derive(Debug, clap::Args)]
pub struct Simulate {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:9080", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Answer a repeated requestId with its first record
    #[arg(long)]
    idempotent: bool,
    /// Delay of every answer
    #[arg(long, default_value_t = 0, value_name = "MS")]
    latency_ms: u64,
    /// Time from one status of a swap or an offramp to the next
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    pace_ms: u64,
    /// The seed of generated identifiers
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Print the amounts and requestIds that make a call go wrong on purpose, as Markdown, and end
    #[arg(long)]
    triggers: bool,
}

impl Simulate {
    pub fn run(self) -> Result<(), String> {
        if self.triggers {
            return print(&triggers()).map_err(|error| format!("{error:#}"));
        }
        let runtime = tokio::runtime::Runtime::new().map_err(|e| format!("the async runtime cannot start: {e}"))?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<(), String> {
        let settings = Settings {
            idempotent: self.idempotent,
            latency: Duration::from_millis(self.latency_ms),
            pace: Duration::from_millis(self.pace_ms),
            seed: self.seed,
        };
        let simulator = Simulator::of_files(&SchemaFiles::built_in(), Arc::new(SystemClock), settings)
            .map_err(|findings| findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|e| format!("cannot listen on `{}`: {e}; choose another address with `--listen`", self.listen))?;
        let address = listener.local_addr().map_err(|e| format!("the address of the listener is unknown: {e}"))?;
        print!("{}", welcome(address));
        tokio::select! {
            () = simulator.serve(listener) => Ok(()),
            stopped = tokio::signal::ctrl_c() => stopped.map_err(|e| format!("cannot wait for Ctrl-C: {e}")),
        }
    }
}

fn welcome(address: SocketAddr) -> String {
    format!(
        "The simulator listens on http://{address}; Ctrl-C ends it.

  curl -H 'Authorization: Bearer any' 'http://{address}/v2/offramps?limit=3'
  curl http://{address}/simulator/data
  curl http://{address}/simulator/journal
  curl -d '{{\"operation\": \"createSwap\", \"kind\": \"hang\", \"times\": 1}}' http://{address}/simulator/faults
"
    )
}
