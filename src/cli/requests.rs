//! `sluice requests`: lists calls with an unknown outcome, shows them and resolves them.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::console::{ConsoleCall, ConsoleOptions};
use super::hold::moves;
use super::output::{TableColumn, text_at};
use super::pages::EnvironmentArg;
use super::pages::{Pages, list_as_table};
use super::sign::{SigningPlace, WantedAct};
use super::{ExitReason, read_named_file};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::json::{self as strict, Limits};
use crate::base::visible::visible;
use crate::console::name_of;
use crate::people::signed_act::PersonAct;
use crate::policy::SignableAct;
use crate::stations::claim::StoredAnswer;

/// List, show and resolve calls with an unknown outcome
#[derive(Debug, Args)]
pub(super) struct RequestsArgs {
    #[command(subcommand)]
    what: RequestsCommand,
}

#[derive(Debug, Subcommand)]
enum RequestsCommand {
    List(ListRequestsArgs),
    Show(ShowRequestArgs),
    Resolve(Resolve),
}

/// List calls with an unknown outcome, or calls that are being sent
#[derive(Debug, Args)]
struct ListRequestsArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    pages: Pages,
    /// Only calls in this state
    #[arg(long, value_enum, default_value = "unknown")]
    state: RequestStateArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RequestStateArg {
    Unknown,
    Sending,
}

/// Show one call; operators also see the bytes that were sent
#[derive(Debug, Args)]
struct ShowRequestArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    which: OneRequestArgs,
}

#[derive(Debug, Args)]
struct OneRequestArgs {
    /// The environment
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// Its requestId; or, for an operation named by its path, the operation and the path parameters:
    /// `acceptOffer:w-1:o-2`
    #[arg(value_name = "REQUEST")]
    request: String,
}

/// Record the outcome of a call with an unknown outcome
///
/// `executed` needs upstream's record, which the caller then gets; in production two people must show it. `absent` needs two people who did not request the
/// call; afterwards it may be sent again, so be sure. `abandoned` needs two people, too: nobody will ever know, so it is
/// never sent again, and limits keep counting it. Takes the role `operator`; the audit log keeps your name. Where the policies
/// want it signed, name a page: you sign what this command computes, as with `sluice approvals sign`.
#[derive(Debug, Args)]
struct Resolve {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    place: SigningPlace,
    #[command(flatten)]
    which: OneRequestArgs,
    /// The outcome
    #[arg(long, value_enum)]
    outcome: ResolutionArg,
    /// A file with upstream's record as JSON, for `executed`
    #[arg(long, value_name = "FILE", required_if_eq("outcome", "executed"))]
    record: Option<PathBuf>,
    /// The reason, and how you know; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ResolutionArg {
    Executed,
    Absent,
    Abandoned,
}

impl ResolutionArg {
    fn kind(self) -> SignableAct {
        match self {
            ResolutionArg::Executed => SignableAct::Executed,
            ResolutionArg::Absent => SignableAct::Absent,
            ResolutionArg::Abandoned => SignableAct::Abandoned,
        }
    }
}

pub(super) fn run(arguments: &RequestsArgs) -> anyhow::Result<ExitReason> {
    match &arguments.what {
        RequestsCommand::List(list) => list.run(),
        RequestsCommand::Show(show) => show.way.ask(&ConsoleCall::get(show.which.path()?), request_in_words),
        RequestsCommand::Resolve(resolve) => resolve.run(),
    }
}

impl OneRequestArgs {
    fn path(&self) -> anyhow::Result<String> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
        if self.request.is_empty() || !self.request.bytes().all(is_plain) {
            bail!("`{}` is not a requestId: use only `A-Za-z0-9._-`", self.request.escape_debug());
        }
        Ok(format!("requests/{}/{}", self.environment.as_str(), self.request))
    }
}

impl ListRequestsArgs {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let state = match self.state {
            RequestStateArg::Unknown => "unknown",
            RequestStateArg::Sending => "sending",
        };
        let ask = self.pages.of("requests").with("state", Some(state.to_owned()));
        self.way.ask_for_rows(&ask, Some("requests"), |answer| {
            list_as_table(answer, "requests", &REQUEST_COLUMNS, &format!("No calls are in state `{state}`."))
        })
    }
}

impl Resolve {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let said = match (self.outcome, &self.record) {
            (ResolutionArg::Executed, Some(file)) => {
                let text = read_named_file(file)?;
                let record = strict::parse(&text, Limits::ANSWER)
                    .with_context(|| format!("`{}` is not one JSON value", file.display()))?;
                json!({ "outcome": "executed", "record": record })
            }
            (ResolutionArg::Executed, None) => bail!("`executed` needs `--record` with upstream's record of the call"),
            (ResolutionArg::Absent, None) => json!({ "outcome": "absent" }),
            (ResolutionArg::Abandoned, None) => json!({ "outcome": "abandoned" }),
            (ResolutionArg::Absent | ResolutionArg::Abandoned, Some(_)) => {
                bail!(
                    "only `executed` takes a `--record`: whoever has upstream's record knows that the call was executed"
                )
            }
        };
        let path = format!("{}/resolve", self.which.path()?);
        let body = match self.signed(&path, said)? {
            Ok(body) => body,
            Err(refused) => return Ok(refused),
        };
        let ask = ConsoleCall::post(path, body);
        self.way.ask(&ask, |answer| match answer["state"].as_str() {
            Some("executed") => "Resolved as executed: the caller gets the record from now on.\n".to_owned(),
            Some("absent") => "Resolved as not executed, by two people: the caller may send it again.\n".to_owned(),
            Some("abandoned") => {
                "Given up by two people: the call is never sent again, and limits count it.\n".to_owned()
            }
            _ => "Recorded. The outcome stays unknown until one more person confirms it.\n".to_owned(),
        })
    }
}

impl Resolve {
    /// Returns the body of the request, with a signature where the policies want one.
    fn signed(&self, path: &str, said: Value) -> anyhow::Result<Result<Value, ExitReason>> {
        let mut body = said.clone();
        if let Some(members) = body.as_object_mut() {
            members.insert("reason".to_owned(), json!(self.reason));
        }
        let (environment, kind) = match (self.which.environment, self.outcome) {
            // In the sandbox one person shows it.
            (EnvironmentArg::Sandbox, ResolutionArg::Executed) => return Ok(Ok(body)),
            (EnvironmentArg::Production, outcome) => (Environment::Production, outcome.kind()),
            (EnvironmentArg::Sandbox, outcome) => (Environment::Sandbox, outcome.kind()),
        };
        let name = name_of(&self.which.request);
        let record = said.get("record").map(|record| Fingerprint::of(&[&StoredAnswer::of_record(record).body]));
        let is_it = |act: &PersonAct| match act {
            PersonAct::Executed { claim, record: shown, .. } => Some(claim) == name.as_ref() && Some(*shown) == record,
            PersonAct::Absent { claim, .. } | PersonAct::Abandoned { claim, .. } => Some(claim) == name.as_ref(),
            PersonAct::Activation { .. } | PersonAct::Unfreezing { .. } => false,
        };
        let wanted = WantedAct { kind, environment: Some(environment), is_it: &is_it };
        self.place.sign_act(&self.way, (path, said, body), &wanted)
    }
}

/// The columns of a list of calls.
const REQUEST_COLUMNS: [TableColumn; 8] = [
    TableColumn { head: "ENVIRONMENT", is_whole: false, cell: |request| text_at(request, "/environment") },
    TableColumn { head: "REQUEST", is_whole: true, cell: |request| text_at(request, "/name") },
    TableColumn { head: "STATE", is_whole: false, cell: |request| text_at(request, "/state") },
    TableColumn { head: "OPERATION", is_whole: false, cell: |request| text_at(request, "/operation") },
    TableColumn { head: "BY", is_whole: false, cell: owner },
    TableColumn { head: "SINCE", is_whole: false, cell: since },
    TableColumn { head: "WHY", is_whole: false, cell: doubt_in_words },
    TableColumn { head: "MOVES", is_whole: false, cell: moves },
];

fn owner(request: &Value) -> String {
    format!("{}/{}", text_at(request, "/owner/issuer"), text_at(request, "/owner/subject"))
}

fn since(request: &Value) -> String {
    if request.get("since").is_some() { text_at(request, "/since") } else { text_at(request, "/at") }
}

/// Says why an outcome is unknown, how it was looked for, and what people said.
fn doubt_in_words(request: &Value) -> String {
    let said = |name: &str, words: &str| {
        let who = request.get(name).and_then(Value::as_str);
        who.map_or_else(String::new, |who| format!(", {words} {who}"))
    };
    let looks = request.get("looks").and_then(Value::as_u64).unwrap_or_default();
    let tried = match (request.get("lookup"), request.get("lookup").and_then(Value::as_str)) {
        (Some(_), Some(read)) => format!(", looked for with {read} {looks} times"),
        (Some(_), None) => ", no read finds it".to_owned(),
        (None, _) => String::new(),
    };
    let (absent, abandoned) = (said("saidAbsent", "absent according to"), said("saidAbandoned", "given up by"));
    let executed = said("saidExecuted", "executed according to");
    format!("{}{tried}{executed}{absent}{abandoned}", text_at(request, "/doubt"))
}

/// The state of a call of which only its existence is still stored.
const SPENT: &str = "spent";
const SPENT_IN_WORDS: &str = "The requestId was used, and its answer is no longer kept (`store.answers_days`): a call with it is refused, \
    and nothing is sent. Look in upstream's payments API or in the audit log what became of it, before anybody pays again under \
    another requestId.";

/// Formats a call: what it is, then everything else that the console knows of it.
fn request_in_words(request: &Value) -> String {
    const SHOWN: [&str; 6] = ["environment", "name", "operation", "owner", "state", "words"];
    let [environment, name] = ["/environment", "/name"].map(|pointer| text_at(request, pointer));
    let [operation, state] = ["/operation", "/state"].map(|pointer| text_at(request, pointer));
    if state == SPENT {
        return format!("{} {}: {SPENT}\n  {SPENT_IN_WORDS}\n", visible(&environment), visible(&name));
    }
    let mut text =
        format!("{} {}: {operation} by {}, {state}\n", visible(&environment), visible(&name), owner(request));
    for word in request.get("words").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!("  {:<20} {}\n", visible(&text_at(word, "/name")), visible(&text_at(word, "/text"))));
    }
    for (name, value) in request.as_object().into_iter().flatten().filter(|(name, _)| !SHOWN.contains(&name.as_str())) {
        put(&mut text, name, value);
    }
    text
}

fn put(text: &mut String, name: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::String(one) => text.push_str(&format!("  {name:<20} {}\n", visible(one))),
        Value::Object(members) => {
            for (member, value) in members {
                put(text, &format!("{name}.{member}"), value);
            }
        }
        Value::Array(all) if all.iter().all(Value::is_object) => {
            for (nth, one) in (1_u32..).zip(all) {
                put(text, &format!("{name}.{nth}"), one);
            }
        }
        Value::Array(all) => {
            let word = |one: &Value| one.as_str().map_or_else(|| one.to_string(), str::to_owned);
            let words: Vec<String> = all.iter().map(word).collect();
            text.push_str(&format!("  {name:<20} {}\n", visible(&words.join(", "))));
        }
        Value::Bool(_) | Value::Number(_) => {
            text.push_str(&format!("  {name:<20} {}\n", visible(&value.to_string())));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spent_request_id_says_what_that_means_and_what_to_do() {
        let spent = json!({ "environment": "production", "name": "p-1", "state": "spent" });
        let text = request_in_words(&spent);
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(first, "production p-1: spent");
        assert!(rest.contains("no longer kept (`store.answers_days`)") && rest.contains("payments API"), "{rest}");
    }
}
