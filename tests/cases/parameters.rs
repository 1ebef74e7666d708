//! Each documented bound of a parameter, at its edge and just past it.

use crate::support::shape::{ID, operations, path};
use crate::support::{Setup, Upstream, get, post};

/// Parameter, good values, bad values.
const BOUNDS: [(&str, &[&str], &[&str]); 5] = [
    ("limit", &["1", "10", "100"], &["101", "-1", "1.0", "1e1", "01", "", "ten", "%31%30%31", "+1", "1000"]),
    ("createdBefore", DATES, NO_DATES),
    ("createdAfter", DATES, NO_DATES),
    ("type", &["individual", "business"], &["Individual", "other", "", "individual,business"]),
    ("email", &["a%40b.example", ""], &["%ff", "%", "%0a"]),
];
const DATES: &[&str] =
    &["2024-02-29", "2024-07-01T10:30:00.000Z", "2024-07-01T10:30:00Z", "2024-07-01T10:30:00%2B02:00"];
const NO_DATES: &[&str] =
    &["2023-02-29", "2024-13-01", "2024-7-1", "01/07/2024", "2024-07-01T25:00:00Z", "yesterday", "", "2024"];

#[test]
fn documented_parameters_are_held_to_their_bounds() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let (mut tried, mut passed) = (0, 0);
    for operation in operations() {
        for parameter in &operation.query_parameters {
            let Some((name, good, bad)) = BOUNDS.iter().find(|(name, ..)| *name == parameter.name) else { continue };
            let zero_is_good = operation.id.as_str() != "listOfframps";
            let zero: &[&str] = if *name == "limit" { &["0"] } else { &[] };
            let (good_zero, bad_zero) = if zero_is_good { (zero, &[][..]) } else { (&[][..], zero) };
            for value in good.iter().chain(good_zero) {
                let answer = get(format!("{}?{name}={value}", path(operation))).send(gate.production());
                assert_eq!(answer.status, 200, "{} {name}={value}: {answer}", operation.id);
                passed += 1;
            }
            for value in bad.iter().chain(bad_zero) {
                let answer = get(format!("{}?{name}={value}", path(operation))).send(gate.production());
                let told = (answer.status, answer.code(), answer.outcome());
                let refused = (400, "INVALID_REQUEST".to_owned(), "-".to_owned());
                assert_eq!(told, refused, "{} {name}={value}: {answer}", operation.id);
                let violations = answer.json()["error"]["details"]["violations"].clone();
                assert_eq!(violations[0]["in"], "query", "{answer}");
            }
            tried += 1;
        }
    }
    assert!(tried >= 4 + 4 + 4 + 2, "{tried}");
    assert_eq!(upstream.seen().len(), passed);
}

#[test]
fn a_parameter_stands_once_and_writes_have_none() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for target in ["/v2/users?limit=1&limit=1", "/v2/users?limit=1&%6cimit=2", "/v2/users?x=1&x=1"] {
        assert_eq!(get(target).send(gate.production()).violations()[0].split(' ').nth(1), Some("uniqueItems"));
    }
    let cancel = format!("/v2/wallets/swaps/{ID}/cancel?force=true");
    assert_eq!(post(cancel).send(gate.production()).violations(), ["force additionalProperties"]);
    assert!(upstream.seen().is_empty());
}

#[test]
fn ids_in_paths_are_held_to_their_form() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let longest = "a".repeat(128);
    for id in ["a", "A.b_c-9", "...", longest.as_str()] {
        assert_eq!(get(format!("/v2/users/{id}/kyc/status")).send(gate.production()).status, 200, "{id}");
    }
    let too_long = "a".repeat(129);
    for id in [".", "..", "a~b", "a%20b", "a%2fb", "a;b", too_long.as_str()] {
        assert_eq!(get(format!("/v2/users/{id}/kyc/status")).send(gate.production()).status, 400, "{id}");
    }
    let accept =
        |wallet: &str, offer: &str| post(format!("/v2/wallets/{wallet}/offers/{offer}/accept")).send(gate.production());
    assert_eq!(accept(ID, &ID.to_uppercase()).status, 200);
    // Of an offer that nobody has accepted: else it is a repeat of that.
    let other = ID.replace(|digit: char| digit.is_ascii_digit(), "7");
    for (wallet, offer) in [("w-1", ID), (ID, "o-1"), (&ID.replace('-', ""), other.as_str())] {
        assert_eq!(accept(wallet, offer).code(), "INVALID_REQUEST", "{wallet} {offer}");
    }
    assert_eq!(upstream.seen().len(), 5);
}
