//! The log format for people on a terminal: the time of day, the message, and the fields that have a value.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::base::visible::{visible, visible_lines};

#[derive(Clone, Copy, Debug)]
pub(super) struct Human;

impl<S, N> FormatEvent<S, N> for Human
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = HumanLine::default();
        event.record(&mut line);
        let clock = time.get(11..23).unwrap_or(&time);
        let (faint, plain) = if writer.has_ansi_escapes() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        let message = visible_lines(&line.message);
        write!(writer, "{faint}{clock}{plain} {}{message}", level(*event.metadata().level()))?;
        for (name, value) in &line.fields {
            write!(writer, " {faint}{name}={plain}{}", visible(value))?;
        }
        writeln!(writer)
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR ",
        Level::WARN => "warning ",
        _ => "",
    }
}

#[derive(Default)]
struct HumanLine {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for HumanLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        if !matches!(value, "" | "none") {
            self.fields.push((field.name(), value.to_owned()));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.push((field.name(), format!("{value:?}")));
        }
    }
}
