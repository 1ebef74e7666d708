//! `sluice webhook`: tests the delivery of notices to a webhook.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use tokio::runtime::Runtime;

use super::output::OutputFormat;
use super::{ExitReason, Sources, print, read_config};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::random::trial_id;
use crate::adapters::webhook::{Came, Webhook};
use crate::cli::complain;
use crate::notify::ping;
use crate::ports::Clock as _;

/// Test webhooks
#[derive(Debug, Args)]
pub struct WebhookArgs {
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(Debug, Subcommand)]
enum WebhookCommand {
    Test(Test),
}

/// Send one signed message of the type `ping`, and print the result
///
/// The message is sent from this machine, whether a gate runs or not; it is not stored and not repeated.
#[derive(Debug, Args)]
struct Test {
    /// The name of the webhook: `approvals` for `[webhook.approvals]`
    name: String,
    #[command(flatten)]
    sources: Sources,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

pub fn run(arguments: &WebhookArgs) -> anyhow::Result<ExitReason> {
    match &arguments.command {
        WebhookCommand::Test(test) => test.run(),
    }
}

impl Test {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let config = match read_config(&self.sources.config_file()) {
            Ok(reading) => reading.config,
            Err(findings) => {
                findings.iter().for_each(|finding| complain(format_args!("{finding}")));
                bail!("the configuration has errors");
            }
        };
        let Some(config) = config.webhooks.iter().find(|webhook| webhook.name == self.name) else {
            let names: Vec<&str> = config.webhooks.iter().map(|webhook| webhook.name.as_str()).collect();
            let known = if names.is_empty() { "no webhook".to_owned() } else { format!("these: {}", names.join(", ")) };
            bail!("the configuration has no `[webhook.{}]`; it has {known}", self.name);
        };
        // Only the first installed provider counts; a gate installs it at its start.
        rustls::crypto::ring::default_provider().install_default().ok();
        let webhook = Webhook::new(config)?;
        let (now, since) = (SystemClock.now(), Stopwatch::start());
        let runtime = Runtime::new().context("the async runtime cannot start")?;
        let body = ping(webhook.format, &self.name, now);
        let came = runtime.block_on(webhook.send(&trial_id(), now, body));
        let millis = since.elapsed().as_millis();
        let is_delivered = matches!(came, Came::Delivered(_));
        let (name, host) = (self.name.as_str(), webhook.host());
        print(&self.output.text(
            || format!("{name} at {host}: {came}, after {millis} ms\n"),
            || json!({ "webhook": name, "host": host, "delivered": is_delivered, "answer": came.to_string(), "millis": millis }),
            None,
        ))?;
        Ok(if is_delivered { ExitReason::Done } else { ExitReason::Refused })
    }
}
