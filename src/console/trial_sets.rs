//! The act that tries a set of policies: its errors, its differences from the set in force, what it would let pass, and what
//! it would have changed. It puts nothing in force, keeps nothing and tells nobody.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::pass_tables::table;
use super::request::{ActRequest, violated};
use super::sets::{changes_in_words, history_json};
use super::state::ConsoleState;
use crate::adapters::policies::{LoadedPolicies, PolicyFolder, PolicyText};
use crate::base::digest::Fingerprint;
use crate::base::finding::Finding;
use crate::catalog::Violation;
use crate::node::Snapshot;
use crate::node::hindsight::Hindsight;
use crate::stations::reply::{Code, Reply, error_json, ok_json};

pub(super) async fn attempt(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let texts = match texts(&asked.body) {
        Ok(texts) => texts,
        Err(violation) => return violated(vec![violation]),
    };
    // Analysis and journal take a core for seconds: one set at a time.
    let Ok(turn) = inside.analyses.trials.clone().try_acquire_owned() else {
        return error_json(Code::Overloaded, "another set is being tried; try again in a moment.", None);
    };
    let (work, now) = (inside.clone(), inside.in_force.now());
    let tried = spawn_blocking(move || {
        let _turn = turn;
        tried(&work, &now, texts)
    });
    match tried.await {
        Ok(answer) => ok_json(200, &answer),
        Err(error) => {
            tracing::error!(%error, "the trial of a policy set failed");
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
    match texts.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0)) {
        true => Err(Violation::new("/files", "uniqueItems", "each file name once")),
        false => Ok(texts),
    }
}

fn tried(inside: &ConsoleState, now: &Snapshot, texts: Vec<PolicyText>) -> Value {
    let folder = inside.analyses.folder.with_catalog(now.catalog.clone()).at(PathBuf::new());
    match folder.read(texts, Fingerprint::of(&[])) {
        Ok(loaded) => compared(inside, now, &folder, &loaded),
        Err(findings) => json!({ "version": Value::Null, "findings": found(&findings) }),
    }
}

fn compared(inside: &ConsoleState, now: &Snapshot, folder: &PolicyFolder, loaded: &LoadedPolicies) -> Value {
    let LoadedPolicies { policies, warnings, .. } = loaded;
    let rates = policies.meaning.since(&now.policies.meaning).rates();
    let difference = folder.difference(&now.policies, policies);
    let hindsight =
        Hindsight { in_force: &now.policies, waiting: policies, catalog: &now.catalog, key: &inside.node.operand_key };
    let history = hindsight.of_journal(&inside.audit_folder, &inside.node.id);
    let oddities = folder.oddities(policies, inside.node.clock.now());
    let findings: Vec<Finding> = warnings.iter().cloned().chain(oddities).collect();
    json!({
        "version": policies.version(),
        "inForce": now.policies.version(),
        "findings": found(&findings),
        "loosens": difference.loosens() || !rates.is_empty(),
        "words": changes_in_words(&rates, false, &difference),
        "rates": rates,
        "difference": difference.as_json(),
        "table": table(policies, &now.catalog, &inside.issuers),
        "history": history_json(&history),
    })
}

fn found(findings: &[Finding]) -> Vec<Value> {
    let json = |finding: &Finding| json!({ "error": finding.is_error(), "text": finding.to_string() });
    findings.iter().map(json).collect()
}
