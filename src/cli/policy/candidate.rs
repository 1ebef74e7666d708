//! `sluice policy candidate` and `sluice policy agree`: the set that waits, and people's word on it.

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::cli::Ending;
use crate::cli::console::{Ask, Way};

#[derive(Debug, Args)]
pub(super) struct Agree {
    #[command(flatten)]
    way: Way,
    /// The version that waits, as `sluice policy candidate` shows it
    version: String,
    /// Why; it stands in the audit chain
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn show(way: &Way) -> anyhow::Result<Ending> {
    way.ask(&Ask::get("policies"), shown)
}

impl Agree {
    pub fn run(&self) -> anyhow::Result<Ending> {
        let version = &self.version;
        if version.is_empty() || !version.bytes().all(|b| b.is_ascii_hexdigit()) {
            bail!("`{version}` is no version of policies; `sluice policy candidate` shows the one that waits");
        }
        let ask = Ask::post(format!("policies/{version}/agree"), json!({ "reason": self.reason }));
        self.way.ask(&ask, |answer| match answer.get("missing").and_then(Value::as_u64) {
            Some(0) => format!("two people agree: version {version} takes force\n"),
            _ => format!("noted: one more person has to agree on version {version}\n"),
        })
    }
}

fn shown(answer: &Value) -> String {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    let list = |pointer: &str| answer.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let in_force = format!("version {} is in force\n", text("/version"));
    if answer.get("candidate").is_none_or(Value::is_null) {
        return format!("{in_force}none waits\n");
    }
    let people: Vec<&str> = list("/candidate/agreed").filter_map(Value::as_str).collect();
    let people = if people.is_empty() { "nobody".to_owned() } else { people.join(", ") };
    let counted: String = list("/candidate/decisions")
        .map(|one| {
            let word = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or("-");
            let calls = one.get("calls").and_then(Value::as_u64).unwrap_or_default();
            format!("  {} now, {} then: {calls}\n", word("from"), word("to"))
        })
        .collect();
    let counted = if counted.is_empty() { "  none\n".to_owned() } else { counted };
    format!(
        "{in_force}version {} waits since {}; agreed: {people}\n{}calls decided since:\n{counted}",
        text("/candidate/version"),
        text("/candidate/since"),
        text("/candidate/words")
    )
}
