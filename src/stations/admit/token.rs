//! Reads and verifies a token.
//!
//! A token is valid if it has exactly one reading, names a trusted issuer, is signed by a key of that issuer with an
//! algorithm that the issuer may use, and is meant for this gate, now. Its own hints on how to verify it are never
//! followed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::algorithm::Algorithm;
use super::certificate::Certificate;
use super::claims::{self, FieldPath};
use super::keys::KeySet;
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};

/// The longest token, in bytes.
const LONGEST_TOKEN: usize = 8 * 1024;
/// The longest key id.
const LONGEST_KEY_ID: usize = 256;
/// The memory that a role takes besides its name: its place in the set, and the least that is allocated for a text.
const BYTES_A_ROLE: usize = 56;
/// Header fields that would tell the gate how to verify, or that it would have to understand.
const REFUSED: [&str; 8] = ["crit", "b64", "jwk", "jku", "x5c", "x5u", "zip", "enc"];
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// The demands on an issuer's tokens.
#[derive(Clone, Debug)]
pub struct IssuerRules {
    pub name: Arc<str>,
    pub issuer: String,
    pub audiences: Vec<String>,
    /// The audiences of people's tokens, which callers cannot use; empty if people have none of their own.
    pub people_audiences: Vec<String>,
    pub environments: Vec<Environment>,
    pub algorithms: Vec<Algorithm>,
    pub leeway_secs: i64,
    pub longest_lifetime_secs: i64,
    pub required: Vec<FieldPath>,
    pub roles: Option<FieldPath>,
    pub requester: FieldPath,
    /// Whether its callers take any 2xx for done, so that a hold is answered as a refusal.
    pub refuses_holds: bool,
    /// Whether its subjects are compared byte for byte.
    pub opaque: bool,
}

/// An issuer with its current keys; `None` where they could not be fetched yet.
#[derive(Clone, Debug)]
pub struct Trusted {
    pub rules: IssuerRules,
    pub keys: Option<Arc<KeySet>>,
}

/// A verified caller. Only a verified token makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    issuer: Arc<str>,
    subject: String,
    requester: Option<String>,
    roles: BTreeSet<String>,
    certificate: Option<Arc<Certificate>>,
    refuses_holds: bool,
    opaque: bool,
}

/// The recorded facts of a caller, for a call that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownCaller {
    pub issuer: String,
    pub subject: String,
    pub requester: Option<String>,
    pub roles: BTreeSet<String>,
    /// Whether the issuer's subjects were opaque then.
    pub opaque: bool,
}

/// The gate's own name as an issuer; no configured issuer may have it.
pub const OF_THE_GATE: &str = "(gate)";

impl Caller {
    /// The gate as a caller: no token can claim to be it.
    pub(super) fn of_the_gate() -> Caller {
        Caller {
            issuer: Arc::from(OF_THE_GATE),
            subject: OF_THE_GATE.to_owned(),
            requester: None,
            roles: BTreeSet::new(),
            certificate: None,
            refuses_holds: false,
            opaque: false,
        }
    }

    pub(super) fn again(known: KnownCaller) -> Caller {
        let KnownCaller { issuer, subject, requester, roles, opaque } = known;
        Caller { issuer: issuer.into(), subject, requester, roles, certificate: None, refuses_holds: false, opaque }
    }

    pub fn known(&self) -> KnownCaller {
        KnownCaller {
            issuer: self.issuer.to_string(),
            subject: self.subject.clone(),
            requester: self.requester.clone(),
            roles: self.roles.clone(),
            opaque: self.opaque,
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

    /// Whether it takes any 2xx for done, so that a hold is answered as a refusal.
    pub fn refuses_holds(&self) -> bool {
        self.refuses_holds
    }

    /// Whether its issuer's subjects are compared byte for byte.
    pub fn has_opaque_subject(&self) -> bool {
        self.opaque
    }

    /// The client certificate of the call, where callers must present one.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_deref()
    }
}

/// A verified token, with its expiry.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    caller: Arc<Caller>,
    /// The expiry in seconds since 1970, leeway included.
    pub until_secs: i64,
    /// The environments in which it may be used.
    pub environments: Vec<Environment>,
    /// The digest of the one certificate that may use it.
    bound_to: Option<[u8; 32]>,
    bearers: TokenBearers,
}

/// The users of a token, by its audience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenBearers {
    Anyone,
    Callers,
    People,
}

impl VerifiedToken {
    /// Returns the person whose token it is. The console asks for no client certificate, so that a token that is bound
    /// to one is refused.
    pub fn person(&self) -> Result<Arc<Caller>, TokenFault> {
        match (self.bearers, self.bound_to) {
            (TokenBearers::Callers, _) => Err(TokenFault::Audience),
            (_, Some(_)) => Err(TokenFault::Bound),
            (TokenBearers::Anyone | TokenBearers::People, None) => Ok(self.caller.clone()),
        }
    }

    /// Returns about how much memory the token's own texts take.
    pub fn kept_bytes(&self) -> usize {
        let Caller { subject, requester, roles, .. } = &*self.caller;
        let names = subject.len().saturating_add(requester.as_ref().map_or(0, String::len));
        roles.iter().fold(names, |sum, role| sum.saturating_add(role.len()).saturating_add(BYTES_A_ROLE))
    }

    /// Returns the caller of a call over a connection with this certificate, or without one. A cached token knows no
    /// connection, so each call checks again. People's tokens are no callers' tokens.
    pub fn caller_with(&self, certificate: Option<&Arc<Certificate>>) -> Result<Arc<Caller>, TokenFault> {
        if self.bearers == TokenBearers::People {
            return Err(TokenFault::Audience);
        }
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
impl VerifiedToken {
    /// Somebody who may call everywhere.
    pub(crate) fn of_anyone() -> VerifiedToken {
        VerifiedToken::of_anyone_with_roles(0)
    }

    pub(crate) fn of_anyone_with_roles(count: usize) -> VerifiedToken {
        let (issuer, subject) = ("any".into(), "any".into());
        let roles = (0..count).map(|at| format!("{at:x}")).collect();
        let caller =
            Caller { issuer, subject, requester: None, roles, certificate: None, refuses_holds: false, opaque: false };
        let environments = Environment::ALL.to_vec();
        VerifiedToken {
            caller: Arc::new(caller),
            until_secs: i64::MAX,
            environments,
            bound_to: None,
            bearers: TokenBearers::Anyone,
        }
    }
}

/// Why a token is refused.
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
    /// No key made the signature: the issuer may have another one by now.
    Signature {
        issuer: usize,
        /// Whether the key id of the token names a key that the issuer has.
        is_key_named: bool,
    },
    Audience,
    Expired,
    NotYet,
    Lifetime,
    Fields,
    /// The token is bound to another certificate than the caller's, or in an unknown way.
    Bound,
}

impl TokenFault {
    /// Returns the name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            TokenFault::Malformed => "malformed",
            TokenFault::Header => "header",
            TokenFault::Issuer => "issuer",
            TokenFault::Algorithm => "algorithm",
            TokenFault::UnknownKey { .. } => "unknown_key",
            TokenFault::NoKeys { .. } => "no_keys",
            TokenFault::Signature { .. } => "signature",
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
pub fn believe(token: &str, trusted: &[Trusted], now_secs: i64) -> Result<VerifiedToken, TokenFault> {
    let parts = TokenParts::read(token)?;
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
        return Err(TokenFault::Signature { issuer, is_key_named: keys.names(id, parts.algorithm) });
    }
    let until_secs = rules.time(&parts.claims, now_secs)?;
    let bearers = rules.bearers(&parts.claims).ok_or(TokenFault::Audience)?;
    let caller = Arc::new(rules.caller(&parts.claims)?);
    let bound_to = claims::bound_to(&parts.claims).ok_or(TokenFault::Bound)?;
    Ok(VerifiedToken { caller, until_secs, environments: rules.environments.clone(), bound_to, bearers })
}

/// The content of a token, verified or not: for callers that verified it before and need further fields.
pub fn stated(token: &str) -> Result<Map<String, Value>, TokenFault> {
    TokenParts::read(token).map(|parts| parts.claims)
}

/// A token, taken apart.
struct TokenParts<'t> {
    signed: &'t [u8],
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Map<String, Value>,
    signature: Vec<u8>,
}

impl TokenParts<'_> {
    fn read(token: &str) -> Result<TokenParts<'_>, TokenFault> {
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
        Ok(TokenParts { signed, algorithm, key_id, claims: object(claims)?, signature })
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
        header.get("alg").and_then(Value::as_str).and_then(Algorithm::named).ok_or(TokenFault::Algorithm)?;
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

    /// Returns who may use a token with these audiences; `None` if none of them is this gate's.
    fn bearers(&self, claims: &Map<String, Value>) -> Option<TokenBearers> {
        let stated: Vec<&str> = match claims.get("aud") {
            Some(Value::String(text)) => vec![text.as_str()],
            Some(Value::Array(items)) => items.iter().map(Value::as_str).collect::<Option<_>>()?,
            Some(_) | None => return None,
        };
        let names_one = |own: &[String]| stated.iter().any(|text| own.iter().any(|own| own == text));
        match (names_one(&self.audiences), names_one(&self.people_audiences)) {
            (false, _) => None,
            (true, _) if self.people_audiences.is_empty() => Some(TokenBearers::Anyone),
            (true, true) => Some(TokenBearers::People),
            (true, false) => Some(TokenBearers::Callers),
        }
    }

    fn caller(&self, claims: &Map<String, Value>) -> Result<Caller, TokenFault> {
        let empty = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
        if self.required.iter().any(|path| path.of(claims).is_none_or(empty)) {
            return Err(TokenFault::Fields);
        }
        let subject = claims::name(claims.get("sub")).ok_or(TokenFault::Fields)?;
        let requester = match self.requester.typed(claims).map_err(|_| TokenFault::Fields)? {
            None => None,
            found => Some(claims::name(found).ok_or(TokenFault::Fields)?),
        };
        let roles = self.roles.as_ref().map(|path| path.typed(claims)).transpose();
        let roles = match roles.map_err(|_| TokenFault::Fields)?.flatten() {
            None => BTreeSet::new(),
            Some(value) => claims::roles(value).ok_or(TokenFault::Fields)?,
        };
        let (issuer, refuses_holds, opaque) = (self.name.clone(), self.refuses_holds, self.opaque);
        Ok(Caller { issuer, subject, requester, roles, certificate: None, refuses_holds, opaque })
    }
}

#[cfg(test)]
mod tests;
