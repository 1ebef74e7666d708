//! Canton offers: received, then accepted or expired.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::records::Record;
use crate::base::normal;

#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) id: String,
    pub(super) user_id: String,
    pub(super) wallet_id: String,
    pub(super) amount: &'static str,
    pub(super) party: String,
    pub(super) own_party: String,
    pub(super) creation_hash: String,
    pub(super) created_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) end: Option<End>,
}

/// The statuses that the simulator uses, of those that the interface lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Received,
    Accepted,
    Withdrawn,
    Expired,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Status::Received => "RECEIVED",
            Status::Accepted => "ACCEPTED",
            Status::Withdrawn => "WITHDRAWN",
            Status::Expired => "EXPIRED",
        }
    }
}

/// How an offer came to its end other than by time.
#[derive(Clone, Debug)]
pub(super) enum End {
    Accepted { at: Timestamp, hash: String },
    Withdrawn { at: Timestamp },
}

impl Offer {
    pub(super) fn status(&self, now: Timestamp) -> Status {
        match &self.end {
            Some(End::Accepted { .. }) => Status::Accepted,
            Some(End::Withdrawn { .. }) => Status::Withdrawn,
            None if self.expires_at.is_some_and(|at| at <= now) => Status::Expired,
            None => Status::Received,
        }
    }

    pub(super) fn to_json(&self, now: Timestamp) -> Value {
        let (updated_at, hash) = match &self.end {
            Some(End::Accepted { at, hash }) => (*at, Some(hash)),
            Some(End::Withdrawn { at }) => (*at, None),
            None => (self.created_at, None),
        };
        json!({
            "id": self.id,
            "status": self.status(now).as_str(),
            "amount": self.amount,
            "currency": "usdcx",
            "source": {"party": self.party},
            "destination": {"userId": self.user_id, "userWalletId": self.wallet_id, "party": self.own_party},
            "creationTransactionHash": self.creation_hash,
            "executionTransactionHash": hash,
            "createdAt": self.created_at.to_string(),
            "updatedAt": updated_at.to_string(),
            "expiresAt": self.expires_at.map(|at| at.to_string()),
        })
    }
}

impl Record for Offer {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn request_id(&self) -> Option<&str> {
        None
    }

    fn concerns(&self, user: &str) -> bool {
        normal::uuid(user) == self.user_id
    }
}
