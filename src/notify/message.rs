//! One notice for one outlet, and its stored form.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::event::NoticeEvent;
use crate::base::ids::{HoldId, OperationId};
use crate::base::json::{self, FormError};
use crate::ledger::StoreTime;

/// The format of a notice's record. No other is read.
const FORMAT: u64 = 1;

/// An event as it was when it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Message {
    /// The id, the same for every outlet and every attempt.
    pub id: String,
    pub event: NoticeEvent,
    pub operation: Option<OperationId>,
    pub hold: Option<HoldId>,
    /// The state of the hold, or of its outcome.
    pub state: String,
    /// The number of the attempt's commit, for auditors.
    pub attempt: Option<u64>,
    /// Upstream's name of the payment, where the event is about its record.
    pub record: Option<String>,
    /// The hold, where there is one.
    pub waited: Option<Waited>,
    /// The policies that wait, where the event is about them.
    pub policies: Option<WaitingPolicies>,
    /// `None`: when this record was written.
    #[serde(rename = "happenedMicros")]
    pub happened: Option<StoreTime>,
    /// The lease of the sending node: no other node sends before this.
    #[serde(rename = "notBeforeMicros")]
    pub not_before: Option<StoreTime>,
    /// The attempts so far.
    pub tries: u32,
}

/// The versions of policies that wait, and of those that they would replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitingPolicies {
    pub version: String,
    pub replaces: String,
}

/// The facts of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Waited {
    /// The rules and limits that held it.
    pub rules: Vec<String>,
    /// `None`: when the notice was filed.
    #[serde(rename = "createdMicros")]
    pub created: Option<StoreTime>,
    #[serde(rename = "lastsSecs", with = "json::written_as::secs")]
    pub lasts: Duration,
    pub asked: BTreeSet<Arc<str>>,
    /// The people who had approved: missing approvals are counted at delivery, and their names are never sent.
    pub voters: BTreeSet<String>,
}

impl Message {
    /// The notice as the next record has it: from then on the record states when the event happened.
    pub fn next(self, written: StoreTime) -> Message {
        let happened = Some(self.happened.unwrap_or(written));
        let waited = self.waited.map(|waited| Waited { created: waited.created.or(happened), ..waited });
        Message { happened, waited, ..self }
    }

    pub fn happened(&self, written: StoreTime) -> StoreTime {
        self.happened.unwrap_or(written)
    }

    pub fn expires(&self, written: StoreTime) -> Option<StoreTime> {
        let waited = self.waited.as_ref()?;
        Some(waited.created.unwrap_or_else(|| self.happened(written)).plus(waited.lasts))
    }
}

/// The name of an outlet's notice in the store.
pub(super) fn member(outlet: &str, id: &str) -> String {
    format!("{outlet}/{id}")
}

pub fn member_of(outlet: &str, message: &Message) -> String {
    member(outlet, &message.id)
}

/// The outlet of a name in the store.
pub fn outlet_of(member: &str) -> &str {
    member.split_once('/').map_or(member, |(outlet, _)| outlet)
}

/// The record is not a notice in this version's format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the record of a message cannot be read: {0}")]
pub struct UnreadableMessage(#[from] pub FormError);

pub fn encode_message(message: &Message) -> Bytes {
    json::to_record(message, FORMAT).into()
}

pub fn decode_message(bytes: &[u8]) -> Result<Message, UnreadableMessage> {
    Ok(json::from_record(bytes, FORMAT)?)
}
