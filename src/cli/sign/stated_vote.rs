//! The statement of a vote, computed on the voter's own machine from the bytes that the console shows.
//!
//! The gate chooses the hold's version, the approvals, the set of policies and the nonce. Whatever else a signature names
//! comes from the bytes and the reasons that the person is shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::stated::{AskedStatement, ComputedStatement, SigningGround, lie};
use crate::base::ids::{Environment, HoldId};
use crate::cli::hold::{ShownHold, list};
use crate::ledger::Number;
use crate::policy::HoldCauses;
use crate::stations::hold::{SignedAmounts, VoteChallenge, VotedCall, in_words};

/// A vote that the gate asks for, as it was computed here.
#[derive(Debug)]
pub(super) struct StatedVote {
    pub hold: HoldId,
    pub stated: ComputedStatement,
    /// The digests of the bytes and of the reasons that the person saw.
    pub seen: Value,
}

/// Returns what a vote says that its person saw.
pub(super) fn seen_digests(shown: &ShownHold) -> anyhow::Result<Value> {
    let intent = shown.intent.as_ref();
    let intent = intent.context("the console does not show you what would be sent; that takes the role `approver`")?;
    Ok(json!({ "fingerprint": intent.fingerprint(), "causes": shown.causes() }))
}

impl StatedVote {
    /// Computes what a person signs who approves what is shown. Fails where the gate asks for something else.
    pub fn compute(
        shown: &ShownHold,
        id: &HoldId,
        answer: &Value,
        ground: &SigningGround,
    ) -> anyhow::Result<StatedVote> {
        let seen = seen_digests(shown)?;
        let (intent, hold) = (shown.intent.as_ref().context("no bytes are shown")?, &shown.hold);
        let text = |pointer: &str| hold.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let environment = Environment::parse(text("/environment")).ok_or_else(|| lie("another environment"))?;
        if text("/operation") != intent.operation().id.as_str() {
            return Err(lie("another operation"));
        }
        let causes = HoldCauses::of_figures(text("/figures")).ok_or_else(|| lie("other figures"))?;
        if hold.get("reasons") != Some(&causes.to_json()) {
            return Err(lie("other figures"));
        }

        let asked = AskedStatement::read(answer)?;
        let told_approvals = list(asked.told(), "approvals");
        let approvals: BTreeSet<Arc<str>> = told_approvals.filter_map(|name| name.as_str().map(Arc::from)).collect();
        let shown = list(hold, "approvals").filter_map(|one| one["name"].as_str().map(Arc::from));
        if approvals != shown.collect::<BTreeSet<Arc<str>>>() {
            return Err(lie("for other approvals"));
        }
        let amounts = SignedAmounts::stated_by(intent.movement());
        let challenge = VoteChallenge {
            nonce: asked.nonce.to_owned(),
            version: Number::new(asked.told().get("version").and_then(Value::as_u64).unwrap_or_default()),
            approvals,
            amounts: amounts.clone(),
            policy: asked.text_of("policy"),
        };
        let call = VotedCall {
            hold: id,
            fingerprint: intent.fingerprint(),
            amounts: &amounts,
            causes: causes.digest(),
            figures: causes.figures_digest(),
        };
        let statement = challenge.statement(call, &ground.person, (environment, &ground.signing));

        let title = format!("Approve {} in {environment} of {}", intent.operation().id, ground.signing.installation);
        let reasons = list(hold, "reasons").map(|reason| {
            let rule = reason["rule"].as_str().map_or_else(String::new, |rule| format!(" ({rule})"));
            ("why", format!("{}{rule}", reason["text"].as_str().unwrap_or("-")))
        });
        let needed = challenge.approvals.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
        let body = intent.body().map(|body| String::from_utf8_lossy(body).into_owned()).unwrap_or_default();
        let caller = format!("{}/{}", text("/owner/issuer"), text("/owner/subject"));
        let last = [
            ("for", needed),
            ("sends", format!("{} {}", intent.operation().method, intent.target())),
            ("body", body),
            ("bytes", intent.fingerprint().to_hex()),
            ("hold", id.to_string()),
            ("caller", format!("{caller}, by the word of the gate: it is not in the bytes")),
        ];
        let facts = in_words(intent).into_iter().chain(reasons).chain(last);
        let facts = facts.map(|(name, text)| (name.to_owned(), text)).collect();
        Ok(StatedVote { hold: id.clone(), stated: asked.stated(statement, ground, (title, facts))?, seen })
    }
}
