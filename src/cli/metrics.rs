//! `sluice metrics`: lists metrics, log fields and spans.

use std::fmt::Write as _;

use clap::Args;

use super::{ExitReason, print};
use crate::telemetry::{ATTRIBUTES, Described, FIELDS, METRICS, Station};

/// List every metric, log field and span, in Markdown
///
/// Metrics are served on the listener of `[probes]`, under `/metrics`.
#[derive(Debug, Args)]
pub(super) struct MetricsArgs {}

pub(super) fn run(_: &MetricsArgs) -> anyhow::Result<ExitReason> {
    print(&document())?;
    Ok(ExitReason::Done)
}

const HEAD: &str = "# Metrics, logs and traces

`sluice metrics` prints this page.

## Metrics

The listener of `[probes]` serves them under `/metrics`, in the Prometheus text format. Labels are bounded: their values are
configured names of operations, rules, limits, rates and issuers, Sluice's own words, and at most 64 error codes of upstream;
never a path, a person, a wallet or an amount. Latency buckets go from 100 µs to 60 s; buckets of the time that calls are held, from a minute to a week.

| metric | kind | labels | meaning |
|---|---|---|---|
";

const LOG: &str = "
## Log fields

Every line has `timestamp`, `level`, `target` and `message`, and those of the fields below that apply. There is one line per
request, with the message `request`. No line contains bodies, tokens or paths, at any level. Fields that OpenTelemetry's semantic
conventions know have their names.

SIGUSR1 raises the log level by one step; SIGUSR2 restores the configured level.

| field | meaning |
|---|---|
";

const SPANS: &str = "
## Traces

With `[telemetry] otlp`, a request that its caller traces, or that starts a trace here, has its own span, named after its
operation; the span `forward` is the parent that upstream sees. The release of a held call is a span `release` in the trace of
its request. Without `otlp`, a caller's `traceparent` and `tracestate` are forwarded unchanged. Malformed ones are dropped.

| child span | what it measures |
|---|---|
";

const ATTRIBUTE_HEAD: &str = "
| attribute | meaning |
|---|---|
";

fn document() -> String {
    let mut text = HEAD.to_owned();
    for Described { name, kind, labels, help } in METRICS {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        // Writing to a `String` cannot fail.
        writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").ok();
    }
    text.push_str(LOG);
    FIELDS.iter().for_each(|(name, meaning)| writeln!(text, "| `{name}` | {meaning} |").unwrap_or_default());
    text.push_str(SPANS);
    Station::ALL
        .iter()
        .for_each(|station| writeln!(text, "| `{station}` | {} |", station.covers()).unwrap_or_default());
    text.push_str(ATTRIBUTE_HEAD);
    ATTRIBUTES.iter().for_each(|(name, meaning)| writeln!(text, "| `{name}` | {meaning} |").unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_current() {
        // To update the page: `sluice metrics > deploy/docs/metrics.md`.
        assert_eq!(include_str!("../../deploy/docs/metrics.md"), document());
    }
}
