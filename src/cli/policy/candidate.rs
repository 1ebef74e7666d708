//! `sluice policy candidate` and `sluice policy agree`: the policies that wait for two approvals, and people's
//! approvals.

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::cli::ExitReason;
use crate::cli::console::{ConsoleCall, ConsoleOptions};
use crate::cli::sign::{SigningPlace, WantedAct};
use crate::people::signed_act::PersonAct;
use crate::policy::SignableAct;

#[derive(Debug, Args)]
pub(super) struct Agree {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    place: SigningPlace,
    /// The version that waits for approval, as `sluice policy candidate` shows it
    version: String,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn show(way: &ConsoleOptions) -> anyhow::Result<ExitReason> {
    way.ask(&ConsoleCall::get("policies"), candidate_in_words)
}

impl Agree {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        let version = &self.version;
        if version.is_empty() || !version.bytes().all(|b| b.is_ascii_hexdigit()) {
            bail!(
                "`{version}` is not a version of policies; `sluice policy candidate` shows the one that waits for approval"
            );
        }
        let path = format!("policies/{version}/agree");
        let is_it = |act: &PersonAct| matches!(act, PersonAct::Activation { to, .. } if to == version);
        let wanted = WantedAct { kind: SignableAct::Activation, environment: None, is_it: &is_it };
        let request = (path.as_str(), Value::Null, json!({ "reason": self.reason }));
        let ask = match self.place.sign_act(&self.way, request, &wanted)? {
            Ok(body) => ConsoleCall::post(path, body),
            Err(refused) => return Ok(refused),
        };
        self.way.ask(&ask, |answer| match answer.get("missing").and_then(Value::as_u64) {
            Some(0) => format!("Fully approved: version {version} comes into force.\n"),
            _ => format!("Approved: version {version} needs the approval of one more person.\n"),
        })
    }
}

fn candidate_in_words(answer: &Value) -> String {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    let list = |pointer: &str| answer.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let in_force = format!("Version {} is in force.\n", text("/version"));
    if answer.get("candidate").is_none_or(Value::is_null) {
        return format!("{in_force}No version waits for approval.\n");
    }
    let people: Vec<&str> = list("/candidate/agreed").filter_map(Value::as_str).collect();
    let people = if people.is_empty() { "no one yet".to_owned() } else { people.join(", ") };
    let counted: String = list("/candidate/decisions")
        .map(|one| {
            let word = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or("-");
            let calls = one.get("calls").and_then(Value::as_u64).unwrap_or_default();
            format!("  {} now, {} with the new version: {calls}\n", word("from"), word("to"))
        })
        .collect();
    let counted = if counted.is_empty() { "  none\n".to_owned() } else { counted };
    let history = match answer.pointer("/candidate/history/words").and_then(Value::as_str) {
        Some(words) => format!("What it would have changed:\n{words}"),
        None => "What it would have changed is not known yet: ask again in a moment.\n".to_owned(),
    };
    format!(
        "{in_force}Version {} waits for approval since {}; approved by: {people}\n{}{history}Calls decided differently since then:\n{counted}",
        text("/candidate/version"),
        text("/candidate/since"),
        text("/candidate/words")
    )
}
