//! Who calls in the model.

use std::sync::{Arc, LazyLock};

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use sluice::adapters::otlp::Spans;
use sluice::base::ids::{Environment, TraceId};
use sluice::base::secret::Secret;
use sluice::node::Exchange;
use sluice::stations::admit::{
    Admitted, Algorithm, FieldPath, IssuerRules, KeySet, RequestHead, Trusted, VerifiedToken, admit, bearer, believe,
    find,
};

use super::world::{CATALOG, ENVIRONMENT};
use crate::support::token::{ISSUER, SECRET, claims, signed};

pub static CALLERS: LazyLock<Vec<(String, VerifiedToken)>> =
    LazyLock::new(|| ["service", "stranger"].iter().map(|subject| believed(subject)).collect());

fn believed(subject: &str) -> (String, VerifiedToken) {
    let rules = IssuerRules {
        name: "main".into(),
        issuer: ISSUER.to_owned(),
        audiences: vec!["sluice".to_owned()],
        people_audiences: Vec::new(),
        environments: Environment::ALL.to_vec(),
        algorithms: vec![Algorithm::Hs256],
        leeway_secs: 60,
        longest_lifetime_secs: 86_400,
        required: Vec::new(),
        roles: None,
        requester: FieldPath::parse("act.sub").unwrap(),
        refuses_holds: false,
        opaque: false,
    };
    let keys = Some(Arc::new(KeySet::shared(&Secret::new(SECRET.to_owned()))));
    let mut said = claims();
    said["sub"] = Value::from(subject);
    let token = signed(&said);
    let now = said["iat"].as_i64().unwrap();
    let believed = believe(&token, &[Trusted { rules, keys }], now).unwrap();
    (format!("Bearer {token}"), believed)
}

/// One that nothing is traced of.
pub fn exchange(id: &str) -> Exchange {
    Exchange { id: TraceId::parse(id).unwrap(), spans: Spans::default() }
}

pub fn admitted(stranger: bool) -> (Admitted, HeaderMap) {
    let (token, believed) = &CALLERS[usize::from(stranger)];
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(token).unwrap());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let head = RequestHead { method: &Method::POST, target: "/v2/wallets/swaps", headers: &headers };
    let found = find(&CATALOG, head).unwrap();
    let token = bearer(&headers).unwrap();
    (admit(ENVIRONMENT, found, head, token, believed, None).unwrap(), headers)
}
