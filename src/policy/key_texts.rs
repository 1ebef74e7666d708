//! Changes the texts of policies where people's keys change: takes passkeys out, and a person out of groups.
//!
//! Only what has to go is cut out; comments, order and form stay. Whoever changes texts reads them again and compares what
//! they mean.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A changed text, and what was changed in it, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    pub text: String,
    pub edits: Vec<String>,
}

/// A part that is to be cut out.
struct Cut {
    range: Range<usize>,
    what: String,
}

/// Cuts out the tables of these credentials; `None` where the text is no TOML.
pub fn without_passkeys(text: &str, credentials: &BTreeSet<String>) -> Option<EditedText> {
    let tree = DeTable::parse(text).ok()?;
    let mut cuts = Vec::new();
    for item in tree.get_ref().get("passkey").and_then(|value| value.get_ref().as_array()).into_iter().flatten() {
        let Some(table) = item.get_ref().as_table() else { continue };
        let field = |name: &str| table.get(name).and_then(|value| value.get_ref().as_str()).unwrap_or_default();
        if !credentials.contains(field("credential")) {
            continue;
        }
        let what = format!("the passkey `{}` of `{}` is removed", field("name"), field("person"));
        let spans = table.iter().flat_map(|(key, value)| [key.span(), value.span()]);
        let (first, last) =
            spans.fold((usize::MAX, 0), |(first, last), span| (first.min(span.start), last.max(span.end)));
        let head = text.get(..first).and_then(|before| before.rfind("[["));
        if let Some(head) = head.filter(|head| is_only_table(text, *head..last)) {
            cuts.push(Cut { range: lines_of(text, head..last), what });
        }
    }
    Some(cut(text, cuts))
}

/// Returns the people whose passkeys a text has; `None` where the text is no TOML.
pub fn enrolled_people(text: &str) -> Option<BTreeSet<String>> {
    let tree = DeTable::parse(text).ok()?;
    let passkeys = tree.get_ref().get("passkey").and_then(|value| value.get_ref().as_array());
    let person =
        |item: &Spanned<DeValue<'_>>| Some(item.get_ref().as_table()?.get("person")?.get_ref().as_str()?.to_owned());
    Some(passkeys.into_iter().flatten().filter_map(person).collect())
}

/// Cuts a person out of all groups; `None` where the text is no TOML.
pub fn without_member(text: &str, person: &str) -> Option<EditedText> {
    let tree = DeTable::parse(text).ok()?;
    let mut cuts = Vec::new();
    let groups = tree.get_ref().get("group").and_then(|value| value.get_ref().as_table());
    for (name, group) in groups.into_iter().flat_map(|groups| groups.iter()) {
        let members = group.get_ref().as_table().and_then(|table| table.get("members")?.get_ref().as_array());
        for member in members.into_iter().flatten().filter(|member| member.get_ref().as_str() == Some(person)) {
            let what = format!("`{person}` is removed from `[group.{}]`", name.get_ref());
            cuts.push(Cut { range: item_of(text, member), what });
        }
    }
    Some(cut(text, cuts))
}

/// Whether a part of a text has no other table than the one that it begins with.
fn is_only_table(text: &str, part: Range<usize>) -> bool {
    let part = text.get(part).unwrap_or_default();
    part.lines().skip(1).all(|line| !line.trim_start().starts_with('['))
}

/// Returns the whole lines of a part, with the empty line behind it.
fn lines_of(text: &str, part: Range<usize>) -> Range<usize> {
    let start = text.get(..part.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at.saturating_add(1));
    let rest = text.get(part.end..).unwrap_or_default();
    let mut end = rest.find('\n').map_or(text.len(), |at| part.end.saturating_add(at).saturating_add(1));
    if text.get(end..).is_some_and(|rest| rest.starts_with('\n')) {
        end = end.saturating_add(1);
    }
    start..end
}

/// Returns an item of a list with its comma; where it stands alone on its line, the whole line.
fn item_of(text: &str, item: &Spanned<DeValue<'_>>) -> Range<usize> {
    let Range { start, end } = item.span();
    let (before, behind) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    let blank = |c: char| c == ' ' || c == '\t';
    let trimmed = behind.trim_start();
    if let Some(rest) = trimmed.strip_prefix(',') {
        let rest = rest.trim_start_matches(blank);
        let is_alone = before.trim_end_matches(blank).ends_with('\n') && rest.starts_with('\n');
        let end = text.len().saturating_sub(rest.len());
        return match is_alone {
            true => before.trim_end_matches(blank).len()..end.saturating_add(1),
            false => start..end,
        };
    }
    // The last one takes the comma before it along.
    let before = before.trim_end();
    before.strip_suffix(',').unwrap_or(before).len()..end
}

fn cut(text: &str, mut cuts: Vec<Cut>) -> EditedText {
    cuts.sort_by_key(|cut| cut.range.start);
    let (mut left, mut edits, mut at) = (String::new(), Vec::new(), 0);
    for Cut { range, what } in cuts {
        left.push_str(text.get(at..range.start).unwrap_or_default());
        let line = text.get(..range.start).unwrap_or_default().matches('\n').count().saturating_add(1);
        edits.push(format!("line {line}: {what}"));
        at = range.end.max(at);
    }
    left.push_str(text.get(at..).unwrap_or_default());
    EditedText { text: left, edits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passkey(person: &str, credential: &str) -> String {
        format!("[[passkey]]\nperson = \"{person}\"\nname = \"phone\"\ncredential = \"{credential}\"\n")
    }

    #[test]
    fn a_table_of_a_passkey_goes_and_all_else_stays() {
        let (a, b) = (passkey("console:a", "A"), passkey("console:b", "B"));
        let text = format!("# Keys.\n{a}\n# Of b, since May.\n{b}\n[signing]\nrp_id = \"x\"\n");
        let only = |credentials: &[&str]| credentials.iter().map(|one| (*one).to_owned()).collect::<BTreeSet<_>>();
        let without_a = without_passkeys(&text, &only(&["A"])).unwrap();
        assert_eq!(without_a.text, format!("# Keys.\n# Of b, since May.\n{b}\n[signing]\nrp_id = \"x\"\n"));
        assert_eq!(without_a.edits, ["line 2: the passkey `phone` of `console:a` is removed"]);
        let without_both = without_passkeys(&text, &only(&["A", "B"])).unwrap();
        assert_eq!(without_both.text, "# Keys.\n# Of b, since May.\n[signing]\nrp_id = \"x\"\n");
        let none = without_passkeys(&text, &only(&["C"])).unwrap();
        assert_eq!((none.text, none.edits.len()), (text.clone(), 0));
        assert_eq!(without_passkeys("[[", &only(&["A"])), None);
        assert_eq!(enrolled_people(&text), Some(only(&["console:a", "console:b"])));
        // A table of another form is left to its author.
        let inline = "passkey = [{ person = \"console:a\", name = \"phone\", credential = \"A\" }]\n";
        assert_eq!(without_passkeys(inline, &only(&["A"])).unwrap().edits.len(), 0);
    }

    #[test]
    fn a_person_goes_out_of_every_group_whatever_its_form() {
        let table = [
            ("members = [\"c:a\", \"c:b\"]", "members = [\"c:b\"]"),
            ("members = [\"c:b\", \"c:a\"]", "members = [\"c:b\"]"),
            ("members = [\"c:b\", \"c:a\", \"c:d\"]", "members = [\"c:b\", \"c:d\"]"),
            ("members = [\"c:a\"]", "members = []"),
            ("members = [\n  \"c:b\",\n  \"c:a\",\n]", "members = [\n  \"c:b\",\n]"),
            ("members = [\n  \"c:a\", # first\n  \"c:b\"\n]", "members = [\n  # first\n  \"c:b\"\n]"),
            ("members = [\n  \"c:b\",\n  \"c:a\"\n]", "members = [\n  \"c:b\"\n]"),
        ];
        for (before, then) in table {
            let text = |members: &str| format!("[group.ops]\n{members}\n[group.others]\nmembers = [\"c:aa\"]\n");
            let found = without_member(&text(before), "c:a").unwrap();
            assert_eq!((found.text, found.edits.len()), (text(then), 1), "{before}");
        }
    }
}
