//! The money that the calls of audit entries move, for lists of entries.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::destinations::DestinationNames;
use super::is_visible;
use super::rows::RowMaker;
use crate::audit::EntryKind;
use crate::base::ids::Environment;
use crate::console::payment_index::{DecidedCall, PaymentKey, PaymentRow, ReadBook};
use crate::console::state::ConsoleState;

/// The members of a payment that a list of entries shows.
const SHOWN: [&str; 5] = ["status", "event", "amount", "currency", "to"];

/// Returns for each entry what its call moves, to whom, and what became of it, as far as a person with these roles may know;
/// null where it moves nothing; blocks.
pub(in crate::console) fn money_of_entries(
    inside: &ConsoleState,
    roles: &[&str],
    read: &ReadBook,
    entries: &[(Environment, Value)],
) -> Vec<Value> {
    let (names, catalog) = (DestinationNames::of(inside), inside.catalog());
    let maker = RowMaker { inside, catalog: &catalog, names: &names };
    // A call has several entries.
    let mut known: HashMap<PaymentKey, Value> = HashMap::new();
    let mut money_of = |(environment, entry): &(Environment, Value)| {
        let Some(claim) = entry.get("claim").and_then(Value::as_str) else { return Value::Null };
        let key: PaymentKey = (*environment, claim.into());
        if let Some(known) = known.get(&key) {
            return known.clone();
        }
        let is_seen = |row: &&PaymentRow| is_visible(&inside.visibility, roles, *environment, &row.terms);
        let Some(row) = read.book.row(&key).filter(is_seen) else { return money_of_decision(entry, &names) };
        let (row, _) = maker.row(&key, row);
        let shown = SHOWN.map(|name| (name.to_owned(), row.get(name).cloned().unwrap_or_default()));
        known.entry(key).or_insert(Value::Object(shown.into_iter().collect())).clone()
    };
    entries.iter().map(&mut money_of).collect()
}

/// Returns what a decision moves that is older than the list of payments: what became of it is not known here.
fn money_of_decision(entry: &Value, names: &DestinationNames) -> Value {
    let what = entry.get("what").and_then(Value::as_str).and_then(EntryKind::parse);
    let is_decision = matches!(what, Some(EntryKind::Sending | EntryKind::Held | EntryKind::Refused));
    let is_of_money = entry.pointer("/operands/destination").is_some() || entry.pointer("/operands/source").is_some();
    if !is_decision || !is_of_money {
        return Value::Null;
    }
    let DecidedCall { amount, currency, to, .. } = DecidedCall::of(entry);
    json!({
        "status": null,
        "event": null,
        "amount": amount.map(|amount| amount.to_string()),
        "currency": currency,
        "to": names.party(to.as_deref(), None),
    })
}
