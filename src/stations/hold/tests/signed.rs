//! Whose signature counts, for what, and where.

use serde_json::json;

use super::*;
use crate::base::webauthn::tests::soft_key::{SigningPage, SoftAssertion, SoftKey, sha256};
use crate::base::webauthn::{Assertion, AssertionError};

const DOMAIN: &str = "example.com";
const ORIGIN: &str = "https://example.com";

fn page() -> SigningPage {
    SigningPage::of(DOMAIN, ORIGIN)
}

/// The rules with `dual` signed, and the people who have these keys.
fn signed_rules(keys: &[(&str, &SoftKey)]) -> String {
    let of_all = "all = [{ of = \"ops\", n = 1 }, { of = \"finance\", n = 1 }]";
    assert!(RULES.contains(of_all));
    let rules = RULES.replace(of_all, &format!("signed = true\n{of_all}"));
    let signing = format!("[signing]\ninstallation = \"unit\"\nrp_id = \"{DOMAIN}\"\norigins = [\"{ORIGIN}\"]\n");
    let finance = rules.replace("\"people:finance-1\"", "\"people:finance-1\", \"people:finance-2\"");
    let passkeys = keys.iter().map(|(person, key)| key.enrolled(&format!("people:{person}"), &page()));
    format!("{finance}{signing}{}", passkeys.collect::<String>())
}

const PEOPLE: [&str; 4] = ["ops-1", "ops-2", "finance-1", "finance-2"];

fn amounts(hold: &Hold) -> SignedAmounts {
    hold.stated_amounts(catalog(), Environment::Production)
}

fn challenge() -> VoteChallenge {
    let approvals = BTreeSet::from([Arc::from("dual")]);
    let (amounts, policy) = (amounts(&waits("500")), "1".repeat(64));
    VoteChallenge { nonce: "n".repeat(43), version: Number::new(7), approvals, amounts, policy }
}

fn signed(
    hold: &Hold,
    (who, key): (&str, &SoftKey),
    (policies, challenge): (&Policies, VoteChallenge),
    environment: Environment,
) -> Vote {
    let signing = policies.rules.signing.as_ref().unwrap();
    let call = hold.voted_call(&challenge.amounts);
    let statement = challenge.statement(call, &person("people", who), (environment, signing));
    let SoftAssertion { authenticator_data, client_data, signature } = key.sign(&sha256(statement.as_bytes()), &page());
    let assertion = Assertion { authenticator_data, client_data, signature };
    let signed = SignedVote { challenge, credential: key.credential.clone(), assertion, together: Vec::new() };
    Vote { signed: Some(signed), ..vote_of("people", who) }
}

#[test]
fn a_signature_counts_for_its_person_and_hold_and_nothing_else() {
    let keys: Vec<SoftKey> = PEOPLE.iter().map(|_| SoftKey::eddsa()).collect();
    let pairs: Vec<(&str, &SoftKey)> = PEOPLE.into_iter().zip(&keys).collect();
    let (text, owners) = (signed_rules(&pairs), Owners::default());
    let policies = policies(&text);
    let hold = waits("500");
    let counted = |votes: &[Vote], changed: &dyn Fn(&mut Hold)| {
        let mut hold = Hold { votes: votes.to_vec(), ..hold.clone() };
        changed(&mut hold);
        let digest = hold.causes.digest();
        hold.votes.iter_mut().for_each(|vote| vote.causes = digest);
        let consent = hold.consent(&hearing(&policies.rules, &owners));
        let given = policies.rules.progress("dual", consent.signed.get("dual").unwrap_or(&Default::default()));
        given.unwrap().given
    };
    let production = Environment::Production;
    let good = |who: usize| signed(&hold, pairs[who], (&policies, challenge()), production);
    let same = |_: &mut Hold| {};
    assert_eq!(counted(&[good(0)], &same), 1);
    assert_eq!(counted(&[good(0), good(2)], &same), 2);
    assert_eq!(counted(&[good(0), good(0), good(1)], &same), 2, "ops-2 sits for finance");
    // A vote is nobody's word: the record alone says that ops-1 agreed.
    assert_eq!(counted(&[vote_of("people", "ops-1"), vote_of("people", "finance-1")], &same), 0);
    let of_another = Vote { person: person("people", "ops-2"), ..good(0) };
    assert_eq!(counted(&[of_another], &same), 0);
    let by_another_issuer = Vote { person: person("other", "ops-1"), ..good(0) };
    assert_eq!(counted(&[by_another_issuer], &same), 0);
    let with_the_key_of = signed(&hold, (pairs[0].0, pairs[2].1), (&policies, challenge()), production);
    assert_eq!(counted(&[with_the_key_of], &same), 0);
    let elsewhere = signed(&hold, pairs[0], (&policies, challenge()), Environment::Sandbox);
    assert_eq!(counted(&[elsewhere], &same), 0);
    let other_approvals = VoteChallenge { approvals: BTreeSet::from([Arc::from("other")]), ..challenge() };
    assert_eq!(counted(&[signed(&hold, pairs[0], (&policies, other_approvals), production)], &same), 0);
    let facts = Facts::default();
    let released = |votes: Vec<Vote>| {
        let hold = Hold { votes, ..hold.clone() };
        super::release::again(&hold, &text, &facts, &hold.consent(&hearing(&policies.rules, &owners)))
    };
    assert_eq!(released(vec![good(0), good(2)]), "released");
    for amounts in [amounts(&waits("5")), SignedAmounts::default()] {
        let over_others = |who: usize| {
            let challenge = VoteChallenge { amounts: amounts.clone(), ..challenge() };
            signed(&hold, pairs[who], (&policies, challenge), production)
        };
        assert_eq!(counted(&[over_others(0)], &same), 0);
        assert_eq!(released(vec![good(0), over_others(2)]), "waits");
    }
    // Whatever the record says now, the signature is for what was shown.
    let of_votes = |hold: &mut Hold, change: &dyn Fn(&mut VoteChallenge)| {
        hold.votes.iter_mut().for_each(|vote| change(&mut vote.signed.as_mut().unwrap().challenge));
    };
    let changes: [&dyn Fn(&mut Hold); 5] = [
        &|hold| hold.id = HoldId::parse(&"b2".repeat(16)).unwrap(),
        &|hold| hold.fingerprint = waits("501").fingerprint,
        &|hold| hold.causes = causes("500", &full(3)),
        &|hold| of_votes(hold, &|challenge| challenge.version = Number::new(8)),
        &|hold| of_votes(hold, &|challenge| challenge.amounts = SignedAmounts::default()),
    ];
    for (at, change) in changes.iter().enumerate() {
        assert_eq!(counted(&[good(0), good(2)], change), 0, "{at}");
    }
    // Whoever asked for it signs for nothing.
    let asked_by_ops_1 = |hold: &mut Hold| hold.by = by("ops-1");
    assert_eq!(counted(&[good(0)], &asked_by_ops_1), 0);
}

#[test]
fn a_set_in_force_decides_whose_keys_count() {
    let keys: Vec<SoftKey> = PEOPLE.iter().map(|_| SoftKey::es256()).collect();
    let pairs: Vec<(&str, &SoftKey)> = PEOPLE.into_iter().zip(&keys).collect();
    let before = policies(&signed_rules(&pairs));
    let hold = waits("500");
    let good = |who: usize| signed(&hold, pairs[who], (&before, challenge()), Environment::Production);
    let voted = Hold { votes: vec![good(0), good(2)], ..hold.clone() };
    let counted = |rules: &str, voted: &Hold| {
        let consent = voted.consent(&hearing(&policies(rules).rules, &Owners::default()));
        consent.signed.get("dual").map_or(0, |people| people.len())
    };
    assert_eq!(counted(&signed_rules(&pairs), &voted), 2);
    // ops-1 has another key by now.
    let another = SoftKey::eddsa();
    let mut later = pairs.clone();
    later[0].1 = &another;
    assert_eq!(counted(&signed_rules(&later), &voted), 1);
    let elsewhere = signed_rules(&pairs).replace("installation = \"unit\"", "installation = \"other\"");
    assert_eq!(counted(&elsewhere, &voted), 0);
    // Where the approval is not signed, votes count as always.
    let unsigned = signed_rules(&pairs).replace("signed = true\n", "");
    let (unsigned, owners) = (policies(&unsigned), Owners::default());
    assert_eq!(voted.consent(&hearing(&unsigned.rules, &owners)).people.len(), 2);
}

#[test]
fn a_challenge_is_used_once_by_its_person_and_a_counter_only_goes_up() {
    let keys: Vec<SoftKey> = PEOPLE.iter().map(|_| SoftKey::es256()).collect();
    let pairs: Vec<(&str, &SoftKey)> = PEOPLE.into_iter().zip(&keys).collect();
    let policies = policies(&signed_rules(&pairs));
    let (signing, hold, node) =
        (policies.rules.signing.as_ref().unwrap(), waits("500"), NodeId::parse("gate").unwrap());
    let key = RecordKey { environment: Environment::Production, kind: Kind::Hold, name: hold.id.to_string() };
    let here = Versioned { key: &key, version: Number::new(7), at: StoreTime::of_micros(0), value: &hold };
    let version = policies.version().to_owned();
    let asked = VoteChallenge { policy: version.clone(), ..challenge() };
    let who = person("people", "ops-1");
    let stored = |value: &Bytes, version| Record {
        version: Number::new(version),
        at: StoreTime::of_micros(1),
        content: Content::Whole(value.clone()),
    };
    let commit = asked.record(here, &who, &node);
    let record = stored(commit.steps[0].value().unwrap(), 9);
    let sent = |counter: u32| {
        let statement = asked.statement(hold.voted_call(&asked.amounts), &who, (Environment::Production, signing));
        let page = SigningPage { counter, ..page() };
        let SoftAssertion { authenticator_data, client_data, signature } =
            pairs[0].1.sign(&sha256(statement.as_bytes()), &page);
        let assertion = Assertion { authenticator_data, client_data, signature };
        SentSignature {
            nonce: asked.nonce.clone(),
            credential: pairs[0].1.credential.clone(),
            assertion,
            together: Vec::new(),
        }
    };
    let stated = amounts(&hold);
    let call = (Environment::Production, hold.voted_call(&stated));
    let verify = |who: &Owner, policy: &str, challenge, counter: Option<&Record>| {
        sent(5).verify(call, who, (signing, policy), (challenge, counter))
    };
    let (_, steps) = verify(&who, &version, Some(&record), None).unwrap();
    assert!(matches!(&steps[0], Step::Delete { version, .. } if version.as_u64() == 9), "{steps:?}");
    assert_eq!(verify(&who, &version, None, None), Err(SignatureError::NoChallenge));
    let spent = Record { content: Content::Spent, ..record.clone() };
    assert_eq!(verify(&who, &version, Some(&spent), None), Err(SignatureError::NoChallenge));
    assert_eq!(verify(&person("people", "ops-2"), &version, Some(&record), None), Err(SignatureError::NoChallenge));
    assert_eq!(verify(&who, "another", Some(&record), None), Err(SignatureError::OtherPolicies));
    let Step::Create { value: noted, .. } = &steps[1] else { panic!("{steps:?}") };
    let noted = stored(noted, 10);
    let next = |counter| sent(counter).verify(call, &who, (signing, &version), (Some(&record), Some(&noted)));
    assert!(next(6).is_ok());
    for copied in [0, 4, 5] {
        assert_eq!(next(copied).map(|_| ()), Err(SignatureError::Copied), "{copied}");
    }
    // The bytes of the call say another amount than the one that was signed.
    let others = amounts(&waits("5"));
    let call = (Environment::Production, hold.voted_call(&others));
    let refused = sent(6).verify(call, &who, (signing, &version), (Some(&record), Some(&noted))).map(|_| ());
    assert_eq!(refused, Err(SignatureError::Refused(AssertionError::OtherChallenge)));
    // The entry and the record name the nonce, and what a vote keeps is read again.
    let entry: serde_json::Value = serde_json::from_slice(&commit.entry).unwrap();
    assert_eq!((&entry["what"], &entry["nonce"]), (&json!("challenged"), &json!(asked.nonce)));
    let vote = signed(&hold, pairs[0], (&policies, asked.clone()), Environment::Production);
    let voted = Hold { votes: vec![vote], ..hold.clone() };
    assert_eq!(decode_hold(&encode_hold(&voted)), Ok(voted));
}
