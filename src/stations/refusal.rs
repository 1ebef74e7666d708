//! The proof in a refusal of upstream: whether it shows that nothing was executed under its requestId.

use serde_json::Value;

use crate::base::folded::folded;
use crate::base::ids::RequestId;
use crate::base::json::{self, Limits};
use crate::catalog::{Listing, Operation};

/// The statuses whose well-formed refusals prove it although the contract does not list them.
const USUAL: [u16; 8] = [400, 401, 403, 404, 413, 415, 422, 429];
/// Parts of words of a refusal because an earlier call was executed, or is being executed, such as `AlreadyExists`.
const REPEATED: [&str; 8] = ["exists", "existed", "existing", "duplicat", "conflict", "already", "idempot", "replay"];
/// Words, and words that follow each other, of such a refusal.
const REPEATED_WORDS: [&str; 26] = [
    "been accepted",
    "been completed",
    "been created",
    "been executed",
    "been made",
    "been paid",
    "been processed",
    "been received",
    "been sent",
    "been submitted",
    "being created",
    "being executed",
    "being processed",
    "in process",
    "in progress",
    "in use",
    "pending",
    "previous",
    "previously",
    "queued",
    "repeated",
    "reused",
    "taken",
    "unique",
    "used",
    "was executed",
];
/// Codes, in words, of what is no refusal.
const DONE: [&str; 10] =
    ["accepted", "completed", "created", "executed", "ok", "paid", "processed", "succeeded", "success", "successful"];
/// A shorter requestId may be a part of any text.
const TELLING_BYTES: usize = 8;

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

/// Returns whether a well-formed refusal of a call proves that nothing was executed.
pub(super) fn is_proof(
    operation: &Operation,
    terms: ProofTerms,
    (status, body): (u16, &[u8]),
    own: Option<&RequestId>,
) -> bool {
    // Whatever it says of this attempt, an earlier one may have been executed.
    if !terms.earlier_are_proven {
        return false;
    }
    // Proxies and meshes answer 401 and 429 themselves, also after they have passed the call on.
    if matches!(status, 401 | 429) && !terms.is_direct {
        return false;
    }
    let Ok(body) = json::parse(body, Limits::UPSTREAM_TREE) else { return false };
    let is_of_a_repeat =
        || is_of_a_repeat(&body) || contradicts_itself(&body) || own.is_some_and(|own| names(&body, own));
    match operation.refusals.listing(status, code(&body)) {
        Listing::ProvesByCode => true,
        Listing::ProvesByStatus => !is_of_a_repeat(),
        Listing::DoesNotProve => false,
        Listing::Unlisted => !terms.is_strict && USUAL.contains(&status) && !is_of_a_repeat(),
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

/// Returns whether any text of a refusal says that the call was made before, or is being executed.
pub fn is_of_a_repeat(body: &Value) -> bool {
    says_somewhere(body, &|text| {
        let words = words(text);
        let has_word = |word: &&str| words.contains(&format!(" {word} "));
        REPEATED.iter().any(|part| words.contains(part)) || REPEATED_WORDS.iter().any(has_word)
    })
}

/// Returns whether the code of a refusal says that the call was accepted or executed.
fn contradicts_itself(body: &Value) -> bool {
    let is_success = |code: &Value| match code {
        Value::Number(number) => number.as_u64().is_some_and(|number| (200..300).contains(&number)),
        Value::String(text) => matches!(text.parse(), Ok(200_u16..300)) || DONE.contains(&words(text).trim()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    let error = body.get("error");
    let codes = [body.get("code"), error, error.and_then(|error| error.get("code"))];
    codes.into_iter().flatten().any(is_success)
}

/// Returns whether a refusal names the call's own requestId: it may be the record of the call. Another one of the same
/// letters between other hyphens may be the same UUID.
fn names(body: &Value, own: &RequestId) -> bool {
    let own = folded(own.as_str());
    let bare = own.replace('-', "");
    says_somewhere(body, &|text| {
        let text = folded(text);
        text == own
            || (own.len() >= TELLING_BYTES && text.contains(&own))
            || (bare.len() >= TELLING_BYTES && text.replace('-', "").contains(&bare))
    })
}

fn says_somewhere(body: &Value, says: &impl Fn(&str) -> bool) -> bool {
    match body {
        Value::String(text) => says(text),
        Value::Array(items) => items.iter().any(|item| says_somewhere(item, says)),
        Value::Object(members) => members.iter().any(|(name, value)| says(name) || says_somewhere(value, says)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the words of a text or a code in lower case, each between single spaces: `REQUEST_IN_USE` and `requestInUse` have
/// the same.
fn words(text: &str) -> String {
    let mut apart = String::with_capacity(text.len().saturating_add(8));
    let mut was_small = false;
    for character in text.chars() {
        if was_small && character.is_uppercase() {
            apart.push(' ');
        }
        was_small = character.is_lowercase();
        apart.push(character);
    }
    let folded = folded(&apart);
    let words = folded.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(" ".to_owned(), |all, word| all + word + " ")
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
            "requestId has been used by transfer 268c",
            "REQUEST_ID_IN_USE",
            "RequestIdInUse",
            "REQUEST_ID_REUSED",
            "IDEMPOTENCY_ERROR",
            "must be unique",
            "REQUEST_IN_PROGRESS",
            "the payment is being processed",
            "previously submitted",
            "requestId taken",
            "the payment was executed",
            "payment queued",
            "al\u{200b}ready there",
            "\u{ff21}LREADY",
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
        for text in [
            "the user does not exist",
            "INSUFFICIENT_BALANCE",
            "invalid amount",
            "must be at least 1",
            "the request was refused",
            "UNUSED_FIELD",
            "the payment could not be processed",
            "this currency is not accepted",
            "",
        ] {
            assert!(!is_of_a_repeat(&json!({"status": "error", "error": {"code": "X", "message": text}})), "{text}");
        }
    }

    #[test]
    fn a_refusal_whose_code_says_that_the_call_was_executed_contradicts_itself() {
        for body in [
            json!({"code": 200, "error": "X", "errorDetails": "y"}),
            json!({"code": 201, "error": "X", "errorDetails": "y"}),
            json!({"code": 400, "error": "EXECUTED", "errorDetails": "y"}),
            json!({"status": "error", "error": {"code": "ACCEPTED", "message": "x"}}),
            json!({"status": "error", "error": {"code": "200", "message": "x"}}),
            json!({"error": "OK"}),
        ] {
            assert!(contradicts_itself(&body), "{body}");
        }
        for body in [
            json!({"code": 400, "error": "X", "errorDetails": "y"}),
            json!({"code": 500, "error": "NOT_ACCEPTED", "errorDetails": "y"}),
            json!({"status": "error", "error": {"code": "NOT_EXECUTED", "message": "x"}}),
            json!({"error": "Invalid API key"}),
        ] {
            assert!(!contradicts_itself(&body), "{body}");
        }
    }

    #[test]
    fn a_refusal_that_names_the_requestid_of_the_call_may_be_its_record() {
        let says = |own: &str, text: &str| {
            names(&json!({"error": {"code": "X", "details": [{"a": text}]}}), &RequestId::parse(own).unwrap())
        };
        assert!(says("5EED0000-aaaa", "transfer 5eed0000-aaaa: no funds"));
        assert!(says("x-1", "x-1") && !says("x-1", "max-1"));
        assert!(!says("5eed0000-aaaa", "5eed0000-bbbb"));
        let own = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
        assert!(says(own, "see 9F1C0E8E2F534A5E9A526A1C0F7D4E11") && says(&own.replace('-', ""), own));
    }

    #[test]
    fn the_code_is_where_each_shape_has_it() {
        assert_eq!(code(&json!({"code": 400, "error": "BAD", "errorDetails": "x"})), Some("BAD"));
        assert_eq!(code(&json!({"status": "error", "error": {"code": "BAD", "message": "x"}})), Some("BAD"));
        assert_eq!(code(&json!({"error": "Invalid API key"})), None);
        assert_eq!(code(&json!([])), None);
    }
}
