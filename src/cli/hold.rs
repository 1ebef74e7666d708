//! A hold in words: what it would send, why it is held, whose approval it needs, and what else is known.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{anyhow, bail};
use http::Method;
use serde_json::Value;

use super::console::{ConsoleCall, ConsoleOptions, refusal};
use super::output::{TableColumn, text_at};
use super::read_contract;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId};
use crate::base::visible::visible;
use crate::catalog::Catalog;
use crate::policy::Max;
use crate::stations::admit::KnownCaller;
use crate::stations::check::Intent;
use crate::stations::hold::{in_words, read_bytes};

/// A hold as the console returns it, and the call that its bytes are.
pub(super) struct ShownHold {
    pub hold: Value,
    /// `None` if the console does not show the bytes to this person.
    pub intent: Option<Intent>,
}

/// Parses the name of a hold.
pub(super) fn hold_id(text: &str) -> anyhow::Result<HoldId> {
    HoldId::parse(text).ok_or_else(|| anyhow!("`{}` is not a hold id (32 hex digits)", text.escape_debug()))
}

/// Reads the gate's contract: a folder, or the built-in one.
pub(super) fn gate_contract(schemas: Option<&Path>) -> anyhow::Result<Catalog> {
    let (_, catalog) = read_contract(schemas, &[])
        .map_err(|findings| anyhow!("{}", findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    Ok(catalog)
}

/// Parses the bytes of a hold into the call that they are.
fn intent_of_hold(catalog: &Catalog, hold: &Value) -> Option<Intent> {
    let text = |pointer: &str| hold.pointer(pointer).and_then(Value::as_str);
    let environment = Environment::parse(text("/environment")?)?;
    let method = Method::from_bytes(text("/sent/method")?.as_bytes()).ok()?;
    let by = KnownCaller {
        issuer: text("/owner/issuer")?.to_owned(),
        subject: text("/owner/subject")?.to_owned(),
        requester: None,
        roles: BTreeSet::new(),
        opaque: false,
    };
    read_bytes(catalog, environment, (&method, text("/sent/target")?, text("/sent/body")?.as_bytes()), by)
}

impl ShownHold {
    /// Fetches a hold and reads its bytes; returns the console's message if it refuses.
    pub async fn fetch(
        way: &ConsoleOptions,
        catalog: &Catalog,
        id: &HoldId,
    ) -> anyhow::Result<Result<ShownHold, String>> {
        let (status, hold) = way.fetch(&ConsoleCall::get(format!("holds/{id}"))).await?;
        if status != 200 {
            return Ok(Err(refusal(status, &hold)));
        }
        if hold.get("id").and_then(Value::as_str) != Some(id.as_str()) {
            bail!("the console shows another hold than {id}: do not trust it, and report this to its operators");
        }
        let intent = match hold.get("sent") {
            None => None,
            Some(_) => Some(intent_of_hold(catalog, &hold).ok_or_else(|| {
                anyhow!("the bytes that would be sent are not a call of this contract; name the gate's contract with `--schemas`")
            })?),
        };
        let claimed = hold.get("fingerprint").and_then(Value::as_str).unwrap_or_default();
        if let Some(intent) = intent.as_ref().filter(|intent| intent.fingerprint().to_hex() != claimed) {
            bail!(
                "the console shows the fingerprint `{}`, but its bytes have `{}`: do not trust it, and report this to its operators",
                visible(claimed),
                intent.fingerprint()
            );
        }
        Ok(Ok(ShownHold { hold, intent }))
    }

    /// Returns the digest of the reasons that are shown: an approval is for these.
    pub fn causes(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parts = list(&self.hold, "reasons").flat_map(|reason| [text(&reason["rule"]), text(&reason["text"])]);
        let parts: Vec<String> = parts.collect();
        Fingerprint::of(&parts.iter().map(String::as_bytes).collect::<Vec<_>>()).to_hex()
    }

    pub fn in_words(&self) -> String {
        let mut lines = vec![list_line(&self.hold)];
        match &self.intent {
            Some(intent) => {
                lines.extend(in_words(intent).into_iter().map(|(name, text)| format!("  {name:<7} {text}")))
            }
            None => lines
                .push("  The console does not show you what would be sent; that takes the role `approver`.".to_owned()),
        }
        lines.extend(dangers(&self.hold).iter().map(|danger| format!("  DANGER  {danger}")));
        for reason in list(&self.hold, "reasons") {
            let rule = reason["rule"].as_str().map_or_else(String::new, |rule| format!(" ({rule})"));
            lines.push(format!("  why     {}{}", visible(reason["text"].as_str().unwrap_or("-")), visible(&rule)));
        }
        for approval in list(&self.hold, "approvals") {
            lines.push(match is_over(&self.hold) {
                // Nobody needs to approve it any more.
                true => format!("  had     {}", given_in_words(approval)),
                false => format!("  needs   {}", approval_in_words(approval)),
            });
        }
        if let Some(stuck) = self.hold.get("stuck").and_then(Value::as_str) {
            lines.push(format!("  stuck   {}; any approver may reject it", visible(stuck)));
        }
        lines.extend(list(&self.hold, "paidBefore").map(last_payment));
        lines.extend(earlier_payments(&self.hold));
        lines.extend(list(&self.hold, "limits").map(limit_in_words));
        // A rejection is the last remark.
        let rejection = list(&self.hold, "notes").last().filter(|_| text_at(&self.hold, "/state") == "rejected");
        for (name, words) in [("voted", "votes"), ("noted", "notes")] {
            for word in list(&self.hold, words) {
                let is_rejection = words == "notes" && rejection.is_some_and(|last| std::ptr::eq(last, word));
                let name = if is_rejection { "rejected" } else { name };
                let text = word["text"].as_str().map_or_else(String::new, |text| format!(": {}", visible(text)));
                let places: Vec<_> = list(word, "for").filter_map(Value::as_str).map(visible).collect();
                let places =
                    if places.is_empty() { String::new() } else { format!(", also for {}", places.join(" or ")) };
                lines.push(format!("  {name:<7} {}{places}{text}", word["subject"].as_str().unwrap_or("-")));
            }
        }
        if let Some(intent) = &self.intent {
            let body = intent.body().map(|body| String::from_utf8_lossy(body).into_owned()).unwrap_or_default();
            lines.push(format!("  sends   {} {}", intent.operation().method, intent.target()));
            lines.push(format!("          {body}"));
            lines.push(format!("  as      {}", intent.fingerprint()));
        }
        format!("{}\n", lines.join("\n"))
    }
}

/// Returns what is dangerous about the destination: a known one that it looks like.
fn dangers(hold: &Value) -> Vec<String> {
    let text = |pointer: &str| hold.pointer(pointer).and_then(Value::as_str).map(visible);
    if let Some(name) = text("/destination/lookAlike/name") {
        let lists = hold.pointer("/destination/lookAlike/lists").and_then(Value::as_array).into_iter().flatten();
        let lists: Vec<_> = lists.filter_map(Value::as_str).map(visible).collect();
        return vec![format!("its address begins and ends like {name} of {}, and is another one", lists.join(", "))];
    }
    if hold.pointer("/earlier/lookAlike").is_none_or(Value::is_null) {
        return Vec::new();
    }
    vec![match (text("/earlier/lookAlike/name"), text("/earlier/lookAlike/payment")) {
        (Some(name), Some(payment)) => {
            format!("its address begins and ends like {name}, which {payment} paid, and is another one")
        }
        _ => "its address begins and ends like another one that was paid".to_owned(),
    }]
}

/// Describes earlier payments of the same amount to the same destination.
fn earlier_payments(hold: &Value) -> Vec<String> {
    match hold.get("earlier") {
        Some(Value::Null) => vec!["  before  earlier payments could not be read".to_owned()],
        None => Vec::new(),
        Some(earlier) => {
            let one = |same: &Value| {
                let text = |pointer: &str| visible(&text_at(same, pointer)).into_owned();
                let (name, status, at) = (text("/name"), text("/status"), text("/at"));
                format!("  before  the same amount to the same destination: {name}, {status}, {at}")
            };
            let reading = earlier.get("reading") == Some(&Value::Bool(true));
            let reading = reading.then(|| "  before  earlier payments are still being read".to_owned());
            list(earlier, "same").map(one).chain(reading).collect()
        }
    }
}

/// Describes the last payment to a destination.
fn last_payment(destination: &Value) -> String {
    let name = visible(destination["destination"].as_str().unwrap_or("-"));
    match destination["at"].as_str() {
        Some(at) => format!("  before  {name} was last paid {}", visible(at)),
        None => format!("  before  {name} was never paid before through Sluice"),
    }
}

/// Describes what a limit has left before and after the call.
fn limit_in_words(limit: &Value) -> String {
    let key = limit["key"].as_object().into_iter().flatten();
    let key: Vec<String> =
        key.map(|(name, value)| format!("{name} {}", visible(value.as_str().unwrap_or("-")))).collect();
    let key = if key.is_empty() { String::new() } else { format!(" for {}", key.join(", ")) };
    let amount = |name: &str| {
        let units = limit[name].as_u64().unwrap_or_default();
        let max = if limit["unit"] == "calls" { Max::Calls(units) } else { Max::MicroUsd(units) };
        max.describe(units)
    };
    let (name, shadow) = (limit["limit"].as_str().unwrap_or("-"), limit["mode"] == "shadow");
    let shadow = if shadow { " (shadow mode)" } else { "" };
    let (adds, left, after, max) = (amount("adds"), amount("left"), amount("leftAfter"), amount("max"));
    format!("  limit   {name}{key}: uses {adds} of {max}; {left} left before, {after} after{shadow}")
}

fn approval_in_words(approval: &Value) -> String {
    let missing: Vec<String> = list(approval, "missing")
        .map(|one| format!("{} of {}", one["count"], one["group"].as_str().unwrap_or("-")))
        .collect();
    let missing =
        if missing.is_empty() { "complete".to_owned() } else { format!("needs {} more", missing.join(" and ")) };
    format!("{}, {missing}", given_in_words(approval))
}

fn given_in_words(approval: &Value) -> String {
    let name = approval["name"].as_str().unwrap_or("-");
    format!("{name}: {} of {} approvals", approval["given"], approval["needed"])
}

/// Whether no vote counts any more.
pub(super) fn is_over(hold: &Value) -> bool {
    hold.get("endedAt").is_some()
}

/// The columns of a list of holds.
pub(super) const HOLD_COLUMNS: [TableColumn; 7] = [
    TableColumn { head: "HOLD", is_whole: true, cell: |hold| text_at(hold, "/id") },
    TableColumn { head: "ENVIRONMENT", is_whole: false, cell: |hold| text_at(hold, "/environment") },
    TableColumn { head: "STATE", is_whole: false, cell: state_with_stuck },
    TableColumn { head: "OPERATION", is_whole: false, cell: |hold| text_at(hold, "/operation") },
    TableColumn { head: "BY", is_whole: false, cell: owner },
    TableColumn { head: "UNTIL", is_whole: false, cell: time },
    TableColumn { head: "MOVES", is_whole: false, cell: moves },
];

fn state_with_stuck(hold: &Value) -> String {
    let stuck = if hold.get("stuck").is_some() { " (stuck: it can never be fully approved)" } else { "" };
    format!("{}{stuck}", text_at(hold, "/state"))
}

fn owner(hold: &Value) -> String {
    format!("{}/{}", text_at(hold, "/owner/issuer"), text_at(hold, "/owner/subject"))
}

/// Returns when a hold expires, or when it ended.
fn time(hold: &Value) -> String {
    match hold.get("endedAt") {
        Some(_) => format!("ended {}", text_at(hold, "/endedAt")),
        None => text_at(hold, "/expiresAt"),
    }
}

pub(super) fn moves(call: &Value) -> String {
    let moves = list(call, "words").filter(|word| matches!(word["name"].as_str(), Some("from" | "to")));
    let moves = moves.map(|word| format!("{} {}", text_at(word, "/name"), text_at(word, "/text")));
    moves.collect::<Vec<_>>().join(" ")
}

/// Formats a hold as one line.
pub(super) fn list_line(hold: &Value) -> String {
    let text = |pointer: &str| hold.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    let moves = moves(hold);
    let moves = if moves.is_empty() { moves } else { format!(": {moves}") };
    let (until, time) = match hold.get("endedAt") {
        Some(_) => ("since", text("/endedAt")),
        None => ("until", text("/expiresAt")),
    };
    format!(
        "{} {} {} {} by {}, {until} {time}{moves}",
        text("/id"),
        text("/environment"),
        state_with_stuck(hold),
        text("/operation"),
        owner(hold),
    )
}

/// Describes the state of a hold.
pub(super) fn state_in_words(hold: &Value) -> String {
    match hold["state"].as_str() {
        Some("pending") => {
            format!("Pending: {}.", list(hold, "approvals").map(approval_in_words).collect::<Vec<_>>().join("; "))
        }
        Some("approved") => "Fully approved; not sent yet.".to_owned(),
        Some("released") => "Fully approved and sent.".to_owned(),
        Some("rejected") => "Rejected.".to_owned(),
        Some("expired") => "Expired: too few approvals.".to_owned(),
        Some("cancelled") => "Cancelled by the caller.".to_owned(),
        Some("blocked") => "Fully approved, but the rules at release denied it; nothing was sent.".to_owned(),
        Some("forgotten") => "No longer stored.".to_owned(),
        state => format!("State: {}.", state.unwrap_or("-")),
    }
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}
