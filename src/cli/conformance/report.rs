//! The answers of a sandbox, how they differ from the contract, and which entries the contract could have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::client::{ProbeAnswer, ProbeResult};
use super::following::{FactResult, FactRow};
use super::probes::{Probe, ProbeKind};
use crate::base::json::{self as strict, Limits};
use crate::catalog::{Listing, Operation};
use crate::stations::refusal::{code, is_of_a_repeat, is_plain_code};
use crate::stations::settle::drift;

/// The name of a code that is not a plain word; it could be anything.
const UNUSUAL: &str = "(unusual)";

#[derive(Debug)]
pub(super) struct ConformanceReport {
    base: String,
    rows: Vec<Row>,
    /// What following payments relies on.
    pub facts: Vec<FactRow>,
    headers: BTreeSet<String>,
    /// The codes that could be listed, by operation, list and status.
    proposals: BTreeMap<String, BTreeMap<&'static str, BTreeMap<u16, BTreeSet<String>>>>,
}

#[derive(Debug)]
struct Row {
    operation: String,
    kind: ProbeKind,
    /// Why there is no answer.
    failure: Option<String>,
    status: u16,
    code: Option<String>,
    drift: Option<String>,
    /// A request that cannot be valid was accepted.
    is_accepted: bool,
}

impl ConformanceReport {
    pub fn new(base: String) -> ConformanceReport {
        let (headers, proposals) = (BTreeSet::new(), BTreeMap::new());
        ConformanceReport { base, rows: Vec::new(), facts: Vec::new(), headers, proposals }
    }

    pub fn add(&mut self, probe: &Probe, answer: ProbeResult) {
        let operation = &probe.operation;
        let empty = Row {
            operation: operation.id.to_string(),
            kind: probe.kind,
            failure: None,
            status: 0,
            code: None,
            drift: None,
            is_accepted: false,
        };
        let row = match answer {
            Err(failure) => Row { failure: Some(failure), ..empty },
            Ok(answer) => {
                self.headers.extend(answer.headers.keys().map(ToString::to_string));
                self.propose(probe, &answer);
                let ProbeAnswer { status, headers, body } = answer;
                let differs = drift(operation, status, &headers, &body);
                let has_succeeded = (200..300).contains(&status);
                let is_bad = operation.is_write() || probe.kind == ProbeKind::InvalidToken;
                Row {
                    status,
                    code: shown_code(&body),
                    drift: differs
                        .map(|one| format!("`{}`: {} expected", one.pointer, one.expected))
                        .or_else(|| unexpected_status(probe, status)),
                    is_accepted: has_succeeded && is_bad,
                    ..empty
                }
            }
        };
        self.rows.push(row);
    }

    /// Notes a refusal of a write that the contract could list.
    fn propose(&mut self, probe: &Probe, answer: &ProbeAnswer) {
        let operation = &probe.operation;
        let is_about_the_call = (400..500).contains(&answer.status) && !matches!(answer.status, 401 | 408 | 429);
        if !operation.is_write() || !is_about_the_call || probe.kind == ProbeKind::InvalidToken {
            return;
        }
        if drift(operation, answer.status, &answer.headers, &answer.body).is_some() {
            return;
        }
        let Ok(body) = strict::parse(&answer.body, Limits::ANSWER) else { return };
        let Some(code) = code(&body).filter(|code| is_plain_code(code)) else { return };
        if operation.refusals.listing(answer.status, Some(code)) != Listing::Unlisted {
            return;
        }
        let list = if is_of_a_repeat(&body) { "doesNotProve" } else { "proves" };
        let lists = self.proposals.entry(operation.id.to_string()).or_default();
        lists.entry(list).or_default().entry(answer.status).or_default().insert(code.to_owned());
    }

    pub fn has_accepted(&self, operation: &Operation) -> bool {
        self.rows.iter().any(|row| row.is_accepted && row.operation == operation.id.as_str())
    }

    pub fn is_unreachable(&self) -> bool {
        self.rows.iter().all(|row| row.failure.is_some())
    }

    pub fn first_failure(&self) -> &str {
        self.rows.iter().find_map(|row| row.failure.as_deref()).unwrap_or("nothing was sent")
    }

    pub fn conforms(&self) -> bool {
        self.rows.iter().all(|row| row.failure.is_none() && row.drift.is_none() && !row.is_accepted)
            && self.facts.iter().all(|row| row.result != FactResult::Differs)
    }

    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "operation": row.operation,
                "probe": row.kind.as_str(),
                "status": (row.status != 0).then_some(row.status),
                "code": row.code,
                "failure": row.failure,
                "drift": row.drift,
                "accepted": row.is_accepted,
            })
        };
        json!({
            "upstream": self.base,
            "conforms": self.conforms(),
            "answers": self.rows.iter().map(row).collect::<Vec<_>>(),
            "following": self.facts.iter().map(FactRow::to_json).collect::<Vec<_>>(),
            "headers": self.headers,
            "proposals": self.proposals(),
        })
    }

    /// The proposals in the form of the contract: `notExecuted` of each operation.
    fn proposals(&self) -> Value {
        let list = |statuses: &BTreeMap<u16, BTreeSet<String>>| -> Value {
            statuses.iter().map(|(status, codes)| json!({ "status": status, "codes": codes })).collect()
        };
        let lists = |lists: &BTreeMap<&'static str, BTreeMap<u16, BTreeSet<String>>>| -> Value {
            lists.iter().map(|(name, statuses)| ((*name).to_owned(), list(statuses))).collect::<Map<_, _>>().into()
        };
        let each = self.proposals.iter().map(|(id, of)| (id.clone(), json!({ "notExecuted": lists(of) })));
        each.collect::<Map<_, _>>().into()
    }

    pub fn lines(&self) -> String {
        let mut lines = vec![format!("{}: {} requests", self.base, self.rows.len())];
        let mut last = "";
        for row in &self.rows {
            if row.operation != last {
                lines.push(row.operation.clone());
                last = &row.operation;
            }
            let answer = match &row.failure {
                Some(failure) => format!("NO ANSWER: {failure}"),
                None => format!("{} {}", row.status, row.code.as_deref().unwrap_or_default()),
            };
            lines.push(format!("  {:<14} {answer}", row.kind.as_str()).trim_end().to_owned());
            if let Some(drift) = &row.drift {
                lines.push(format!("    DRIFT: {drift}"));
            }
            if row.is_accepted {
                lines.push(
                    "    ACCEPTED: this request cannot be valid; nothing more is sent to this operation".to_owned(),
                );
            }
        }
        let mut followed = "";
        for row in &self.facts {
            if row.operation != followed {
                lines.push(format!("what following relies on, of {}", row.operation));
                followed = &row.operation;
            }
            let result = match row.result {
                FactResult::BorneOut => "borne out",
                FactResult::Differs => "DIFFERS",
                FactResult::NotShown => "not shown",
            };
            lines.push(format!("  {:<16} {result}: {}", row.fact.as_str(), row.detail));
        }
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        lines.push(format!("headers of the answers: {}", headers.join(", ")));
        let proposals = self.proposals();
        if proposals.as_object().is_some_and(|each| !each.is_empty()) {
            lines.push("Unlisted refusals. For each, ask the provider whether it proves that nothing was executed, then add it".to_owned());
            lines.push("to `x-sluice` of the operation:".to_owned());
            lines.push(format!("{proposals:#}"));
        }
        lines.push(if self.conforms() {
            "The sandbox conforms.".to_owned()
        } else {
            "The sandbox DIFFERS.".to_owned()
        });
        lines.push(String::new());
        lines.join("\n")
    }
}

/// Returns what is wrong with a status that the contract allows, but not as the answer to this request.
fn unexpected_status(probe: &Probe, status: u16) -> Option<String> {
    let (is_expected, expected) = match probe.kind {
        ProbeKind::Read => ((200..300).contains(&status), "a success"),
        ProbeKind::UnknownId if !probe.operation.is_write() => ((200..500).contains(&status), "a status below 500"),
        ProbeKind::InvalidToken => (status == 401, "401"),
        ProbeKind::UnknownId
        | ProbeKind::BrokenJson
        | ProbeKind::NotAnObject
        | ProbeKind::NearlyEmpty
        | ProbeKind::WrongType => ((400..500).contains(&status), "a status from 400 to 499"),
    };
    (!is_expected).then(|| format!("{expected} expected"))
}

/// The code of an error, if it can be shown.
fn shown_code(body: &[u8]) -> Option<String> {
    let body = strict::parse(body, Limits::ANSWER).ok()?;
    let code = code(&body)?;
    Some(if is_plain_code(code) { code.to_owned() } else { UNUSUAL.to_owned() })
}
