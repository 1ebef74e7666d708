//! The files of one export: whether they join from the beginning to the end.

use super::sealed_export::SealedExport;
use crate::audit::Hash;

/// The members of a head that are the same in all parts of one export.
const SAME: [&str; 4] = ["what", "node", "filters", "operandKey"];

/// A file of an export.
#[derive(Debug)]
pub(super) struct ExportPart {
    pub path: String,
    pub sha256: Hash,
    pub export: SealedExport,
}

impl ExportPart {
    /// Where it begins; `None`: at the beginning.
    fn after(&self) -> Option<&str> {
        self.export.of_head("after").as_str()
    }

    /// Where the next part begins; `None`: this is the last one.
    fn next(&self) -> Option<&str> {
        self.export.of_head("next").as_str()
    }
}

/// Returns why files do not have all that their heads name.
pub(super) fn gaps(parts: &[ExportPart]) -> Vec<String> {
    let mut gaps = match parts {
        [part] => gaps_of_one(part),
        parts => gaps_between(parts),
    };
    for gap in parts.iter().flat_map(|part| part.export.gaps()) {
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    }
    gaps
}

fn gaps_of_one(part: &ExportPart) -> Vec<String> {
    let begins = "it is a part, and the rows before it are in other files: verify all files of the export together";
    let goes_on = "it is a part, and the rows behind it are in other files: verify all files of the export together";
    let begins = part.after().is_some().then(|| begins.to_owned());
    begins.into_iter().chain(part.next().is_some().then(|| goes_on.to_owned())).collect()
}

fn gaps_between(parts: &[ExportPart]) -> Vec<String> {
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    let differs = |part: &&ExportPart| SAME.iter().any(|name| part.export.of_head(name) != first.export.of_head(name));
    if let Some(other) = others.iter().find(differs) {
        let (one, other) = (&first.path, &other.path);
        return vec![format!("`{one}` and `{other}` are no parts of one export: gate, list or filters differ")];
    }
    let (begin, mut left): (Vec<&ExportPart>, Vec<&ExportPart>) = parts.iter().partition(|part| part.after().is_none());
    let begin = match begin.as_slice() {
        [begin] => *begin,
        [] => return vec!["none of them begins at the beginning: the first rows are in another file".to_owned()],
        [one, other, ..] => {
            let (one, other) = (&one.path, &other.path);
            return vec![format!("`{one}` and `{other}` both begin at the beginning: these are several exports")];
        }
    };
    let mut last = begin;
    while let Some(next) = last.next() {
        let Some(at) = left.iter().position(|part| part.after() == Some(next)) else {
            return vec![format!("the rows behind `{}` are in another file", last.path)];
        };
        last = left.swap_remove(at);
    }
    left.iter().map(|part| format!("`{}` joins none of the others", part.path)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::sealed_export::SealedRows;
    use super::*;

    fn part(path: &str, after: Option<&str>, next: Option<&str>) -> ExportPart {
        let head = json!({"what": "payments", "node": "gate", "filters": {}, "after": after, "next": next});
        of_head(path, head)
    }

    fn of_head(path: &str, head: Value) -> ExportPart {
        let export = SealedExport { head, kind: SealedRows::Payments, rows: Vec::new() };
        ExportPart { path: path.to_owned(), sha256: Hash::NOTHING, export }
    }

    #[test]
    fn parts_are_whole_from_the_beginning_to_the_end_without_a_gap() {
        let [first, middle, last] = [("a", None, Some("9")), ("b", Some("9"), Some("5")), ("c", Some("5"), None)];
        let told = |parts: &[(&str, Option<&str>, Option<&str>)]| {
            gaps(&parts.iter().map(|(path, after, next)| part(path, *after, *next)).collect::<Vec<_>>())
        };
        assert!(told(&[("a", None, None)]).is_empty());
        assert!(told(&[last, first, middle]).is_empty());
        for (parts, why) in [
            (&[first][..], "the rows behind it are in other files"),
            (&[last], "the rows before it are in other files"),
            (&[first, last], "the rows behind `a` are in another file"),
            (&[first, middle], "the rows behind `b` are in another file"),
            (&[middle, last], "none of them begins at the beginning"),
            (&[first, ("d", None, None)], "`a` and `d` both begin at the beginning"),
            (&[first, middle, last, ("d", Some("7"), None)], "`d` joins none of the others"),
            (&[first, middle, last, last], "`c` joins none of the others"),
        ] {
            let found = told(parts);
            assert!(found.len() == 1 && found[0].contains(why), "{why}: {found:?}");
        }
        assert_eq!(told(&[middle]).len(), 2);
    }

    #[test]
    fn parts_of_two_exports_do_not_join() {
        let head = |node: &str, filters: Value, after: Option<&str>, next: Option<&str>| {
            of_head(node, json!({"what": "payments", "node": node, "filters": filters, "after": after, "next": next}))
        };
        let first = || head("gate", json!({}), None, Some("9"));
        assert!(gaps(&[first(), head("gate", json!({}), Some("9"), None)]).is_empty());
        for other in [head("other", json!({}), Some("9"), None), head("gate", json!({"text": "a"}), Some("9"), None)] {
            let found = gaps(&[first(), other]);
            assert!(found.len() == 1 && found[0].contains("are no parts of one export"), "{found:?}");
        }
    }
}
