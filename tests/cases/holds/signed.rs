//! Votes that are signed with passkeys: no session, no token and no stolen answer makes one.

use serde_json::{Value, json};
use sluice::base::digest::hex;

use super::{
    RULES, answered, approver, ask, command, gate, held, named, say, sent, shown, stand_ins, state, swap, text,
};
use crate::support::clock::wait_until;
use crate::support::false_clock::FalseClock;
use crate::support::soft_key::{SYNCED, SigningPage, SoftKey, encoded, sha256};
use crate::support::{Answer, Gate, Upstream};

const DOMAIN: &str = "example.com";
const ORIGIN: &str = "https://sluice.example.com";
const QUORUM: &str = "all = [{ of = \"ops\", n = 2 }, { of = \"finance\", n = 1 }]";

pub(super) fn page() -> SigningPage {
    SigningPage::of(DOMAIN, ORIGIN)
}

/// People and their keys.
pub(super) struct Enrolled(Vec<(&'static str, SoftKey)>);

impl Enrolled {
    pub(super) fn new() -> Enrolled {
        let keys = [SoftKey::es256(), SoftKey::eddsa(), SoftKey::es256(), SoftKey::eddsa()];
        Enrolled(["ops-1", "ops-2", "finance-1", "finance-2"].into_iter().zip(keys).collect())
    }

    pub(super) fn key(&self, who: &str) -> &SoftKey {
        &self.0.iter().find(|(person, _)| *person == who).unwrap().1
    }

    /// A person has another key from now on.
    pub(super) fn renew(&mut self, who: &str, key: SoftKey) {
        self.0.iter_mut().find(|(person, _)| *person == who).unwrap().1 = key;
    }

    /// One of ops and one of finance must sign.
    pub(super) fn rules(&self) -> String {
        assert!(RULES.contains(QUORUM));
        let quorum = "signed = true\nall = [{ of = \"ops\", n = 1 }, { of = \"finance\", n = 1 }]";
        let signing = format!("[signing]\ninstallation = \"tests\"\nrp_id = \"{DOMAIN}\"\norigins = [\"{ORIGIN}\"]\n");
        let keys = self.0.iter().map(|(who, key)| key.enrolled(&format!("people:{who}"), &page()));
        format!("{}{signing}{}", RULES.replace(QUORUM, quorum), keys.collect::<String>())
    }
}

pub(super) fn ask_to_sign(gate: &Gate, hold: &Value, who: &str) -> Answer {
    let body = named(hold, "approve");
    ask(gate, "POST", &format!("holds/{}/challenge", text(hold, "id")), &approver(who), Some(body))
}

fn challenge(gate: &Gate, hold: &Value, who: &str) -> Value {
    let answer = ask_to_sign(gate, hold, who);
    assert_eq!(answer.status, 200, "{answer}");
    crate::cases::console::policies::assert_described(&answer, "challenge");
    answer.json()
}

/// Signs what a challenge states.
pub(super) fn sign(key: &SoftKey, challenge: &Value, page: &SigningPage) -> Value {
    sign_text(key, challenge, text(challenge, "statement"), page)
}

/// Signs what all these challenges state with one signature; returns it as each vote has it.
fn sign_together(key: &SoftKey, challenges: &[Value], page: &SigningPage) -> Vec<Value> {
    let digests = challenges.iter().map(|challenge| hex(&sha256(text(challenge, "statement").as_bytes())));
    let digests = json!(digests.collect::<Vec<_>>());
    let list = json!({ "digests": digests, "statement": "sluice-votes-1" }).to_string();
    let signed = sign_text(key, &challenges[0], &list, page);
    let of = |challenge: &Value| {
        let mut signature = signed.clone();
        signature["nonce"] = challenge["nonce"].clone();
        signature["together"] = digests.clone();
        signature
    };
    challenges.iter().map(of).collect()
}

/// Signs a text, for the vote of a challenge.
fn sign_text(key: &SoftKey, challenge: &Value, text: &str, page: &SigningPage) -> Value {
    let made = key.sign(&sha256(text.as_bytes()), page);
    json!({
        "nonce": challenge["nonce"],
        "credential": key.credential,
        "authenticatorData": encoded(made.authenticator_data),
        "clientData": encoded(made.client_data),
        "signature": encoded(made.signature),
    })
}

fn vote(gate: &Gate, hold: &Value, who: &str, signature: &Value) -> Answer {
    let mut body = named(hold, "approve");
    body["signature"] = signature.clone();
    ask(gate, "POST", &format!("holds/{}/approve", text(hold, "id")), &approver(who), Some(body))
}

/// The person looks at the hold, signs and votes.
pub(super) fn agree(gate: &Gate, people: &Enrolled, hold: &Value, who: &str) -> Answer {
    let signature = sign(people.key(who), &challenge(gate, hold, who), &page());
    vote(gate, hold, who, &signature)
}

fn seen_by(gate: &Gate, hold: &Value, who: &str) -> Value {
    ask(gate, "GET", &format!("holds/{}", text(hold, "id")), &approver(who), None).json()
}

#[test]
fn it_takes_two_signatures_and_a_word_is_none() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let hold = held(&gate, "s-1");
    assert!(hold.to_string().contains("by signed votes"), "{hold}");
    let unsigned = say(&gate, "approve", &hold, "ops-1");
    assert_eq!((unsigned.status, unsigned.code().as_str()), (403, "SIGNATURE_REQUIRED"), "{unsigned}");
    let not_enrolled = say(&gate, "approve", &hold, "ops-3");
    assert_eq!((not_enrolled.status, not_enrolled.code().as_str()), (403, "SIGNATURE_REQUIRED"), "{not_enrolled}");
    assert!(not_enrolled.text().contains("no passkey of yours"), "{not_enrolled}");
    assert_eq!(ask_to_sign(&gate, &hold, "ops-3").code(), "SIGNATURE_REQUIRED");
    let (code, _, err) = command(&gate, &["approvals", "approve", text(&hold, "id"), "--yes"], "ops-1");
    assert!(code != 0 && err.contains(&format!("{ORIGIN}/#/hold/{}", text(&hold, "id"))), "{code} {err}");
    // Nobody signs for another.
    assert_eq!(stand_ins::name(&gate, "ops-1", "dora", 3600).status, 201);
    assert_eq!(stand_ins::name(&gate, "ops-1", "finance-1", 3600).status, 201);
    assert_eq!(say(&gate, "approve", &hold, "dora").code(), "FORBIDDEN");
    let view = seen_by(&gate, &hold, "ops-1");
    assert_eq!((&view["mustSign"], &view["approvals"][0]["signed"]), (&json!(true), &json!(true)), "{view}");

    let asked = challenge(&gate, &hold, "ops-1");
    let statement: Value = serde_json::from_str(text(&asked, "statement")).unwrap();
    let expected = json!({
        "statement": "sluice-vote-1", "word": "approve", "environment": "production", "installation": "tests",
        "hold": hold["id"], "approvals": ["dual"], "fingerprint": hold["fingerprint"], "person": "people:ops-1",
        "nonce": asked["nonce"], "causes": view["causes"],
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&statement[name], value, "{name}");
    }
    assert_eq!(text(&asked, "challenge"), encoded(sha256(text(&asked, "statement").as_bytes())));
    assert_eq!((&asked["rpId"], &asked["credentials"]), (&json!(DOMAIN), &json!([people.key("ops-1").credential])));
    let signature = sign(people.key("ops-1"), &asked, &page());
    let first = vote(&gate, &hold, "ops-1", &signature);
    assert_eq!((first.status, &first.json()["changed"]), (200, &json!(true)), "{first}");
    assert_eq!(first.json()["hold"]["votes"][0]["signed"], true, "{first}");
    // The answer was lost: the same signature again changes nothing, and is no second vote.
    let again = vote(&gate, &hold, "ops-1", &signature);
    assert_eq!((again.status, &again.json()["changed"]), (200, &json!(false)), "{again}");
    assert_eq!(seen_by(&gate, &hold, "ops-1")["mustSign"], false);
    assert_eq!((state(&gate, &hold).as_str(), sent(&upstream)), ("pending", 0));
    assert_eq!(agree(&gate, &people, &hold, "finance-1").status, 200);
    assert_eq!(answered(&gate, &swap("s-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);

    let setup = gate.end();
    let files = std::fs::read_dir(setup.path("sluice-audit")).unwrap().map(|entry| entry.unwrap().path());
    let chain: String = files.filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    let voted: Vec<&str> = chain.lines().filter(|line| line.contains("\"what\":\"voted\"")).collect();
    assert_eq!(voted.len(), 2, "{chain}");
    let kept = &[text(&signature, "signature"), text(&signature, "clientData"), text(&asked, "nonce")];
    assert!(kept.iter().all(|kept| voted[0].contains(kept)), "{}", voted[0]);
}

#[test]
fn every_other_signature_is_refused() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let (hold, other) = (held(&gate, "r-1"), held(&gate, "r-2"));
    let key = people.key("ops-1");
    let pages = [
        ("another origin", page().with("origin", json!("https://sluice.example.com.evil.com"))),
        ("a frame", page().with("crossOrigin", json!(true))),
        ("an enrolment", page().with("type", json!("webauthn.create"))),
        ("another domain", SigningPage { rp_id: "evil.com".to_owned(), ..page() }),
        ("no verification", SigningPage { flags: 0x01, ..page() }),
        ("a synced key", SigningPage { flags: 0x05 | SYNCED, ..page() }),
    ];
    let refused = |what: &str, answer: Answer| {
        assert_eq!((answer.status, answer.code().as_str()), (403, "SIGNATURE_REFUSED"), "{what}: {answer}");
    };
    for (what, page) in &pages {
        refused(what, vote(&gate, &hold, "ops-1", &sign(key, &challenge(&gate, &hold, "ops-1"), page)));
    }
    let asked = challenge(&gate, &hold, "ops-1");
    let good = sign(key, &asked, &page());
    refused("another person", vote(&gate, &hold, "ops-2", &good));
    refused("another hold", vote(&gate, &other, "ops-1", &good));
    refused("another person's key", vote(&gate, &hold, "ops-1", &sign(people.key("ops-2"), &asked, &page())));
    let of_stranger = SoftKey::es256();
    refused("a strange key", vote(&gate, &hold, "ops-1", &sign(&of_stranger, &asked, &page())));
    let mut under_its_name = sign(&of_stranger, &asked, &page());
    under_its_name["credential"] = json!(key.credential);
    refused("a strange key under a known name", vote(&gate, &hold, "ops-1", &under_its_name));
    let changed = |name: &str, value: Value| {
        let mut changed = good.clone();
        changed[name] = value;
        changed
    };
    refused("an invented nonce", vote(&gate, &hold, "ops-1", &changed("nonce", json!(encoded([7; 32])))));
    let later = challenge(&gate, &hold, "ops-1");
    refused("another nonce of its own", vote(&gate, &hold, "ops-1", &changed("nonce", later["nonce"].clone())));
    for (member, value) in [("nonce", "x"), ("signature", "!"), ("clientData", ""), ("credential", "a b")] {
        assert_eq!(vote(&gate, &hold, "ops-1", &changed(member, json!(value))).status, 400, "{member}");
    }
    // Other bytes or other reasons than were shown.
    for (name, code) in [("fingerprint", "OTHER_BYTES"), ("causes", "OTHER_CAUSES")] {
        let mut seen = named(&hold, "approve");
        seen[name] = json!("0".repeat(64));
        let path = format!("holds/{}/challenge", text(&hold, "id"));
        assert_eq!(ask(&gate, "POST", &path, &approver("ops-1"), Some(seen)).code(), code);
    }
    assert_eq!(seen_by(&gate, &hold, "ops-1")["votes"], json!([]));
    // What was refused used nothing up.
    assert_eq!(vote(&gate, &hold, "ops-1", &good).status, 200);
    assert_eq!(say(&gate, "withdraw", &hold, "ops-1").status, 200);
    refused("a replayed signature", vote(&gate, &hold, "ops-1", &good));
    assert_eq!((state(&gate, &hold).as_str(), sent(&upstream)), ("pending", 0));
}

#[test]
fn a_signature_that_comes_later_than_five_minutes_counts_for_nothing() {
    let (upstream, people, clock) = (Upstream::start(), Enrolled::new(), FalseClock::new());
    let variables = clock.variables().into_iter().chain([clock.pauses()]);
    let setup = variables.fold(gate(&upstream, &people.rules()), |setup, (name, value)| setup.variable(&name, &value));
    let gate = setup.start();
    let hold = held(&gate, "l-1");
    let signed = |who: &str| sign(people.key(who), &challenge(&gate, &hold, who), &page());
    let (in_time, late) = (signed("finance-1"), signed("ops-1"));
    clock.pause(240);
    let given = vote(&gate, &hold, "finance-1", &in_time);
    assert_eq!(given.status, 200, "{given}");
    clock.pause(61);
    let refused = vote(&gate, &hold, "ops-1", &late);
    assert_eq!((refused.status, refused.code().as_str()), (403, "SIGNATURE_REFUSED"), "{refused}");
    assert!(refused.text().contains("older than five minutes"), "{refused}");
    assert_eq!((state(&gate, &hold).as_str(), sent(&upstream)), ("pending", 0));
    assert_eq!(agree(&gate, &people, &hold, "ops-1").status, 200);
}

#[test]
fn a_copied_authenticator_is_noticed_by_its_counter() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let key = people.key("ops-1");
    let with = |request: &str, counter: u32| {
        let hold = held(&gate, request);
        let page = SigningPage { counter, ..page() };
        vote(&gate, &hold, "ops-1", &sign(key, &challenge(&gate, &hold, "ops-1"), &page))
    };
    assert_eq!(with("c-1", 0).status, 200);
    assert_eq!(with("c-2", 0).status, 200, "many authenticators do not count");
    assert_eq!(with("c-3", 41).status, 200);
    for (request, counter) in [("c-4", 41), ("c-5", 7), ("c-6", 0)] {
        let copied = with(request, counter);
        assert_eq!((copied.status, copied.code().as_str()), (403, "SIGNATURE_REFUSED"), "{copied}");
        assert!(copied.text().contains("copy"), "{copied}");
    }
    assert_eq!(with("c-7", 42).status, 200);
    assert_eq!(gate.metric(r#"sluice_signatures_refused_total{environment="production",reason="copied"}"#), 3);
}

#[test]
fn one_signature_is_for_each_vote_in_its_list_and_for_no_other() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let holds: Vec<Value> = ["t-1", "t-2", "t-3"].iter().map(|request| held(&gate, request)).collect();
    let key = people.key("ops-1");
    let with_counter = |counter: u32| SigningPage { counter, ..page() };
    let ask_all = |who: &str| holds.iter().map(|hold| challenge(&gate, hold, who)).collect::<Vec<_>>();
    let refused = |what: &str, answer: Answer| {
        assert_eq!((answer.status, answer.code().as_str()), (403, "SIGNATURE_REFUSED"), "{what}: {answer}");
    };
    let asked = ask_all("ops-1");
    let signatures = sign_together(key, &asked[..2], &with_counter(7));
    let mut for_the_third = signatures[0].clone();
    for_the_third["nonce"] = asked[2]["nonce"].clone();
    refused("a hold that is not in the list", vote(&gate, &holds[2], "ops-1", &for_the_third));
    for_the_third["together"][1] = json!(hex(&sha256(text(&asked[2], "statement").as_bytes())));
    refused("a list that was not signed", vote(&gate, &holds[2], "ops-1", &for_the_third));
    refused("another hold in the list", vote(&gate, &holds[1], "ops-1", &signatures[0]));
    refused("another person", vote(&gate, &holds[0], "ops-2", &signatures[0]));
    let mut alone = signatures[0].clone();
    alone.as_object_mut().unwrap().remove("together");
    refused("the signature without its list", vote(&gate, &holds[0], "ops-1", &alone));
    let mut turned = signatures[0].clone();
    turned["together"].as_array_mut().unwrap().reverse();
    refused("the list in another order", vote(&gate, &holds[0], "ops-1", &turned));
    let mut with_itself = sign(key, &asked[0], &with_counter(7));
    with_itself["together"] = signatures[0]["together"].clone();
    refused("a statement that was signed alone", vote(&gate, &holds[0], "ops-1", &with_itself));
    for odd in [json!([]), json!([signatures[0]["together"][0]]), json!(["x", "y"]), json!(vec!["0".repeat(64); 2])] {
        let mut signature = signatures[0].clone();
        signature["together"] = odd;
        assert_eq!(vote(&gate, &holds[0], "ops-1", &signature).status, 400);
    }
    let too_many: Vec<String> = (0..33).map(|nth| format!("{nth:064x}")).collect();
    let mut long = signatures[0].clone();
    long["together"] = json!(too_many);
    assert_eq!(vote(&gate, &holds[0], "ops-1", &long).status, 400);

    // The counter moves once for both votes, also where they come at the same time; a lost answer is asked for again.
    let give = |at: usize| {
        let given = vote(&gate, &holds[at], "ops-1", &signatures[at]);
        assert_eq!(given.status, 200, "{given}");
    };
    std::thread::scope(|threads| {
        for at in [0, 1] {
            threads.spawn(move || give(at));
        }
    });
    give(0);
    refused("the counter of the list", vote(&gate, &holds[2], "ops-1", &sign(key, &asked[2], &with_counter(7))));
    assert_eq!(vote(&gate, &holds[2], "ops-1", &sign(key, &asked[2], &with_counter(8))).status, 200);
    assert_eq!(say(&gate, "withdraw", &holds[0], "ops-1").status, 200);
    refused("a vote that was withdrawn", vote(&gate, &holds[0], "ops-1", &signatures[0]));
    let again = challenge(&gate, &holds[0], "ops-1");
    assert_eq!(vote(&gate, &holds[0], "ops-1", &sign(key, &again, &with_counter(9))).status, 200);

    let finance = ask_all("finance-1");
    let key = people.key("finance-1");
    let listed = sign_together(key, &finance, &with_counter(3));
    assert_eq!(vote(&gate, &holds[0], "finance-1", &listed[0]).status, 200);
    assert_eq!(vote(&gate, &holds[1], "finance-1", &sign(key, &finance[1], &with_counter(4))).status, 200);
    refused("a list from before the last signature", vote(&gate, &holds[2], "finance-1", &listed[2]));
    assert_eq!(vote(&gate, &holds[2], "finance-1", &sign(key, &finance[2], &with_counter(5))).status, 200);
    for request in ["t-1", "t-2", "t-3"] {
        assert_eq!(answered(&gate, &swap(request, "500")).status, 201);
    }
    assert_eq!(sent(&upstream), 3);
    let root = ask(&gate, "GET", "policies", &approver("ops-1"), None).json()["version"].clone();
    let setup = gate.end();
    let (code, told) = super::proved::proofs(&setup.path("sluice-audit"), &[root.as_str().unwrap()]);
    assert_eq!((code, &told["people"]["provedPayments"]), (0, &json!(3)), "{told:#}");
    let forge = |entries: &mut Vec<_>| {
        let voted = super::proved::found(entries, "voted", "t-2", 0);
        voted["signed"]["together"].as_array_mut().unwrap().reverse();
    };
    super::proved::rewrite(&setup.path("sluice-audit"), &forge);
    let (code, told) = super::proved::proofs(&setup.path("sluice-audit"), &[root.as_str().unwrap()]);
    assert_eq!((code, &told["people"]["provedPayments"]), (3, &json!(2)), "{told:#}");
}

#[test]
fn a_release_goes_by_the_keys_of_the_set_in_force() {
    let upstream = Upstream::start();
    let mut people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let hold = held(&gate, "k-1");
    assert_eq!(agree(&gate, &people, &hold, "ops-1").status, 200);
    let given = || shown(&gate, &hold)["approvals"][0]["given"].clone();
    assert_eq!(given(), 1);
    let asked = challenge(&gate, &hold, "finance-1");
    // ops-1 lost the key, and has enrolled another.
    people.renew("ops-1", SoftKey::eddsa());
    std::fs::write(gate.path("policies/everything.toml"), people.rules()).unwrap();
    wait_until("the old key to count no more", || given() == 0);
    let late = vote(&gate, &hold, "finance-1", &sign(people.key("finance-1"), &asked, &page()));
    assert_eq!(late.code(), "SIGNATURE_REFUSED", "{late}");
    assert!(late.text().contains("other policies"), "{late}");
    assert_eq!(agree(&gate, &people, &hold, "finance-1").status, 200);
    assert_eq!((given(), state(&gate, &hold), sent(&upstream)), (json!(1), "pending".to_owned(), 0));
    assert_eq!(seen_by(&gate, &hold, "ops-1")["mustSign"], true, "the vote of the old key counts no more");
    assert_eq!(agree(&gate, &people, &hold, "ops-1").status, 200);
    assert_eq!(answered(&gate, &swap("k-1", "500")).status, 201);
    assert_eq!(sent(&upstream), 1);
}

#[test]
fn an_approval_that_is_signed_from_now_on_takes_no_earlier_word() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let rules = people.rules();
    let gate = gate(&upstream, &rules.replace("signed = true\n", "")).start();
    let hold = held(&gate, "e-1");
    assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
    std::fs::write(gate.path("policies/everything.toml"), &rules).unwrap();
    wait_until("the word to count no more", || shown(&gate, &hold)["approvals"][0]["given"] == 0);
    assert_eq!(say(&gate, "approve", &hold, "finance-1").code(), "SIGNATURE_REQUIRED");
    for who in ["finance-1", "ops-1"] {
        assert_eq!((sent(&upstream), agree(&gate, &people, &hold, who).status), (0, 200));
    }
    assert_eq!(answered(&gate, &swap("e-1", "500")).status, 201);
}

#[test]
fn people_see_the_domain_and_their_own_keys() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let signing = |who: &str| {
        let answer = ask(&gate, "GET", "signing", &approver(who), None);
        crate::cases::console::policies::assert_described(&answer, "signing");
        answer.json()
    };
    let own = json!([{"credential": people.key("ops-1").credential, "name": "a key"}]);
    let shown = signing("ops-1");
    assert_eq!((&shown["person"], &shown["signing"]["passkeys"]), (&json!("people:ops-1"), &own), "{shown}");
    assert_eq!(shown["signing"]["origins"], json!([ORIGIN]));
    assert_eq!(signing("ops-3")["signing"]["passkeys"], json!([]));
}
