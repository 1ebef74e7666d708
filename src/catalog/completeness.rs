//! The completeness of a contract: the checks that `sluice check --schemas` and the tests make on every operation.

use serde_json::Value;

use super::files::SchemaFiles;
use super::operation::{ClaimSource, Money, Operation, Side};
use super::{Catalog, Contract};
use crate::base::finding::Finding;
use crate::base::json::{self, Limits};
use crate::base::pointer::Pointer;

const GOOD_BODIES: usize = 2;
const BAD_BODIES: usize = 5;
const GOOD_ANSWERS: usize = 1;

/// One example file of an operation.
#[derive(Debug)]
pub struct Example {
    pub file: String,
    /// For a successful answer instead of a request body.
    pub answer: bool,
    pub good: bool,
    pub value: Value,
}

/// The examples of one operation: `examples/<operationId>/[answer-]{good,bad}-*.json`.
pub fn examples(files: &SchemaFiles, operation: &Operation) -> Result<Vec<Example>, Vec<Finding>> {
    let folder = format!("examples/{}", operation.id);
    let (mut examples, mut findings) = (Vec::new(), Vec::new());
    for (name, content) in files.folder(&folder) {
        let file = format!("{folder}/{name}");
        let kind = name.strip_prefix("answer-").unwrap_or(name);
        let good = kind.starts_with("good-");
        if !good && !kind.starts_with("bad-") {
            findings.push(Finding::error(
                &file,
                "the name of an example starts with `good-`, `bad-`, `answer-good-` or `answer-bad-`",
            ));
            continue;
        }
        match json::parse(content, Limits::ANSWER) {
            Ok(value) => examples.push(Example { file, answer: name.starts_with("answer-"), good, value }),
            Err(error) => findings.push(Finding::error(&file, error.to_string())),
        }
    }
    if findings.is_empty() { Ok(examples) } else { Err(findings) }
}

/// Returns everything that is missing or does not hold.
pub fn completeness(files: &SchemaFiles, catalog: &Catalog) -> Vec<Finding> {
    catalog.operations().iter().flat_map(|operation| complete(files, operation)).collect()
}

fn complete(files: &SchemaFiles, operation: &Operation) -> Vec<Finding> {
    let examples = match examples(files, operation) {
        Ok(examples) => examples,
        Err(findings) => return findings,
    };
    let mut findings = Vec::new();
    if let Some(body) = &operation.body {
        let bodies: Vec<&Example> = examples.iter().filter(|e| !e.answer).collect();
        findings.extend(tried(operation, "request body", body, &bodies, GOOD_BODIES, BAD_BODIES));
        findings.extend(unreached(operation, pointers(operation), &bodies));
    }
    match operation.success() {
        None => findings.push(fault(operation, "no successful answer is described")),
        Some(answer) => {
            let answers: Vec<&Example> = examples.iter().filter(|e| e.answer).collect();
            findings.extend(tried(operation, "answer", &answer.contract, &answers, GOOD_ANSWERS, 0));
            let id = operation.answered_record.iter().map(|record| record.id.clone());
            findings.extend(unreached(operation, id, &answers));
        }
    }
    if operation.answer(599).is_none() {
        findings.push(
            fault(operation, "no answer for other statuses is described")
                .remedy("add a `default` answer with `error.json#/$defs/any`"),
        );
    }
    if operation.class == super::Class::Money && operation.claim.is_none() {
        findings.push(
            fault(operation, "a money operation has no `claim`")
                .remedy("say where its requestId is, or which path parameters name it"),
        );
    }
    findings
}

fn tried(
    operation: &Operation,
    what: &str,
    contract: &Contract,
    examples: &[&Example],
    good: usize,
    bad: usize,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (wanted, word, is_good) in [(good, "good", true), (bad, "bad", false)] {
        let count = examples.iter().filter(|e| e.good == is_good).count();
        if count < wanted {
            findings
                .push(fault(operation, format!("{count} {word} examples of its {what}; at least {wanted} are needed")));
        }
    }
    for example in examples {
        let violations = contract.violations(&example.value);
        match (example.good, violations.first()) {
            (true, Some(first)) => findings.push(
                Finding::error(&example.file, format!("a good example is refused: {} expected", first.expected))
                    .at(first.pointer.clone()),
            ),
            (false, None) => findings.push(Finding::error(&example.file, "a bad example is accepted")),
            _ => {}
        }
    }
    findings
}

/// Returns the pointers of `x-sluice` that no good example has: they may be misspelt.
fn unreached(operation: &Operation, pointers: impl IntoIterator<Item = Pointer>, bodies: &[&Example]) -> Vec<Finding> {
    let good = || bodies.iter().filter(|e| e.good);
    let missing = pointers.into_iter().filter(|p| !good().any(|e| !p.all(&e.value).is_empty()));
    missing
        .map(|p| fault(operation, format!("no good example has anything at `{p}`, which `x-sluice` names")))
        .collect()
}

fn pointers(operation: &Operation) -> Vec<Pointer> {
    let claim = match &operation.claim {
        Some(ClaimSource::Body(pointer)) => vec![pointer.clone()],
        Some(ClaimSource::Path(_)) | None => Vec::new(),
    };
    let money = operation.money.iter().flat_map(money_pointers).cloned();
    let charges = operation.money.iter().flat_map(|money| &money.fees.charges);
    let of_charges = charges.flat_map(|one| [one.inside(&one.value), one.inside(&one.kind)]).flatten();
    claim.into_iter().chain(money).chain(of_charges).collect()
}

fn money_pointers(money: &Money) -> impl Iterator<Item = &Pointer> {
    let fees = &money.fees;
    side_pointers(&money.source)
        .chain(side_pointers(&money.destination))
        .chain(&fees.wallets)
        .chain(&money.uncovered)
        .chain(&money.price)
        .chain(&fees.chain)
}

fn side_pointers(side: &Side) -> impl Iterator<Item = &Pointer> {
    let Side { amount, currency, chain, party, wallet, external_wallet, account } = side;
    [amount, currency, chain, party, wallet, external_wallet, account].into_iter().flatten()
}

fn fault(operation: &Operation, text: impl Into<String>) -> Finding {
    Finding::error("openapi.json", text).at(operation.id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_contract_is_complete() {
        let files = SchemaFiles::built_in();
        let catalog = Catalog::build(&files, &[]).unwrap();
        let findings = completeness(&files, &catalog);
        let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "{}", told.join("\n"));
        assert_eq!(catalog.operations().len(), 18);
        assert_eq!(catalog.operations().iter().filter(|o| o.enabled).count(), 16);
    }
}
