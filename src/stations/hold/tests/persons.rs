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
