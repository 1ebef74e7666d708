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

/// Formats a cell; one that a spreadsheet would read as a formula starts with an apostrophe.
fn csv_cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
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
    }
}
