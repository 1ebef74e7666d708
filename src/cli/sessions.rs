//! `sluice sessions`: what people have open at the console.

use clap::{Args, Subcommand};
use serde_json::json;

use super::Ending;
use super::console::{Ask, Way};

/// End what people have open at the console
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    End(End),
}

/// End all sessions of a person, on every node
///
/// Yours, or another's with the role `operator`; it is in the audit chain with your name. Tokens that they hold are good
/// until they expire: whoever must stay out is shut out where tokens are made, and leaves their groups.
#[derive(Debug, Args)]
struct End {
    #[command(flatten)]
    way: Way,
    /// Whose, by their subject as their tokens say it [default: yours]
    #[arg(value_name = "PERSON")]
    person: Option<String>,
    /// Why; whoever reads the audit chain sees it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let What::End(End { way, person, reason }) = &arguments.what;
    let mut body = json!({ "reason": reason });
    if let (Some(person), Some(members)) = (person, body.as_object_mut()) {
        members.insert("person".to_owned(), json!(person));
    }
    let whose = person.as_deref().unwrap_or("yours");
    way.ask(&Ask::post("sessions/end", body), |answer| match answer["ended"].as_u64() {
        Some(0) => format!("No session of {whose} was open.\n"),
        Some(1) => format!("1 session of {whose} was ended.\n"),
        count => format!("{} sessions of {whose} were ended.\n", count.unwrap_or_default()),
    })
}
