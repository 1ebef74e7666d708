//! An OpenID provider's part in a sign-in: its discovery document, its authorization URL, and a token for a code.
//!
//! Every request has a deadline and a size limit, follows no redirect, and goes only to URLs of the issuer's own
//! discovery document. The returned token is verified like any other.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{self, FetchFault};
use crate::base::json::{self, Limits};
use crate::base::secret::Secret;
use crate::config::{OidcConfig, is_safe_url};
use crate::people::sign_in::SignIn;

/// How long a discovery document is used.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// The pause after a failed request.
const REST: Duration = Duration::from_secs(1);
const CALLBACK: &str = "/sluice/v1/session/callback";

/// A client of one OpenID provider.
pub struct Provider {
    config: OidcConfig,
    client: Client,
    /// The last discovery document, and its time.
    told: RwLock<Option<(Instant, Arc<Discovery>)>>,
    /// Allows one discovery request at a time; the time of the last one that failed.
    failed: Mutex<Option<Instant>>,
}

/// A provider's discovery document.
#[derive(Debug)]
pub struct Discovery {
    authorization: String,
    token: String,
    /// Whether every response names the issuer (RFC 9207).
    pub says_issuer: bool,
    takes_basic: bool,
}

/// Why there is no token. It contains nothing that the provider sent.
#[derive(Debug, Error)]
pub enum ProviderFault {
    #[error("{0}")]
    Fetch(String),
    /// The document names another issuer.
    #[error("its discovery document names another issuer than the configured one")]
    Issuer,
    /// A part of the document is missing or invalid.
    #[error("its discovery document has no usable {0}")]
    Form(&'static str),
    /// The provider refuses the code: it is too old, was used, or belongs to another client.
    #[error("it refuses the code")]
    Code,
    #[error("it answered {0}")]
    Status(u16),
}

impl Provider {
    pub fn new(config: OidcConfig) -> Result<Provider, reqwest::Error> {
        let client = fetch::client(config.ca_pem.as_deref())?;
        Ok(Provider { config, client, told: RwLock::default(), failed: Mutex::default() })
    }

    pub fn config(&self) -> &OidcConfig {
        &self.config
    }

    /// Returns the URL to which the browser is redirected.
    pub async fn address(&self, sign_in: &SignIn, is_silent: bool) -> Result<String, ProviderFault> {
        let told = self.discovery().await?;
        let mut scopes = vec!["openid"];
        scopes.extend(self.config.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid"));
        let (redirect, scope) = (self.redirect(), scopes.join(" "));
        let (state, nonce, challenge) = (sign_in.state(), sign_in.nonce(), sign_in.challenge());
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", &self.config.client_id),
            ("redirect_uri", redirect.as_str()),
            ("scope", scope.as_str()),
            ("state", state.as_str()),
            ("nonce", nonce.as_str()),
            ("code_challenge", challenge.as_str()),
            ("code_challenge_method", "S256"),
        ];
        if is_silent {
            fields.push(("prompt", "none"));
        }
        let query = form(&fields);
        let joint = if told.authorization.contains('?') { '&' } else { '?' };
        Ok(format!("{}{joint}{query}", told.authorization))
    }

    /// Exchanges a code for the ID token.
    pub async fn exchange(&self, code: &str, sign_in: &SignIn) -> Result<Secret, ProviderFault> {
        let told = self.discovery().await?;
        let (redirect, verifier) = (self.redirect(), sign_in.verifier());
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", verifier.as_str()),
        ];
        let mut request = self.client.post(&told.token);
        match &self.config.client_secret {
            Some(secret) if told.takes_basic => {
                let pair = format!("{}:{}", escaped(&self.config.client_id), escaped(secret.reveal()));
                request = request.header("authorization", format!("Basic {}", STANDARD.encode(pair)));
            }
            Some(secret) => {
                fields.push(("client_id", &self.config.client_id));
                fields.push(("client_secret", secret.reveal()));
            }
            None => fields.push(("client_id", &self.config.client_id)),
        }
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form(&fields));
        let (status, whole) = answer(request).await?;
        match status {
            200 => {}
            400 => return Err(ProviderFault::Code),
            status => return Err(ProviderFault::Status(status)),
        }
        let answer = json::parse(&whole, Limits::UPSTREAM_TREE).map_err(|_| ProviderFault::Form("token"))?;
        let token = answer.get("id_token").and_then(Value::as_str).ok_or(ProviderFault::Form("token"))?;
        Ok(Secret::new(token.to_owned()))
    }

    /// Returns the discovery document, fetched again when it is too old.
    pub async fn discovery(&self) -> Result<Arc<Discovery>, ProviderFault> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let mut failed = self.failed.lock().await;
        // A caller that waited for another's request does not repeat it.
        if let Some(known) = self.known() {
            return Ok(known);
        }
        if failed.is_some_and(|failed| failed.elapsed() < REST) {
            return Err(ProviderFault::Fetch("a request to it failed a moment ago".to_owned()));
        }
        let asked = self.ask().await;
        match &asked {
            Ok(told) => {
                let now = (Instant::now(), told.clone());
                *self.told.write().unwrap_or_else(PoisonError::into_inner) = Some(now);
            }
            Err(_) => *failed = Some(Instant::now()),
        }
        asked
    }

    /// Returns the discovery document that is known and not too old: with one, [`Provider::address`] asks nobody.
    pub fn known(&self) -> Option<Arc<Discovery>> {
        let told = self.told.read().unwrap_or_else(PoisonError::into_inner);
        told.as_ref().filter(|(since, _)| since.elapsed() < KNOWN_FOR).map(|(_, told)| told.clone())
    }

    async fn ask(&self) -> Result<Arc<Discovery>, ProviderFault> {
        let url = format!("{}/.well-known/openid-configuration", self.config.issuer.trim_end_matches('/'));
        let (status, whole) = answer(self.client.get(url)).await?;
        if status != 200 {
            return Err(ProviderFault::Status(status));
        }
        parse_discovery(&whole, &self.config.issuer).map(Arc::new)
    }

    fn redirect(&self) -> String {
        format!("{}{CALLBACK}", self.config.origin)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("issuer", &self.config.issuer).finish_non_exhaustive()
    }
}

fn parse_discovery(document: &[u8], issuer: &str) -> Result<Discovery, ProviderFault> {
    let told = json::parse(document, Limits::UPSTREAM_TREE).map_err(|_| ProviderFault::Form("document"))?;
    if told.get("issuer").and_then(Value::as_str) != Some(issuer) {
        return Err(ProviderFault::Issuer);
    }
    let address = |name: &str, what: &'static str| {
        let url = told.get(name).and_then(Value::as_str).filter(|url| is_safe_url(url));
        url.map(str::to_owned).ok_or(ProviderFault::Form(what))
    };
    let among = |name: &str, wanted: &str| {
        let all = told.get(name).and_then(Value::as_array);
        all.map(|all| all.iter().any(|one| one.as_str() == Some(wanted)))
    };
    Ok(Discovery {
        authorization: address("authorization_endpoint", "authorization endpoint")?,
        token: address("token_endpoint", "token endpoint")?,
        says_issuer: told.get("authorization_response_iss_parameter_supported").and_then(Value::as_bool) == Some(true),
        // The default if the document does not say.
        takes_basic: among("token_endpoint_auth_methods_supported", "client_secret_basic").unwrap_or(true),
    })
}

async fn answer(request: RequestBuilder) -> Result<(u16, Vec<u8>), ProviderFault> {
    let told = |fault: FetchFault| ProviderFault::Fetch(fault.to_string());
    let answer = request.header("accept", "application/json").send().await;
    let answer = answer.map_err(|error| told(fetch::unreachable(&error)))?;
    let status = answer.status().as_u16();
    Ok((status, fetch::whole(answer).await.map_err(told)?))
}

fn form(fields: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", escaped(value));
    fields.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Percent-encodes a text for a form: every character that could have another meaning.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(change: impl FnOnce(&mut Value)) -> Result<Discovery, ProviderFault> {
        let mut document = json!({
            "issuer": "https://id.test",
            "authorization_endpoint": "https://id.test/auth",
            "token_endpoint": "https://id.test/token",
        });
        change(&mut document);
        parse_discovery(document.to_string().as_bytes(), "https://id.test")
    }

    #[test]
    fn a_provider_is_who_it_should_be_and_leads_nowhere_unsafe() {
        let told = document(|_| {}).unwrap();
        assert!(!told.says_issuer && told.takes_basic);
        let post = json!(["client_secret_post"]);
        assert!(!document(|d| d["token_endpoint_auth_methods_supported"] = post).unwrap().takes_basic);
        assert!(matches!(document(|d| d["issuer"] = json!("https://id.test/")), Err(ProviderFault::Issuer)));
        for url in ["http://id.test/auth", "javascript:alert(1)", "/auth", "https://id.test/auth#x", ""] {
            assert!(document(|d| d["authorization_endpoint"] = json!(url)).is_err(), "{url}");
            assert!(document(|d| d["token_endpoint"] = json!(url)).is_err(), "{url}");
        }
        assert!(parse_discovery(b"<html>", "https://id.test").is_err());
    }

    #[test]
    fn what_stands_in_a_form_means_itself() {
        assert_eq!(form(&[("a", "b c&d=e"), ("f", "é+/")]), "a=b%20c%26d%3De&f=%C3%A9%2B%2F");
    }
}
