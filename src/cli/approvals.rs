//! `sluice approvals`: lists held calls, shows them, and casts your votes on them.
//!
//! This program computes the words and the fingerprint of a call itself, from the bytes that would be sent. A console
//! that shows something else is noticed, because the vote names the fingerprint computed here. An approval names the
//! digest of the reasons that were shown, too.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::confirm::confirm;
use super::console::{ConsoleCall, ConsoleOptions};
use super::hold::{HOLD_COLUMNS, ShownHold, gate_contract, hold_id, is_over, state_in_words};
use super::output::OutputFormat;
use super::pages::{Pages, list_as_table};
use super::sign::{SignArgs, SigningFilesArgs};
use super::stand_ins::StandInArgs;
use super::watch::WatchArgs;
use super::{ExitReason, print};
use crate::base::visible::visible;
use crate::cli::complain;

/// List, show, approve and reject calls that wait for approval
///
/// The words and the fingerprint of a call are computed here from the bytes that would be sent, and your vote names
/// that fingerprint. Voting takes the role `approver` and membership in one of the groups that must approve.
#[derive(Debug, Args)]
pub(super) struct ApprovalsArgs {
    #[command(subcommand)]
    what: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    List(ListHoldsArgs),
    Show(ShowHoldArgs),
    Approve(Approve),
    Sign(SignArgs),
    SigningPage(SigningFilesArgs),
    Reject(Reject),
    Withdraw(Withdraw),
    Watch(WatchArgs),
    #[command(name = "stand-in")]
    StandIn(StandInArgs),
}

/// List held calls, the first to expire first
#[derive(Debug, Args)]
struct ListHoldsArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    pages: Pages,
    /// Only holds in this state; closed holds are listed latest first
    #[arg(long, value_enum, default_value = "open")]
    state: HoldStateArg,
    /// Only holds of this operation, by its id
    #[arg(long, value_name = "ID")]
    operation: Option<String>,
    /// Only requests of this subject, as caller or as the person behind a caller
    #[arg(long, value_name = "SUBJECT")]
    by: Option<String>,
    /// Only holds that need, or needed, this approval
    #[arg(long, value_name = "NAME")]
    approval: Option<String>,
    /// Only holds that wait for your vote
    #[arg(long)]
    mine: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HoldStateArg {
    Open,
    Pending,
    Approved,
    Released,
    Declined,
    Ended,
}

#[derive(Debug, Args)]
struct OneHoldArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The id of the hold, as `sluice approvals list` shows it
    #[arg(value_name = "HOLD")]
    hold: String,
    /// The gate's contract folder, unless the gate uses the built-in contract
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
}

/// Show one hold: what it would send, from where to where, why it is held, and who approved it
#[derive(Debug, Args)]
struct ShowHoldArgs {
    #[command(flatten)]
    which: OneHoldArgs,
}

/// Approve a hold, for exactly the bytes that are shown
#[derive(Debug, Args)]
struct Approve {
    #[command(flatten)]
    which: OneHoldArgs,
    /// A comment for the other approvers; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Do not ask for confirmation; needed where there is no terminal
    #[arg(long)]
    yes: bool,
}

/// Reject a hold: it is never sent, and its caller is told your reason
#[derive(Debug, Args)]
struct Reject {
    #[command(flatten)]
    which: OneHoldArgs,
    /// The reason; the caller is told it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Taken as by `approve`; a rejection never asks for confirmation
    #[arg(long)]
    yes: bool,
}

/// Withdraw your vote, unless the hold is already fully approved
#[derive(Debug, Args)]
struct Withdraw {
    #[command(flatten)]
    which: OneHoldArgs,
}

pub(super) fn run(arguments: &ApprovalsArgs) -> anyhow::Result<ExitReason> {
    match &arguments.what {
        ApprovalsCommand::List(list) => list.run(),
        ApprovalsCommand::Show(show) => show.run(),
        ApprovalsCommand::Approve(approve) => approve.run(),
        ApprovalsCommand::Sign(sign) => sign.run(),
        ApprovalsCommand::SigningPage(files) => files.run(),
        ApprovalsCommand::Reject(reject) => {
            let message = |changed| if changed { "Rejected." } else { "It was already rejected." };
            reject.which.judge("reject", json!({ "reason": reject.reason }), message)
        }
        ApprovalsCommand::Withdraw(withdraw) => {
            let message = |changed| if changed { "Vote withdrawn." } else { "You had not voted." };
            withdraw.which.judge("withdraw", json!({}), message)
        }
        ApprovalsCommand::Watch(watch) => watch.run(),
        ApprovalsCommand::StandIn(stand_in) => stand_in.run(),
    }
}

impl ListHoldsArgs {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let state = match self.state {
            HoldStateArg::Open => "open",
            HoldStateArg::Pending => "pending",
            HoldStateArg::Approved => "approved",
            HoldStateArg::Released => "released",
            HoldStateArg::Declined => "declined",
            HoldStateArg::Ended => "ended",
        };
        let ask = self.pages.of("holds").with("state", Some(state.to_owned()));
        let ask = ask.with("operation", self.operation.clone()).with("by", self.by.clone());
        let ask = ask.with("approval", self.approval.clone()).with("mine", self.mine.then(|| "true".to_owned()));
        let words = |answer: &Value| list_as_table(answer, "holds", &HOLD_COLUMNS, "No holds match these filters.");
        self.way.ask_for_rows(&ask, Some("holds"), words)
    }
}

impl ShowHoldArgs {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let shown = match self.which.look()? {
            Ok(shown) => shown,
            Err(refused) => return report_refusal(&refused),
        };
        print(&self.which.way.output.text(|| shown.in_words(), || shown.hold.clone(), None))?;
        Ok(ExitReason::Done)
    }
}

impl Approve {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let shown = match self.which.look()? {
            Ok(shown) => shown,
            Err(refused) => return report_refusal(&refused),
        };
        if self.which.way.output == OutputFormat::Table {
            print(&shown.in_words())?;
        }
        if is_over(&shown.hold) {
            return report_refusal(&format!("this hold is over: {} No vote was cast", state_in_words(&shown.hold)));
        }
        if shown.hold.get("mustSign").and_then(Value::as_bool) == Some(true) {
            return self.which.point_to_page();
        }
        if !self.yes {
            confirm("Approve exactly this call?", "no vote was cast")?;
        }
        let causes = shown.causes();
        let body = match &self.comment {
            Some(comment) => json!({ "causes": causes, "comment": comment }),
            None => json!({ "causes": causes }),
        };
        let message = |changed| if changed { "Approved." } else { "You had already approved it." };
        self.which.send("approve", body, &shown, message)
    }
}

impl OneHoldArgs {
    fn path(&self) -> anyhow::Result<String> {
        Ok(format!("holds/{}", hold_id(&self.hold)?))
    }

    /// Fetches the hold and parses its bytes; returns the console's message if it refuses.
    fn look(&self) -> anyhow::Result<Result<ShownHold, String>> {
        let (id, catalog) = (hold_id(&self.hold)?, gate_contract(self.schemas.as_deref())?);
        let runtime = Runtime::new().context("the async runtime cannot start")?;
        runtime.block_on(ShownHold::fetch(&self.way, &catalog, &id))
    }

    /// Says where a vote can be signed.
    fn point_to_page(&self) -> anyhow::Result<ExitReason> {
        let (_, shown) = self.way.send(&ConsoleCall::get("signing".to_owned()))?;
        let page = shown.pointer("/signing/origins/0").and_then(Value::as_str).unwrap_or_default();
        report_refusal(&format!(
            "this approval takes only signed votes: vote with your passkey at {}/#/hold/{}, or with `sluice approvals sign {}`; no vote was cast",
            visible(page),
            self.hold,
            self.hold
        ))
    }

    fn judge(&self, act: &str, body: Value, message: impl Fn(bool) -> &'static str) -> anyhow::Result<ExitReason> {
        match self.look()? {
            Ok(shown) => self.send(act, body, &shown, message),
            Err(refused) => report_refusal(&refused),
        }
    }

    /// Sends the vote with the fingerprint that was computed here.
    fn send(
        &self,
        act: &str,
        mut body: Value,
        shown: &ShownHold,
        message: impl Fn(bool) -> &'static str,
    ) -> anyhow::Result<ExitReason> {
        let intent = shown.intent.as_ref();
        let intent =
            intent.context("the console does not show you what would be sent; that takes the role `approver`")?;
        if let Some(members) = body.as_object_mut() {
            members.insert("fingerprint".to_owned(), json!(intent.fingerprint().to_hex()));
        }
        self.way.ask(&ConsoleCall::post(format!("{}/{act}", self.path()?), body), |answer| {
            let hold = &answer["hold"];
            match hold["state"] == "rejected" {
                true => format!("{}\n", message(answer["changed"] == true)),
                false => format!("{} {}\n", message(answer["changed"] == true), state_in_words(hold)),
            }
        })
    }
}

fn report_refusal(refused: &str) -> anyhow::Result<ExitReason> {
    complain(format_args!("sluice: {refused}"));
    Ok(ExitReason::Refused)
}
