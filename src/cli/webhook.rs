//! `sluice webhook`: trying out who is told what happens.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use tokio::runtime::Runtime;

use super::{Ending, Sources, print, read_config};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::random::trial_id;
use crate::adapters::webhook::{Came, Webhook};
use crate::ports::Clock as _;
use crate::stations::tell::ping;

/// Who is told what happens
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(Test),
}

/// Send one signed message of the type `ping`, and tell what came of it
///
/// From this machine, whether a gate runs or not; nothing is stored, and it is not sent again.
#[derive(Debug, Args)]
struct Test {
    /// The name of the webhook: `approvals` is `[webhook.approvals]`
    name: String,
    #[command(flatten)]
    sources: Sources,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    match &arguments.command {
        Command::Test(test) => test.run(),
    }
}

impl Test {
    fn run(&self) -> anyhow::Result<Ending> {
        let config = match read_config(&self.sources.config_file()) {
            Ok(reading) => reading.config,
            Err(findings) => {
                findings.iter().for_each(|finding| eprintln!("{finding}"));
                bail!("the configuration has errors");
            }
        };
        let Some(config) = config.webhooks.iter().find(|webhook| webhook.name == self.name) else {
            let names: Vec<&str> = config.webhooks.iter().map(|webhook| webhook.name.as_str()).collect();
            bail!("there is no `[webhook.{}]`; those that are there: {}", self.name, names.join(", "));
        };
        // The first one stays; it is told where a gate starts.
        rustls::crypto::ring::default_provider().install_default().ok();
        let webhook = Webhook::new(config)?;
        let (now, since) = (SystemClock.now(), Stopwatch::start());
        let runtime = Runtime::new().context("the runtime cannot be started")?;
        let body = ping(webhook.format, &self.name, now);
        let came = runtime.block_on(webhook.send(&trial_id(), now, body));
        let millis = since.elapsed().as_millis();
        print(&format!("{} at {}: {came}, after {millis} ms\n", self.name, webhook.host()))?;
        match came {
            Came::Delivered(_) => Ok(Ending::Done),
            _ => Ok(Ending::Refused),
        }
    }
}
