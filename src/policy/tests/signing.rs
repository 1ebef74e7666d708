//! `[signing]` and `[[passkey]]`: what a set takes, and which changes of it are looser.

use super::*;
use crate::base::webauthn::tests::soft_key::{SYNCED, SigningPage, SoftKey};

pub(super) const SIGNING: &str =
    "[signing]\ninstallation = \"unit\"\nrp_id = \"example.com\"\norigins = [\"https://example.com\"]\n";
const APPROVAL: &str = "[group.ops]\nmembers = [\"console:a\", \"console:b\", \"console:c\"]\n\
     [approval.two]\nof = \"ops\"\nn = 2\nexpires = \"8h\"\nsigned = true\n\
     [[rule]]\nid = \"r\"\neffect = \"hold\"\napproval = \"two\"\nwhen = { op = \"@money\" }\n";

pub(super) fn page() -> SigningPage {
    SigningPage::of("example.com", "https://example.com")
}

pub(super) fn passkeys() -> Vec<SoftKey> {
    vec![SoftKey::es256(), SoftKey::eddsa(), SoftKey::es256()]
}

/// The set in which these people have these keys.
pub(super) fn set(signing: &str, passkeys: &[(&str, &SoftKey)]) -> String {
    let passkeys = passkeys.iter().map(|(who, key)| key.enrolled(&format!("console:{who}"), &page()));
    format!("{signing}{APPROVAL}{}", passkeys.collect::<String>())
}

pub(super) fn of_three(keys: &[SoftKey]) -> Vec<(&'static str, &SoftKey)> {
    ["a", "b", "c"].into_iter().zip(keys).collect()
}

pub(super) fn compared(old: &str, new: &str) -> Difference {
    let known = KnownNames { catalog: catalog(), issuers: &["main", "console"], can_share: true };
    difference(&read_with(&[old], true).unwrap(), &read_with(&[new], true).unwrap(), &known)
}

#[test]
fn a_set_loads_where_one_key_more_is_enrolled_than_must_sign() {
    let keys = passkeys();
    let three = of_three(&keys);
    let policies = read_with(&[&set(SIGNING, &three)], true).unwrap();
    assert!(policies.rules.is_signed("two") && policies.rules.is_enrolled("console:a"));
    for few in [&three[..2], &three[..1], &[]] {
        let wrong = wrong(&[&set(SIGNING, few)], true);
        assert!(wrong.contains("could not be completed without any one of the people who have a passkey"), "{wrong}");
    }
    // A second key of one person is no second person.
    let second = SoftKey::es256();
    let wrong = wrong(&[&set(SIGNING, &[three[0], three[1], ("a", &second)])], true);
    assert!(wrong.contains("could not be completed"), "{wrong}");
    assert!(read_with(&[&set(SIGNING, &[three[0], three[1], three[2], ("a", &second)])], true).is_ok());
}

#[test]
fn a_key_is_its_person_s_and_of_this_domain() {
    let keys = passkeys();
    let three = of_three(&keys);
    let good = set(SIGNING, &three);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        wrong(&[&good.replace(from, to)], true)
    };
    let table = [
        ("rp_id = \"example.com\"", "rp_id = \"10.0.0.1\"", "`rp_id` cannot be `10.0.0.1`"),
        ("rp_id = \"example.com\"", "rp_id = \"localhost\"", "a page of `https://example.com` cannot use passkeys"),
        ("[\"https://example.com\"]", "[\"http://example.com\"]", "a page of `http://example.com` cannot use passkeys"),
        ("[\"https://example.com\"]", "[]", "`origins` is empty"),
        ("console:a\"\nname", "console:c\"\nname", "`proof` is refused: it is for another challenge"),
        ("installation = \"unit\"\n", "", "`installation` is missing"),
    ];
    for (from, to, expected) in table {
        let wrong = with(from, to);
        assert!(wrong.contains(expected), "{to}: {wrong}");
    }
    let elsewhere = SIGNING.replace("example.com", "example.org");
    let moved = wrong(&[&set(&elsewhere, &three)], true);
    assert!(moved.contains("the key belongs to another domain") && moved.contains("enrol again"), "{moved}");
    let twice = wrong(&[&set(SIGNING, &[three[0], three[1], three[2], ("b", three[0].1)])], true);
    assert!(twice.contains("another passkey has the same credential or key"), "{twice}");
    let no_ground = wrong(&[&set("", &three)], true);
    assert!(
        no_ground.contains("`signed` needs `[signing]`") && no_ground.contains("a passkey needs `[signing]`"),
        "{no_ground}"
    );
    let two_grounds = wrong(&[&set(&format!("{SIGNING}synced = \"refuse\"\n"), &three), SIGNING], true);
    assert!(two_grounds.contains("another signing"), "{two_grounds}");
    // A key in a cloud, and its set.
    let cloud = SigningPage { flags: 0x05 | SYNCED, ..page() };
    let synced = format!("{good}{}", SoftKey::es256().enrolled("console:a", &cloud));
    let refused = wrong(&[&synced], true);
    assert!(refused.contains("the key is synced to other devices"), "{refused}");
    let allowed = synced.replace("[signing]\n", "[signing]\nsynced = \"allow\"\n");
    assert!(read_with(&[&allowed], true).is_ok());
}

#[test]
fn whoever_could_sign_besides_makes_a_set_looser() {
    let keys = passkeys();
    let three = of_three(&keys);
    let now = set(SIGNING, &three);
    assert_eq!(compared(&now, &now).direction, Direction::Same);
    let (another, more) = (SoftKey::es256(), SoftKey::eddsa());
    let four = [three.clone(), vec![("a", &more)]].concat();
    let other = [("a", &another), three[1], three[2]];
    let allow = now.replace("[signing]\n", "[signing]\nsynced = \"allow\"\n");
    let origins = now.replace("[\"https://example.com\"]", "[\"https://example.com\", \"https://b.example.com\"]");
    let unsigned = now.replace("signed = true\n", "");
    let table = [
        (set(SIGNING, &four), Direction::Loosens, "passkey `a key` of `console:a` is added (allows more)"),
        (set(SIGNING, &other), Direction::Loosens, "passkey `a key` of `console:a` is removed"),
        (
            allow.clone(),
            Direction::Loosens,
            "the domain, the pages or the kinds of passkeys that sign votes (allows more)",
        ),
        (
            origins.clone(),
            Direction::Loosens,
            "the domain, the pages or the kinds of passkeys that sign votes (allows more)",
        ),
        (now.replace("\"unit\"", "\"other\""), Direction::Loosens, "(allows more)"),
        (unsigned.clone(), Direction::Loosens, "now held for fewer or other people"),
        (now.replace("name = \"a key\"", "name = \"b key\""), Direction::OnlyTightens, "has another name"),
    ];
    for (new, direction, words) in table {
        let found = compared(&now, &new);
        assert_eq!(found.direction, direction, "{found}");
        assert!(found.to_string().contains(words), "{words}: {found}");
    }
    for (old, new) in [(set(SIGNING, &four), &now), (allow, &now), (origins, &now), (unsigned, &now)] {
        let found = compared(&old, new);
        assert_eq!(found.direction, Direction::OnlyTightens, "{found}");
    }
    // To begin with: people have no keys, and then they have.
    let before = APPROVAL.replace("signed = true\n", "");
    assert!(compared(&before, &now).loosens());
    let version = |text: &str| read_with(&[text], true).unwrap().version().to_owned();
    assert_ne!(version(&now), version(&set(SIGNING, &four)));
}

#[test]
fn acts_are_signed_where_three_people_have_keys_and_their_removal_loosens() {
    let keys = passkeys();
    let three = of_three(&keys);
    let signing = |acts: &str| format!("{SIGNING}acts = [{acts}]\n");
    let policies = read_with(&[&set(&signing("\"activation\", \"absent\""), &three)], true).unwrap();
    assert_eq!(policies.rules.signing.unwrap().acts, [SignableAct::Activation, SignableAct::Absent].into());
    let few = set(&signing("\"activation\""), &three[..2]);
    let wrong_of = |text: &str| wrong(&[text], true);
    assert!(wrong_of(&few).contains("`acts` needs 3 people with passkeys"), "{}", wrong_of(&few));
    assert!(wrong_of(&set(&signing("\"freezing\""), &three)).contains("`acts` cannot be `freezing`"));
    let (none, all) = (set(SIGNING, &three), set(&signing("\"executed\", \"unfreezing\""), &three));
    let (more, less) = (compared(&none, &all), compared(&all, &none));
    assert_eq!((more.direction, less.direction), (Direction::OnlyTightens, Direction::Loosens));
    let text = less.to_string();
    assert!(text.contains("acts of `executed` need not be signed any more (allows more)"), "{text}");
}
