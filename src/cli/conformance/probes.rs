//! The requests that a sandbox is tried with: reads, and writes that cannot be valid.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::adapters::random::uuid;
use crate::base::json::{self, Limits};
use crate::base::word_enum::word_enum;
use crate::catalog::{Catalog, Operation, Parameter};

/// Values for parameters of queries; the first that the contract accepts is sent.
const CANDIDATES: [&str; 4] = ["1", "USD", "2024-07-01", "individual"];
const JSON: &str = "application/json";

word_enum! {
    /// The kind of a probe.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum ProbeKind {
        Read = "read",
        UnknownId = "unknown-id",
        InvalidToken = "invalid-token",
        BrokenJson = "broken-json",
        NotAnObject = "not-an-object",
        NearlyEmpty = "nearly-empty",
        WrongType = "wrong-type",
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Probe {
    pub operation: Arc<Operation>,
    pub kind: ProbeKind,
    pub target: String,
    /// The body with its content type.
    pub body: Option<(&'static str, String)>,
}

impl Probe {
    pub fn method(&self) -> &Method {
        &self.operation.method
    }
}

/// Returns the requests for every enabled operation. None of them can move money: a write has a body that the contract
/// refuses, or, where the operation takes no body, a path with ids that nobody has.
pub(super) fn probes(catalog: &Catalog) -> Vec<Probe> {
    let enabled = catalog.operations().iter().filter(|operation| operation.enabled);
    enabled
        .flat_map(|operation| if operation.is_write() { refused_writes(operation) } else { reads(operation) })
        .collect()
}

fn reads(operation: &Arc<Operation>) -> Vec<Probe> {
    let Some(query) = query(operation) else { return Vec::new() };
    let has_ids = operation.template.parameters().next().is_some();
    let kind = if has_ids { ProbeKind::UnknownId } else { ProbeKind::Read };
    let probe = |kind| Probe {
        operation: operation.clone(),
        kind,
        target: format!("{}{query}", unknown_path(operation)),
        body: None,
    };
    [kind, ProbeKind::InvalidToken].map(probe).into()
}

fn refused_writes(operation: &Arc<Operation>) -> Vec<Probe> {
    let named = json!({ "requestId": uuid() }).to_string();
    let tried = match operation.body {
        Some(_) => vec![
            (ProbeKind::BrokenJson, Some((JSON, "{".to_owned()))),
            (ProbeKind::NotAnObject, Some((JSON, "[]".to_owned()))),
            (ProbeKind::NearlyEmpty, Some((JSON, named))),
            (ProbeKind::WrongType, Some(("text/plain", "[]".to_owned()))),
            (ProbeKind::InvalidToken, Some((JSON, "[]".to_owned()))),
        ],
        None => vec![(ProbeKind::UnknownId, None), (ProbeKind::InvalidToken, None)],
    };
    let probe = |(kind, body)| Probe { operation: operation.clone(), kind, target: unknown_path(operation), body };
    tried.into_iter().map(probe).filter(cannot_be_valid).collect()
}

/// Returns whether a write cannot be valid, whatever the sandbox thinks of it.
fn cannot_be_valid(probe: &Probe) -> bool {
    match (&probe.operation.body, &probe.body) {
        (Some(contract), Some((_, body))) => {
            json::parse(body.as_bytes(), Limits::REQUEST).map_or(true, |value| !contract.accepts(&value))
        }
        (None, None) => probe.operation.template.parameters().next().is_some(),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The path, with a random id in each of its parameters.
fn unknown_path(operation: &Operation) -> String {
    let values: Vec<(String, String)> = operation.template.parameters().map(|name| (name.to_owned(), uuid())).collect();
    operation.template.fill(&values)
}

/// The required parameters, and a small `limit`; `None` if the contract accepts no candidate for a required one.
fn query(operation: &Operation) -> Option<String> {
    let wanted = operation.query_parameters.iter().filter(|one| one.required || one.name == "limit");
    let pairs: Option<Vec<String>> =
        wanted.map(|parameter| Some(format!("{}={}", parameter.name, candidate(parameter)?))).collect();
    pairs.map(|pairs| if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) })
}

fn candidate(parameter: &Parameter) -> Option<&'static str> {
    CANDIDATES.into_iter().find(|candidate| parameter.contract.accepts(&Value::from(*candidate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::SchemaFiles;

    #[test]
    fn every_operation_is_tried_and_no_write_could_be_valid() {
        let enable = ["createTosLink".to_owned(), "getOrchestrationAddress".to_owned()];
        let catalog = Catalog::build(&SchemaFiles::built_in(), &enable).unwrap();
        let probes = probes(&catalog);
        for operation in catalog.operations() {
            let of: Vec<&Probe> = probes.iter().filter(|probe| probe.operation.id == operation.id).collect();
            assert!(of.len() >= 2, "{} is not tried", operation.id);
            for probe in of.into_iter().filter(|probe| probe.operation.is_write()) {
                match (&probe.body, &probe.operation.body) {
                    (Some((_, body)), Some(contract)) => {
                        let value = serde_json::from_str::<Value>(body);
                        assert!(value.is_err() || !contract.accepts(&value.unwrap()), "{probe:?}");
                        assert!(!body.contains("amount") && !body.contains("wallet"), "{probe:?}");
                    }
                    (None, None) => assert!(operation.template.parameters().count() > 0, "{probe:?}"),
                    _ => panic!("{probe:?}"),
                }
            }
        }
        let ids: Vec<&str> = probes.iter().filter_map(|probe| probe.target.split('/').nth(3)).collect();
        assert!(ids.iter().collect::<std::collections::BTreeSet<_>>().len() > ids.len() / 2, "ids are random");
    }
}
