//! Payments as JSON: a row of the book with the names of its ends.

use serde_json::{Value, json};

use super::destinations::{DestinationNames, stated_movement};
use crate::adapters::audit::line_at;
use crate::audit::{AuditLine, Hash, LineBody, read_line};
use crate::base::normal;
use crate::catalog::{Catalog, Party};
use crate::console::payment_index::{PaymentKey, PaymentRow};
use crate::console::render::{moment, shown_as};
use crate::console::state::ConsoleState;

/// Everything that rows are made of, besides the book.
pub(super) struct RowMaker<'i> {
    pub inside: &'i ConsoleState,
    pub catalog: &'i Catalog,
    pub names: &'i DestinationNames,
}

impl RowMaker<'_> {
    /// Returns the JSON of a payment, and the hash of the entry that decided it, which is the same in the journals of all gates; blocks.
    pub fn row(&self, key: &PaymentKey, row: &PaymentRow) -> (Value, Option<Hash>) {
        let line = deciding_line(self.inside, row);
        let hash = line.as_ref().map(AuditLine::content);
        let stated = line.and_then(|line| match line.body {
            LineBody::Entry(entry) => stated_movement(&self.inside.seals, self.catalog, key, row, &entry),
            LineBody::Header(_) => None,
        });
        let (environment, claim) = key;
        let terms = &*row.terms;
        let approved_by = row
            .approvers()
            .map(|vote| json!({ "issuer": &*vote.issuer, "subject": &*vote.subject }))
            .collect::<Vec<_>>();
        let json = json!({
            "environment": environment.as_str(),
            "name": shown_as(claim),
            "operation": terms.operation,
            "status": row.status.as_str(),
            "event": row.event_in_words(),
            "answered": row.answered,
            "state": row.state(),
            "repeated": row.is_repeated,
            "first": row.is_first,
            "at": moment(row.at),
            "changedAt": moment(row.changed_at),
            "amount": row.amount().map(|amount| amount.to_string()),
            "currency": terms.currency,
            "chain": terms.chain,
            "otherCurrency": terms.other_currency,
            "value": row.value,
            "from": self.names.party(row.from.as_deref(), stated.as_ref().map(|movement| &movement.source)),
            "to": self.names.party(row.to.as_deref(), stated.as_ref().map(|movement| &movement.destination)),
            "owner": { "issuer": terms.issuer, "subject": terms.subject },
            "requester": terms.requester,
            "rules": terms.rules,
            "hold": row.hold(),
            "approvedBy": approved_by,
            "number": row.number,
        });
        (json, hash)
    }
}

/// Returns the journal's line of the entry that decided a payment; blocks.
fn deciding_line(inside: &ConsoleState, row: &PaymentRow) -> Option<AuditLine> {
    let line = line_at(&inside.audit_folder, &inside.node.id, row.place).ok().flatten()?;
    // Where the file was moved away, another line can be there.
    let is_its = |line: &AuditLine| matches!(&line.body, LineBody::Entry(entry) if entry.number.as_u64() == row.number);
    read_line(&line).ok().filter(is_its)
}

/// Returns the address to which a payment went, in its normal form; `None` where it went to none, or its bytes cannot be
/// read; blocks.
pub(super) fn paid_address(
    inside: &ConsoleState,
    catalog: &Catalog,
    key: &PaymentKey,
    row: &PaymentRow,
) -> Option<String> {
    let LineBody::Entry(entry) = deciding_line(inside, row)?.body else { return None };
    let Party { account, external_wallet, wallet, .. } =
        stated_movement(&inside.seals, catalog, key, row, &entry)?.destination;
    let address = [account, external_wallet, wallet].into_iter().flatten().find(|name| !normal::is_uuid(name))?;
    Some(normal::wallet(None, address))
}
