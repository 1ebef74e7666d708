//! Which part of a list a command asks for, and where the next one begins: the same for every list.

use clap::Args;
use serde_json::Value;

use super::console::Ask;
use super::freeze::Environment;

#[derive(Debug, Args)]
pub(super) struct Pages {
    /// Of one environment alone
    #[arg(long, value_enum)]
    environment: Option<Environment>,
    /// At most so many, up to 100
    #[arg(long)]
    limit: Option<u16>,
    /// Where the page before ended
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,
}

impl Pages {
    pub fn of(&self, path: &str) -> Ask {
        Ask::get(path)
            .with("environment", self.environment.map(|environment| environment.as_str().to_owned()))
            .with("limit", self.limit.map(|limit| limit.to_string()))
            .with("after", self.after.clone())
    }
}

/// A list in words; `none` if nothing is in it.
pub(super) fn listed(answer: &Value, name: &str, line: impl Fn(&Value) -> String, none: &str) -> String {
    let all = answer.get(name).and_then(Value::as_array);
    let lines: String = all.into_iter().flatten().map(|one| format!("{}\n", line(one))).collect();
    let more = answer["next"].as_str().map_or_else(String::new, |next| format!("more: --after {next}\n"));
    if lines.is_empty() && more.is_empty() { format!("{none}\n") } else { format!("{lines}{more}") }
}
