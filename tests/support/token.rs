//! Tokens of the issuer that the gates of these tests trust.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use sluice::adapters::clock::SystemClock;
use sluice::ports::Clock as _;

pub const ISSUER: &str = "https://issuer.test";
pub const SECRET: &str = "known to the tests and to the gates that they start, nobody else";

/// A good token, the same for all.
pub fn token() -> &'static str {
    static TOKEN: LazyLock<String> = LazyLock::new(|| signed(&claims()));
    &TOKEN
}

/// The value of a header that shows it.
pub fn bearer() -> &'static str {
    static BEARER: LazyLock<String> = LazyLock::new(|| format!("Bearer {}", token()));
    &BEARER
}

/// What a good token says.
pub fn claims() -> Value {
    let now = SystemClock.now().as_second();
    json!({"iss": ISSUER, "aud": "sluice", "sub": "test", "iat": now, "exp": now + 3600})
}

/// A token that says this, signed as the issuer would.
pub fn signed(claims: &Value) -> String {
    let message =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes())))
}
