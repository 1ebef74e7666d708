//! The payload of a notice.
//!
//! Its text is Sluice's own, except for a few words that a webhook with `details` gets. In a chat every foreign word is
//! formatted as code, so that it mentions nobody and links nowhere.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::message::Message;
use crate::base::ids::Environment;
use crate::base::visible::{visible, visible_json};
use crate::base::word_enum::word_enum;
use crate::catalog::{Movement, Party};
use crate::ledger::StoreTime;
use crate::policy::Progress;

/// The longest foreign word in a chat.
const LONGEST_WORD: usize = 100;

word_enum! {
    /// The format that a receiver wants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PayloadFormat {
        /// Standard Webhooks: type, timestamp, data.
        Standard = "standard",
        /// `{"text": …}`, as chat tools take it.
        Chat = "chat",
    }
}

/// The facts of a notice.
#[derive(Clone, Copy, Debug)]
pub struct Telling<'a> {
    pub message: &'a Message,
    pub environment: Environment,
    /// When its record was written.
    pub written: StoreTime,
    pub progress: &'a [Progress],
    /// The console's address.
    pub console: Option<&'a str>,
    pub details: Option<&'a Details>,
    pub policies: Option<&'a PolicyNews>,
}

/// What policies that wait would change: for programs, and in lines for a chat. Empty if they wait no more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyNews {
    pub facts: Map<String, Value>,
    pub lines: Vec<String>,
}

/// The facts that only webhooks with `details` get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub requester: Option<String>,
    pub movement: Option<Movement>,
}

/// Writes the body.
pub fn body(format: PayloadFormat, telling: Telling<'_>) -> String {
    match format {
        PayloadFormat::Standard => visible_json(&standard(telling).to_string()).into_owned(),
        PayloadFormat::Chat => json!({ "text": chat(telling) }).to_string(),
    }
}

/// Writes the body of a test.
pub fn ping(format: PayloadFormat, name: &str, at: Timestamp) -> String {
    match format {
        PayloadFormat::Standard => {
            json!({ "type": "ping", "timestamp": at.to_string(), "data": { "webhook": name } }).to_string()
        }
        PayloadFormat::Chat => json!({ "text": format!("A trial of Sluice's webhook {}.", word(name)) }).to_string(),
    }
}

fn standard(telling: Telling<'_>) -> Value {
    let Telling { message, environment, written, progress, details, policies, .. } = telling;
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
    put("record", message.record.as_deref().into());
    if let Some(waited) = &message.waited {
        let approval = |one: &Progress| json!({ "name": &*one.name, "needed": one.needed, "given": one.given });
        put("rules", waited.rules.clone().into());
        put("approvals", progress.iter().map(approval).collect());
        put("expiresAt", message.expires(written).map(moment).into());
    }
    if let Some(waiting) = &message.policies {
        put("version", waiting.version.as_str().into());
        put("replaces", waiting.replaces.as_str().into());
        policies.iter().flat_map(|news| &news.facts).for_each(|(name, value)| put(name, value.clone()));
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
    let Telling { message, environment, written, progress, details, policies, .. } = telling;
    let mut lines = vec![format!("{}.", message.event.in_words())];
    let operation = message.operation.as_ref().map(|operation| format!("{} in ", word(operation.as_str())));
    let hold = message.hold.as_ref().map(|hold| format!(", hold {}", word(hold.as_str())));
    lines.push(format!("{}{environment}{}", operation.unwrap_or_default(), hold.unwrap_or_default()));
    lines.extend(message.record.as_deref().map(|id| format!("Record {}: {}", word(id), word(&message.state))));
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
    if let Some(waiting) = &message.policies {
        lines.push(format!("Version {} in place of {}", word(&waiting.version), word(&waiting.replaces)));
        lines.extend(policies.iter().flat_map(|news| &news.lines).map(|line| word(line)));
    }
    // The address comes from the configuration, and must be a link.
    lines.extend(link(telling).map(|link| link.replace('&', "&amp;")));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// The link for people.
fn link(telling: Telling<'_>) -> Option<String> {
    let console = telling.console?;
    Some(match (&telling.message.hold, &telling.message.policies) {
        (Some(hold), _) => format!("{console}/#/hold/{hold}"),
        (None, Some(_)) => format!("{console}/#/policy"),
        (None, None) if telling.message.record.is_some() => format!("{console}/#/payments"),
        (None, None) => format!("{console}/#/overview"),
    })
}

/// Formats a foreign word as code that chat tools show unchanged: no mention, no link, no line break, no invisible
/// character.
fn word(text: &str) -> String {
    let begin: String = text.chars().take(LONGEST_WORD).collect();
    let shown = visible(&begin);
    let plain = |c: char| if c == '`' { '\'' } else { c };
    let escaped = shown.chars().map(plain).map(|c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        // No name follows it.
        '@' => "@\u{200b}".to_owned(),
        c => c.to_string(),
    });
    format!("`{}`", escaped.collect::<String>())
}

fn moment(time: StoreTime) -> String {
    Timestamp::from_microsecond(time.as_micros()).map_or_else(|_| String::new(), |time| time.to_string())
}
