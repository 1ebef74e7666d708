//! `sluice freeze`, `sluice freezes` and `sluice unfreeze`: stop money, list freezes and lift them.

use clap::Args;
use serde_json::{Value, json};

use super::ExitReason;
use super::console::{ConsoleCall, ConsoleOptions, scope, scope_in_words};
use super::output::{TableColumn, text_at};
use super::pages::{EnvironmentArg, list_as_table};
use super::sign::{SigningPlace, WantedAct};
use crate::base::ids::Environment;
use crate::base::visible::visible;
use crate::people::signed_act::PersonAct;
use crate::policy::SignableAct;
use crate::stations::claim::Freeze;

/// Stop money immediately, on every node
///
/// Freezes all money of an environment, one operation, or the money or the reads of one caller. Calls that are being sent
/// continue, and a repeated request still gets its recorded answer. Takes the role `operator`; the audit log keeps
/// your name.
#[derive(Debug, Args)]
pub(super) struct FreezeArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The environment
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// Freeze only this operation, by its id, whatever its class
    #[arg(long, value_name = "ID", conflicts_with = "caller")]
    operation: Option<String>,
    /// Freeze only this caller
    #[arg(long, value_name = "ISSUER/SUBJECT")]
    caller: Option<String>,
    /// The caller's reads, instead of its money
    #[arg(long, requires = "caller")]
    reads: bool,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Lift a freeze
///
/// In production it takes two people. Takes the role `operator`; the audit log keeps your name. Where the policies want it
/// signed, name a page: you sign what this command computes, as with `sluice approvals sign`.
#[derive(Debug, Args)]
pub(super) struct Unfreeze {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    place: SigningPlace,
    /// The environment
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// The operation that was frozen
    #[arg(long, value_name = "ID", conflicts_with_all = ["caller", "restored", "clock", "gate_clock"])]
    operation: Option<String>,
    /// The caller that was frozen
    #[arg(long, value_name = "ISSUER/SUBJECT", conflicts_with_all = ["restored", "clock", "gate_clock"])]
    caller: Option<String>,
    /// Open a store that was imported or that lost data. First find out which payments it does not know, because they
    /// could be paid again. `sluice doctor` shows which gates must still restore their records
    #[arg(long, conflicts_with_all = ["clock", "gate_clock"])]
    restored: bool,
    /// Open money that was closed because the clock of the store leapt. First set that clock right: the store's time
    /// follows it again, and a jump ahead ends limits, approvals and leases early
    #[arg(long, conflicts_with = "gate_clock")]
    clock: bool,
    /// Open the money of a gate, by its node name, that was closed because the clock of its machine was not that of
    /// upstream and the issuers when it started. First set that clock right, and start the gate again
    #[arg(long, value_name = "NODE")]
    gate_clock: Option<String>,
    /// The caller's reads, instead of its money
    #[arg(long, requires = "caller")]
    reads: bool,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// List freezes
#[derive(Debug, Args)]
pub(super) struct Freezes {
    #[command(flatten)]
    way: ConsoleOptions,
}

impl FreezeArgs {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        let scope = scope(self.operation.as_deref(), self.caller.as_deref(), self.reads, None)?;
        let body = json!({ "environment": self.environment.as_str(), "scope": scope, "reason": self.reason });
        self.way.ask(&ConsoleCall::post("freezes", body), |answer| {
            let freeze = answer.get("freeze").unwrap_or(&Value::Null);
            let words = if answer["changed"] == true { "Frozen" } else { "Already frozen" };
            let caller = &answer["caller"];
            format!("{words}: {}\n{}{}", freeze_line(freeze), unmet_in_words(caller), spellings_in_words(caller))
        })
    }
}

/// Warns where no call of a frozen caller is known: its name may be a mistake.
fn unmet_in_words(caller: &Value) -> String {
    if caller["known"] != false {
        return String::new();
    }
    let since = caller["since"].as_str().map_or_else(String::new, |since| format!(" since {}", visible(since)));
    let nearest: Vec<_> = caller["nearest"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let nearest = match nearest.as_slice() {
        [] => String::new(),
        names => format!(" Known callers: {}.", visible(&names.join(", "))),
    };
    format!("No call of this caller is known{since}: check the name, with the case of its letters.{nearest}\n")
}

/// Warns where callers are known whose names are other spellings: the freeze is not of them.
fn spellings_in_words(caller: &Value) -> String {
    let names: Vec<_> = caller["spellings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("Other spellings of this name are not frozen by it: {}.\n", visible(&names.join(", ")))
}

impl Unfreeze {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        let special = if self.clock { Some("clock") } else { self.restored.then_some("restored") };
        let scope = match &self.gate_clock {
            Some(node) => json!({ "gateClock": node }),
            None => scope(self.operation.as_deref(), self.caller.as_deref(), self.reads, special)?,
        };
        let environment = self.environment.as_str();
        let mut body = json!({ "environment": environment, "scope": scope, "reason": self.reason });
        // In the sandbox it takes one person.
        if let EnvironmentArg::Production = self.environment {
            let lifted = Freeze::of_scope(&scope).map(|freeze| freeze.name());
            let is_it = |act: &PersonAct| matches!(act, PersonAct::Unfreezing { freeze, .. } if Some(freeze) == lifted.as_ref());
            let wanted =
                WantedAct { kind: SignableAct::Unfreezing, environment: Some(Environment::Production), is_it: &is_it };
            let asks = json!({ "environment": environment, "scope": scope });
            body = match self.place.sign_act(&self.way, ("freezes/lift", asks, body), &wanted)? {
                Ok(body) => body,
                Err(refused) => return Ok(refused),
            };
        }
        self.way.ask(&ConsoleCall::post("freezes/lift", body), |answer| {
            let scope = scope_in_words(&scope);
            if answer["missing"] == 1 {
                return format!(
                    "Recorded. It stays frozen until one more person confirms it: {environment}, {scope}\n"
                );
            }
            let words = if answer["changed"] == true { "Unfrozen" } else { "Not frozen" };
            format!("{words}: {environment}, {scope}\n{}", self.still_frozen())
        })
    }

    /// Lists what is still frozen in the environment; nothing where the console does not answer any more.
    fn still_frozen(&self) -> String {
        let Ok((200, answer)) = self.way.send(&ConsoleCall::get("freezes")) else { return String::new() };
        let freezes = answer.get("freezes").and_then(Value::as_array).into_iter().flatten();
        let of_it = freezes.filter(|freeze| freeze["environment"] == self.environment.as_str());
        of_it.map(|freeze| format!("Still frozen: {}\n", freeze_line(freeze))).collect()
    }
}

impl Freezes {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        self.way.ask_for_rows(&ConsoleCall::get("freezes"), Some("freezes"), |answer| {
            let lines = list_as_table(answer, "freezes", &FREEZE_COLUMNS, "Nothing is frozen.");
            let doubts: String = answer["freezes"].as_array().into_iter().flatten().filter_map(lost_in_words).collect();
            let more = if answer["more"] == true { "There are more freezes of callers than are listed.\n" } else { "" };
            format!("{lines}{more}{doubts}")
        })
    }
}

const FREEZE_COLUMNS: [TableColumn; 5] = [
    TableColumn { head: "ENVIRONMENT", is_whole: false, cell: |freeze| text_at(freeze, "/environment") },
    TableColumn {
        head: "FROZEN",
        is_whole: true,
        cell: |freeze| freeze.get("scope").map_or_else(String::new, scope_in_words),
    },
    TableColumn { head: "SINCE", is_whole: false, cell: |freeze| text_at(freeze, "/at") },
    TableColumn { head: "BY", is_whole: false, cell: |freeze| text_at(freeze, "/by") },
    TableColumn { head: "REASON", is_whole: false, cell: |freeze| text_at(freeze, "/reason") + &lift_in_words(freeze) },
];

fn freeze_line(freeze: &Value) -> String {
    let text = |name: &str| freeze.get(name).and_then(Value::as_str).unwrap_or("-");
    let scope = scope_in_words(freeze.get("scope").unwrap_or(&Value::Null));
    let said = lift_in_words(freeze);
    format!("{}, {scope}, since {}, by {}: {}{said}", text("environment"), text("at"), text("by"), text("reason"))
}

/// Says from when on the payments of a restored store must be compared, before money is opened.
fn lost_in_words(freeze: &Value) -> Option<String> {
    let last = freeze.get("lastPaid")?;
    let environment = visible(freeze.get("environment")?.as_str()?);
    let (known, since) = match last.as_str() {
        Some(at) => (format!("the last payment that the store knows was executed by {}", visible(at)), "since"),
        None => ("the store knows no payment".to_owned(), "ever"),
    };
    Some(format!(
        "{environment}: {known}. Before you open money, compare what the payments API has paid {since}: `sluice requests show \
         --environment {environment} ID` says whether the store knows a payment.\n"
    ))
}

/// Says whether one of two people wants to lift the freeze.
fn lift_in_words(freeze: &Value) -> String {
    let said = freeze.get("saidUnfrozen").and_then(Value::as_str);
    said.map_or_else(String::new, |who| format!(" (to be lifted, according to {who}; one more person must confirm it)"))
}
