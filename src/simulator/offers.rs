//! Canton offers: received, then accepted or expired.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::records::SimulatorRecord;
use crate::base::normal;
use crate::base::word_enum::word_enum;

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
    pub(super) end: Option<OfferEnd>,
}

word_enum! {
    /// The statuses that the simulator uses, of those that the interface lists.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum OfferStatus {
        Received = "RECEIVED",
        Accepted = "ACCEPTED",
        Withdrawn = "WITHDRAWN",
        Expired = "EXPIRED",
    }
}

/// How an offer ended other than by time.
#[derive(Clone, Debug)]
pub(super) enum OfferEnd {
    Accepted { at: Timestamp, hash: String },
    Withdrawn { at: Timestamp },
}

impl Offer {
    pub(super) fn status(&self, now: Timestamp) -> OfferStatus {
        match &self.end {
            Some(OfferEnd::Accepted { .. }) => OfferStatus::Accepted,
            Some(OfferEnd::Withdrawn { .. }) => OfferStatus::Withdrawn,
            None if self.expires_at.is_some_and(|at| at <= now) => OfferStatus::Expired,
            None => OfferStatus::Received,
        }
    }

    pub(super) fn to_json(&self, now: Timestamp) -> Value {
        let (updated_at, hash) = match &self.end {
            Some(OfferEnd::Accepted { at, hash }) => (*at, Some(hash)),
            Some(OfferEnd::Withdrawn { at }) => (*at, None),
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

impl SimulatorRecord for Offer {
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
