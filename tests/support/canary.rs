//! What a gate must never tell, and the search for it in all that it says.
//!
//! Every gate of these tests is searched at its end: its log, its metrics, its standard error. Every answer of its own
//! is searched as it comes. What is searched for is planted without a test's asking: the secrets of the configuration,
//! the tokens that callers show, what the examples say of people and their accounts; and what a test plants besides.

use std::collections::{BTreeSet, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::shape::{examples, operations};

/// As long a piece of a secret as says something of it.
const PIECE: usize = 16;
/// Shorter secrets may stand anywhere by chance.
const SHORTEST: usize = 6;
/// A piece with fewer different bytes is a run of padding.
const DIFFERENT: usize = 5;

/// Fields of the contract that tell of people and their accounts.
const PRIVATE: [&str; 10] = [
    "accountNumber",
    "iban",
    "email",
    "firstName",
    "lastName",
    "dateOfBirth",
    "addressLine1",
    "bankName",
    "imad",
    "omad",
];

#[derive(Default)]
struct Planted {
    known: HashSet<String>,
    pieces: HashSet<[u8; PIECE]>,
    /// Those that are no longer than a piece.
    short: BTreeSet<String>,
}

static PLANTED: LazyLock<Mutex<Planted>> = LazyLock::new(|| Mutex::new(of_the_examples()));

/// Something that no gate shall tell from now on.
pub fn plant(secret: &str) {
    planted().plant(secret);
}

/// A private key in PEM, line by line.
pub fn plant_pem(pem: &str) {
    pem.lines().filter(|line| !line.starts_with("-----")).for_each(plant);
}

/// The bearer tokens in the head of a request.
pub fn plant_tokens(request: &[u8]) {
    let head = String::from_utf8_lossy(&request[..request.len().min(64 * 1024)]);
    for line in head.lines().take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("authorization") {
            value.split_ascii_whitespace().filter(|word| word.len() >= PIECE).for_each(plant);
        }
    }
}

/// Something planted that stands in the text, with what is around it.
pub fn search(text: &str) -> Option<String> {
    let planted = planted();
    let found = text
        .as_bytes()
        .windows(PIECE)
        .position(|piece| <[u8; PIECE]>::try_from(piece).is_ok_and(|piece| planted.pieces.contains(&piece)));
    let found = found.or_else(|| planted.short.iter().find_map(|short| text.find(short)));
    found.map(|at| {
        String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(80)..text.len().min(at + 120)]).into_owned()
    })
}

/// Fails if something planted is told here.
pub fn assert_silent(what: &str, text: &str) {
    if let Some(found) = search(text) {
        panic!("{what}: nobody shall hear this: …{found}…");
    }
}

/// A piece of this secret that stands in the text.
pub fn leaked<'s>(text: &str, secret: &'s str) -> Option<&'s str> {
    pieces(secret).filter_map(|piece| std::str::from_utf8(piece).ok()).find(|piece| text.contains(piece))
}

fn planted() -> MutexGuard<'static, Planted> {
    PLANTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A token's header is no secret: every token has it.
fn pieces(secret: &str) -> impl Iterator<Item = &[u8]> {
    let body = secret.split_once('.').map_or(secret, |(_, body)| body);
    body.as_bytes().windows(PIECE.min(body.len().max(1)))
}

impl Planted {
    fn plant(&mut self, secret: &str) {
        if secret.len() < SHORTEST || !self.known.insert(secret.to_owned()) {
            return;
        }
        let long = pieces(secret).filter_map(|piece| <[u8; PIECE]>::try_from(piece).ok());
        let before = self.pieces.len();
        self.pieces.extend(long.filter(|piece| BTreeSet::from(*piece).len() >= DIFFERENT));
        if self.pieces.len() == before && secret.len() < PIECE && !secret.contains('.') {
            self.short.insert(secret.to_owned());
        }
    }

    fn plant_private(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if PRIVATE.contains(&name.as_str()) => self.plant_whole(text),
                        other => self.plant_private(other),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.plant_private(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Of these a part says nothing: `example.com` ends many addresses.
    fn plant_whole(&mut self, text: &str) {
        if text.len() >= SHORTEST {
            self.short.insert(text.to_owned());
        }
    }
}

fn of_the_examples() -> Planted {
    let mut planted = Planted::default();
    for operation in operations() {
        for (_, text) in examples(operation, "good-").into_iter().chain(examples(operation, "answer-good-")) {
            planted.plant_private(&serde_json::from_slice(&text).unwrap());
        }
    }
    planted
}
