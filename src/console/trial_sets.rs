//! The act that tries a set of policies: its errors, its differences from the set in force, what it would let pass, and what
//! it would have changed. It puts nothing in force, keeps nothing and tells nobody.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::pass_tables::table;
use super::request::{ActRequest, ending, violated};
use super::sets::{changes_in_words, history_json};
use super::state::ConsoleState;
use crate::adapters::policies::{LoadedPolicies, PolicyFolder, PolicyText};
use crate::base::finding::Finding;
use crate::catalog::Violation;
use crate::node::Snapshot;
use crate::node::hindsight::Hindsight;
use crate::stations::reply::{Code, Reply, error_json, ok_json};

/// The most bytes of all texts together: their analysis takes memory and a core beside payments.
const MAX_TEXT_BYTES: usize = 32 * 1024;
/// How long a trial waits for its turn.
const TURN_WAIT: Duration = Duration::from_secs(5);

pub(super) async fn attempt(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let texts = match texts(&asked.body) {
        Ok(texts) => texts,
        Err(violation) => return violated(vec![violation]),
    };
    // Analysis and journal take a core for seconds: one set at a time.
    let Some(turn) = inside.unless_ending(timeout(TURN_WAIT, inside.analyses.trials.clone().acquire_owned())).await
    else {
        return ending();
    };
    let Ok(Ok(turn)) = turn else {
        return error_json(Code::Overloaded, "another set is being tried; try again in a moment.", None);
    };
    let (work, now) = (inside.clone(), inside.in_force.now());
    let (tell, told) = oneshot::channel();
    // The memory of a thread goes back when it ends; those of a runtime live on, each with what it took once.
    let begun = thread::Builder::new().name("policy trial".to_owned()).spawn(move || {
        let reply = tried(&work, &now, texts).map(|answer| ok_json(200, &answer));
        drop(turn);
        // Nobody waits for it any more where the process ends.
        tell.send(reply).ok();
    });
    if let Err(error) = begun {
        tracing::error!(%error, "a policy set cannot be tried");
        return error_json(Code::Overloaded, "the set could not be tried; the gate's log says why.", None);
    }
    match inside.unless_ending(told).await {
        Some(Ok(Some(reply))) => reply,
        Some(Ok(None)) | None => ending(),
        Some(Err(_)) => {
            tracing::error!("the trial of a policy set failed");
            error_json(Code::Overloaded, "the set could not be tried; the gate's log says why.", None)
        }
    }
}

/// Returns the files of a valid body, sorted by name.
fn texts(body: &Value) -> Result<Vec<PolicyText>, Violation> {
    let files = body.get("files").and_then(Value::as_array).into_iter().flatten();
    let text = |file: &Value, name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut texts: Vec<PolicyText> = files.map(|file| (text(file, "name"), text(file, "text"))).collect();
    texts.sort();
    let bytes = texts.iter().map(|(_, text)| text.len()).fold(0, usize::saturating_add);
    if bytes > MAX_TEXT_BYTES {
        let expected = format!(
            "at most {} KiB of text in all, not {} KiB; try a larger set with `sluice policy check` and `sluice policy diff`",
            MAX_TEXT_BYTES >> 10,
            bytes.div_ceil(1024)
        );
        return Err(Violation::new("/files", "maxLength", expected));
    }
    match texts.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0)) {
        true => Err(Violation::new("/files", "uniqueItems", "each file name once")),
        false => Ok(texts),
    }
}

/// Tries a set; `None` where the process ends meanwhile.
fn tried(inside: &ConsoleState, now: &Snapshot, texts: Vec<PolicyText>) -> Option<Value> {
    let folder = inside.analyses.folder.with_catalog(now.catalog.clone()).at(PathBuf::new());
    match folder.read(texts) {
        Ok(loaded) => compared(inside, now, &folder, &loaded),
        Err(findings) => Some(json!({ "version": Value::Null, "findings": found(&findings) })),
    }
}

fn compared(inside: &ConsoleState, now: &Snapshot, folder: &PolicyFolder, loaded: &LoadedPolicies) -> Option<Value> {
    let LoadedPolicies { policies, warnings, .. } = loaded;
    let goes_on = || (!inside.is_ending()).then_some(());
    goes_on()?;
    let rates = policies.meaning.since(&now.policies.meaning).rates();
    let difference = folder.difference(&now.policies, policies);
    goes_on()?;
    let hindsight =
        Hindsight { in_force: &now.policies, waiting: policies, catalog: &now.catalog, key: &inside.node.operand_key };
    let history = hindsight.of_journal(&inside.audit_folder, &inside.node.id, &|| inside.is_ending());
    goes_on()?;
    let oddities = folder.oddities(policies, inside.node.clock.now());
    let findings: Vec<Finding> = warnings.iter().cloned().chain(oddities).collect();
    goes_on()?;
    Some(json!({
        "version": policies.version(),
        "inForce": now.policies.version(),
        "findings": found(&findings),
        "loosens": difference.loosens() || !rates.is_empty(),
        "words": changes_in_words(&rates, false, &difference),
        "rates": rates,
        "difference": difference.as_json(),
        "table": table(policies, &now.catalog, &inside.issuers),
        "history": history_json(&history),
    }))
}

fn found(findings: &[Finding]) -> Vec<Value> {
    let json = |finding: &Finding| json!({ "error": finding.is_error(), "text": finding.to_string() });
    findings.iter().map(json).collect()
}
