//! Reading a token and believing it.
//!
//! A token is believed if it is written in exactly one way, names an issuer that is trusted, is signed by a key of that
//! issuer with an algorithm that the issuer may use, and says that it is meant for us, now. What it says about how it
//! should be verified is never followed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::algorithm::Algorithm;
use super::certificate::Certificate;
use super::claims::{self, FieldPath};
use super::keys::KeySet;
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};

/// The longest token, in bytes.
const LONGEST_TOKEN: usize = 8 * 1024;
/// The longest id of a key.
const LONGEST_KEY_ID: usize = 256;
/// Fields of a header that would tell us how to verify, or that we would have to understand.
const REFUSED: [&str; 8] = ["crit", "b64", "jwk", "jku", "x5c", "x5u", "zip", "enc"];
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// What is asked of an issuer's tokens.
#[derive(Clone, Debug)]
pub struct IssuerRules {
    pub name: Arc<str>,
    pub issuer: String,
    pub audiences: Vec<String>,
    pub environments: Vec<Environment>,
    pub algorithms: Vec<Algorithm>,
    pub leeway_secs: i64,
    pub longest_lifetime_secs: i64,
    pub required: Vec<FieldPath>,
    pub roles: Option<FieldPath>,
    pub requester: FieldPath,
    /// Whether its callers take any 2xx for done, so that what waits is told as a refusal.
    pub refuses_holds: bool,
}

/// An issuer and its keys as they are known now; none if they could not be had yet.
#[derive(Clone, Debug)]
pub struct Trusted {
    pub rules: IssuerRules,
    pub keys: Option<Arc<KeySet>>,
}

/// Who calls. Only a believed token makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    issuer: Arc<str>,
    subject: String,
    requester: Option<String>,
    roles: BTreeSet<String>,
    certificate: Option<Arc<Certificate>>,
    refuses_holds: bool,
}

/// What is written down of a caller, for a call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub issuer: String,
    pub subject: String,
    pub requester: Option<String>,
    pub roles: BTreeSet<String>,
}

/// What the gate calls itself: no issuer may have such a name.
const OF_THE_GATE: &str = "(gate)";

impl Caller {
    /// No token says so of anybody: it is nobody's name for an issuer.
    pub(super) fn of_the_gate() -> Caller {
        Caller {
            issuer: Arc::from(OF_THE_GATE),
            subject: OF_THE_GATE.to_owned(),
            requester: None,
            roles: BTreeSet::new(),
            certificate: None,
            refuses_holds: false,
        }
    }

    pub(super) fn again(known: Known) -> Caller {
        let Known { issuer, subject, requester, roles } = known;
        Caller { issuer: issuer.into(), subject, requester, roles, certificate: None, refuses_holds: false }
    }

    pub fn known(&self) -> Known {
        Known {
            issuer: self.issuer.to_string(),
            subject: self.subject.clone(),
            requester: self.requester.clone(),
            roles: self.roles.clone(),
        }
    }

    pub fn is_the_gate(&self) -> bool {
        &*self.issuer == OF_THE_GATE
    }

    /// The name of the issuer, as configured.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The person behind a service's token.
    pub fn requester(&self) -> Option<&str> {
        self.requester.as_deref()
    }

    pub fn roles(&self) -> &BTreeSet<String> {
        &self.roles
    }

    /// Whether it takes any 2xx for done, so that what waits is told as a refusal.
    pub fn refuses_holds(&self) -> bool {
        self.refuses_holds
    }

    /// The certificate that the call came under, where callers must show one.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_deref()
    }
}

/// A believed token, and until when.
#[derive(Clone, Debug)]
pub struct Believed {
    caller: Arc<Caller>,
    /// In seconds since 1970, leeway included.
    pub until_secs: i64,
    /// Where it may be used.
    pub environments: Vec<Environment>,
    /// The digest of the one certificate that it may be used with.
    bound_to: Option<[u8; 32]>,
}

impl Believed {
    /// Who calls with it over a connection that was opened with this certificate, or with none. What is remembered of a
    /// token knows no connection: this is asked anew for each call.
    pub fn caller_with(&self, certificate: Option<&Arc<Certificate>>) -> Result<Arc<Caller>, TokenFault> {
        if self.bound_to.is_some_and(|bound| certificate.is_none_or(|certificate| *certificate.sha256() != bound)) {
            return Err(TokenFault::Bound);
        }
        Ok(match certificate {
            None => self.caller.clone(),
            Some(certificate) => {
                Arc::new(Caller { certificate: Some(certificate.clone()), ..Caller::clone(&self.caller) })
            }
        })
    }
}

#[cfg(test)]
impl Believed {
    /// Somebody who may call everywhere.
    pub(crate) fn of_anyone() -> Believed {
        let (issuer, subject) = ("any".into(), "any".into());
        let roles = BTreeSet::new();
        let caller = Caller { issuer, subject, requester: None, roles, certificate: None, refuses_holds: false };
        let environments = Environment::ALL.to_vec();
        Believed { caller: Arc::new(caller), until_secs: i64::MAX, environments, bound_to: None }
    }
}

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenFault {
    Malformed,
    Header,
    Issuer,
    Algorithm,
    /// No key of the issuer has this id: it may have a new one.
    UnknownKey {
        issuer: usize,
    },
    /// The issuer's keys are not known, or not whether they are still all.
    NoKeys {
        issuer: usize,
    },
    Signature,
    Audience,
    Expired,
    NotYet,
    Lifetime,
    Fields,
    /// It is bound to another certificate than the caller's, or in a way that is not known here.
    Bound,
}

impl TokenFault {
    /// As metrics and logs call it.
    pub fn as_str(self) -> &'static str {
        match self {
            TokenFault::Malformed => "malformed",
            TokenFault::Header => "header",
            TokenFault::Issuer => "issuer",
            TokenFault::Algorithm => "algorithm",
            TokenFault::UnknownKey { .. } => "unknown_key",
            TokenFault::NoKeys { .. } => "no_keys",
            TokenFault::Signature => "signature",
            TokenFault::Audience => "audience",
            TokenFault::Expired => "expired",
            TokenFault::NotYet => "not_yet",
            TokenFault::Lifetime => "lifetime",
            TokenFault::Fields => "fields",
            TokenFault::Bound => "bound",
        }
    }
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Believes a token, or not. Where it may be used is left to the caller of this.
pub fn believe(token: &str, trusted: &[Trusted], now_secs: i64) -> Result<Believed, TokenFault> {
    let parts = Parts::read(token)?;
    let claimed = parts.claims.get("iss").and_then(Value::as_str).ok_or(TokenFault::Issuer)?;
    let (issuer, trusted) =
        trusted.iter().enumerate().find(|(_, t)| t.rules.issuer == claimed).ok_or(TokenFault::Issuer)?;
    let rules = &trusted.rules;
    if !rules.algorithms.contains(&parts.algorithm) {
        return Err(TokenFault::Algorithm);
    }
    let keys = trusted.keys.as_ref().ok_or(TokenFault::NoKeys { issuer })?;
    let id = parts.key_id.as_deref();
    if !keys.knows(id, parts.algorithm) {
        return Err(TokenFault::UnknownKey { issuer });
    }
    if !keys.verify(id, parts.algorithm, parts.signed, &parts.signature) {
        return Err(TokenFault::Signature);
    }
    let until_secs = rules.time(&parts.claims, now_secs)?;
    rules.audience(&parts.claims)?;
    let caller = Arc::new(rules.caller(&parts.claims)?);
    let bound_to = claims::bound_to(&parts.claims).ok_or(TokenFault::Bound)?;
    Ok(Believed { caller, until_secs, environments: rules.environments.clone(), bound_to })
}

/// What a token states, whether or not it is believed: for those who believed it and ask for more.
pub fn stated(token: &str) -> Result<Map<String, Value>, TokenFault> {
    Parts::read(token).map(|parts| parts.claims)
}

/// A token, taken apart.
struct Parts<'t> {
    signed: &'t [u8],
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Map<String, Value>,
    signature: Vec<u8>,
}

impl Parts<'_> {
    fn read(token: &str) -> Result<Parts<'_>, TokenFault> {
        if token.len() > LONGEST_TOKEN {
            return Err(TokenFault::Malformed);
        }
        let mut pieces = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (pieces.next(), pieces.next(), pieces.next(), pieces.next())
        else {
            return Err(TokenFault::Malformed);
        };
        let signed_length = header.len().saturating_add(claims.len()).saturating_add(1);
        let signed = token.as_bytes().get(..signed_length).ok_or(TokenFault::Malformed)?;
        let header = object(header)?;
        let signature = decoded(signature)?;
        if signature.is_empty() {
            return Err(TokenFault::Malformed);
        }
        let (algorithm, key_id) = read_header(&header)?;
        Ok(Parts { signed, algorithm, key_id, claims: object(claims)?, signature })
    }
}

/// Base64url in its one form: no padding, no other alphabet, no bits left over.
fn decoded(text: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenFault::Malformed)
}

fn object(text: &str) -> Result<Map<String, Value>, TokenFault> {
    match json::parse(&decoded(text)?, Limits::ANSWER) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) | Err(_) => Err(TokenFault::Malformed),
    }
}

fn read_header(header: &Map<String, Value>) -> Result<(Algorithm, Option<String>), TokenFault> {
    if REFUSED.iter().any(|name| header.contains_key(*name)) {
        return Err(TokenFault::Header);
    }
    let is_known_type = |value: &Value| value.as_str().is_some_and(|t| TYPES.iter().any(|k| k.eq_ignore_ascii_case(t)));
    if !header.get("typ").is_none_or(is_known_type) {
        return Err(TokenFault::Header);
    }
    let algorithm =
        header.get("alg").and_then(Value::as_str).and_then(Algorithm::parse).ok_or(TokenFault::Algorithm)?;
    let key_id = match header.get("kid") {
        None => None,
        Some(Value::String(id)) if !id.is_empty() && id.len() <= LONGEST_KEY_ID => Some(id.clone()),
        Some(_) => return Err(TokenFault::Header),
    };
    Ok((algorithm, key_id))
}

impl IssuerRules {
    /// Until when a token is good; its times are those of its issuer's clock.
    fn time(&self, claims: &Map<String, Value>, now_secs: i64) -> Result<i64, TokenFault> {
        let stated = |name: &str| match claims.get(name) {
            None => Ok(None),
            Some(value) => claims::seconds(value).map(Some).ok_or(TokenFault::Fields),
        };
        let expires = stated("exp")?.ok_or(TokenFault::Fields)?;
        let (not_before, issued) = (stated("nbf")?, stated("iat")?);
        let until_secs = expires.saturating_add(self.leeway_secs);
        if now_secs >= until_secs {
            return Err(TokenFault::Expired);
        }
        let latest_start = now_secs.saturating_add(self.leeway_secs);
        if not_before.is_some_and(|at| at > latest_start) || issued.is_some_and(|at| at > latest_start) {
            return Err(TokenFault::NotYet);
        }
        let lives_from = issued.or(not_before).unwrap_or(now_secs);
        if expires.saturating_sub(lives_from) > self.longest_lifetime_secs {
            return Err(TokenFault::Lifetime);
        }
        Ok(until_secs)
    }

    fn audience(&self, claims: &Map<String, Value>) -> Result<(), TokenFault> {
        let is_ours = |text: &str| self.audiences.iter().any(|own| own == text);
        let meant = match claims.get("aud") {
            Some(Value::String(text)) => is_ours(text),
            Some(Value::Array(items)) => {
                let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                texts.is_some_and(|texts| texts.into_iter().any(is_ours))
            }
            Some(_) | None => false,
        };
        if meant { Ok(()) } else { Err(TokenFault::Audience) }
    }

    fn caller(&self, claims: &Map<String, Value>) -> Result<Caller, TokenFault> {
        let empty = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
        if self.required.iter().any(|path| path.of(claims).is_none_or(empty)) {
            return Err(TokenFault::Fields);
        }
        let subject = claims::name(claims.get("sub")).ok_or(TokenFault::Fields)?;
        let requester = match self.requester.of(claims) {
            None => None,
            found => Some(claims::name(found).ok_or(TokenFault::Fields)?),
        };
        let roles = match self.roles.as_ref().and_then(|path| path.of(claims)) {
            None => BTreeSet::new(),
            Some(value) => claims::roles(value).ok_or(TokenFault::Fields)?,
        };
        let (issuer, refuses_holds) = (self.name.clone(), self.refuses_holds);
        Ok(Caller { issuer, subject, requester, roles, certificate: None, refuses_holds })
    }
}

#[cfg(test)]
mod tests;
