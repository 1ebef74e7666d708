//! The simulator's state, and what its records share: identifiers, times, users and their wallets.
//!
//! The state stores the records and knows no operation; `operations` reads and changes it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::naming::NameSource;
use super::offers::Offer;
use super::offramps::Offramp;
use super::records::{RecordDocument, Records, SimulatorRecord};
use super::settlement::RuleSet;
use super::swaps::Swap;
use super::users::User;
use crate::base::ids::OperationId;

/// The rails of the interface.
pub(super) const RAILS: [&str; 6] =
    ["USD", "SOUTH_AMERICA_STANDARD", "AFRICA_GENERAL", "AFRICA_NIGERIA", "GLOBAL_NETWORK", "USD_FIAT"];

#[derive(Debug)]
pub(super) struct SimulatorState {
    naming: NameSource,
    idempotent: bool,
    pace: Duration,
    /// The first good example of each operation's answer, for operations without a behaviour.
    examples: BTreeMap<OperationId, Value>,
    last_created_at: Timestamp,
    pub(super) users: Records<User>,
    pub(super) offramps: Records<Offramp>,
    pub(super) swaps: Records<Swap>,
    pub(super) offers: Records<Offer>,
    pub(super) rule_sets: Records<RuleSet>,
    pub(super) transfers: Records<RecordDocument>,
    pub(super) batches: Records<RecordDocument>,
    pub(super) accounts: Records<RecordDocument>,
    pub(super) virtual_accounts: Records<RecordDocument>,
    pub(super) orchestration_addresses: Records<RecordDocument>,
    /// By user and rail.
    pub(super) kyc: BTreeMap<(String, &'static str), &'static str>,
}

impl SimulatorState {
    pub(super) fn empty(
        naming: NameSource,
        idempotent: bool,
        pace: Duration,
        examples: BTreeMap<OperationId, Value>,
    ) -> SimulatorState {
        SimulatorState {
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

    /// Returns the record of an earlier call with this requestId, if a repetition must not make a second effect.
    pub(super) fn repeated<'r, T: SimulatorRecord>(&self, records: &'r Records<T>, request_id: &str) -> Option<&'r T> {
        if self.idempotent { records.of_request(request_id) } else { None }
    }

    /// Returns the first record that was made for this requestId, by whatever operation.
    pub(super) fn record_of(&self, request_id: &str, now: Timestamp) -> Option<Value> {
        let swap = self.swaps.of_request(request_id).map(|swap| swap.to_json(now));
        let offramp = || self.offramps.of_request(request_id).map(|offramp| offramp.to_json(now));
        let rules = || self.rule_sets.of_request(request_id).map(|rules| rules.body.clone());
        swap.or_else(offramp).or_else(rules)
    }

    pub(super) fn idempotent(&self) -> bool {
        self.idempotent
    }

    pub(super) fn naming(&self) -> NameSource {
        self.naming
    }

    pub(super) fn pace(&self) -> Duration {
        self.pace
    }

    /// Returns the identifier and the time of a new record. No two records share a time, because cursors are times.
    pub(super) fn next_record(&mut self, kind: &str, now: Timestamp) -> (String, Timestamp) {
        let count = self.offramps.len().saturating_add(self.swaps.len()).saturating_add(self.rule_sets.len());
        let created_at = self.next_moment(now);
        (self.naming.uuid(&format!("{kind}/created/{count}")), created_at)
    }

    /// Returns this time, or the first microsecond after the youngest record's.
    pub(super) fn next_moment(&mut self, now: Timestamp) -> Timestamp {
        let after = self.last_created_at.checked_add(SignedDuration::from_micros(1)).unwrap_or(now);
        self.last_created_at = now.max(after);
        self.last_created_at
    }

    /// Returns the user of a call that names none.
    pub(super) fn default_user(&self) -> &str {
        self.users.iter().next().map_or("", |user| user.id())
    }

    /// Returns a user's wallet; an unknown user also has one.
    pub(super) fn wallet_of(&self, user: &str) -> String {
        let known = self.users.find(user).and_then(User::wallet_address);
        known.unwrap_or_else(|| self.naming.evm_address(&format!("wallet/{user}")))
    }

    /// Returns a user as records show it.
    pub(super) fn person(&self, user: &str) -> Value {
        match self.users.find(user) {
            Some(user) => user.person(),
            None => json!({"email": "unknown@example.com", "lastName": null, "firstName": null, "businessName": null}),
        }
    }

    /// Returns the example answer of an operation without a behaviour.
    pub(super) fn example(&self, operation: &OperationId) -> Option<&Value> {
        self.examples.get(operation)
    }
}
