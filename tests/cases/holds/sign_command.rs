//! `sluice approvals sign`: a person signs what the command line computed from the bytes, whatever gate and page say.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use sluice::base::digest::hex;
use sluice::base::json::written_as::base64url;
use sluice::base::webauthn::challenge_code;

use super::signed::Enrolled;
use super::terminal::{PAGE, Signing, lying, page, restate, rules};
use super::{answered, approver, gate, held, sent, shown, swap, text};
use crate::support::gate::sluice;
use crate::support::soft_key::{SigningPage, encoded, sha256};
use crate::support::{Gate, Upstream};

/// Has a person sign votes on these holds.
fn begin(console: SocketAddr, who: &str, holds: &[&str]) -> Result<Signing, (i32, String)> {
    Signing::begin(console, &approver(who), &[&["approvals", "sign"], holds].concat())
}

fn console(gate: &Gate) -> SocketAddr {
    gate.console().unwrap()
}

#[test]
fn a_vote_that_was_signed_for_the_command_line_counts() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules(&people)).start();
    let hold = held(&gate, "w-1");
    let id = text(&hold, "id");
    let signing = begin(console(&gate), "ops-1", &[id]).unwrap();
    for told in [
        "Approve createSwap in production of tests",
        "500 usdt, on POLYGON",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "(larger)",
        "POST /v2/wallets/swaps",
        text(&hold, "fingerprint"),
        "people:ops-1",
    ] {
        assert!(signing.shown.contains(told), "{told} is missing: {}", signing.shown);
    }
    let task = signing.task();
    let salt = base64url::decoded(text(&task, "salt")).unwrap();
    let code = challenge_code(&salt, &signing.challenge().try_into().unwrap());
    assert!(salt.len() == 16 && signing.shown.contains(&format!("\nCode: {code}\n")), "{}", signing.shown);
    assert_eq!((&task["page"], &task["rpId"]), (&json!(PAGE), &json!("example.com")));
    let given = signing.answer(people.key("ops-1"), &signing.challenge(), &page());
    assert_eq!((given.status, &given.json()["done"]), (200, &json!(true)), "{given}");
    let (code, said) = signing.end();
    assert!(code == 0 && said.contains(": approved. Pending: dual: 1 of 2"), "{code} {said}");
    let votes = shown(&gate, &hold)["votes"].clone();
    assert_eq!((&votes[0]["subject"], &votes[0]["signed"]), (&json!("ops-1"), &json!(true)));

    let signing = begin(console(&gate), "finance-1", &[id]).unwrap();
    assert_eq!(signing.answer(people.key("finance-1"), &signing.challenge(), &page()).status, 200);
    assert_eq!(signing.end().0, 0);
    assert_eq!(answered(&gate, &swap("w-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);
}

#[test]
fn one_signature_for_the_command_line_is_for_several_holds() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules(&people)).start();
    let holds = ["b-1", "b-2", "b-3"].map(|request| held(&gate, request));
    let ids = holds.each_ref().map(|hold| text(hold, "id"));
    let signing = begin(console(&gate), "ops-1", &ids).unwrap();
    assert_eq!(signing.task()["statements"].as_array().unwrap().len(), 3);
    assert_eq!(signing.answer(people.key("ops-1"), &signing.challenge(), &page()).status, 200);
    let (code, said) = signing.end();
    assert!(code == 0 && said.matches(": approved. ").count() == 3, "{code} {said}");
    assert!(holds.iter().all(|hold| shown(&gate, hold)["votes"][0]["signed"] == true));
    let (code, said) = begin(console(&gate), "finance-1", &[ids[0], ids[0]]).err().unwrap();
    assert!(code == 1 && said.contains("is named twice"), "{code} {said}");
}

#[test]
fn a_gate_that_lies_is_told_by_it() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules(&people)).start();
    let (hold, other) = (held(&gate, "l-1"), held(&gate, "l-2"));
    let ids = [text(&hold, "id").to_owned(), text(&other, "id").to_owned()];
    type Alter = Box<dyn Fn(&str, &mut Value) + Send + Sync>;
    fn stated(change: impl Fn(&mut Value) + Send + Sync + Copy + 'static) -> Alter {
        Box::new(move |path, answer| {
            if path.ends_with("/challenge") {
                restate(answer, change);
            }
        })
    }
    fn of_hold(change: impl Fn(&mut Value) + Send + Sync + Copy + 'static) -> Alter {
        Box::new(move |path, answer| {
            if path.contains("/holds/") && !path.ends_with("/challenge") {
                change(answer);
            }
        })
    }
    let zeros = || json!("0".repeat(64));
    let other_id = ids[1].clone();
    let lies: Vec<(&str, Alter)> = vec![
        (
            "bytes have",
            of_hold(|hold| {
                let body = text(&hold["sent"], "body").replace("\"500\"", "\"400\"");
                hold["sent"]["body"] = json!(body);
            }),
        ),
        (
            "other bytes",
            of_hold(|hold| {
                // The fingerprint matches the false bytes.
                let body = text(&hold["sent"], "body").replace("\"500\"", "\"400\"");
                let parts = ["createSwap", "POST", "/v2/wallets/swaps", "", &body];
                let parts: Vec<u8> = parts
                    .iter()
                    .flat_map(|part| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat())
                    .collect();
                hold["fingerprint"] = json!(hex(&sha256(&parts)));
                hold["sent"]["body"] = json!(body);
            }),
        ),
        ("another hold than", of_hold(|hold| hold["id"] = json!("0".repeat(32)))),
        ("another environment", of_hold(|hold| hold["environment"] = json!("sandbox"))),
        ("another operation", of_hold(|hold| hold["operation"] = json!("createOfframp"))),
        ("other figures", of_hold(|hold| hold["figures"] = json!(text(hold, "figures").replace("larger", "smaller")))),
        ("other figures", of_hold(|hold| hold["reasons"][0]["text"] = json!("a small payment"))),
        ("other approvals", of_hold(|hold| hold["approvals"][0]["name"] = json!("small"))),
        ("other bytes", stated(move |stated| stated["fingerprint"] = zeros())),
        ("other reasons", stated(move |stated| stated["causes"] = zeros())),
        ("other figures", stated(move |stated| stated["figures"] = zeros())),
        ("other amounts", stated(|stated| stated["amounts"]["source"]["amount"] = json!("1"))),
        ("another environment", stated(|stated| stated["environment"] = json!("sandbox"))),
        ("another installation", stated(|stated| stated["installation"] = json!("elsewhere"))),
        ("another person", stated(|stated| stated["person"] = json!("people:ops-2"))),
        ("another word", stated(|stated| stated["word"] = json!("reject"))),
        ("another kind", stated(|stated| stated["statement"] = json!("sluice-act-1"))),
        ("another nonce", stated(|stated| stated["nonce"] = json!("A".repeat(43)))),
        ("other approvals", stated(|stated| stated["approvals"] = json!(["dual", "one"]))),
        ("another form", stated(|stated| stated["more"] = json!(1))),
        (
            "another hold",
            Box::new(move |path, answer| {
                if path.ends_with("/challenge") {
                    restate(answer, |stated| stated["hold"] = json!(other_id));
                }
            }),
        ),
        (
            "another challenge",
            Box::new(|path, answer| {
                if path.ends_with("/challenge") {
                    answer["challenge"] = json!(encoded([7; 32]));
                }
            }),
        ),
        (
            "another domain",
            Box::new(|path, answer| {
                if path.ends_with("/challenge") {
                    answer["rpId"] = json!("example.org");
                }
            }),
        ),
        (
            "would not count",
            Box::new(|path, answer| {
                if path.ends_with("/signing") {
                    answer["signing"]["origins"] = json!(["https://sluice.example.com"]);
                }
            }),
        ),
    ];
    for (told, alter) in lies {
        let lied = begin(lying(console(&gate), alter), "ops-1", &[&ids[0]]).err();
        let (code, said) = lied.unwrap_or_else(|| panic!("{told}: the lie was believed"));
        assert!(code == 1 && said.contains(told), "{told}: {code} {said}");
    }
    // A nonce that another vote has, too.
    let first = Arc::new(std::sync::Mutex::new(None::<String>));
    let repeated = lying(console(&gate), move |path, answer| {
        if path.ends_with("/challenge") {
            let nonce = first.lock().unwrap().get_or_insert(text(answer, "nonce").to_owned()).clone();
            answer["nonce"] = json!(nonce);
            restate(answer, |stated| stated["nonce"] = json!(nonce));
        }
    });
    let (code, said) = begin(repeated, "ops-1", &[&ids[0], &ids[1]]).err().unwrap();
    assert!(code == 1 && said.contains("the same nonce"), "{code} {said}");
    // Nobody was asked to sign.
    assert_eq!(shown(&gate, &hold)["votes"], json!([]));
}

#[test]
fn the_page_is_believed_only_for_what_was_computed_here() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules(&people)).start();
    let hold = held(&gate, "p-1");
    let id = text(&hold, "id");
    let key = people.key("ops-1");
    let waiting = || begin(console(&gate), "ops-1", &[id]).unwrap();
    let pages = [
        ("another challenge", page(), sha256(b"a payment to the thief")),
        ("another origin", page().with("origin", json!("https://sluice.example.com")), Vec::new()),
        ("another origin", page().with("crossOrigin", json!(true)), Vec::new()),
        ("another domain", SigningPage { rp_id: "sign.example.com".to_owned(), ..page() }, Vec::new()),
        ("did not verify the person", SigningPage { flags: 0x01, ..page() }, Vec::new()),
    ];
    for (told, page, challenge) in pages {
        let signing = waiting();
        let challenge = if challenge.is_empty() { signing.challenge() } else { challenge };
        let given = signing.answer(key, &challenge, &page);
        assert_eq!((given.status, &given.json()["done"]), (200, &json!(false)), "{given}");
        let (code, said) = signing.end();
        assert!(
            code == 1 && said.contains(told) && said.contains("it was not sent to the gate"),
            "{told}: {code} {said}"
        );
    }
    assert_eq!(shown(&gate, &hold)["votes"], json!([]));

    // Other pages of the browser reach nothing.
    let signing = waiting();
    let (secret, own) = (signing.bearer(), signing.origin());
    type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let refused: [Asked<'_>; 7] = [
        ("GET", "/task", &[]),
        ("GET", "/task", &[("Authorization", "Bearer 0")]),
        ("GET", "/task", &[("Authorization", &secret), ("Host", "sluice.example.com")]),
        ("GET", "/", &[("Host", "127.0.0.1")]),
        ("POST", "/answer", &[("Origin", &own)]),
        ("POST", "/answer", &[("Authorization", &secret)]),
        ("POST", "/answer", &[("Authorization", &secret), ("Origin", PAGE)]),
    ];
    for (method, path, headers) in refused {
        assert_eq!(signing.ask(method, path, headers, "{}").status, 403, "{method} {path} {headers:?}");
    }
    let odd = signing.ask("POST", "/answer", &[("Authorization", &secret), ("Origin", &own)], "{}");
    assert_eq!(odd.status, 400);
    let start = signing.ask("GET", "/", &[], "");
    let policy = start.header("content-security-policy").unwrap();
    assert!(start.status == 200 && policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    // It still waits, and the right answer counts.
    assert_eq!(signing.answer(key, &signing.challenge(), &page()).json()["done"], true);
    assert_eq!(signing.end().0, 0);
    // A key that is none of the person's: the gate refuses, and the page hears of it.
    let signing = begin(console(&gate), "finance-1", &[id]).unwrap();
    let given = signing.answer(key, &signing.challenge(), &page());
    assert_eq!(given.json()["done"], false, "{given}");
    let (code, said) = signing.end();
    assert!(code == 4 && said.contains("SIGNATURE_REFUSED"), "{code} {said}");
}

#[test]
fn the_page_is_named_by_its_person_and_its_files_can_be_served_elsewhere() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules(&people)).start();
    let id = text(&held(&gate, "n-1"), "id").to_owned();
    let (code, _, err) = super::command(&gate, &["approvals", "sign", &id], "ops-1");
    assert!(code == 1 && err.contains("--page ORIGIN"), "{code} {err}");
    let gates_own = ["approvals", "sign", &id, "--page", "https://sluice.example.com"];
    let (code, _, err) = super::command(&gate, &gates_own, "ops-1");
    assert!(code == 1 && err.contains("would not count") && err.contains(PAGE), "{code} {err}");
    let many: Vec<String> = (0..33).map(|nth| format!("{nth:032x}")).collect();
    let words: Vec<&str> =
        ["approvals", "sign", "--page", PAGE].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert!(super::command(&gate, &words, "ops-1").2.contains("32 holds at most"));
    let unknown = ["approvals", "sign", &"0".repeat(32), "--page", PAGE];
    let (code, _, err) = super::command(&gate, &unknown, "ops-1");
    assert!(code == 4 && err.contains("HOLD_NOT_FOUND"), "{code} {err}");

    let folder = gate.path("page");
    let output = sluice(&["approvals", "signing-page", "--folder", folder.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success());
    let mut files: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["assertion.js", "fingerprint.js", "index.html", "sign.css", "sign.js"]);
}
