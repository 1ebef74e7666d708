//! An address that was paid, and for which a person could take the destination of a hold.

use std::time::Duration;

use serde_json::{Value, json};

use super::rows::paid_address;
use crate::adapters::clock::Stopwatch;
use crate::base::ids::Environment;
use crate::base::normal::{self, seen_ends, shown_wallet};
use crate::console::payment_index::{PaymentTerms, ReadBook};
use crate::console::render::{moment, shown_as};
use crate::console::state::ConsoleState;

/// How long addresses are read for one answer.
const READING_TIME: Duration = Duration::from_millis(50);

/// Reads the addresses of destinations that were paid, as long as one answer may take; blocks.
pub(super) fn read_addresses(inside: &ConsoleState, read: &mut ReadBook) {
    let (catalog, since) = (inside.catalog(), Stopwatch::start());
    while read.book.paid.has_unread() && since.elapsed() < READING_TIME {
        let mut paid = std::mem::take(&mut read.book.paid);
        paid.read_one(|key| seen_ends(&paid_address(inside, &catalog, key, read.book.row(key)?)?));
        read.book.paid = paid;
    }
}

/// Returns the address that was paid and that begins and ends like the destination of a hold, which is another one and in
/// no list; null where none is known. Who does not see its payment learns only that there is one. Blocks.
pub(super) fn find(
    inside: &ConsoleState,
    (environment, destination): (Environment, &str),
    read: &ReadBook,
    is_seen: &dyn Fn(Environment, &PaymentTerms) -> bool,
) -> Value {
    let own = normal::wallet(None, destination.to_owned());
    if inside.in_force.now().policies.list_names.lists_of(&own).next().is_some() {
        return Value::Null;
    }
    let Some(ends) = seen_ends(&own) else { return Value::Null };
    let catalog = inside.catalog();
    let found = read.book.paid.with_ends(environment, &ends).filter_map(|key| {
        let row = read.book.row(&key)?;
        let address = paid_address(inside, &catalog, &key, row).filter(|address| *address != own)?;
        Some((is_seen(key.0, &row.terms), address, key, row))
    });
    match found.max_by_key(|(is_seen, _, _, row)| (*is_seen, row.number)) {
        None => Value::Null,
        Some((true, address, (_, claim), row)) => {
            json!({ "name": shown_wallet(&address), "payment": shown_as(&claim), "at": moment(row.at) })
        }
        Some((false, ..)) => json!({ "name": null, "payment": null, "at": null }),
    }
}
