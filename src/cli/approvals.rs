//! `sluice approvals`: what waits for people, and what you say of it.
//!
//! What is shown of a call is made here, from the bytes that would be sent, and a vote is for the fingerprint that is
//! computed here: a console that told something else would be noticed.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::console::{Ask, Way, refusal};
use super::hold::{Shown, line, plain, standing};
use super::pages::{Pages, listed};
use super::stand_ins::StandIn;
use super::watch::Watch;
use super::{Ending, print, read_contract};
use crate::base::ids::{Environment as Where, HoldId};
use crate::catalog::Catalog;
use crate::stations::admit::Known;
use crate::stations::check::Intent;
use crate::stations::hold::read_bytes;

/// See calls that wait for people, and judge them
///
/// What is shown is made from the very bytes that would be sent, and a vote is for their fingerprint as it is computed
/// here. Judging takes the role `approver`, and to be a member of a group that is asked.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(List),
    Show(Show),
    Approve(Approve),
    Reject(Reject),
    Withdraw(Withdraw),
    Watch(Watch),
    #[command(name = "stand-in")]
    StandIn(StandIn),
}

/// List what waits, those first that expire first
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    pages: Pages,
    /// In which state; those that are over stand with the latest first
    #[arg(long, value_enum, default_value = "open")]
    state: State,
    /// Of one operation alone, by its id
    #[arg(long, value_name = "ID")]
    operation: Option<String>,
    /// That this caller asked for, or this person behind one, by its subject
    #[arg(long, value_name = "SUBJECT")]
    by: Option<String>,
    /// That wait, or waited, for this approval
    #[arg(long, value_name = "NAME")]
    approval: Option<String>,
    /// That wait for your own vote
    #[arg(long)]
    mine: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Open,
    Pending,
    Approved,
    Released,
    Declined,
    Ended,
}

#[derive(Debug, Args)]
struct Which {
    #[command(flatten)]
    way: Way,
    /// The name of the hold, as `sluice approvals list` shows it
    #[arg(value_name = "HOLD")]
    hold: String,
    /// The folder of the contract that the gate uses, where it is not the one that is built in
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
}

/// Show one: what it would send, from where to where, why it waits, and who has agreed
#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    which: Which,
}

/// Agree to one, for exactly the bytes that are shown
#[derive(Debug, Args)]
struct Approve {
    #[command(flatten)]
    which: Which,
    /// What to remark; whoever judges and whoever reads the audit chain sees it
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Do not ask whether you are sure
    #[arg(long)]
    yes: bool,
}

/// Reject one: it is never sent, and its caller hears why
#[derive(Debug, Args)]
struct Reject {
    #[command(flatten)]
    which: Which,
    /// Why; its caller hears it
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Take your vote back, as long as people enough have not agreed
#[derive(Debug, Args)]
struct Withdraw {
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    match &arguments.what {
        What::List(list) => list.run(),
        What::Show(show) => show.run(),
        What::Approve(approve) => approve.run(),
        What::Reject(reject) => {
            let told = |changed| if changed { "Rejected." } else { "It was rejected already." };
            reject.which.judge("reject", json!({ "reason": reject.reason }), told)
        }
        What::Withdraw(withdraw) => {
            let told = |changed| if changed { "Your vote is taken back." } else { "There was no vote of yours." };
            withdraw.which.judge("withdraw", json!({}), told)
        }
        What::Watch(watch) => watch.run(),
        What::StandIn(stand_in) => stand_in.run(),
    }
}

impl List {
    fn run(&self) -> anyhow::Result<Ending> {
        let state = match self.state {
            State::Open => "open",
            State::Pending => "pending",
            State::Approved => "approved",
            State::Released => "released",
            State::Declined => "declined",
            State::Ended => "ended",
        };
        let ask = self.pages.of("holds").with("state", Some(state.to_owned()));
        let ask = ask.with("operation", self.operation.clone()).with("by", self.by.clone());
        let ask = ask.with("approval", self.approval.clone()).with("mine", self.mine.then(|| "true".to_owned()));
        let none = match self.state {
            State::Open | State::Pending | State::Approved => "Nothing waits.",
            State::Released | State::Declined | State::Ended => "Nothing that waited is kept.",
        };
        self.way.ask(&ask, |answer| listed(answer, "holds", line, none))
    }
}

impl Show {
    fn run(&self) -> anyhow::Result<Ending> {
        let shown = match self.which.look()? {
            Ok(shown) => shown,
            Err(refused) => return told(&refused),
        };
        match self.which.way.wants_json() {
            true => print(&format!("{:#}\n", shown.hold))?,
            false => print(&shown.in_words())?,
        }
        Ok(Ending::Done)
    }
}

impl Approve {
    fn run(&self) -> anyhow::Result<Ending> {
        let shown = match self.which.look()? {
            Ok(shown) => shown,
            Err(refused) => return told(&refused),
        };
        if !self.which.way.wants_json() {
            print(&shown.in_words())?;
        }
        if !self.yes && io::stdin().is_terminal() && !sure()? {
            bail!("nothing was said of it");
        }
        let body = match &self.comment {
            Some(comment) => json!({ "comment": comment }),
            None => json!({}),
        };
        let said = |changed| if changed { "You agreed." } else { "You had agreed already." };
        self.which.send("approve", body, &shown, said)
    }
}

fn sure() -> anyhow::Result<bool> {
    print("Agree to exactly this? [y/N] ")?;
    io::stdout().flush().context("standard output cannot be written")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("standard input cannot be read")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

impl Which {
    fn path(&self) -> anyhow::Result<String> {
        let id = HoldId::parse(&self.hold);
        let id = id.ok_or_else(|| anyhow!("`{}` is no name of a hold: 32 of `0-9a-f`", self.hold.escape_debug()))?;
        Ok(format!("holds/{id}"))
    }

    /// Looks at it, and reads its bytes; or what the console says instead.
    fn look(&self) -> anyhow::Result<Result<Shown, String>> {
        let (status, hold) = self.way.send(&Ask::get(self.path()?))?;
        if status != 200 {
            return Ok(Err(refusal(status, &hold)));
        }
        let (_, catalog) = read_contract(self.schemas.as_deref(), &[]).map_err(|findings| {
            anyhow!("{}", findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        })?;
        let intent = match hold.get("sent") {
            None => None,
            Some(_) => Some(read(&catalog, &hold).ok_or_else(|| {
                anyhow!("the bytes that would be sent are no call of this contract: name the gate's with `--schemas`")
            })?),
        };
        let told = hold.get("fingerprint").and_then(Value::as_str).unwrap_or_default();
        if let Some(intent) = intent.as_ref().filter(|intent| intent.fingerprint().to_hex() != told) {
            bail!(
                "the console tells the fingerprint `{}`, and that of its bytes is `{}`: do not trust it, and tell who runs it",
                plain(told),
                intent.fingerprint()
            );
        }
        Ok(Ok(Shown { hold, intent }))
    }

    fn judge(&self, act: &str, body: Value, said: impl Fn(bool) -> &'static str) -> anyhow::Result<Ending> {
        match self.look()? {
            Ok(shown) => self.send(act, body, &shown, said),
            Err(refused) => told(&refused),
        }
    }

    /// With the fingerprint that was computed here.
    fn send(
        &self,
        act: &str,
        mut body: Value,
        shown: &Shown,
        said: impl Fn(bool) -> &'static str,
    ) -> anyhow::Result<Ending> {
        let intent = shown.intent.as_ref();
        let intent = intent.context("you are not shown what would be sent: that takes the role `approver`")?;
        if let Some(members) = body.as_object_mut() {
            members.insert("fingerprint".to_owned(), json!(intent.fingerprint().to_hex()));
        }
        self.way.ask(&Ask::post(format!("{}/{act}", self.path()?), body), |answer| {
            let hold = &answer["hold"];
            format!("{} {}\n", said(answer["changed"] == true), standing(hold))
        })
    }
}

fn told(refused: &str) -> anyhow::Result<Ending> {
    eprintln!("sluice: {refused}");
    Ok(Ending::Refused)
}

/// The call that the bytes of a hold are.
fn read(catalog: &Catalog, hold: &Value) -> Option<Intent> {
    let text = |pointer: &str| hold.pointer(pointer).and_then(Value::as_str);
    let environment = Where::ALL.into_iter().find(|one| Some(one.as_str()) == text("/environment"))?;
    let method = Method::from_bytes(text("/sent/method")?.as_bytes()).ok()?;
    let by = Known {
        issuer: text("/owner/issuer")?.to_owned(),
        subject: text("/owner/subject")?.to_owned(),
        requester: None,
        roles: std::collections::BTreeSet::new(),
    };
    read_bytes(catalog, environment, (&method, text("/sent/target")?, text("/sent/body")?.as_bytes()), by)
}
