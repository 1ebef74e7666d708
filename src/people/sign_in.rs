//! A sign-in at an OpenID provider, from the browser's leaving to its return.
//!
//! The browser keeps one random text meanwhile, with its expiry. The state, the nonce and the code verifier are derived
//! from that text under a key of the gate. So the gate stores nothing for people who never return, and a text that
//! somebody else made or altered leads to another state.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::stations::admit::{TokenFault, stated};

/// How long a person has at the provider.
pub const LONGEST_SECS: u32 = 600;

/// The key by which gates with the same secret recognise their sign-ins.
#[derive(Clone, Debug)]
pub struct SignInKey(hmac::Key);

impl SignInKey {
    pub fn of(secret: &str) -> SignInKey {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let own = hmac::sign(&key, b"sluice sign-in");
        SignInKey(hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()))
    }
}

/// A sign-in that has begun and is not over.
#[derive(Clone, Debug)]
pub struct SignIn {
    key: SignInKey,
    /// The text that the browser keeps.
    kept: String,
    until_secs: i64,
}

impl SignIn {
    /// Begins a sign-in. `seed` is a random text without a dot.
    pub fn begin(key: &SignInKey, seed: &str, now_secs: i64) -> SignIn {
        let until_secs = now_secs.saturating_add(i64::from(LONGEST_SECS));
        SignIn { key: key.clone(), kept: format!("{seed}.{until_secs}"), until_secs }
    }

    /// Resumes a sign-in by the browser's text, if the provider's answer belongs to it and it has not expired.
    pub fn resume(key: &SignInKey, kept: &str, state: &str, now_secs: i64) -> Option<SignIn> {
        let until_secs: i64 = kept.rsplit_once('.')?.1.parse().ok()?;
        let sign_in = SignIn { key: key.clone(), kept: kept.to_owned(), until_secs };
        let is_ours = bool::from(sign_in.state().as_bytes().ct_eq(state.as_bytes()));
        (is_ours && now_secs < until_secs).then_some(sign_in)
    }

    pub fn kept(&self) -> &str {
        &self.kept
    }

    pub fn until_secs(&self) -> i64 {
        self.until_secs
    }

    /// The state, which returns with the provider's answer.
    pub fn state(&self) -> String {
        self.derived("state")
    }

    /// The nonce, which returns in the provider's token.
    pub fn nonce(&self) -> String {
        self.derived("nonce")
    }

    /// The code verifier (RFC 7636).
    pub fn verifier(&self) -> String {
        self.derived("verifier")
    }

    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier()))
    }

    fn derived(&self, what: &str) -> String {
        let mut context = hmac::Context::with_key(&self.key.0);
        context.update(what.as_bytes());
        context.update(&[0]);
        context.update(self.kept.as_bytes());
        URL_SAFE_NO_PAD.encode(context.sign())
    }
}

/// Returns whether a verified token answers this sign-in of this client: the demands on an ID token beyond those on
/// every token.
pub fn is_answer(token: &str, client_id: &str, nonce: &str) -> Result<(), TokenFault> {
    let told = stated(token)?;
    let is_client = |value: &Value| value.as_str() == Some(client_id);
    let (is_ours, is_others) = match told.get("aud") {
        Some(Value::Array(all)) => (all.iter().any(is_client), all.len() > 1),
        Some(one) => (is_client(one), false),
        None => (false, false),
    };
    let is_asked_for_us = match told.get("azp") {
        Some(party) => is_client(party),
        None => !is_others,
    };
    if !is_ours || !is_asked_for_us {
        return Err(TokenFault::Audience);
    }
    let said = told.get("nonce").and_then(Value::as_str).unwrap_or_default();
    let is_fresh = bool::from(said.as_bytes().ct_eq(nonce.as_bytes()));
    if !is_fresh || !told.contains_key("iat") {
        return Err(TokenFault::Fields);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_begun_is_resumed_by_its_own_state_in_its_time() {
        let key = SignInKey::of("secret");
        let begun = SignIn::begin(&key, "seed", 1_000);
        let resume = |key: &SignInKey, kept: &str, state: &str, now| SignIn::resume(key, kept, state, now);
        let again = resume(&key, begun.kept(), &begun.state(), 1_599).unwrap();
        assert_eq!((again.nonce(), again.verifier()), (begun.nonce(), begun.verifier()));
        assert!(resume(&key, begun.kept(), &begun.state(), 1_600).is_none(), "its time is over");
        assert!(resume(&key, "seed.9999", &begun.state(), 1_001).is_none(), "its time was altered");
        let other = SignIn::begin(&key, "other", 1_000);
        assert!(resume(&key, begun.kept(), &other.state(), 1_001).is_none());
        assert!(resume(&SignInKey::of("else"), begun.kept(), &begun.state(), 1_001).is_none());
        for (kept, state) in [("", ""), ("seed", ""), ("seed.", ""), (begun.kept(), "")] {
            assert!(resume(&key, kept, state, 1_001).is_none(), "{kept}");
        }
        let all = [begun.state(), begun.nonce(), begun.verifier(), begun.challenge()];
        assert!(all.iter().all(|one| one.len() == 43 && !one.contains(begun.kept())), "{all:?}");
    }

    /// The example of RFC 7636, appendix B.
    #[test]
    fn a_challenge_is_the_digest_of_the_verifier() {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn only_a_token_for_this_client_and_this_sign_in_is_its_answer() {
        let answer = |claims: Value| {
            let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
            is_answer(&format!("{}.{}.c2ln", part(json!({"alg": "ES256"})), part(claims)), "us", "n")
        };
        let good = |aud: Value| json!({"aud": aud, "nonce": "n", "iat": 1});
        assert_eq!(answer(good(json!("us"))), Ok(()));
        assert_eq!(answer(good(json!(["us"]))), Ok(()));
        assert_eq!(answer(json!({"aud": ["us", "x"], "azp": "us", "nonce": "n", "iat": 1})), Ok(()));
        for claims in [
            good(json!("x")),
            good(json!(["us", "x"])),
            json!({"aud": ["us", "x"], "azp": "x", "nonce": "n", "iat": 1}),
            json!({"aud": "us", "azp": "x", "nonce": "n", "iat": 1}),
            json!({"nonce": "n", "iat": 1}),
        ] {
            assert_eq!(answer(claims.clone()), Err(TokenFault::Audience), "{claims}");
        }
        for claims in [
            json!({"aud": "us", "iat": 1}),
            json!({"aud": "us", "nonce": "m", "iat": 1}),
            json!({"aud": "us", "nonce": 1, "iat": 1}),
            json!({"aud": "us", "nonce": "n"}),
        ] {
            assert_eq!(answer(claims.clone()), Err(TokenFault::Fields), "{claims}");
        }
    }
}
