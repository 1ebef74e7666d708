//! Admits a call by the head of its request alone: the operation, the token, the environment and the caller.
//!
//! Admission refuses and never normalises: a target has one reading or none. An admitted call names an operation of the
//! catalogue and carries a verified token.

mod algorithm;
mod certificate;
mod claims;
mod keys;
mod token;

use std::sync::Arc;

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};

pub use algorithm::{Algorithm, KeyKind};
pub use certificate::{Certificate, CertificateName};
pub use claims::{FieldPath, is_name};
pub use keys::{KeyFault, KeySet, KeyWarning};
pub use token::{Caller, IssuerRules, KnownCaller, OF_THE_GATE, TokenFault, Trusted, VerifiedToken, believe, stated};

use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::catalog::{Catalog, Class, NotFound, Operation, Route};

/// The longest request target, in bytes.
pub const LONGEST_TARGET: usize = 4096;

/// The refusal of a read that has a body.
pub const READ_WITH_BODY: &str = "a read takes no body";

/// The head of a request, as it came.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'h> {
    pub method: &'h Method,
    /// Path and query.
    pub target: &'h str,
    pub headers: &'h HeaderMap,
}

/// A call that may be checked.
#[derive(Debug)]
pub struct Admitted {
    environment: Environment,
    operation: Arc<Operation>,
    path_parameters: Vec<(String, String)>,
    query: String,
    caller: Arc<Caller>,
    token: Secret,
}

impl Admitted {
    /// A read by the gate itself, to find out what became of a call. It carries no token: where the gate has no
    /// credential of its own, upstream refuses it.
    pub fn of_the_gate(environment: Environment, operation: Arc<Operation>, query: String) -> Option<Admitted> {
        let is_plain = operation.class == Class::Read && operation.path_parameters.is_empty();
        is_plain.then(|| Admitted {
            environment,
            operation,
            path_parameters: Vec::new(),
            query,
            caller: Arc::new(Caller::of_the_gate()),
            token: Secret::new(String::new()),
        })
    }

    /// A call that was admitted before and then held. Its caller is the recorded one, and it carries no token.
    pub fn again(environment: Environment, found: Route, target: &str, by: KnownCaller) -> Admitted {
        let Route { operation, path_parameters } = found;
        let query = target.split_once('?').map_or("", |(_, query)| query).to_owned();
        let (caller, token) = (Arc::new(Caller::again(by)), Secret::new(String::new()));
        Admitted { environment, operation, path_parameters, query, caller, token }
    }

    pub fn environment(&self) -> Environment {
        self.environment
    }

    pub fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    pub(super) fn path_parameters(&self) -> &[(String, String)] {
        &self.path_parameters
    }

    /// The query as the caller wrote it, without the question mark.
    pub(super) fn query(&self) -> &str {
        &self.query
    }

    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// The caller's own token.
    pub fn token(&self) -> &Secret {
        &self.token
    }
}

/// The reasons why a head is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmitRefusal {
    Malformed(&'static str),
    HeadTooLarge(&'static str),
    HeadSlow,
    TargetTooLong,
    UnknownPath,
    MethodNotAllowed(Vec<Method>),
    /// There is no token, or only text that is not a token.
    Unauthorized(&'static str),
    /// The token is not valid.
    NotBelieved(TokenFault),
    /// The caller waited for an issuer's keys longer than its connection had room.
    NoRoomToWait,
    /// The token is valid, but for another environment.
    WrongEnvironment,
}

/// Finds the operation that a head names.
pub fn find(catalog: &Catalog, head: RequestHead<'_>) -> Result<Route, AdmitRefusal> {
    if head.target.len() > LONGEST_TARGET {
        return Err(AdmitRefusal::TargetTooLong);
    }
    let path = head.target.split_once('?').map_or(head.target, |(path, _)| path);
    check_path(path)?;
    let found = catalog.find(head.method, path).map_err(|not_found| match not_found {
        NotFound::Path => AdmitRefusal::UnknownPath,
        NotFound::Method { allowed } => AdmitRefusal::MethodNotAllowed(allowed),
    })?;
    if !found.operation.is_write() && has_body(head.headers) {
        return Err(AdmitRefusal::Malformed(READ_WITH_BODY));
    }
    Ok(found)
}

/// Admits a call: its token was verified and may be used here, over a connection with this certificate.
pub fn admit(
    environment: Environment,
    found: Route,
    head: RequestHead<'_>,
    token: Secret,
    believed: &VerifiedToken,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Admitted, AdmitRefusal> {
    let caller = believed.caller_with(certificate).map_err(AdmitRefusal::NotBelieved)?;
    if !believed.environments.contains(&environment) {
        return Err(AdmitRefusal::WrongEnvironment);
    }
    let Route { operation, path_parameters } = found;
    let query = head.target.split_once('?').map_or("", |(_, query)| query).to_owned();
    Ok(Admitted { environment, operation, path_parameters, query, caller, token })
}

/// Accepts only plain path segments: servers read other forms in different ways.
fn check_path(path: &str) -> Result<(), AdmitRefusal> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(AdmitRefusal::Malformed("the request target is not a path"));
    };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-' | b'~');
    if !rest.bytes().all(allowed) {
        return Err(AdmitRefusal::Malformed("the path contains a character that no operation has"));
    }
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if (segment.is_empty() && !last) || segment == "." || segment == ".." {
            return Err(AdmitRefusal::Malformed("the path contains an empty segment or a dot segment"));
        }
    }
    Ok(())
}

fn has_body(headers: &HeaderMap) -> bool {
    let length_is_zero = |h: &http::HeaderValue| h.as_bytes() == b"0";
    headers.contains_key(TRANSFER_ENCODING) || headers.get_all(CONTENT_LENGTH).iter().any(|h| !length_is_zero(h))
}

/// Returns the one token of a head, not yet verified.
pub fn bearer(headers: &HeaderMap) -> Result<Secret, AdmitRefusal> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return Err(AdmitRefusal::Unauthorized("exactly one Authorization header with a bearer token is required"));
    };
    let text =
        value.to_str().map_err(|_| AdmitRefusal::Unauthorized("the Authorization header is not readable text"))?;
    let token = match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token,
        _ => return Err(AdmitRefusal::Unauthorized("the Authorization header has no bearer token")),
    };
    if !is_token(token) {
        return Err(AdmitRefusal::Unauthorized("the bearer token contains characters that tokens do not have"));
    }
    Ok(Secret::new(token.to_owned()))
}

/// Returns whether a text has the characters of a token.
pub fn is_token(text: &str) -> bool {
    let is = |wanted: u8, b: u8| b == wanted;
    let is_other =
        |b: u8| is(b'-', b) | is(b'.', b) | is(b'_', b) | is(b'~', b) | is(b'+', b) | is(b'/', b) | is(b'=', b);
    let allowed = |b: u8| b.is_ascii_digit() | (b | 0x20).is_ascii_lowercase() | is_other(b);
    // Without an early end, so that many bytes are compared at once.
    !text.is_empty() && text.bytes().fold(true, |all, b| all & allowed(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::SchemaFiles;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn outcome(method: Method, target: &str, pairs: &[(&'static str, &str)]) -> Result<String, AdmitRefusal> {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        let headers = headers(pairs);
        let head = RequestHead { method: &method, target, headers: &headers };
        let found = find(&catalog, head)?;
        let admitted = admit(Environment::Sandbox, found, head, bearer(&headers)?, &VerifiedToken::of_anyone(), None)?;
        Ok(admitted.operation().id.to_string())
    }

    const TOKEN: (&str, &str) = ("authorization", "Bearer a.b.c");

    #[test]
    fn a_token_has_letters_digits_and_the_seven_other_characters() {
        let tokens = (0..=char::MAX as u32).filter_map(char::from_u32).filter(|c| is_token(&format!("a{c}a")));
        let expected = "+-./0123456789=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";
        assert_eq!(tokens.collect::<String>(), expected);
        assert!(!is_token(""));
    }

    #[test]
    fn a_literal_beats_a_parameter() {
        let get = |target| outcome(Method::GET, target, &[TOKEN]);
        assert_eq!(get("/v2/wallets/transfers/batches"), Ok("listBatchTransfers".into()));
        assert_eq!(get("/v2/wallets/transfers/7f9c"), Ok("getTransfer".into()));
    }

    #[test]
    fn targets_with_two_readings_are_refused() {
        for target in [
            "/v2//offramps",
            "//v2/offramps",
            "/v2/../v2/offramps",
            "/v2/./offramps",
            "/v2/offramps%2f",
            "/v2/%6ffframps",
            "/v2\\offramps",
            "/v2/offramps;a=b",
            "/v2/offramps#x",
            "*",
            "http://other.example/v2/offramps",
            "/v2/offramps\u{e9}",
        ] {
            let refused = outcome(Method::GET, target, &[TOKEN]);
            assert!(matches!(refused, Err(AdmitRefusal::Malformed(_))), "{target}: {refused:?}");
        }
        let long = format!("/v2/offramps?userId={}", "a".repeat(LONGEST_TARGET));
        assert_eq!(outcome(Method::GET, &long, &[TOKEN]), Err(AdmitRefusal::TargetTooLong));
    }

    #[test]
    fn unknown_paths_and_methods_are_told_apart() {
        for unknown in ["/", "/v2", "/v2/offramps/", "/v1/offramps", "/tos-link"] {
            assert_eq!(outcome(Method::GET, unknown, &[TOKEN]), Err(AdmitRefusal::UnknownPath), "{unknown}");
        }
        let refused = outcome(Method::DELETE, "/v2/offramps", &[TOKEN]);
        assert_eq!(refused, Err(AdmitRefusal::MethodNotAllowed(vec![Method::GET, Method::POST])));
        assert!(matches!(
            outcome(Method::from_bytes(b"get").unwrap(), "/v2/offramps", &[TOKEN]),
            Err(AdmitRefusal::MethodNotAllowed(_))
        ));
    }

    #[test]
    fn one_readable_bearer_token_is_needed() {
        for pairs in [
            &[][..],
            &[TOKEN, TOKEN],
            &[("authorization", "Basic YTpi")],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer a b")],
            &[("authorization", "Bearer a,b")],
        ] {
            let refused = outcome(Method::GET, "/v2/offramps", pairs);
            assert!(matches!(refused, Err(AdmitRefusal::Unauthorized(_))), "{pairs:?}: {refused:?}");
        }
        assert!(outcome(Method::GET, "/v2/offramps", &[("authorization", "bearer a.b.c")]).is_ok());
    }

    #[test]
    fn a_read_has_no_body() {
        let with = |pair| outcome(Method::GET, "/v2/offramps", &[TOKEN, pair]);
        assert!(matches!(with(("content-length", "2")), Err(AdmitRefusal::Malformed(_))));
        assert!(matches!(with(("transfer-encoding", "chunked")), Err(AdmitRefusal::Malformed(_))));
        assert!(with(("content-length", "0")).is_ok());
    }

    #[test]
    fn a_caller_has_the_certificate_of_its_connection() {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        let (method, headers) = (Method::GET, headers(&[TOKEN]));
        let head = RequestHead { method: &method, target: "/v2/offramps", headers: &headers };
        for certificate in [None, Some(Arc::new(Certificate::read(b"a certificate")))] {
            let (found, token) = (find(&catalog, head).unwrap(), bearer(&headers).unwrap());
            let anyone = VerifiedToken::of_anyone();
            let admitted = admit(Environment::Sandbox, found, head, token, &anyone, certificate.as_ref()).unwrap();
            assert_eq!(admitted.caller().certificate(), certificate.as_deref());
            assert_eq!((admitted.caller().issuer(), admitted.caller().subject()), ("any", "any"));
        }
    }
}
