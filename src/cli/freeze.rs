//! `sluice freeze`, `sluice freezes` and `sluice unfreeze`: stopping money, and letting it go again.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Ending;
use super::console::{Ask, Way, scope, scope_in_words};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Environment {
    Production,
    Sandbox,
}

impl Environment {
    pub fn as_str(self) -> &'static str {
        match self {
            Environment::Production => "production",
            Environment::Sandbox => "sandbox",
        }
    }
}

/// Stop money at once, on every node
///
/// All money of an environment, or one operation, or the money of one caller. What has begun goes on; what was done
/// before is answered as ever. Takes the role `operator`; it is in the audit chain with your name.
#[derive(Debug, Args)]
pub(super) struct Freeze {
    #[command(flatten)]
    way: Way,
    /// Where
    #[arg(long, value_enum)]
    environment: Environment,
    /// One operation alone, by its id; whatever its class
    #[arg(long, value_name = "ID", conflicts_with = "caller")]
    operation: Option<String>,
    /// One caller alone
    #[arg(long, value_name = "ISSUER/SUBJECT")]
    caller: Option<String>,
    /// Why; whoever reads the audit chain sees it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Let money go again
///
/// Takes the role `operator`; it is in the audit chain with your name.
#[derive(Debug, Args)]
pub(super) struct Unfreeze {
    #[command(flatten)]
    way: Way,
    /// Where
    #[arg(long, value_enum)]
    environment: Environment,
    /// The operation that was frozen
    #[arg(long, value_name = "ID", conflicts_with_all = ["caller", "restored"])]
    operation: Option<String>,
    /// The caller that was frozen
    #[arg(long, value_name = "ISSUER/SUBJECT", conflicts_with = "restored")]
    caller: Option<String>,
    /// Open a store that was taken in from elsewhere, or that forgot: first make sure what was paid that it does not know, for
    /// that may then be paid again. `sluice doctor` says which gates have still to give back what they know
    #[arg(long)]
    restored: bool,
    /// Why; whoever reads the audit chain sees it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// List what is frozen
#[derive(Debug, Args)]
pub(super) struct Freezes {
    #[command(flatten)]
    way: Way,
}

impl Freeze {
    pub fn run(&self) -> anyhow::Result<Ending> {
        let scope = scope(self.operation.as_deref(), self.caller.as_deref(), false)?;
        let body = json!({ "environment": self.environment.as_str(), "scope": scope, "reason": self.reason });
        self.way.ask(&Ask::post("freezes", body), |answer| {
            let freeze = answer.get("freeze").unwrap_or(&Value::Null);
            let words = if answer["changed"] == true { "Frozen" } else { "It was frozen already" };
            format!("{words}: {}\n", line(freeze))
        })
    }
}

impl Unfreeze {
    pub fn run(&self) -> anyhow::Result<Ending> {
        let scope = scope(self.operation.as_deref(), self.caller.as_deref(), self.restored)?;
        let environment = self.environment.as_str();
        let body = json!({ "environment": environment, "scope": scope, "reason": self.reason });
        self.way.ask(&Ask::post("freezes/lift", body), |answer| {
            let words = if answer["changed"] == true { "No longer frozen" } else { "It was not frozen" };
            format!("{words}: {environment}, {}\n", scope_in_words(&scope))
        })
    }
}

impl Freezes {
    pub fn run(&self) -> anyhow::Result<Ending> {
        self.way.ask(&Ask::get("freezes"), |answer| {
            let lines: String =
                answer["freezes"].as_array().into_iter().flatten().map(|one| format!("{}\n", line(one))).collect();
            if lines.is_empty() { "Nothing is frozen.\n".to_owned() } else { lines }
        })
    }
}

fn line(freeze: &Value) -> String {
    let text = |name: &str| freeze.get(name).and_then(Value::as_str).unwrap_or("-");
    let scope = scope_in_words(freeze.get("scope").unwrap_or(&Value::Null));
    format!("{}, {scope}, since {}, by {}: {}", text("environment"), text("at"), text("by"), text("reason"))
}
