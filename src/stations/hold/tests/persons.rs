//! One person counts once, however their name is written.

use super::*;

#[test]
fn a_member_in_another_case_or_form_is_no_second_person() {
    for same in ["OPS-1", "\u{ff4f}ps-1"] {
        let member = format!("members = [\"people:{same}\", \"people:finance-1\"");
        let policies = policies(&RULES.replace("members = [\"people:finance-1\"", &member));
        let (hold, owners) = (voted(&[("people", "ops-1"), ("people", same)]), Owners::default());
        assert_eq!(hold.consent(&hearing(&policies.rules, &owners)).people.len(), 1, "{same}");
    }
}

#[test]
fn opaque_people_are_two_while_each_vote_and_the_setting_say_so() {
    let members = "members = [\"people:OPS-1\", \"people:finance-1\"";
    let policies = policies(&RULES.replace("members = [\"people:finance-1\"", members));
    let (today, folded) = (Owners::default().with_opaque(["people".to_owned()]), Owners::default());
    for (first, second, owners, counted) in [
        (true, true, &today, 2),
        // One vote was recorded by a gate, or at a time, with the other setting.
        (false, true, &today, 1),
        (true, false, &today, 1),
        (false, false, &today, 1),
        // The setting was taken back after both voted.
        (true, true, &folded, 1),
    ] {
        let mut hold = voted(&[("people", "ops-1"), ("people", "OPS-1")]);
        (hold.votes[0].person.opaque, hold.votes[1].person.opaque) = (first, second);
        let people = hold.consent(&hearing(&policies.rules, owners)).people;
        assert_eq!(people.len(), counted, "{first} {second}");
    }
}

#[test]
fn whoever_asked_in_other_letters_is_another_person_only_where_all_is_opaque() {
    let owners = Owners::default().with_opaque(["main".to_owned(), "people".to_owned()]);
    let asked = |by_opaque: bool, person: &Owner, owners: &Owners| {
        let mut hold = waits("500");
        hold.by.opaque = by_opaque;
        hold.is_asked_by(person, owners)
    };
    let opaque = |subject: &str| owners.person("people", subject);
    // `test` asked for it, and so did `ann` behind its token.
    for subject in ["TEST", "Ann"] {
        assert!(!asked(true, &opaque(subject), &owners), "{subject}");
        assert!(asked(false, &opaque(subject), &owners), "{subject}: held while the caller's issuer was folded");
        assert!(asked(true, &person("people", subject), &owners), "{subject}: of an issuer that is folded");
        assert!(asked(true, &opaque(subject), &Owners::default()), "{subject}: the setting was taken back");
    }
    assert!(asked(true, &opaque("ann"), &owners));
}
