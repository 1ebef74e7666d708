//! Names of the ends of payments: the journal has keyed names, the lists of the policies have names that people know,
//! and the sealed steps of an entry have the address itself.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::adapters::store::sealed::Seals;
use crate::base::ids::OperationId;
use crate::base::json::{self as strict, Limits};
use crate::base::keyed::OperandKey;
use crate::base::normal;
use crate::catalog::{Catalog, Movement, Party};
use crate::console::payment_index::{PaymentKey, PaymentRow, WAYS};
use crate::console::state::ConsoleState;
use crate::ledger::{Kind, Outstanding, RecordKey, Step};
use crate::stations::claim::{ClaimState, SentRequest, decode_claim};
use crate::stations::hold::decode_hold;

/// The lists of the set in force, by the keyed names of their members.
#[derive(Debug)]
pub(super) struct DestinationNames {
    key: OperandKey,
    lists: HashMap<String, Vec<String>>,
}

impl DestinationNames {
    pub fn of(inside: &ConsoleState) -> DestinationNames {
        let (key, policies) = (inside.node.operand_key.clone(), inside.in_force.now().policies.clone());
        let listed = policies.list_names.iter();
        let lists = listed.map(|(name, lists)| (key.name("name", name), lists.iter().cloned().collect())).collect();
        DestinationNames { key, lists }
    }

    /// Returns the keyed names of an address or an identifier, or of the members of a list.
    pub fn keyed(&self, name: &str) -> BTreeSet<String> {
        let list = name.strip_prefix('@').unwrap_or(name);
        let members = self.lists.iter().filter(|(_, lists)| lists.iter().any(|one| one == list));
        let members = members.map(|(keyed, _)| keyed.clone());
        spellings(name).iter().map(|spelling| self.key.name("name", spelling)).chain(members).collect()
    }

    /// Returns the keyed names of the members of all lists whose name contains this text.
    pub fn of_lists_like(&self, text: &str) -> impl Iterator<Item = String> {
        let is_like = move |lists: &Vec<String>| lists.iter().any(|list| list.to_lowercase().contains(text));
        self.lists.iter().filter(move |(_, lists)| is_like(lists)).map(|(keyed, _)| keyed.clone())
    }

    fn lists_of(&self, party: Option<&str>) -> Vec<&str> {
        let parts = party.into_iter().flat_map(|party| party.split(' '));
        let lists: BTreeSet<&str> =
            parts.filter_map(|part| self.lists.get(part)).flatten().map(String::as_str).collect();
        lists.into_iter().collect()
    }

    /// Returns the JSON of one end: how it is named, its address where that is known, and the lists that contain it.
    pub fn party(&self, keyed: Option<&str>, stated: Option<&Party>) -> Value {
        let Some(keyed) = keyed else { return Value::Null };
        let mut parts = keyed.split(' ');
        let (way, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let kind = WAYS.into_iter().find(|(member, _)| *member == way).map_or("", |(_, word)| word);
        let stated = stated.and_then(|party| match way {
            "account" => party.account.as_deref(),
            "externalWallet" => party.external_wallet.as_deref(),
            "wallet" => party.wallet.as_deref(),
            _ => party.user.as_deref(),
        });
        json!({ "kind": kind, "name": stated.map(normal::shown_wallet), "keyed": name, "lists": self.lists_of(Some(keyed)) })
    }
}

/// Returns what a call moves, from the bytes that its entry wrote to the store; `None` where the entry has none, as that
/// of a refusal, or cannot be opened.
pub(super) fn stated_movement(
    seals: &Seals,
    catalog: &Catalog,
    (environment, claim): &PaymentKey,
    row: &PaymentRow,
    entry: &Outstanding,
) -> Option<Movement> {
    let journalled = seals.steps(entry).ok()??;
    let claim = RecordKey { environment: *environment, kind: Kind::Claim, name: claim.to_string() };
    let body = journalled.steps.into_iter().find_map(|step| match step {
        Step::Create { key, value, .. } | Step::Replace { key, value, .. } if key == claim => {
            match decode_claim(&seals.open(&key, value).ok()?).ok()?.state {
                ClaimState::Sending { sent, .. } => Some(sent),
                _ => None,
            }
        }
        Step::Create { key, value, .. } if key.kind == Kind::Hold => {
            Some(decode_hold(&seals.open(&key, value).ok()?).ok()?.sent)
        }
        _ => None,
    });
    let SentRequest { body, .. } = body?;
    let body = strict::parse(&body, Limits::ANSWER).ok()?;
    catalog.operation(&OperationId::new(&row.terms.operation))?.movement(&body)
}

/// Returns the spellings of a name that the journal may have.
pub(super) fn spellings(name: &str) -> [String; 2] {
    [normal::wallet(None, normal::uuid(name)), name.to_owned()]
}
