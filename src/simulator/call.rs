//! Parses a request into a call that satisfies the contract.

use std::sync::Arc;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::refusal::SimulatorRefusal;
use crate::base::json::{self, Limits};
use crate::catalog::{Catalog, ClaimSource, NotFound, Operation, Parameter, Violation};

/// The head of a request, as it arrived.
#[derive(Clone, Debug)]
pub(super) struct CallHead {
    pub(super) method: Method,
    /// Path and query, undecoded.
    pub(super) target: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
}

impl CallHead {
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn query(&self) -> Vec<(String, String)> {
        let text = self.target.split_once('?').map_or("", |(_, query)| query);
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(n, v)| (decoded(n), decoded(v))).collect()
    }

    /// Returns the first header of this name, given in lower case.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// A call that the interface allows.
#[derive(Clone, Debug)]
pub(super) struct SimulatedCall {
    pub(super) operation: Arc<Operation>,
    path: Vec<(String, String)>,
    query: Vec<(String, String)>,
    /// `Null` where the operation takes no body.
    pub(super) body: Value,
    pub(super) now: Timestamp,
}

impl SimulatedCall {
    /// Checks credentials, route, parameters and body, in this order.
    pub(super) fn check(
        catalog: &Catalog,
        head: &CallHead,
        body: &[u8],
        now: Timestamp,
    ) -> Result<SimulatedCall, SimulatorRefusal> {
        let found = catalog.find(&head.method, head.path()).map_err(|absent| match absent {
            NotFound::Path => SimulatorRefusal::UnknownPath,
            NotFound::Method { allowed } => SimulatorRefusal::WrongMethod { allowed },
        })?;
        credentials(head)?;
        let (operation, path, query) = (found.operation, found.path_parameters, head.query());
        let mut violations = parameters("path", &operation.path_parameters, &path);
        violations.extend(parameters("query", &operation.query_parameters, &query));
        if !violations.is_empty() {
            return Err(SimulatorRefusal::Violations(violations));
        }
        let body = checked_body(&operation, head, body)?;
        Ok(SimulatedCall { operation, path, query, body, now })
    }

    pub(super) fn path(&self, name: &str) -> &str {
        self.path.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value.as_str())
    }

    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the text at a pointer of the body.
    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        self.body.pointer(pointer).and_then(Value::as_str)
    }

    /// Returns what makes two calls the same: the requestId, or the claimed path parameters joined with `/`.
    pub(super) fn claim(&self) -> Option<String> {
        match self.operation.claim.as_ref()? {
            ClaimSource::Body(pointer) => pointer.get(&self.body).and_then(Value::as_str).map(str::to_owned),
            ClaimSource::Path(names) => Some(names.iter().map(|n| self.path(n)).collect::<Vec<_>>().join("/")),
        }
    }
}

fn credentials(head: &CallHead) -> Result<(), SimulatorRefusal> {
    let written = head.header("authorization").ok_or(SimulatorRefusal::NoCredentials)?;
    let (scheme, token) = written.split_once(' ').unwrap_or((&written, ""));
    match (scheme.eq_ignore_ascii_case("bearer"), token.trim()) {
        (false, _) => Err(SimulatorRefusal::NoCredentials),
        (true, "" | "invalid") => Err(SimulatorRefusal::BadCredentials),
        (true, _) => Ok(()),
    }
}

fn parameters(place: &str, known: &[Parameter], given: &[(String, String)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for parameter in known {
        let values: Vec<&String> = given.iter().filter(|(n, _)| *n == parameter.name).map(|(_, v)| v).collect();
        let pointer = format!("/{place}/{}", parameter.name);
        match values.as_slice() {
            [] if parameter.required => violations.push(Violation::new(pointer, "required", "this parameter")),
            [] => {}
            [value] => {
                let breaches = parameter.contract.violations(&Value::String((*value).clone()));
                violations
                    .extend(breaches.into_iter().map(|v| Violation::new(pointer.clone(), &v.keyword, v.expected)));
            }
            [_, _, ..] => violations.push(Violation::new(pointer, "maxItems", "this parameter once")),
        }
    }
    violations
}

fn checked_body(operation: &Operation, head: &CallHead, body: &[u8]) -> Result<Value, SimulatorRefusal> {
    let Some(contract) = &operation.body else {
        let nothing = body.trim_ascii().is_empty()
            || json::parse(body, Limits::ANSWER) == Ok(Value::Object(serde_json::Map::new()));
        return if nothing {
            Ok(Value::Null)
        } else {
            Err(SimulatorRefusal::violation("", "body", "no body, or `{}`"))
        };
    };
    let media_type = head.header("content-type").unwrap_or_default();
    if !media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Err(SimulatorRefusal::NotJson);
    }
    let value = json::parse(body, Limits::ANSWER).map_err(SimulatorRefusal::Unreadable)?;
    let violations = contract.violations(&value);
    if violations.is_empty() { Ok(value) } else { Err(SimulatorRefusal::Violations(violations)) }
}

/// Decodes percent encoding and `+`; invalid encoding stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push((high << 4) | low);
                    rest = after;
                }
                _ => bytes.push(b'%'),
            },
            (other, _) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded() {
        let head = CallHead {
            method: Method::GET,
            target: "/v2/users?email=a%2Bb%40x.com&type=&lost".into(),
            headers: vec![],
        };
        let pairs = [("email", "a+b@x.com"), ("type", ""), ("lost", "")];
        assert_eq!(head.query(), pairs.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(head.path(), "/v2/users");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }
}
