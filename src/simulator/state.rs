//! Everything that the simulator remembers, and what holds between its records: identifiers, times, users and their wallets.
//!
//! It keeps the records and knows no operation; `operations` reads and changes it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::naming::Naming;
use super::offers::Offer;
use super::offramps::Offramp;
use super::records::{Document, Record, Records};
use super::settlement::RuleSet;
use super::swaps::Swap;
use super::users::User;
use crate::base::ids::OperationId;

/// The rails of the interface.
pub(super) const RAILS: [&str; 6] =
    ["USD", "SOUTH_AMERICA_STANDARD", "AFRICA_GENERAL", "AFRICA_NIGERIA", "GLOBAL_NETWORK", "USD_FIAT"];

#[derive(Debug)]
pub(super) struct State {
    naming: Naming,
    idempotent: bool,
    pace: Duration,
    /// The first good example of each operation's answer, for operations that have no behaviour here.
    examples: BTreeMap<OperationId, Value>,
    last_created_at: Timestamp,
    pub(super) users: Records<User>,
    pub(super) offramps: Records<Offramp>,
    pub(super) swaps: Records<Swap>,
    pub(super) offers: Records<Offer>,
    pub(super) rule_sets: Records<RuleSet>,
    pub(super) transfers: Records<Document>,
    pub(super) batches: Records<Document>,
    pub(super) accounts: Records<Document>,
    pub(super) virtual_accounts: Records<Document>,
    pub(super) orchestration_addresses: Records<Document>,
    /// By user and rail.
    pub(super) kyc: BTreeMap<(String, &'static str), &'static str>,
}

impl State {
    pub(super) fn empty(
        naming: Naming,
        idempotent: bool,
        pace: Duration,
        examples: BTreeMap<OperationId, Value>,
    ) -> State {
        State {
            naming,
            idempotent,
            pace,
            examples,
            last_created_at: Timestamp::MIN,
            users: Records::new(),
            offramps: Records::new(),
            swaps: Records::new(),
            offers: Records::new(),
            rule_sets: Records::new(),
            transfers: Records::new(),
            batches: Records::new(),
            accounts: Records::new(),
            virtual_accounts: Records::new(),
            orchestration_addresses: Records::new(),
            kyc: BTreeMap::new(),
        }
    }

    /// The record of an earlier call with this requestId, if a repetition is to make no second effect.
    pub(super) fn repeated<'r, T: Record>(&self, records: &'r Records<T>, request_id: &str) -> Option<&'r T> {
        if self.idempotent { records.of_request(request_id) } else { None }
    }

    pub(super) fn idempotent(&self) -> bool {
        self.idempotent
    }

    pub(super) fn naming(&self) -> Naming {
        self.naming
    }

    pub(super) fn pace(&self) -> Duration {
        self.pace
    }

    /// The identifier and the time of a new record. No two records share a time, for cursors are times.
    pub(super) fn next_record(&mut self, kind: &str, now: Timestamp) -> (String, Timestamp) {
        let count = self.offramps.len().saturating_add(self.swaps.len()).saturating_add(self.rule_sets.len());
        let created_at = self.next_moment(now);
        (self.naming.uuid(&format!("{kind}/created/{count}")), created_at)
    }

    /// This time, or the first microsecond after the youngest record's.
    pub(super) fn next_moment(&mut self, now: Timestamp) -> Timestamp {
        let after = self.last_created_at.checked_add(SignedDuration::from_micros(1)).unwrap_or(now);
        self.last_created_at = now.max(after);
        self.last_created_at
    }

    /// Who is meant where a call names no user.
    pub(super) fn default_user(&self) -> &str {
        self.users.iter().next().map_or("", |user| user.id())
    }

    /// A user's wallet; one that the simulator does not know has one all the same.
    pub(super) fn wallet_of(&self, user: &str) -> String {
        let known = self.users.find(user).and_then(User::wallet_address);
        known.unwrap_or_else(|| self.naming.evm_address(&format!("wallet/{user}")))
    }

    /// How records show a user.
    pub(super) fn person(&self, user: &str) -> Value {
        match self.users.find(user) {
            Some(user) => user.person(),
            None => json!({"email": "unknown@example.com", "lastName": null, "firstName": null, "businessName": null}),
        }
    }

    /// An answer for an operation that has no behaviour.
    pub(super) fn example(&self, operation: &OperationId) -> Option<&Value> {
        self.examples.get(operation)
    }
}
