//! Compares the payment in the answer to an executed call with the call.

use jiff::Timestamp;
use serde_json::Value;

use super::comparison::{RecordProblem, problem_of};
use super::listing::{in_plain_digits, name};
use super::payment::ForeignRecord;
use crate::base::ids::is_identifier;
use crate::base::json::{self, Limits};
use crate::base::normal;
use crate::catalog::{Movement, Operation};
use crate::ledger::StoreTime;
use crate::stations::claim::{is_older_than, micros};

/// The answer to a call that moves money.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredPayment<'a> {
    pub operation: &'a Operation,
    /// The money that the call asked for.
    pub asked: &'a Movement,
    /// The name of the payment where the answer states none of its own.
    pub own_name: &'a str,
    /// When its first attempt was made, where the answer is the record that the call makes.
    pub since: Option<StoreTime>,
    /// The time of the answer, where it does not state when the payment was made.
    pub at: Timestamp,
}

impl AnsweredPayment<'_> {
    /// Returns the payment of an answer where it is not as it was sent. A field that the answer lacks proves nothing.
    pub fn differing(&self, answer: &[u8]) -> Option<ForeignRecord> {
        let answer = json::parse(answer, Limits::UPSTREAM_TREE).ok()?;
        let place = self.operation.answered_request_id.as_ref();
        // Money fields are beside the requestId, as in the request.
        let details = place.and_then(|place| place.parent()?.get(&answer)).unwrap_or(&answer);
        let moves = in_plain_digits(self.operation.movement(details)?);
        let created = details.get("createdAt").and_then(micros);
        let is_older = self.since.zip(created).is_some_and(|(since, made)| is_older_than(since, made));
        let older = is_older.then_some(RecordProblem::OlderRecord);
        let problem = older.or_else(|| problem_of(self.asked, &moves))?;
        let stated = |name: &str| details.get(name).and_then(Value::as_str);
        let text = |name: &str| stated(name).filter(|text| is_identifier(text));
        let listed = self.operation.follow.as_ref().and_then(|follow| name(follow, &answer));
        let request_id = place.and_then(|place| place.get(&answer)).and_then(Value::as_str);
        Some(ForeignRecord {
            operation: self.operation.id.clone(),
            id: listed.or_else(|| text("id").map(normal::uuid)).unwrap_or_else(|| self.own_name.to_owned()),
            request_id: request_id.filter(|id| is_identifier(id)).map(str::to_owned),
            problem,
            state: text("status").unwrap_or_default().to_owned(),
            created: created.unwrap_or_else(|| self.at.as_microsecond()),
            moves,
        })
    }
}
