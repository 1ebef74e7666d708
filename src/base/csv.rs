//! Lines of CSV that a spreadsheet reads as text, and in which no character hides.

use super::visible::visible;

/// Formats one line of CSV.
///
/// ```
/// use sluice::base::csv::csv_line;
///
/// assert_eq!(csv_line(["a", "=1+1"].into_iter().map(str::to_owned)), "a,'=1+1\r\n");
/// ```
pub fn csv_line(cells: impl Iterator<Item = String>) -> String {
    format!("{}\r\n", cells.map(|text| csv_cell(&visible(&text))).collect::<Vec<_>>().join(","))
}

/// Begin a formula in some spreadsheet: the wide ones where it is set to Japanese.
const FORMULA_SIGNS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Formats a cell; one that a spreadsheet would read as a formula starts with an apostrophe. A semicolon begins a cell where a
/// spreadsheet takes it for the separator, as German and French ones do.
fn csv_cell(text: &str) -> String {
    let (mut guarded, mut begins) = (String::with_capacity(text.len()), true);
    for letter in text.chars() {
        if begins && FORMULA_SIGNS.contains(&letter) {
            guarded.push('\'');
        }
        begins = letter == ';';
        guarded.push(letter);
    }
    if guarded.contains([',', ';', '"', '\n', '\r']) {
        format!("\"{}\"", guarded.replace('"', "\"\""))
    } else {
        guarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        assert_eq!(csv_cell("a"), "a");
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_cell("=1+1"), "'=1+1");
        assert_eq!(csv_cell("@a\n"), "\"'@a\n\"");
        assert_eq!(csv_cell("\u{ff1d}1+1"), "'\u{ff1d}1+1");
        assert_eq!(csv_cell("a;=cmd|b;;-1;c"), "\"a;'=cmd|b;;'-1;c\"");
    }
}
