//! What a message says, as its receiver reads it.
//!
//! What is told comes from us, but for the few words that a webhook with `details` is told; in a chat every word that is
//! not our own stands as code, so that it mentions nobody and leads nowhere.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::message::Message;
use crate::base::ids::Environment;
use crate::catalog::{Movement, Party};
use crate::commit::StoreTime;
use crate::policy::Progress;

/// The longest of what others wrote that a chat is shown.
const LONGEST_WORD: usize = 100;

/// How a receiver wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As Standard Webhooks has it: type, timestamp, data.
    Standard,
    /// `{"text": …}`, as chat tools take it.
    Chat,
}

/// All that a message can say.
#[derive(Clone, Copy, Debug)]
pub struct Telling<'a> {
    pub message: &'a Message,
    pub environment: Environment,
    /// When its record was written.
    pub written: StoreTime,
    pub progress: &'a [Progress],
    /// Where the console is.
    pub console: Option<&'a str>,
    pub details: Option<&'a Details>,
}

/// What only those are told who ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub requester: Option<String>,
    pub movement: Option<Movement>,
}

/// The body that is sent.
pub fn body(format: Format, telling: Telling<'_>) -> String {
    match format {
        Format::Standard => standard(telling).to_string(),
        Format::Chat => json!({ "text": chat(telling) }).to_string(),
    }
}

/// What is sent to try it.
pub fn ping(format: Format, name: &str, at: Timestamp) -> String {
    match format {
        Format::Standard => {
            json!({ "type": "ping", "timestamp": at.to_string(), "data": { "webhook": name } }).to_string()
        }
        Format::Chat => json!({ "text": format!("A trial of Sluice's webhook {}.", word(name)) }).to_string(),
    }
}

fn standard(telling: Telling<'_>) -> Value {
    let Telling { message, environment, written, progress, details, .. } = telling;
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            data.insert(name.to_owned(), value);
        }
    };
    put("environment", environment.as_str().into());
    put("hold", message.hold.as_ref().map(|hold| hold.as_str()).into());
    put("operation", message.operation.as_ref().map(|operation| operation.as_str()).into());
    put("state", message.state.as_str().into());
    put("attempt", message.attempt.into());
    if let Some(waited) = &message.waited {
        let approval = |one: &Progress| json!({ "name": &*one.name, "needed": one.needed, "given": one.given });
        put("rules", waited.rules.clone().into());
        put("approvals", progress.iter().map(approval).collect());
        put("expiresAt", message.expires(written).map(moment).into());
    }
    put("link", link(telling).into());
    if let Some(Details { requester, movement }) = details {
        let party = |party: &Party| json!({ "amount": party.amount, "currency": party.currency, "chain": party.chain });
        put("requester", requester.as_deref().into());
        put("source", movement.as_ref().map(|movement| party(&movement.source)).into());
        put("destination", movement.as_ref().map(|movement| party(&movement.destination)).into());
    }
    json!({ "type": message.event.as_str(), "timestamp": moment(message.happened(written)), "data": data })
}

fn chat(telling: Telling<'_>) -> String {
    let Telling { message, environment, written, progress, details, .. } = telling;
    let mut lines = vec![format!("{}.", message.event.in_words())];
    let operation = message.operation.as_ref().map(|operation| format!("{} in ", word(operation.as_str())));
    let hold = message.hold.as_ref().map(|hold| format!(", hold {}", word(hold.as_str())));
    lines.push(format!("{}{environment}{}", operation.unwrap_or_default(), hold.unwrap_or_default()));
    if let Some(Details { requester, movement }) = details {
        let money = |party: &Party| {
            let parts = [&party.amount, &party.currency].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ");
            (!parts.is_empty()).then(|| word(&parts))
        };
        if let Some(movement) = movement {
            let ends = [money(&movement.source), money(&movement.destination)];
            lines.push(ends.into_iter().flatten().collect::<Vec<_>>().join(" to "));
        }
        lines.extend(requester.as_deref().map(|requester| format!("Asked for by {}", word(requester))));
    }
    if let Some(waited) = &message.waited {
        let rules: Vec<String> = waited.rules.iter().map(|rule| word(rule)).collect();
        if !rules.is_empty() {
            lines.push(format!("Because of {}", rules.join(", ")));
        }
        let given = |one: &Progress| format!("{} {} of {}", word(&one.name), one.given, one.needed);
        if !progress.is_empty() {
            lines.push(format!("Approvals: {}", progress.iter().map(given).collect::<Vec<_>>().join(", ")));
        }
        lines.extend(message.expires(written).map(|at| format!("Expires {}", moment(at))));
    }
    // It comes from the configuration, and is to be a link.
    lines.extend(link(telling).map(|link| link.replace('&', "&amp;")));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Where a person looks at it.
fn link(telling: Telling<'_>) -> Option<String> {
    let console = telling.console?;
    Some(match &telling.message.hold {
        Some(hold) => format!("{console}/#/hold/{hold}"),
        None => format!("{console}/#/overview"),
    })
}

/// What may come from others, as code that chat tools show as it is: no mention, no link, no other line, no letter that
/// nobody sees.
fn word(text: &str) -> String {
    let is_unseen = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    let plain = |c: char| match c {
        '`' => '\'',
        c if c.is_control() || is_unseen(c) || c == '\u{feff}' => ' ',
        c => c,
    };
    let escaped = text.chars().take(LONGEST_WORD).map(plain).map(|c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        // Behind it nobody's name begins.
        '@' => "@\u{200b}".to_owned(),
        c => c.to_string(),
    });
    format!("`{}`", escaped.collect::<String>())
}

fn moment(time: StoreTime) -> String {
    Timestamp::from_microsecond(time.as_micros()).map_or_else(|_| String::new(), |time| time.to_string())
}
