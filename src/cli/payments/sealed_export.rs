//! An export whose last line proves the others.

use jiff::Timestamp;
use serde_json::Value;

use crate::audit::Hash;
use crate::base::json::{self as strict, Limits};
use crate::cli::output::counted;

/// The format of exports. No other is read.
const FORMAT: u64 = 2;
/// Where a change of form comes from.
const CHANGED: &str = "an editor, a mail program or a transfer as text does: verify the file as the console gave it";

/// The rows of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealedRows {
    Payments,
    Statement,
    History,
}

/// An export whose last line fits the lines before.
#[derive(Debug)]
pub(super) struct SealedExport {
    pub head: Value,
    pub kind: SealedRows,
    pub rows: Vec<Value>,
}

impl SealedRows {
    pub fn counted(self, count: usize) -> String {
        let (one, many) = match self {
            SealedRows::Payments => ("payment", "payments"),
            SealedRows::Statement => ("line", "lines"),
            SealedRows::History => ("entry", "entries"),
        };
        counted(count as u64, one, many)
    }
}

impl SealedExport {
    /// Reads an export; otherwise returns what is wrong with it, as the end of a sentence.
    pub fn read(text: &str) -> Result<SealedExport, String> {
        if is_csv(text) {
            return Err(
                "is CSV, which proves nothing by itself: verify the export as JSON lines (`--format jsonl`)".to_owned()
            );
        }
        let export = SealedExport::parse(text).map_err(|why| format!("is not what a gate wrote: {why}"))?;
        match export.of_head("format").as_u64() {
            Some(FORMAT) => Ok(export),
            other => Err(format!(
                "has format {}, and this version of Sluice reads format {FORMAT}: verify it with the version that exported \
                 it, or export it again",
                other.unwrap_or_default()
            )),
        }
    }

    /// Parses an export of any format.
    fn parse(text: &str) -> Result<SealedExport, String> {
        if text.starts_with('\u{feff}') {
            return Err(format!("it begins with a byte order mark, which {CHANGED}"));
        }
        if text.ends_with("\r\n") {
            return Err(format!("its lines end with CR and LF, which {CHANGED}"));
        }
        let body = match text.strip_suffix('\n') {
            Some(body) => body,
            None if text.is_empty() => return Err("it is empty".to_owned()),
            None if text.ends_with('}') => return Err(format!("the newline at its end is missing, which {CHANGED}")),
            None => return Err("its last line is cut".to_owned()),
        };
        let (body, last) = body.rsplit_once('\n').ok_or("it has no rows")?;
        let parse =
            |line: &str| strict::parse(line.as_bytes(), Limits::ANSWER).map_err(|_| "a line is not JSON".to_owned());
        let end = &parse(last)?;
        let sha256 = Hash::of(&[body.as_bytes(), b"\n"]).to_string();
        if end["sha256"].as_str() != Some(sha256.as_str()) {
            return Err("the SHA-256 in its last line is not that of the lines before".to_owned());
        }
        let mut lines = body.split('\n');
        let head = parse(lines.next().unwrap_or_default())?;
        let kind = match (head.get("format").and_then(Value::as_u64), head.get("what").and_then(Value::as_str)) {
            (Some(_), Some("payments")) => SealedRows::Payments,
            (Some(_), Some("statement")) => SealedRows::Statement,
            (Some(_), Some("history")) => SealedRows::History,
            _ => return Err("its first line is not that of an export of a console".to_owned()),
        };
        let rows = lines.map(parse).collect::<Result<Vec<_>, _>>()?;
        let count = end["rows"].as_u64();
        if count != u64::try_from(rows.len()).ok() {
            return Err("its last line tells another number of rows".to_owned());
        }
        Ok(SealedExport { head, kind, rows })
    }

    /// The rows that are entries of the audit log. A line of a statement is none: the export as a whole is one.
    pub fn entries(&self) -> &[Value] {
        if self.kind == SealedRows::Statement { &[] } else { &self.rows }
    }

    /// A member of the first line.
    pub fn of_head(&self, name: &str) -> &Value {
        self.head.get(name).unwrap_or(&Value::Null)
    }

    /// Returns why it does not have all that its head names, apart from what other parts have.
    pub fn gaps(&self) -> Vec<String> {
        let since = self.of_head("since").as_str().filter(|since| !self.begins_at(since));
        let rows = if self.kind == SealedRows::History { "entries" } else { "payments" };
        let earlier = since.map(|since| format!("{rows} before {since} are not in it"));
        let is_early = self.kind == SealedRows::Statement && *self.of_head("over") != true;
        earlier.into_iter().chain(is_early.then(|| "the day was not over".to_owned())).collect()
    }

    /// Whether only rows from this time on were asked for. Each line of a statement begins with those that were open before.
    fn begins_at(&self, since: &str) -> bool {
        let from =
            self.head.pointer("/filters/from").and_then(Value::as_str).filter(|_| self.kind != SealedRows::Statement);
        let from =
            from.and_then(|from| from.parse().or_else(|_| format!("{from}T00:00:00Z").parse::<Timestamp>()).ok());
        from.zip(since.parse().ok()).is_some_and(|(from, since)| from >= since)
    }
}

/// Whether a text is a table that a gate exported for spreadsheets.
fn is_csv(text: &str) -> bool {
    let first = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
    first.contains(',')
        && first.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, ',' | ' ' | '-'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn export(rows: &str, count: usize) -> String {
        export_of(FORMAT, rows, count)
    }

    fn export_of(format: u64, rows: &str, count: usize) -> String {
        let body = format!("{{\"format\":{format},\"what\":\"payments\"}}\n{rows}");
        let sha256 = Hash::of(&[body.as_bytes()]);
        format!("{body}{{\"rows\":{count},\"sha256\":\"{sha256}\"}}\n")
    }

    #[test]
    fn an_export_that_was_changed_is_noticed() {
        let whole = export("{\"a\":1}\n{\"a\":2}\n", 2);
        assert_eq!(SealedExport::read(&whole).unwrap().rows.len(), 2);
        for changed in [
            whole.replace("{\"a\":2}", "{\"a\":3}"),
            whole.replace("{\"a\":1}\n", ""),
            export("{\"a\":1}\n", 2),
            export("{\"a\":1}\n", 1).replace("payments", "holds"),
            whole.trim_end().to_owned(),
            String::new(),
        ] {
            assert!(SealedExport::read(&changed).unwrap_err().starts_with("is not what a gate wrote: "), "{changed}");
        }
    }

    #[test]
    fn an_export_of_another_format_is_what_a_gate_wrote() {
        let told = SealedExport::read(&export_of(FORMAT - 1, "{\"a\":1}\n", 1)).unwrap_err();
        assert!(told.starts_with("has format 1, and this version of Sluice reads format 2: "), "{told}");
    }

    #[test]
    fn what_an_export_lacks_is_told() {
        let of_kind = |head: Value, kind| SealedExport { head, kind, rows: Vec::new() }.gaps();
        let gaps = |head: Value| {
            let kind = if head["day"].is_null() { SealedRows::Payments } else { SealedRows::Statement };
            of_kind(head, kind)
        };
        let since = "2026-11-30T12:00:00Z";
        assert!(gaps(json!({"since": null, "filters": {}})).is_empty());
        assert!(gaps(json!({"since": since, "filters": {}}))[0].contains(since));
        let history = of_kind(json!({"since": since, "filters": {}}), SealedRows::History);
        assert_eq!(history, [format!("entries before {since} are not in it")]);
        for (from, is_whole) in
            [("2026-12-01", true), ("2026-11-30", false), ("2026-11-30T12:00:00Z", true), ("x", false)]
        {
            assert_eq!(gaps(json!({"since": since, "filters": {"from": from}})).is_empty(), is_whole, "{from}");
        }
        assert_eq!(gaps(json!({"day": "2026-11-30", "since": null, "over": false})), ["the day was not over"]);
        assert_eq!(
            gaps(json!({"day": "2026-12-01", "since": since, "over": true, "filters": {"from": since}})).len(),
            1
        );
        assert!(gaps(json!({"day": "2026-11-30", "since": null, "over": true})).is_empty());
    }

    #[test]
    fn what_an_editor_made_of_an_export_is_named() {
        let whole = export("{\"a\":1}\n", 1);
        for (changed, why) in [
            (whole.trim_end().to_owned(), "the newline at its end is missing"),
            (whole.replace('\n', "\r\n"), "its lines end with CR and LF"),
            (format!("\u{feff}{whole}"), "it begins with a byte order mark"),
            (String::new(), "it is empty"),
            (whole[..whole.len() - 9].to_owned(), "its last line is cut"),
        ] {
            let found = SealedExport::parse(&changed).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
        for table in ["at,environment,request\r\n", "\u{feff}day,zone,day is over\r\n2026-11-30,UTC,true\r\n"] {
            assert!(SealedExport::read(table).unwrap_err().starts_with("is CSV, "), "{table}");
        }
    }
}
