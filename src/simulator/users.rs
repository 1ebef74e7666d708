//! Users: individuals and businesses, their wallets, and the fields that an update changes.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::call::SimulatedCall;
use super::records::SimulatorRecord;
use crate::base::normal;

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) id: String,
    pub(super) created_at: Timestamp,
    pub(super) name: PersonName,
    pub(super) email: String,
    pub(super) wallets: Vec<Wallet>,
}

/// The name of a user, which also determines the kind of user.
#[derive(Clone, Debug)]
pub(super) enum PersonName {
    Individual { first: String, last: String },
    Business { name: String },
}

#[derive(Clone, Debug)]
pub(super) struct Wallet {
    pub(super) id: String,
    pub(super) chain: &'static str,
    pub(super) address: String,
}

impl User {
    pub(super) fn kind(&self) -> &'static str {
        match self.name {
            PersonName::Individual { .. } => "individual",
            PersonName::Business { .. } => "business",
        }
    }

    pub(super) fn apply(&mut self, call: &SimulatedCall) {
        let set = |field: &mut String, pointer: &str| {
            if let Some(text) = call.text(pointer) {
                text.clone_into(field);
            }
        };
        set(&mut self.email, "/email");
        match &mut self.name {
            PersonName::Individual { first, last } => {
                set(first, "/firstName");
                set(last, "/lastName");
            }
            PersonName::Business { name } => set(name, "/businessName"),
        }
    }

    pub(super) fn wanted(&self, call: &SimulatedCall) -> bool {
        let (first, last, business) = self.name.parts();
        let contains = |field: Option<&str>, wanted: &str| {
            field.is_some_and(|text| text.to_lowercase().contains(&wanted.to_lowercase()))
        };
        let meets = |name: &str, field: Option<&str>| call.query(name).is_none_or(|wanted| contains(field, wanted));
        let email = Some(self.email.as_str());
        let found = call.query("search").is_none_or(|wanted| match normal::is_uuid(wanted) {
            true => normal::uuid(wanted) == self.id,
            false => [first, last, business, email].into_iter().any(|field| contains(field, wanted)),
        });
        call.query("type").is_none_or(|kind| kind == self.kind())
            && meets("firstName", first)
            && meets("lastName", last)
            && meets("businessName", business)
            && meets("email", email)
            && found
    }

    pub(super) fn wallet_address(&self) -> Option<String> {
        self.wallets.first().map(|wallet| wallet.address.clone())
    }

    /// Returns the user as records of money show it.
    pub(super) fn person(&self) -> Value {
        let (first, last, business) = self.name.parts();
        json!({"email": self.email, "lastName": last, "firstName": first, "businessName": business})
    }

    pub(super) fn to_json(&self) -> Value {
        let name = match &self.name {
            PersonName::Individual { first, last } => format!("{first} {last}"),
            PersonName::Business { name } => name.clone(),
        };
        let wallet = |w: &Wallet| (w.chain.to_owned(), json!({"id": w.id, "address": w.address}));
        let wallets: Map<String, Value> = self.wallets.iter().map(wallet).collect();
        json!({
            "id": self.id,
            "createdAt": self.created_at.to_string(),
            "type": self.kind(),
            "email": self.email,
            "name": name,
            "wallets": {"INDIVIDUAL": wallets},
        })
    }
}

impl PersonName {
    fn parts(&self) -> (Option<&str>, Option<&str>, Option<&str>) {
        match self {
            PersonName::Individual { first, last } => (Some(first), Some(last), None),
            PersonName::Business { name } => (None, None, Some(name)),
        }
    }
}

impl SimulatorRecord for User {
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
        normal::uuid(user) == self.id
    }
}
