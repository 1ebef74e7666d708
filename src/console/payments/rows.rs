//! Payments as JSON: a row of the book with the names of its ends.

use serde_json::{Value, json};

use super::destinations::{DestinationNames, stated_movement};
use crate::adapters::audit::line_at;
use crate::audit::{AuditLine, Hash, LineBody, read_line};
use crate::catalog::Catalog;
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
        let ConsoleState { audit_folder, node, seals, .. } = self.inside;
        let line = line_at(audit_folder, &node.id, row.place).ok().flatten().and_then(|line| read_line(&line).ok());
        // Where the file was moved away, another line can be there.
        let line =
            line.filter(|line| matches!(&line.body, LineBody::Entry(entry) if entry.number.as_u64() == row.number));
        let hash = line.as_ref().map(AuditLine::content);
        let stated = line.and_then(|line| match line.body {
            LineBody::Entry(entry) => stated_movement(seals, self.catalog, key, row, &entry),
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
            "event": row.event,
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
