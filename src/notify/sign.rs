//! Signatures of Standard Webhooks: the receiver can verify the sender and the time.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use ring::hmac;

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// Some generators leave the padding out.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// The random bytes of a secret.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The secret that a webhook and its receiver share.
#[derive(Clone)]
pub struct SigningSecret(hmac::Key);

impl SigningSecret {
    /// Parses `whsec_` and 24 to 64 bytes in base64.
    pub fn parse(text: &str) -> Option<SigningSecret> {
        let bytes = LENIENT.decode(text.strip_prefix(PREFIX)?).ok()?;
        BYTES.contains(&bytes.len()).then(|| SigningSecret(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// Writes `webhook-signature`: one signature for each secret, so that secrets can be rotated.
pub fn signature(secrets: &[SigningSecret], id: &str, at_secs: i64, body: &str) -> String {
    let signed = |SigningSecret(key): &SigningSecret| {
        let tag = hmac::sign(key, format!("{id}.{at_secs}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(tag))
    };
    secrets.iter().map(signed).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of the Standard Webhooks libraries.
    #[test]
    fn a_signature_is_what_the_specification_shows() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = |secrets: &[SigningSecret]| {
            signature(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#)
        };
        let shown = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signed(std::slice::from_ref(&secret)), shown);
        let other = SigningSecret::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
        let both = signed(&[other, secret]);
        let (first, second) = both.split_once(' ').unwrap();
        assert!(first.starts_with("v1,") && first != shown && second == shown, "{both}");
    }

    #[test]
    fn a_secret_is_as_long_as_the_specification_asks_for() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (text, is_one) in [
            (of(24), true),
            (of(25).trim_end_matches('=').to_owned(), true),
            (of(64), true),
            (of(23), false),
            (of(65), false),
            (of(32).replace("whsec_", ""), false),
            (of(32).replace('w', "W"), false),
            (format!("{}!", of(32)), false),
            (String::new(), false),
        ] {
            assert_eq!(SigningSecret::parse(&text).is_some(), is_one, "{text}");
        }
        assert_eq!(format!("{:?}", SigningSecret::parse(&of(24)).unwrap()), "SigningSecret(…)");
    }
}
