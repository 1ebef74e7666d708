//! Durations as policies write them.

use std::time::Duration;

use super::document::DocumentTable;

/// `30m`, `24h`, `7d`.
pub(super) fn duration(table: &mut DocumentTable<'_>, name: &'static str) -> Option<Duration> {
    let (place, text) = table.text(name)?;
    let read = span(&text);
    if read.is_none() {
        let fault = format!("`{name}` cannot be `{}`", text.escape_debug());
        table.fault(place, fault, "write a number of `m`, `h` or `d`, as `24h`; at most 366 days");
    }
    read
}

pub(super) fn span(text: &str) -> Option<Duration> {
    let unit = match text.chars().last()? {
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let digits = text.get(..text.len().checked_sub(1)?)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    let secs = digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit)?;
    (secs <= 366 * 86_400).then(|| Duration::from_secs(secs))
}
