//! `sluice approvals sign`: signs votes on the voter's own machine, without trust in the gate or in its page. Acts of two
//! people are signed in the same way.
//!
//! | module | what it owns |
//! |---|---|
//! | `stated` | what the gate asks for, beside what was computed here; a lying gate is told by the difference |
//! | `stated_vote` | the statement of a vote, from the bytes of the call |
//! | `stated_act` | the statement of an act, from what the person wrote |
//! | `ceremony` | the page at which the passkey signs, and the signature that comes back |
//!
//! The gate gives bytes, figures and a nonce. Everything that a signature names is computed from these by the code that
//! gates and auditors verify with, and shown in this terminal. The page signs for nobody else: its answer comes back here,
//! and goes to the gate only if it is for the challenge that was computed here.

mod ceremony;
mod stated;
mod stated_act;
mod stated_vote;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::ceremony::{Ceremony, PAGE_FILES, PasskeyAnswer, SigningTask};
use self::stated::{ComputedStatement, SigningGround, lie};
pub(super) use self::stated_act::WantedAct;
use self::stated_act::state_act;
use self::stated_vote::{StatedVote, seen_digests};
use super::console::{ConsoleCall, ConsoleOptions, refusal};
use super::hold::{ShownHold, gate_contract, hold_id, state_in_words};
use super::output::OutputFormat;
use super::{ExitReason, print};
use crate::base::json::written_as::base64url;
use crate::base::visible::visible;
use crate::cli::complain;
use crate::stations::hold::MAX_TOGETHER;

const SIGNING_PAGE: &str = "SLUICE_SIGNING_PAGE";

/// Where a person signs.
#[derive(Debug, Args)]
pub(super) struct SigningPlace {
    /// The origin of the page at which you sign, one of `origins` in the policies: ask whoever set it up, not the gate. This
    /// command itself serves `http://localhost:PORT`; another origin serves the files of `sluice approvals signing-page`
    /// [default: the environment variable SLUICE_SIGNING_PAGE]
    #[arg(long, value_name = "ORIGIN")]
    page: Option<String>,
}

/// Approve holds with your passkey, for exactly the bytes that are shown here
///
/// This command trusts neither the gate nor its page. It computes from the bytes what your passkey signs, shows it with a
/// code, and prints a link. The page shows the same facts and the same code, and has your passkey sign. The signature comes
/// back to this command, which sends it to the gate only if it is for what was shown here.
///
/// Run it on your own machine, where your browser is.
#[derive(Debug, Args)]
pub(super) struct SignArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The ids of the holds, as `sluice approvals list` shows them; one signature is for all of them, 32 at most
    #[arg(value_name = "HOLD", required = true)]
    holds: Vec<String>,
    #[command(flatten)]
    place: SigningPlace,
    /// A comment for the other approvers; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// The gate's contract folder, unless the gate uses the built-in contract
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
}

/// Write the files of the page at which people sign, for a web server of their own
///
/// Serve them at the root of a host under `rp_id` that is not the gate's, by HTTPS. The page asks that host for nothing but
/// these files, and sends nothing.
#[derive(Debug, Args)]
pub(super) struct SigningFilesArgs {
    /// The folder; it is made if it is not there
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
}

impl SigningFilesArgs {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        let folder = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("`{folder}` cannot be made"))?;
        for file in PAGE_FILES {
            let path = self.folder.join(file.name);
            std::fs::write(&path, file.content).with_context(|| format!("`{}` cannot be written", path.display()))?;
        }
        print(&format!("Wrote {} files into `{folder}`.\n", PAGE_FILES.len()))?;
        Ok(ExitReason::Done)
    }
}

impl SignArgs {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        let runtime = Runtime::new().context("the async runtime cannot start")?;
        runtime.block_on(self.sign())
    }

    async fn sign(&self) -> anyhow::Result<ExitReason> {
        let page = self.place.page().with_context(|| {
            format!("name the page at which you sign with `--page ORIGIN` or {SIGNING_PAGE}: ask whoever set it up, not the gate")
        })?;
        let ground = match ask_console(&self.way, &ConsoleCall::get("signing")).await? {
            Ok(answer) => SigningGround::read(&answer)?,
            Err(refused) => return Ok(refused),
        };
        let votes = match self.stated_votes(&page, &ground).await? {
            Ok(votes) => votes,
            Err(refused) => return Ok(refused),
        };
        let all: Vec<&ComputedStatement> = votes.iter().map(|vote| &vote.stated).collect();
        let task = SigningTask::of(page, &ground, &all)?;
        let signed = have_signed(&self.way, &task).await?;
        let (mut given, mut is_refused) = (Vec::new(), false);
        for vote in &votes {
            let told = self.give(vote, signature(&vote.stated, &signed, &task)).await?;
            is_refused |= told.get("refused").is_some();
            given.push(told);
        }
        let words: String = given.iter().map(given_in_words).collect();
        signed.end(&words, !is_refused).await;
        let all = json!({ "votes": given });
        print(&self.way.output.text(|| words.clone(), || all.clone(), Some("votes")))?;
        Ok(if is_refused { ExitReason::Refused } else { ExitReason::Done })
    }

    /// Has the gate ask for each vote, and computes what it asks for.
    async fn stated_votes(
        &self,
        page: &str,
        ground: &SigningGround,
    ) -> anyhow::Result<Result<Vec<StatedVote>, ExitReason>> {
        ground.must_take(page)?;
        let ids = self.holds.iter().map(|hold| hold_id(hold)).collect::<anyhow::Result<Vec<_>>>()?;
        if ids.len() > MAX_TOGETHER {
            bail!("one signature is for {MAX_TOGETHER} holds at most");
        }
        let catalog = gate_contract(self.schemas.as_deref())?;
        let (mut votes, mut used) = (Vec::new(), BTreeSet::new());
        for id in &ids {
            let shown = match ShownHold::fetch(&self.way, &catalog, id).await? {
                Ok(shown) => shown,
                Err(refused) => {
                    complain(format_args!("sluice: {refused}"));
                    return Ok(Err(ExitReason::Refused));
                }
            };
            let ask = ConsoleCall::post(format!("holds/{id}/challenge"), seen_digests(&shown)?);
            let asked = match ask_console(&self.way, &ask).await? {
                Ok(asked) => asked,
                Err(refused) => return Ok(Err(refused)),
            };
            let vote = StatedVote::compute(&shown, id, &asked, ground)?;
            if !used.insert(id.as_str().to_owned()) {
                bail!("the hold {id} is named twice");
            }
            if !used.insert(vote.stated.nonce.clone()) {
                return Err(lie("the same nonce for two votes"));
            }
            votes.push(vote);
        }
        Ok(Ok(votes))
    }

    /// Sends a signed vote; returns what became of it.
    async fn give(&self, vote: &StatedVote, signature: Value) -> anyhow::Result<Value> {
        let mut body = vote.seen.clone();
        if let Some(members) = body.as_object_mut() {
            members.insert("signature".to_owned(), signature);
            members.extend(self.comment.iter().map(|comment| ("comment".to_owned(), json!(comment))));
        }
        let call = ConsoleCall::post(format!("holds/{}/approve", vote.hold), body);
        Ok(match self.way.fetch(&call).await? {
            (200, answer) => {
                let of = |pointer: &str| answer.pointer(pointer).cloned().unwrap_or_default();
                let words = state_in_words(&of("/hold"));
                json!({ "hold": vote.hold, "changed": of("/changed"), "state": of("/hold/state"), "words": words })
            }
            (status, answer) => json!({ "hold": vote.hold, "refused": refusal(status, &answer) }),
        })
    }
}

impl SigningPlace {
    #[expect(clippy::disallowed_methods, reason = "the environment is read in cli alone")]
    fn page(&self) -> Option<String> {
        let named = self.page.clone().or_else(|| std::env::var(SIGNING_PAGE).ok().filter(|page| !page.is_empty()));
        named.map(|page| page.trim_end_matches('/').to_owned())
    }

    /// Has the person sign an act where a page is named and the policies want the act signed. Returns the body of the act's
    /// request, with the signature; `asks` is the body of the request for a challenge.
    pub fn sign_act(
        &self,
        way: &ConsoleOptions,
        (path, asks, mut body): (&str, Value, Value),
        wanted: &WantedAct<'_>,
    ) -> anyhow::Result<Result<Value, ExitReason>> {
        let Some(page) = self.page() else { return Ok(Ok(body)) };
        let runtime = Runtime::new().context("the async runtime cannot start")?;
        runtime.block_on(async {
            let ground = match ask_console(way, &ConsoleCall::get("signing")).await? {
                Ok(answer) if answer.get("signing").is_none_or(Value::is_null) => return Ok(Ok(body)),
                Ok(answer) => SigningGround::read(&answer)?,
                Err(refused) => return Ok(Err(refused)),
            };
            if !ground.signing.acts.contains(&wanted.kind) {
                return Ok(Ok(body));
            }
            ground.must_take(&page)?;
            let stated = match ask_console(way, &ConsoleCall::post(format!("{path}/challenge"), asks)).await? {
                Ok(answer) => state_act(&answer, wanted, &ground)?,
                Err(refused) => return Ok(Err(refused)),
            };
            let task = SigningTask::of(page, &ground, &[&stated])?;
            let signed = have_signed(way, &task).await?;
            if let Some(members) = body.as_object_mut() {
                members.insert("signature".to_owned(), signature(&stated, &signed, &task));
            }
            signed.end("Your terminal says what becomes of it. ", true).await;
            Ok(Ok(body))
        })
    }
}

/// Sends a request; prints the console's message if it refuses.
async fn ask_console(way: &ConsoleOptions, call: &ConsoleCall) -> anyhow::Result<Result<Value, ExitReason>> {
    let (status, body) = way.fetch(call).await?;
    if status == 200 {
        return Ok(Ok(body));
    }
    complain(format_args!("sluice: {}", refusal(status, &body)));
    Ok(Err(ExitReason::Refused))
}

/// Shows a task in the terminal, and waits until the passkey has signed it.
async fn have_signed(way: &ConsoleOptions, task: &SigningTask) -> anyhow::Result<PasskeyAnswer> {
    let ceremony = Ceremony::begin(task).await?;
    let words = task.in_words(&ceremony.link());
    // Standard output is for the result where a program reads it.
    match way.output {
        OutputFormat::Table => print(&words)?,
        OutputFormat::Json | OutputFormat::Csv => complain(format_args!("{}", words.trim_end())),
    }
    ceremony.signed(task).await
}

/// Returns a signature as requests have it.
fn signature(stated: &ComputedStatement, signed: &PasskeyAnswer, task: &SigningTask) -> Value {
    let mut signature = json!({
        "nonce": stated.nonce,
        "credential": signed.credential,
        "authenticatorData": base64url::encoded(&signed.assertion.authenticator_data),
        "clientData": base64url::encoded(&signed.assertion.client_data),
        "signature": base64url::encoded(&signed.assertion.signature),
    });
    if let Some(members) = signature.as_object_mut().filter(|_| !task.together.is_empty()) {
        members.insert("together".to_owned(), json!(task.together));
    }
    signature
}

fn given_in_words(vote: &Value) -> String {
    let text = |name: &str| vote[name].as_str().map(visible).unwrap_or_default();
    match (vote.get("refused"), vote["changed"] == true) {
        (Some(refused), _) => format!("{}: not approved. {}\n", text("hold"), refused.as_str().unwrap_or("-")),
        (None, true) => format!("{}: approved. {}\n", text("hold"), text("words")),
        (None, false) => format!("{}: you had already approved it. {}\n", text("hold"), text("words")),
    }
}
