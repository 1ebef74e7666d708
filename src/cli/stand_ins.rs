//! `sluice approvals stand-in`: names, lists and revokes people who vote in your place.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ExitReason;
use super::console::{ConsoleCall, ConsoleOptions};
use super::output::{TableColumn, text_at};
use super::pages::EnvironmentArg;
use super::pages::list_as_table;

/// Name a stand-in who votes in your place for a time, list stand-ins, and revoke them
///
/// Either of you fills your seat, once. Stand-ins vote with their own token and need the role `approver`. On requests
/// that either of you made, they cannot fill your seat.
#[derive(Debug, Args)]
pub(super) struct StandInArgs {
    #[command(subcommand)]
    what: StandInsCommand,
}

#[derive(Debug, Subcommand)]
enum StandInsCommand {
    Name(NameStandInArgs),
    List(ListStandInsArgs),
    Revoke(Revoke),
}

/// Name a stand-in, or change their time; at most 31 days at once
#[derive(Debug, Args)]
struct NameStandInArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The environment
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// The subject of their tokens
    #[arg(value_name = "PERSON")]
    person: String,
    /// The start, such as `2026-07-01T08:00:00+02:00` [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// The end, such as `2026-07-14T18:00:00+02:00`
    #[arg(long, value_name = "TIME")]
    until: String,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// List current and future stand-ins
#[derive(Debug, Args)]
struct ListStandInsArgs {
    #[command(flatten)]
    way: ConsoleOptions,
}

/// Revoke a stand-in: their votes in your place no longer count, unless the call was already released
#[derive(Debug, Args)]
struct Revoke {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The environment
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// The subject of their tokens
    #[arg(value_name = "PERSON")]
    person: String,
    /// The member in whose place they vote, if not you: takes the role `operator` or `policy-admin`, or to be PERSON
    #[arg(long = "for", value_name = "MEMBER")]
    member: Option<String>,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl StandInArgs {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        match &self.what {
            StandInsCommand::Name(name) => name.run(),
            StandInsCommand::List(ListStandInsArgs { way }) => {
                way.ask_for_rows(&ConsoleCall::get("stand-ins"), Some("standIns"), |answer| {
                    list_as_table(answer, "standIns", &STAND_IN_COLUMNS, "No stand-ins are named.")
                })
            }
            StandInsCommand::Revoke(revoke) => revoke.run(),
        }
    }
}

impl NameStandInArgs {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let mut body = json!({
            "environment": self.environment.as_str(),
            "person": self.person,
            "until": self.until,
            "reason": self.reason,
        });
        if let (Some(from), Some(members)) = (&self.from, body.as_object_mut()) {
            members.insert("from".to_owned(), json!(from));
        }
        self.way.ask(&ConsoleCall::post("stand-ins", body), |answer| {
            format!("Named: {}\n", stand_in_line(&answer["standIn"]))
        })
    }
}

impl Revoke {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let mut body =
            json!({ "environment": self.environment.as_str(), "person": self.person, "reason": self.reason });
        if let (Some(member), Some(members)) = (&self.member, body.as_object_mut()) {
            members.insert("for".to_owned(), json!(member));
        }
        self.way.ask(&ConsoleCall::post("stand-ins/revoke", body), |answer| {
            let words = if answer["changed"] == true { "No longer a stand-in" } else { "Not a stand-in" };
            format!("{words}: {}\n", self.person)
        })
    }
}

const STAND_IN_COLUMNS: [TableColumn; 6] = [
    TableColumn { head: "ENVIRONMENT", is_whole: false, cell: |one| text_at(one, "/environment") },
    TableColumn { head: "PERSON", is_whole: true, cell: |one| text_at(one, "/person") },
    TableColumn { head: "FOR", is_whole: true, cell: |one| text_at(one, "/for") },
    TableColumn { head: "FROM", is_whole: false, cell: |one| text_at(one, "/from") },
    TableColumn { head: "UNTIL", is_whole: false, cell: |one| text_at(one, "/until") },
    TableColumn { head: "REASON", is_whole: false, cell: |one| text_at(one, "/reason") },
];

fn stand_in_line(one: &Value) -> String {
    let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or("-");
    format!(
        "{} {} for {}, from {} until {}: {}",
        text("environment"),
        text("person"),
        text("for"),
        text("from"),
        text("until"),
        text("reason")
    )
}
