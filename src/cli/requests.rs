//! `sluice requests`: calls in doubt, and what became of them.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::Ending;
use super::console::{Ask, Way};
use super::freeze::Environment;
use super::pages::{Pages, listed};
use crate::base::json::{self as strict, Limits};

/// See calls in doubt, and say what became of them
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(List),
    Show(Show),
    Resolve(Resolve),
}

/// List calls whose outcome nobody knows, or that are being sent
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    pages: Pages,
    /// In which state
    #[arg(long, value_enum, default_value = "unknown")]
    state: State,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Unknown,
    Sending,
}

/// Show one call; to operators, also what was sent
#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Which {
    /// Where it came in
    #[arg(long, value_enum)]
    environment: Environment,
    /// Its requestId; or, where its path names it, the operation and the path's parameters: `acceptOffer:w-1:o-2`
    #[arg(value_name = "REQUEST")]
    request: String,
}

/// Say what became of a call in doubt
///
/// `executed` takes upstream's record, which its caller then hears. `absent` takes two people, neither of whom asked for
/// it; then it may be sent again: be sure. Takes the role `operator`; it is in the audit chain with your name.
#[derive(Debug, Args)]
struct Resolve {
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    which: Which,
    /// What became of it
    #[arg(long, value_enum)]
    outcome: Outcome,
    /// A file with upstream's record, as JSON; with `executed`
    #[arg(long, value_name = "FILE", required_if_eq("outcome", "executed"))]
    record: Option<PathBuf>,
    /// Why, and how you know; whoever reads the audit chain sees it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Outcome {
    Executed,
    Absent,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    match &arguments.what {
        What::List(list) => list.run(),
        What::Show(show) => show.way.ask(&Ask::get(show.which.path()?), |request| format!("{request:#}\n")),
        What::Resolve(resolve) => resolve.run(),
    }
}

impl Which {
    fn path(&self) -> anyhow::Result<String> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
        if self.request.is_empty() || !self.request.bytes().all(is_plain) {
            bail!("`{}` is no requestId: it is made of `A-Za-z0-9._-`", self.request.escape_debug());
        }
        Ok(format!("requests/{}/{}", self.environment.as_str(), self.request))
    }
}

impl List {
    fn run(&self) -> anyhow::Result<Ending> {
        let state = match self.state {
            State::Unknown => "unknown",
            State::Sending => "sending",
        };
        let ask = self.pages.of("requests").with("state", Some(state.to_owned()));
        self.way.ask(&ask, |answer| listed(answer, "requests", line, &format!("No call is `{state}`.")))
    }
}

impl Resolve {
    fn run(&self) -> anyhow::Result<Ending> {
        let body = match (self.outcome, &self.record) {
            (Outcome::Executed, Some(file)) => {
                let text = std::fs::read(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
                let record = strict::parse(&text, Limits::ANSWER)
                    .with_context(|| format!("`{}` is not one JSON value", file.display()))?;
                json!({ "outcome": "executed", "record": record, "reason": self.reason })
            }
            (Outcome::Executed, None) => bail!("`executed` takes `--record`, upstream's record of the call"),
            (Outcome::Absent, None) => json!({ "outcome": "absent", "reason": self.reason }),
            (Outcome::Absent, Some(_)) => bail!("there is no record of what was not executed: leave `--record` out"),
        };
        let ask = Ask::post(format!("{}/resolve", self.which.path()?), body);
        self.way.ask(&ask, |answer| match answer["state"].as_str() {
            Some("executed") => "It is executed: its caller hears the record from now on.\n".to_owned(),
            Some("absent") => "It was not executed, as two people say: its caller may send it again.\n".to_owned(),
            _ => "Noted. It stays in doubt until one more person says so.\n".to_owned(),
        })
    }
}

fn line(request: &Value) -> String {
    let text = |name: &str| request.get(name).and_then(Value::as_str).unwrap_or("-");
    let owner = |name: &str| request.pointer(&format!("/owner/{name}")).and_then(Value::as_str).unwrap_or("-");
    let since = if text("since") == "-" { text("at") } else { text("since") };
    let said = request.get("saidAbsent").and_then(Value::as_str);
    let said = said.map_or_else(String::new, |who| format!(", absent as {who} says"));
    format!(
        "{} {} {} {} by {}/{} since {since} ({}{said})",
        text("environment"),
        text("name"),
        text("state"),
        text("operation"),
        owner("issuer"),
        owner("subject"),
        text("doubt"),
    )
}
