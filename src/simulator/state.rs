//! Everything that the simulator remembers, and which function answers which operation.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::answer::Done;
use super::call::Call;
use super::naming::Naming;
use super::offers::Offer;
use super::offramps::Offramp;
use super::records::{Document, Record, Records};
use super::refusal::Refusal;
use super::settlement::RuleSet;
use super::swaps::Swap;
use super::users::User;
use super::{offers, offramps, reads, reporting, settlement, swaps, users};
use crate::base::ids::OperationId;

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

    /// Carries out a call that satisfies the contract.
    pub(super) fn carry_out(&mut self, call: &Call) -> Result<Done, Refusal> {
        match call.operation.id.as_str() {
            "listOfframps" => offramps::list(self, call),
            "createOfframp" => offramps::create(self, call),
            "createSwap" => swaps::create(self, call),
            "cancelSwap" => swaps::cancel(self, call),
            "listUsers" => users::list(self, call),
            "updateUser" => users::update(self, call),
            "listOrchestrationAddresses" => reads::orchestration_addresses(self, call),
            "getOrchestrationAddress" => reads::orchestration_address(self, call),
            "getVirtualAccount" => reads::virtual_account(self, call),
            "getKycStatus" => reads::kyc_status(self, call),
            "getAccount" => reads::account(self, call),
            "createSettlementRule" => settlement::create(self, call),
            "listTransfers" => reads::transfers(self, call),
            "listBatchTransfers" => reads::batch_transfers(self, call),
            "getTransfer" => reads::transfer(self, call),
            "acceptOffer" => offers::accept(self, call),
            "listReportingTemplates" => Ok(Done::read(reporting::templates(self, call.now))),
            "createTosLink" => Ok(self.tos_link(call)),
            _ => self.example(call),
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

    fn tos_link(&mut self, call: &Call) -> Done {
        let moment = self.next_moment(call.now);
        let session = self.naming.uuid(&format!("tos/{moment}"));
        Done::created(json!({"url": format!("https://tos.example.com/sign/{session}"), "sessionId": session}))
    }

    fn example(&self, call: &Call) -> Result<Done, Refusal> {
        let body = self.examples.get(&call.operation.id).cloned().ok_or(Refusal::NoBehaviour)?;
        Ok(if call.operation.is_write() { Done::changed(body) } else { Done::read(body) })
    }
}
