//! `sluice approvals stand-in`: who votes in your place, and for how long.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Ending;
use super::console::{Ask, Way};
use super::freeze::Environment;
use super::pages::listed;

/// Name who votes in your place for a time, list who does, and take it back
///
/// Your seat is filled once, by either of you; they vote by their own token, and take the role `approver` for it. Of what
/// either of you asked for, they fill no seat of yours.
#[derive(Debug, Args)]
pub(super) struct StandIn {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Name(Name),
    List(List),
    Revoke(Revoke),
}

/// Name a person, or name them for another time; at most 31 days at one stroke
#[derive(Debug, Args)]
struct Name {
    #[command(flatten)]
    way: Way,
    /// Where
    #[arg(long, value_enum)]
    environment: Environment,
    /// Their subject, as their tokens say it
    #[arg(value_name = "PERSON")]
    person: String,
    /// From when on, as `2026-07-01T08:00:00+02:00` [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Until when, as `2026-07-14T18:00:00+02:00`
    #[arg(long, value_name = "TIME")]
    until: String,
    /// Why; whoever reads the audit chain sees it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// List who stands in for whom, now and later
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    way: Way,
}

/// Take it back: votes that they gave in your place count no more, unless the call has gone
#[derive(Debug, Args)]
struct Revoke {
    #[command(flatten)]
    way: Way,
    /// Where
    #[arg(long, value_enum)]
    environment: Environment,
    /// Their subject
    #[arg(value_name = "PERSON")]
    person: String,
    /// In whose place they vote, if it is not yours: takes the role `operator` or `policy-admin`, or to be PERSON
    #[arg(long = "for", value_name = "MEMBER")]
    member: Option<String>,
    /// Why; whoever reads the audit chain sees it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl StandIn {
    pub fn run(&self) -> anyhow::Result<Ending> {
        match &self.what {
            What::Name(name) => name.run(),
            What::List(List { way }) => {
                way.ask(&Ask::get("stand-ins"), |answer| listed(answer, "standIns", line, "Nobody stands in."))
            }
            What::Revoke(revoke) => revoke.run(),
        }
    }
}

impl Name {
    fn run(&self) -> anyhow::Result<Ending> {
        let mut body = json!({
            "environment": self.environment.as_str(),
            "person": self.person,
            "until": self.until,
            "reason": self.reason,
        });
        if let (Some(from), Some(members)) = (&self.from, body.as_object_mut()) {
            members.insert("from".to_owned(), json!(from));
        }
        self.way.ask(&Ask::post("stand-ins", body), |answer| format!("Named: {}\n", line(&answer["standIn"])))
    }
}

impl Revoke {
    fn run(&self) -> anyhow::Result<Ending> {
        let mut body =
            json!({ "environment": self.environment.as_str(), "person": self.person, "reason": self.reason });
        if let (Some(member), Some(members)) = (&self.member, body.as_object_mut()) {
            members.insert("for".to_owned(), json!(member));
        }
        self.way.ask(&Ask::post("stand-ins/revoke", body), |answer| {
            let words = if answer["changed"] == true { "No longer a stand-in" } else { "It was no stand-in" };
            format!("{words}: {}\n", self.person)
        })
    }
}

fn line(one: &Value) -> String {
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
