//! `sluice metrics`: what can be watched.

use std::fmt::Write as _;

use clap::Args;

use super::{Ending, print};
use crate::telemetry::{ATTRIBUTES, Described, FIELDS, METRICS, Station};

/// List every metric, log field and span, in Markdown
///
/// Metrics are served on the listener of `[probes]`, under `/metrics`.
#[derive(Debug, Args)]
pub(super) struct Arguments {}

pub(super) fn run(_: &Arguments) -> anyhow::Result<Ending> {
    print(&document())?;
    Ok(Ending::Done)
}

const HEAD: &str = "# What can be watched

This is what `sluice metrics` prints.

## Metrics

On the listener of `[probes]`, under `/metrics`, in Prometheus' text format. Labels are bounded: they are names of
operations, rules, limits, rates and issuers, which are configured, and words of Sluice's own; never a path, a person, a
wallet or an amount. Latencies have buckets from 100 µs to 60 s; the waiting of calls for people, from a minute to a week.

| metric | kind | labels | what it says |
|---|---|---|---|
";

const LOG: &str = "
## Log fields

A line says `timestamp`, `level`, `target` and `message`, and of these what it has to say. There is one line per request,
and its message is `request`. Bodies, tokens and paths stand in none, at any level.

SIGUSR1 has the log say one level more, SIGUSR2 what is configured.

| field | what it says |
|---|---|
";

const SPANS: &str = "
## Traces

With `[telemetry] otlp`, a request that its caller traces, or that begins a trace here, has a span of its own, named by its
operation; upstream sees as its parent the span `forward`. A call that people released is a span `release` of the trace that
it came with. Without `otlp`, a caller's `traceparent` and `tracestate` pass as they came. Malformed ones are dropped.

| inside it | what takes its time |
|---|---|
";

const TOLD: &str = "
| attribute | what it says |
|---|---|
";

fn document() -> String {
    let mut text = HEAD.to_owned();
    for Described { name, kind, labels, help } in METRICS {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        // Writing to a text cannot fail.
        writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").ok();
    }
    text.push_str(LOG);
    FIELDS.iter().for_each(|(name, told)| writeln!(text, "| `{name}` | {told} |").unwrap_or_default());
    text.push_str(SPANS);
    Station::ALL.iter().for_each(|(name, told)| writeln!(text, "| `{}` | {told} |", name.as_str()).unwrap_or_default());
    text.push_str(TOLD);
    ATTRIBUTES.iter().for_each(|(name, told)| writeln!(text, "| `{name}` | {told} |").unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_current() {
        // Wrong? `sluice metrics > deploy/docs/metrics.md`.
        assert_eq!(include_str!("../../deploy/docs/metrics.md"), document());
    }
}
