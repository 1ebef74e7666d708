//! The log format for programs: each event is one line, a JSON object.
//!
//! Written straight into the line: an object that is built first, as by `serde`, costs a request more than its rules do.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::base::visible::is_invisible;

#[derive(Clone, Copy, Debug)]
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writer.write_str("{\"timestamp\":\"")?;
        SystemTime.format_time(&mut writer)?;
        writer.write_str("\",\"level\":\"")?;
        writer.write_str(event.metadata().level().as_str())?;
        writer.write_char('"')?;
        let mut members = Members { line: writer, written: Ok(()) };
        event.record(&mut members);
        members.text("target", event.metadata().target());
        members.written?;
        members.line.write_str("}\n")
    }
}

/// Writes the fields of an event as members of its object.
struct Members<'w> {
    line: Writer<'w>,
    written: fmt::Result,
}

impl Members<'_> {
    fn text(&mut self, name: &str, value: &str) {
        self.member(name, |line| {
            line.write_char('"')?;
            JsonText(&mut *line).write_str(value)?;
            line.write_char('"')
        });
    }

    fn member(&mut self, name: &str, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.written.is_err() {
            return;
        }
        let line = &mut self.line;
        // Names are written in the code, and need no escapes.
        self.written = line
            .write_str(",\"")
            .and_then(|()| line.write_str(name))
            .and_then(|()| line.write_str("\":"))
            .and_then(|()| value(line));
    }
}

impl Visit for Members<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field.name(), |line| line.write_str(if value { "true" } else { "false" }));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field.name(), |line| write!(line, "{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field.name(), |line| write!(line, "{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.member(
            field.name(),
            |line| if value.is_finite() { write!(line, "{value}") } else { line.write_str("null") },
        );
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.member(field.name(), |line| {
            line.write_char('"')?;
            write!(JsonText(&mut *line), "{value:?}")?;
            line.write_char('"')
        });
    }
}

/// Writes text as the inside of a JSON string; what a screen hides is written as its number.
struct JsonText<W>(W);

impl<W: fmt::Write> fmt::Write for JsonText<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(is_plain) {
            return self.0.write_str(text);
        }
        let mut rest = text;
        while let Some((at, found)) = rest.char_indices().find(|(_, c)| needs_escape(*c)) {
            self.0.write_str(rest.get(..at).unwrap_or_default())?;
            match found {
                '"' => self.0.write_str("\\\"")?,
                '\\' => self.0.write_str("\\\\")?,
                '\n' => self.0.write_str("\\n")?,
                '\r' => self.0.write_str("\\r")?,
                '\t' => self.0.write_str("\\t")?,
                other => {
                    other.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(self.0, "\\u{unit:04x}"))?;
                }
            }
            rest = rest.get(at.saturating_add(found.len_utf8())..).unwrap_or_default();
        }
        self.0.write_str(rest)
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

fn needs_escape(c: char) -> bool {
    matches!(c, '"' | '\\') || is_invisible(c)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn line_of(act: impl FnOnce()) -> String {
        let written = Written::default();
        let to = written.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || to.clone()).event_format(JsonLine);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_kind_of_field_is_a_member() {
        let missing: Option<u64> = None;
        let error = io::Error::other("no \"room\"");
        let line = line_of(|| {
            tracing::warn!(target: "sluice::x", reason = "a\u{202e}\"\\\n\u{1}é", claims = 7_u64, errors = -7, gate_us = 0.5,
                whole_us = f64::NAN, changed = true, commits = missing, error = %error, by = ?["x"], http.request.method = "GET", "said {}", "so");
        });
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains(r#""reason":"a\u202e\"\\\n\u0001é""#), "{line}");
        let mut read: Value = serde_json::from_str(&line).unwrap();
        let time = read.as_object_mut().unwrap().remove("timestamp").unwrap();
        time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let expected = serde_json::json!({
            "level": "WARN", "message": "said so", "reason": "a\u{202e}\"\\\n\u{1}é", "claims": 7, "errors": -7, "gate_us": 0.5,
            "whole_us": null, "changed": true, "error": "no \"room\"", "by": "[\"x\"]", "http.request.method": "GET",
            "target": "sluice::x",
        });
        assert_eq!(read, expected, "{line}");
    }
}
