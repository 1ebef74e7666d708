//! How commands print: text for people, JSON or CSV for programs, in the same words everywhere.

use std::io;

use clap::ValueEnum;
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use crate::base::csv::csv_line;
use crate::base::visible::{visible, visible_json};

/// The narrowest column that is cut to fit a terminal.
const MIN_COLUMN: usize = 8;
const GAP: &str = "  ";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Text for people
    #[default]
    Table,
    /// One JSON value
    Json,
    /// Comma-separated rows with a line of names
    Csv,
}

/// Returns a number with the word for one or for many.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl OutputFormat {
    /// Returns the text to print. In CSV, `rows` names the list whose members are the rows; without one, or where the
    /// value has no such list, the value itself is the only row.
    pub fn text(self, words: impl FnOnce() -> String, value: impl FnOnce() -> Value, rows: Option<&str>) -> String {
        match self {
            OutputFormat::Table => words(),
            OutputFormat::Json => visible_json(&format!("{:#}\n", value())).into_owned(),
            OutputFormat::Csv => {
                let value = value();
                let listed = rows.and_then(|name| value.get(name)).and_then(Value::as_array).cloned();
                csv(&listed.unwrap_or_else(|| vec![value]))
            }
        }
    }
}

/// Formats objects as CSV. The columns are all members, in the order in which they occur first; those of inner objects
/// have names with dots; a list is JSON.
fn csv(rows: &[Value]) -> String {
    let flat: Vec<Vec<(String, String)>> = rows.iter().map(flattened).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in flat.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut lines = vec![csv_line(names.iter().map(|name| (*name).to_owned()))];
    lines.extend(flat.iter().map(|row| {
        let cell_of =
            |name: &&str| row.iter().find(|(one, _)| one == name).map_or_else(String::new, |(_, text)| text.clone());
        csv_line(names.iter().map(cell_of))
    }));
    lines.concat().replace('\r', "")
}

fn flattened(row: &Value) -> Vec<(String, String)> {
    let mut cells = Vec::new();
    flatten("", row, &mut cells);
    cells
}

fn flatten(name: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                flatten(&name, value, cells);
            }
        }
        Value::Null => cells.push((name.to_owned(), String::new())),
        Value::String(text) => cells.push((name.to_owned(), text.clone())),
        Value::Array(_) | Value::Bool(_) | Value::Number(_) => cells.push((name.to_owned(), value.to_string())),
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) struct TableColumn {
    pub head: &'static str,
    /// Whether its cells are always whole, because people copy them.
    pub is_whole: bool,
    pub cell: fn(&Value) -> String,
}

/// The columns of a table, and those that a narrow terminal can do without.
#[derive(Clone, Copy)]
pub(super) struct TableLayout<'c> {
    pub columns: &'c [TableColumn],
    /// The heads of columns that are left out where there is no room, the first of them first.
    pub spare: &'c [&'static str],
}

impl<'c, const N: usize> From<&'c [TableColumn; N]> for TableLayout<'c> {
    fn from(columns: &'c [TableColumn; N]) -> TableLayout<'c> {
        TableLayout { columns, spare: &[] }
    }
}

/// Formats rows as a table that fits the terminal, if the output is one; cells that are cut end with `…`, and a last line
/// names the columns that are left out.
pub(super) fn table<'c>(layout: impl Into<TableLayout<'c>>, rows: &[Value]) -> String {
    fitted(
        layout.into(),
        rows,
        tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0),
    )
}

/// A column with its cells, the head first.
struct FilledColumn {
    column: TableColumn,
    cells: Vec<String>,
    width: usize,
}

impl FilledColumn {
    fn of(column: TableColumn, rows: &[Value]) -> FilledColumn {
        let cells = rows.iter().map(|row| visible(&(column.cell)(row)).into_owned());
        let cells: Vec<String> = std::iter::once(column.head.to_owned()).chain(cells).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        FilledColumn { column, cells, width }
    }

    /// Returns the width to which it can be cut.
    fn least(&self) -> usize {
        if self.column.is_whole { self.width } else { self.width.min(MIN_COLUMN) }
    }
}

fn fitted(layout: TableLayout<'_>, rows: &[Value], room: Option<usize>) -> String {
    let mut columns: Vec<FilledColumn> = layout.columns.iter().map(|column| FilledColumn::of(*column, rows)).collect();
    let all = |columns: &[FilledColumn], width: fn(&FilledColumn) -> usize| {
        let gaps = GAP.len().saturating_mul(columns.len().saturating_sub(1));
        columns.iter().map(width).sum::<usize>().saturating_add(gaps)
    };
    let mut left_out = Vec::new();
    for head in layout.spare {
        if room.is_some_and(|room| all(&columns, FilledColumn::least) > room) {
            columns.retain(|one| one.column.head != *head);
            left_out.push(*head);
        }
    }
    while room.is_some_and(|room| all(&columns, |one| one.width) > room) {
        let cut = columns.iter_mut().filter(|one| one.width > one.least());
        let Some(widest) = cut.max_by_key(|one| one.width) else { break };
        widest.width = widest.width.saturating_sub(1);
    }
    let line = |nth: usize| {
        let cells = columns.iter().map(|one| padded(one.cells.get(nth).map_or("", String::as_str), one.width));
        format!("{}\n", cells.collect::<Vec<_>>().join(GAP).trim_end())
    };
    let mut text: String = (0..=rows.len()).map(line).collect();
    if !left_out.is_empty() {
        text.push_str(&format!("no room for: {} (`--output csv` has all)\n", left_out.join(", ")));
    }
    text
}

fn padded(cell: &str, width: usize) -> String {
    let count = cell.chars().count();
    if count > width {
        let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
        return format!("{kept}…");
    }
    format!("{cell}{}", " ".repeat(width.saturating_sub(count)))
}

/// Returns a text member at a pointer, or `-`.
pub(super) fn text_at(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_have_a_column_for_each_member_that_occurs() {
        let value = json!({"all": [{"id": "a", "by": {"sub": "x"}}, {"id": "b", "n": 2, "list": [1, 2]}]});
        let text = OutputFormat::Csv.text(String::new, || value, Some("all"));
        assert_eq!(text, "by.sub,id,list,n\nx,a,,\n,b,\"[1,2]\",2\n");
        let alone = OutputFormat::Csv.text(String::new, || json!({"a": null, "b": true}), Some("all"));
        assert_eq!(alone, "a,b\n,true\n");
    }

    #[test]
    fn a_table_fits_its_terminal_and_whole_cells_stay_whole() {
        let columns = [
            TableColumn { head: "ID", is_whole: true, cell: |row| text_at(row, "/id") },
            TableColumn { head: "WHY", is_whole: false, cell: |row| text_at(row, "/why") },
        ];
        let rows = [json!({"id": "0123456789abcdef", "why": "a long reason with many words"}), json!({"id": "b"})];
        let fitted = |rows: &[Value], room| fitted((&columns).into(), rows, room);
        let wide = fitted(&rows, None);
        assert_eq!(
            wide,
            "ID                WHY\n0123456789abcdef  a long reason with many words\nb                 -\n"
        );
        let narrow = fitted(&rows, Some(30));
        assert_eq!(narrow, "ID                WHY\n0123456789abcdef  a long reas…\nb                 -\n");
        assert!(fitted(&rows, Some(10)).contains("0123456789abcdef  a long …"));
    }
    #[test]
    fn spare_columns_are_left_out_where_there_is_no_room_for_them() {
        let columns = [
            TableColumn { head: "ID", is_whole: true, cell: |row| text_at(row, "/id") },
            TableColumn { head: "VALUE", is_whole: true, cell: |row| text_at(row, "/value") },
            TableColumn { head: "FROM", is_whole: true, cell: |row| text_at(row, "/from") },
        ];
        let rows = [json!({"id": "0123456789", "value": "25.50", "from": "0xAB"})];
        let at = |room| fitted(TableLayout { columns: &columns, spare: &["FROM", "VALUE"] }, &rows, Some(room));
        assert_eq!(at(23), "ID          VALUE  FROM\n0123456789  25.50  0xAB\n");
        assert_eq!(at(22), "ID          VALUE\n0123456789  25.50\nno room for: FROM (`--output csv` has all)\n");
        assert_eq!(at(16), "ID\n0123456789\nno room for: FROM, VALUE (`--output csv` has all)\n");
    }
}
