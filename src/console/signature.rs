//! The signature in the body of a vote or an act, and the answers to one that is missing or does not count.

use serde_json::Value;

use super::request::{ActRequest, store_failed};
use super::state::ConsoleState;
use crate::base::digest::Fingerprint;
use crate::base::json::written_as::base64url;
use crate::base::webauthn::Assertion;
use crate::node::sign_act::UnsignedAct;
use crate::stations::hold::{SentSignature, SignatureError, is_nonce};
use crate::stations::reply::{Code, Reply, error_json};

/// Answers that a word on an act does not count.
pub(super) fn unsigned(inside: &ConsoleState, why: &UnsignedAct) -> Reply {
    match why {
        UnsignedAct::Store(fault) => store_failed(inside, fault),
        UnsignedAct::BadSignature(why) => bad_signature(why),
        UnsignedAct::NotSigned => {
            let message = "the policies in force want this signed: do it on the console's page, with your passkey, or name a page to the command with `--page`. Nothing was changed.";
            error_json(Code::SignatureRequired, message, None)
        }
        UnsignedAct::NotEnrolled => {
            let message = "the policies in force want this signed, and have no passkey of yours: enrol one on the console's page. Nothing was changed.";
            error_json(Code::SignatureRequired, message, None)
        }
    }
}

pub(super) fn bad_signature(why: &SignatureError) -> Reply {
    let message = format!("the signature does not count: {why}. Nothing was changed.");
    error_json(Code::SignatureRefused, &message, None)
}

/// Returns the signature in a body of the right form, if there is one; fails where its texts are not base64url.
pub(super) fn sent_signature(asked: &ActRequest) -> Result<Option<SentSignature>, SignatureError> {
    let Some(sent) = asked.body.get("signature") else { return Ok(None) };
    match signature_of(sent) {
        Some(signature) => Ok(Some(signature)),
        None => Err(SignatureError::NoChallenge),
    }
}

fn signature_of(sent: &Value) -> Option<SentSignature> {
    let text = |name: &str| sent.get(name).and_then(Value::as_str);
    let bytes = |name: &str| text(name).and_then(base64url::decoded);
    let (authenticator_data, client_data, signature) =
        (bytes("authenticatorData")?, bytes("clientData")?, bytes("signature")?);
    let assertion = Assertion { authenticator_data, client_data, signature };
    let (nonce, credential) = (text("nonce").filter(|text| is_nonce(text))?, text("credential")?);
    let together = sent.get("together").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let together = together.iter().map(|digest| Fingerprint::of_hex(digest.as_str()?)).collect::<Option<_>>()?;
    Some(SentSignature { nonce: nonce.to_owned(), credential: credential.to_owned(), assertion, together })
}
