//! Checks conditions against the contract: a condition that no request can meet is an error, for such a rule would be
//! silently without effect.
//!
//! An operation that is named by its id must have each field of the rule; of a class, or of `*`, at least one operation
//! must. `absent` needs only one operation with the field, as the others never have it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::KnownNames;
use super::condition::{Condition, SoughtValue, Ways};
use super::document::{DocumentTable, PolicyPlace};
use super::literal::Literal;
use super::request::Field;
use crate::base::finding::nearest;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;
use crate::catalog::{FieldLookup, Operation};

/// The operations that conditions are about.
pub(super) struct Scope<'s> {
    pub operations: &'s BTreeSet<OperationId>,
    all: Vec<&'s Operation>,
    /// The operations that are named by their ids.
    named: Vec<&'s Operation>,
}

impl<'s> Scope<'s> {
    /// `texts` are the operations as written: ids and classes.
    pub(super) fn of(
        operations: &'s BTreeSet<OperationId>,
        texts: &[(PolicyPlace, String)],
        known: &KnownNames<'s>,
    ) -> Scope<'s> {
        let each = known.catalog.operations().iter().map(|operation| &**operation);
        let all: Vec<&Operation> = each.filter(|operation| operations.contains(&operation.id)).collect();
        let is_named = |operation: &&Operation| texts.iter().any(|(_, text)| text == operation.id.as_str());
        let named = all.iter().copied().filter(is_named).collect();
        Scope { operations, all, named }
    }

    /// Returns the operations for which a condition can never hold; none if the condition is good.
    fn lacking(&self, has: impl Fn(&Operation) -> bool) -> Vec<&'s Operation> {
        if self.all.iter().any(|operation| has(operation)) {
            return self.named.iter().copied().filter(|operation| !has(operation)).collect();
        }
        self.all.clone()
    }
}

/// Checks that operations have the fields that conditions name.
pub(super) fn fields(
    table: &mut DocumentTable<'_>,
    scope: &Scope<'_>,
    conditions: &[Condition],
    known: &KnownNames<'_>,
) {
    let place = table.place;
    let mut check = |name: &str, has: &dyn Fn(&Operation) -> bool| {
        let lacking = scope.lacking(has);
        if lacking.is_empty() {
            return;
        }
        let having = known.catalog.operations().iter().filter(|operation| has(operation));
        let remedy = match listed(having.map(|operation| operation.id.as_str())) {
            None => "remove the condition".to_owned(),
            Some(having) => format!("remove the condition, or name only operations that have it: {having}"),
        };
        table.fault(place, format!("{} no `{name}`: the condition never holds", have(&lacking)), remedy);
    };
    for condition in conditions {
        let condition = match condition {
            // The condition of the first days has all names.
            Condition::During(range, _, inner) if range.least == 0 => inner,
            other => other,
        };
        match condition {
            Condition::Names(field, _) | Condition::NotNames(field, _) => {
                check(word(*field), &|operation| has_field(operation, *field))
            }
            Condition::Destination(Ways { user, wallet, external_wallet })
            | Condition::NotDestination(Ways { user, wallet, external_wallet }) => {
                let ways = [
                    (user, Field::DestinationUser),
                    (wallet, Field::DestinationWallet),
                    (external_wallet, Field::DestinationExternal),
                ];
                let asked: Vec<Field> =
                    ways.into_iter().filter(|(set, _)| !set.is_empty()).map(|(_, field)| field).collect();
                let Some(first) = asked.first() else { continue };
                check(word(*first), &|operation| asked.iter().any(|field| has_way(operation, *field)));
                for field in asked.iter().filter(|_| asked.len() > 1) {
                    // In one operation, one way is enough; a way that no operation has is a mistake.
                    if !scope.all.iter().any(|operation| has_way(operation, *field)) {
                        check(word(*field), &|operation| has_way(operation, *field));
                    }
                }
            }
            Condition::NewDestination { .. } => {
                let ways = [
                    Field::DestinationUser,
                    Field::DestinationWallet,
                    Field::DestinationExternal,
                    Field::DestinationAccount,
                    Field::FeeWallet,
                ];
                check("destination", &|operation| ways.iter().any(|field| has_field(operation, *field)));
            }
            Condition::Price(_) => {
                check("price", &|operation| operation.money.as_ref().is_some_and(|money| money.price.is_some()));
            }
            Condition::FeesOnlyTo(_)
            | Condition::Amount { .. }
            | Condition::Body(..)
            | Condition::Weekday(..)
            | Condition::Hour(..)
            | Condition::Date(..)
            | Condition::During(..) => {}
        }
    }
}

/// Checks that bodies can have a field, and the values that are asked for.
pub(super) fn body(
    table: &mut DocumentTable<'_>,
    place: PolicyPlace,
    pointer: &Pointer,
    sought: &SoughtValue,
    scope: &Scope<'_>,
) {
    let is_possible = |operation: &Operation| !matches!(lookup(operation, pointer), FieldLookup::Impossible);
    let lacking = match sought {
        SoughtValue::Absent if scope.all.iter().any(|operation| is_possible(operation)) => Vec::new(),
        _ => scope.lacking(is_possible),
    };
    if !lacking.is_empty() {
        let fault = format!("{} no `{pointer}` in any body: the condition never changes", have(&lacking));
        table.fault(place, fault, near(pointer, &lacking));
        return;
    }
    if let Some(near) = declared_instead(scope, pointer) {
        let fault =
            format!("no operation declares `{pointer}`, and nearly that is declared: the condition never changes");
        return table.fault(place, fault, format!("did you mean `{near}`? Or else name the operation by its id"));
    }
    let (SoughtValue::Among(set) | SoughtValue::NotAmong(set)) = sought else { return };
    let mut refused = set.iter().filter_map(|literal| Some((literal, expected_instead(scope, pointer, literal)?)));
    if let Some((literal, expected)) = refused.next() {
        let more = refused.count();
        let more = if more == 0 { String::new() } else { format!(", and {more} more values cannot be there") };
        let shown = match literal {
            Literal::Text(text) => text.escape_debug().to_string(),
            other => value_of(other).to_string(),
        };
        let fault = format!("`{pointer}` can never be `{shown}`{more}");
        table.fault(place, fault, format!("the contract wants {expected}"));
    }
}

/// Returns the declared field that was probably meant: none has this name, only a body whose fields the contract does not
/// list could have it, and no operation with such a body is named by its id.
fn declared_instead<'s>(scope: &Scope<'s>, pointer: &Pointer) -> Option<&'s str> {
    let is_listed = |operation: &Operation| operation.further.iter().any(|listed| is_around(pointer, listed));
    let is_meant = |operation: &&Operation| matches!(lookup(operation, pointer), FieldLookup::Declared(_));
    let is_free = |operation: &&&Operation| matches!(lookup(operation, pointer), FieldLookup::Open);
    if scope.all.iter().any(|operation| is_meant(operation) || is_listed(operation))
        || scope.named.iter().any(|one| is_free(&one))
    {
        return None;
    }
    let fields = scope.all.iter().filter_map(|operation| operation.body_fields.as_ref());
    nearest(pointer.as_str(), fields.flat_map(|fields| fields.pointers()).collect::<BTreeSet<&str>>())
}

/// Returns what the contract expects instead of a value, if no operation's body can have it.
fn expected_instead(scope: &Scope<'_>, pointer: &Pointer, literal: &Literal) -> Option<String> {
    let value = value_of(literal);
    let mut expected = None;
    for operation in &scope.all {
        match (lookup(operation, pointer), &operation.body_fields) {
            (FieldLookup::Impossible, _) | (_, None) => {}
            (FieldLookup::Open, _) => return None,
            (FieldLookup::Declared(field), Some(fields)) => {
                let instead = fields.refused(field, &value)?;
                expected = expected.or(Some(instead));
            }
        }
    }
    expected
}

fn value_of(literal: &Literal) -> Value {
    match literal {
        Literal::Text(text) => Value::from(text.as_str()),
        Literal::Number(number) => Value::from(*number),
        Literal::Truth(truth) => Value::from(*truth),
    }
}

fn lookup<'o>(operation: &'o Operation, pointer: &Pointer) -> FieldLookup<'o> {
    // The configuration lists fields that the contract does not know.
    if operation.further.iter().any(|listed| is_around(pointer, listed)) {
        return FieldLookup::Open;
    }
    operation.body_fields.as_ref().map_or(FieldLookup::Impossible, |fields| fields.lookup(pointer))
}

/// Whether one of two places contains the other.
fn is_around(a: &Pointer, b: &Pointer) -> bool {
    let contains = |a: &Pointer, b: &Pointer| {
        a.as_str().strip_prefix(b.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    contains(a, b) || contains(b, a)
}

/// Returns a remedy that names the nearest pointer of these operations.
fn near(pointer: &Pointer, operations: &[&Operation]) -> String {
    let all: BTreeSet<&str> =
        operations.iter().filter_map(|o| o.body_fields.as_ref()).flat_map(|fields| fields.pointers()).collect();
    let last = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
    let written = last(pointer.as_str());
    let same_name = || all.iter().copied().find(|known| last(known) == written && !written.is_empty());
    if let Some(near) = nearest(pointer.as_str(), all.iter().copied()).or_else(same_name) {
        return format!("did you mean `{near}`?");
    }
    let parent = pointer.parent().filter(|parent| all.contains(parent.as_str()));
    let inside = parent.map_or(String::new(), |parent| parent.as_str().to_owned());
    let is_beside = |known: &&str| {
        known
            .strip_prefix(inside.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| !rest.contains('/'))
    };
    match listed(all.iter().copied().filter(is_beside)) {
        None => "remove the condition: these operations have no body".to_owned(),
        Some(fields) => format!("the fields there are: {fields}"),
    }
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn have(operations: &[&Operation]) -> String {
    let names = listed(operations.iter().map(|operation| operation.id.as_str())).unwrap_or_default();
    format!("{names} {}", if operations.len() == 1 { "has" } else { "have" })
}

/// A wallet that takes fees is a destination.
fn has_way(operation: &Operation, field: Field) -> bool {
    has_field(operation, field) || (field == Field::DestinationWallet && has_field(operation, Field::FeeWallet))
}

fn has_field(operation: &Operation, field: Field) -> bool {
    let Some(money) = &operation.money else {
        return match field {
            Field::PathUser | Field::User => operation.template.parameters().any(|name| name == "userId"),
            _ => field.is_of_caller(),
        };
    };
    let (source, destination) = (&money.source, &money.destination);
    field.parts().iter().any(|part| match part {
        Field::PathUser => operation.template.parameters().any(|name| name == "userId"),
        Field::SourceUser => source.party.is_some(),
        Field::SourceChain => source.chain.is_some(),
        Field::SourceCurrency => source.currency.is_some(),
        Field::SourceWallet => source.wallet.is_some(),
        Field::SourceAccount => source.account.is_some(),
        Field::DestinationUser => destination.party.is_some(),
        Field::DestinationChain => destination.chain.is_some(),
        Field::DestinationCurrency => destination.currency.is_some(),
        Field::DestinationWallet => destination.wallet.is_some(),
        Field::DestinationExternal => destination.external_wallet.is_some(),
        Field::DestinationAccount => destination.account.is_some(),
        Field::FeeWallet => !money.fees.wallets.is_empty(),
        other => other.is_of_caller(),
    })
}

/// Returns the name of a field as rules write it.
fn word(field: Field) -> &'static str {
    match field {
        Field::Environment => "environment",
        Field::Issuer => "issuer",
        Field::Caller => "caller",
        Field::Requester => "requester",
        Field::Role => "role",
        Field::User | Field::PathUser => "user",
        Field::SourceUser => "source.user",
        Field::DestinationUser => "destination.user",
        Field::Chain => "chain",
        Field::SourceChain => "source.chain",
        Field::DestinationChain => "destination.chain",
        Field::Currency => "currency",
        Field::SourceCurrency => "source.currency",
        Field::DestinationCurrency => "destination.currency",
        Field::Wallet => "wallet",
        Field::SourceWallet => "source.wallet",
        Field::DestinationWallet => "destination.wallet",
        Field::DestinationExternal => "destination.external_wallet",
        Field::Account => "account",
        Field::SourceAccount => "source.account",
        Field::DestinationAccount => "destination.account",
        Field::FeeWallet => "fee_wallet",
    }
}
