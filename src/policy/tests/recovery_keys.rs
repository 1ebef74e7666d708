//! `[recovery]` and `[[recovery_key]]`: what a set takes, which changes of it are looser, and what they may enrol.

use super::signing::{SIGNING, compared, of_three, page, passkeys, set};
use super::*;
use crate::base::webauthn::tests::soft_key::{SoftKey, encoded};

const RECOVERY: &str = "[recovery]\nneeds = 2\n";

/// The table of a recovery key.
fn table(id: &str, key: &SoftKey) -> String {
    let public = encoded(key.cose());
    let proof = encoded(key.sign_bytes(&recovery_key_digest(id, &public)));
    format!("[[recovery_key]]\nid = \"{id}\"\nkey = \"{public}\"\nproof = \"{proof}\"\n")
}

fn with_recovery(recovery: &str, keys: &[(&str, &SoftKey)], people: &[SoftKey]) -> String {
    let tables: String = keys.iter().map(|(id, key)| table(id, key)).collect();
    format!("{}{recovery}{tables}", set(SIGNING, &of_three(people)))
}

#[test]
fn a_set_has_as_many_recovery_keys_as_must_sign_and_each_can_sign() {
    let (people, a, b) = (passkeys(), SoftKey::eddsa(), SoftKey::es256());
    let keys = [("safe-1", &a), ("safe-2", &b)];
    let good = with_recovery(RECOVERY, &keys, &people);
    let read = read_with(&[&good], true).unwrap();
    let recovery = read.rules.signing.unwrap().recovery.unwrap();
    assert_eq!((recovery.needs, recovery.keys.len()), (2, 2));
    let archived = ArchivedRules::read(read.meaning.to_json().to_string().as_bytes()).unwrap();
    assert_eq!(archived.rules.signing.as_ref().unwrap().recovery, Some(recovery));
    assert_eq!(archived.version(), read.meaning.version());
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        wrong(&[&good.replace(from, to)], true)
    };
    let proof_of = |text: &str| text.lines().find(|line| line.starts_with("proof")).unwrap().to_owned();
    let (own, other, key) = (proof_of(&table("safe-1", &a)), proof_of(&table("safe-1", &b)), encoded(a.cose()));
    let faults = [
        ("needs = 2", "needs = 3", "`needs` is 3, and the set has 2 recovery keys"),
        ("needs = 2", "needs = 1", "`needs` is out of range"),
        ("id = \"safe-1\"", "id = \"safe-3\"", "`proof` is not the signature of this key on its `id`"),
        ("id = \"safe-1\"", "id = \"Safe\"", "`id` cannot be `Safe`"),
        (&*own, &*other, "`proof` is not the signature of this key"),
        ("[recovery]\nneeds = 2\n", "", "a recovery key needs `[recovery]`"),
        (&*key, "AAAA", "`key` is refused"),
        (&*key, "%", "`key` is not base64url"),
    ];
    for (from, to, expected) in faults {
        let wrong = with(from, to);
        assert!(wrong.contains(expected), "{to}: {wrong}");
    }
    for twice in [("safe-1", &SoftKey::eddsa()), ("safe-3", &a)] {
        let wrong = wrong(&[&with_recovery(RECOVERY, &[keys[0], keys[1], twice], &people)], true);
        assert!(wrong.contains("another recovery key has the same `id` or `key`"), "{wrong}");
    }
    let alone = wrong(&[RECOVERY], true);
    assert!(alone.contains("`[recovery]` needs `[signing]`"), "{alone}");
}

#[test]
fn whoever_could_enrol_besides_makes_a_set_looser() {
    let (people, a, b, c) = (passkeys(), SoftKey::eddsa(), SoftKey::es256(), SoftKey::eddsa());
    let of =
        |needs: u64, keys: &[(&str, &SoftKey)]| with_recovery(&format!("[recovery]\nneeds = {needs}\n"), keys, &people);
    let (none, two) = (set(SIGNING, &of_three(&people)), of(2, &[("a", &a), ("b", &b)]));
    let three = of(2, &[("a", &a), ("b", &b), ("c", &c)]);
    let table = [
        (&none, &two, Direction::Loosens, "recovery key `a` is added (allows more)"),
        (&two, &none, Direction::OnlyTightens, "recovery key `a` is removed"),
        (&two, &three, Direction::Loosens, "recovery key `c` is added (allows more)"),
        (&two, &of(2, &[("a", &a), ("b", &c)]), Direction::Loosens, "recovery key `b` is another (allows more)"),
        (&three, &two, Direction::OnlyTightens, "recovery key `c` is removed"),
        (&three, &of(3, &[("a", &a), ("b", &b), ("c", &c)]), Direction::OnlyTightens, "3 recovery keys enrol together"),
        (&of(3, &[("a", &a), ("b", &b), ("c", &c)]), &three, Direction::Loosens, "2 recovery keys enrol together"),
    ];
    for (old, new, direction, words) in table {
        let found = compared(old, new);
        assert_eq!(found.direction, direction, "{words}: {found}");
        assert!(found.to_string().contains(words), "{words}: {found}");
    }
}

#[test]
fn a_set_that_only_adds_passkeys_is_told_from_every_other() {
    let (people, more) = (passkeys(), SoftKey::eddsa());
    let (a, b) = (SoftKey::eddsa(), SoftKey::es256());
    let now = with_recovery(RECOVERY, &[("a", &a), ("b", &b)], &people);
    let meaning = |text: &str| read_with(&[text], true).unwrap().meaning;
    let added = format!("{now}{}", more.enrolled("console:b", &page()));
    let found = only_enrolled(&meaning(&now), &meaning(&added)).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0].person, &*found[0].name, &found[0].credential), ("console:b", "a key", &more.credential));
    // The second key of `passkeys` signs alike each time, so that its table is found again.
    let others = [
        (added.replace("n = 2\n", "n = 1\n"), "approval two"),
        (added.replace("effect = \"hold\"\napproval = \"two\"", "effect = \"allow\""), "rule r"),
        (added.replace("[\"console:a\", ", "[\"console:d\", \"console:a\", "), "group ops"),
        (added.replace("[signing]\n", "[signing]\nsynced = \"allow\"\n"), "signing"),
        (format!("{added}{}", table("c", &SoftKey::eddsa())), "recovery_key c"),
        (added.replace(&people[1].enrolled("console:b", &page()), ""), "passkey"),
        (added.replacen("name = \"a key\"", "name = \"b key\"", 1), "passkey"),
        (format!("{added}[asset.x]\ndecimals = 6\npar = true\n"), "asset x"),
    ];
    for (other, what) in others {
        assert_ne!(other, added, "{what}");
        let wrong = only_enrolled(&meaning(&now), &meaning(&other)).unwrap_err();
        assert!(wrong.iter().any(|name| name.starts_with(what)), "{what}: {wrong:?}");
    }
}
