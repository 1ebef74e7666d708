//! Checks a call strictly against its contract.
//!
//! The result is an [`Intent`], which only this station makes. Later stations and upstream get it rebuilt from the
//! checked values, so that the bytes that were checked are the bytes that are sent. No refusal quotes a value of a
//! body.

mod intent;
mod prefixes;
mod query;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use serde_json::Value;

pub use intent::{CallName, Intent, claim_name};
pub use prefixes::RequestIdPrefixes;

use super::admit::Admitted;
use crate::base::ids::is_identifier;
use crate::base::json::{self, JsonError, Limits};
use crate::catalog::{BodyPlace, Contract, Operation, Parameter, Violation};

/// The reasons why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckRefusal {
    /// The body is not `application/json`, or is compressed.
    MediaType(&'static str),
    TooLarge {
        limit_bytes: usize,
    },
    Json(JsonError),
    Violations(Vec<Violation>),
}

/// A refused call. Where its claim is known, the claim is answered first: a payment that was made stays made, whatever
/// its repeat looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    pub refusal: CheckRefusal,
    pub named: Option<CallName>,
}

/// Checks what the head says of the body, before a byte of it is read.
pub fn check_head(headers: &HeaderMap, limit_bytes: usize) -> Result<(), CheckRefusal> {
    let encodings = || headers.get_all(CONTENT_ENCODING).iter();
    if encodings().any(|e| !e.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(CheckRefusal::MediaType("compressed bodies are not accepted; send the body uncompressed"));
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|h| h.to_str().ok()).and_then(|t| t.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit_bytes) {
        return Err(CheckRefusal::TooLarge { limit_bytes });
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if is_json(one.as_bytes()) => Ok(()),
        (Some(_), None) => Err(CheckRefusal::MediaType("only application/json in UTF-8 is accepted")),
        (Some(_), Some(_)) => Err(CheckRefusal::MediaType("the request has more than one Content-Type")),
    }
}

/// Checks a call; returns the call as data, or everything that is wrong with it.
pub fn check(admitted: Admitted, headers: &HeaderMap, body: &[u8]) -> Result<Intent, CheckFailure> {
    let operation = admitted.operation().clone();
    let unfit = |refusal| CheckFailure { refusal, named: None };
    if !body.is_empty() && !headers.contains_key(CONTENT_TYPE) {
        let why = "the body has no Content-Type; only application/json is accepted";
        return Err(unfit(CheckRefusal::MediaType(why)));
    }
    let mut violations = path_violations(&operation, admitted.path_parameters());
    let parameters = query::parse_query(admitted.query());
    match &parameters {
        Ok(parameters) => violations.extend(query_violations(&operation, parameters)),
        Err(violation) => violations.push(violation.clone()),
    }
    let body = match &operation.body {
        Some(contract) => {
            let value = json::parse(body, Limits::REQUEST).map_err(CheckRefusal::Json).map_err(unfit)?;
            violations.extend(body_violations(&operation, contract, &value));
            Some(value)
        }
        None => {
            violations.extend(no_body(body).map_err(unfit)?);
            None
        }
    };
    match parameters {
        Ok(parameters) if violations.is_empty() => Ok(Intent::build(admitted, &parameters, body)),
        parameters => {
            let query =
                parameters.map_or_else(|_| admitted.query().to_owned(), |parameters| query::query_text(&parameters));
            let named = intent::named_anyway(&admitted, query, body.as_ref());
            Err(CheckFailure { refusal: CheckRefusal::Violations(violations), named })
        }
    }
}

/// Returns whether this is `application/json`, with no parameter but the encoding that JSON has anyway.
fn is_json(content_type: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(content_type) else { return false };
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let parameter = |p: &str| p.to_ascii_lowercase().replace('"', "") == "charset=utf-8";
    media.eq_ignore_ascii_case("application/json") && parts.all(parameter)
}

fn path_violations(operation: &Operation, values: &[(String, String)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, value) in values {
        if !is_identifier(value) {
            let expected = "1 to 128 of A-Z, a-z, 0-9, `.`, `_` and `-`";
            violations.push(Violation::new(name, "pattern", expected).inside(BodyPlace::Path));
            continue;
        }
        let known = operation.path_parameters.iter().find(|p| p.name == *name);
        violations.extend(known.into_iter().flat_map(|p| parameter_violations(p, value, BodyPlace::Path)));
    }
    violations
}

fn query_violations(operation: &Operation, values: &[(String, String)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, value) in values {
        match operation.query_parameters.iter().find(|p| p.name == *name) {
            Some(known) => violations.extend(parameter_violations(known, value, BodyPlace::Query)),
            None if operation.is_write() => {
                violations.push(
                    Violation::new(query::shown(name), "additionalProperties", "no parameter of this name")
                        .inside(BodyPlace::Query),
                );
            }
            None => {}
        }
    }
    let given = |p: &&Parameter| values.iter().any(|(name, _)| *name == p.name);
    for missing in operation.query_parameters.iter().filter(|p| p.required).filter(|p| !given(p)) {
        violations.push(Violation::new(&missing.name, "required", "this parameter").inside(BodyPlace::Query));
    }
    violations
}

fn parameter_violations(parameter: &Parameter, value: &str, place: BodyPlace) -> Vec<Violation> {
    let found = parameter.contract.violations(&Value::String(value.to_owned()));
    found.into_iter().map(|v| Violation { pointer: parameter.name.clone(), ..v }.inside(place)).collect()
}

fn body_violations(operation: &Operation, contract: &Contract, value: &Value) -> Vec<Violation> {
    let violations = if operation.further.is_empty() {
        contract.violations(value)
    } else {
        // The contract does not know these fields; rules do.
        let mut known = value.clone();
        for pointer in &operation.further {
            pointer.take(&mut known);
        }
        contract.violations(&known)
    };
    if violations.is_empty() { operation.identifier_violations(value) } else { violations }
}

/// An operation without a body accepts no body or an empty object.
fn no_body(body: &[u8]) -> Result<Option<Violation>, CheckRefusal> {
    if body.is_empty() {
        return Ok(None);
    }
    let value = json::parse(body, Limits::REQUEST).map_err(CheckRefusal::Json)?;
    let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
    Ok((!empty).then(|| Violation::new("", "maxProperties", "no body, or an empty object")))
}

#[cfg(test)]
mod tests;
