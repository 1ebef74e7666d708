//! The proof in a refusal of upstream: whether it shows that nothing was executed under its requestId.

use serde_json::Value;

use crate::base::json::{self, Limits};
use crate::catalog::{Listing, Operation};

/// The statuses whose well-formed refusals prove it although the contract does not list them.
const USUAL: [u16; 8] = [400, 401, 403, 404, 413, 415, 422, 429];
/// Words of a refusal because an earlier call was executed, such as `AlreadyExists` or `duplicated`.
const REPEATED: [&str; 6] = ["exists", "existed", "existing", "duplicat", "conflict", "already"];

/// The longest code that is a plain word.
const MAX_CODE_BYTES: usize = 48;
/// A code with more digits may be a number of somebody or something.
const MAX_DIGITS: usize = 4;

/// The terms on which a refusal proves that nothing was executed.
#[derive(Clone, Copy, Debug)]
pub struct ProofTerms {
    /// The gate's own credential was sent, so upstream's 401 concerns the gate and not the caller.
    pub injected: bool,
    /// Nothing stands between the gate and upstream that could answer in its place.
    pub is_direct: bool,
    /// A refusal that the contract does not list proves nothing.
    pub is_strict: bool,
    /// Upstream itself proved for every earlier attempt of the claim that it was not executed. Otherwise nothing does.
    pub earlier_are_proven: bool,
}

/// Returns whether a well-formed refusal proves that nothing was executed.
pub(super) fn is_proof(operation: &Operation, terms: ProofTerms, status: u16, body: &[u8]) -> bool {
    // Whatever it says of this attempt, an earlier one may have been executed.
    if !terms.earlier_are_proven {
        return false;
    }
    // Proxies and meshes answer 401 and 429 themselves, also after they have passed the call on.
    if matches!(status, 401 | 429) && !terms.is_direct {
        return false;
    }
    let Ok(body) = json::parse(body, Limits::UPSTREAM_TREE) else { return false };
    match operation.refusals.listing(status, code(&body)) {
        Listing::ProvesByCode => true,
        Listing::ProvesByStatus => !is_of_a_repeat(&body),
        Listing::DoesNotProve => false,
        Listing::Unlisted => !terms.is_strict && USUAL.contains(&status) && !is_of_a_repeat(&body),
    }
}

/// Returns the code of an error in one of the API's shapes: `error.code`, or `error` beside `errorDetails`. An error of
/// shape D has a message and no code.
pub fn code(body: &Value) -> Option<&str> {
    match body.get("error")? {
        Value::String(kind) if body.get("errorDetails").is_some() => Some(kind),
        Value::Object(error) => error.get("code")?.as_str(),
        _ => None,
    }
}

/// Returns whether any text of a refusal says that the call was made before.
pub fn is_of_a_repeat(body: &Value) -> bool {
    let says = |text: &str| {
        let text = text.to_lowercase();
        REPEATED.iter().any(|word| text.contains(word))
    };
    match body {
        Value::String(text) => says(text),
        Value::Array(items) => items.iter().any(is_of_a_repeat),
        Value::Object(members) => members.iter().any(|(name, value)| says(name) || is_of_a_repeat(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a code is a word such as `INVALID_REQUEST`, and not a text, a number or an identifier.
pub fn is_plain_code(code: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let digits = code.bytes().filter(u8::is_ascii_digit).count();
    code.len() <= MAX_CODE_BYTES
        && digits <= MAX_DIGITS
        && code.bytes().all(is_word)
        && code.starts_with(|first: char| first.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_a_repeat_are_found_in_every_text() {
        for text in [
            "this transaction request already exists",
            "AlreadyExists",
            "REQUEST_ALREADY_PROCESSED",
            "duplicated",
            "DuplicateRequest",
            "possible duplication",
            "conflicting call",
            "There is an existing swap",
        ] {
            for body in [
                json!({"error": text}),
                json!({"code": 400, "error": text, "errorDetails": "x"}),
                json!({"code": 400, "error": "x", "errorDetails": text}),
                json!({"status": "error", "error": {"code": text, "message": "x"}}),
                json!({"status": "error", "error": {"code": "x", "message": text}}),
                json!({"status": "error", "error": {"code": "x", "message": "x", "details": {"why": [{"a": text}]}}}),
                json!({"status": "error", "error": {"code": "x", "message": "x", "details": {text: true}}}),
            ] {
                assert!(is_of_a_repeat(&body), "{body}");
            }
        }
        for text in ["the user does not exist", "INSUFFICIENT_BALANCE", "invalid amount", "must be at least 1", ""] {
            assert!(!is_of_a_repeat(&json!({"status": "error", "error": {"code": "X", "message": text}})), "{text}");
        }
    }

    #[test]
    fn the_code_is_where_each_shape_has_it() {
        assert_eq!(code(&json!({"code": 400, "error": "BAD", "errorDetails": "x"})), Some("BAD"));
        assert_eq!(code(&json!({"status": "error", "error": {"code": "BAD", "message": "x"}})), Some("BAD"));
        assert_eq!(code(&json!({"error": "Invalid API key"})), None);
        assert_eq!(code(&json!([])), None);
    }
}
