//! `sluice sessions`: ends people's sessions at the console.

use clap::{Args, Subcommand};
use serde_json::json;

use super::ExitReason;
use super::console::{ConsoleCall, ConsoleOptions};

/// End people's sessions at the console
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct SessionsArgs {
    #[command(subcommand)]
    what: SessionsCommand,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    End(EndSessionsArgs),
}

/// End all sessions of a person, on every node
///
/// Ends your own sessions, or another person's with the role `operator`; the audit log keeps your name. The person's
/// tokens stay valid until they expire: to lock someone out, also disable them at the issuer and remove them from
/// their groups.
#[derive(Debug, Args)]
struct EndSessionsArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The person, by the subject of their tokens [default: you]
    #[arg(value_name = "PERSON")]
    person: Option<String>,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(arguments: &SessionsArgs) -> anyhow::Result<ExitReason> {
    let SessionsCommand::End(EndSessionsArgs { way, person, reason }) = &arguments.what;
    let mut body = json!({ "reason": reason });
    if let (Some(person), Some(members)) = (person, body.as_object_mut()) {
        members.insert("person".to_owned(), json!(person));
    }
    let whose = person.as_deref().map_or_else(|| "of yours".to_owned(), |person| format!("of {person}"));
    way.ask(&ConsoleCall::post("sessions/end", body), |answer| match answer["ended"].as_u64() {
        Some(0) => format!("Ended every session {whose} that began before now. The store showed none.\n"),
        Some(1) => format!("Ended every session {whose} that began before now. The store showed 1.\n"),
        count => {
            let count = count.unwrap_or_default();
            format!("Ended every session {whose} that began before now. The store showed {count}.\n")
        }
    })
}
