//! Users: individuals and businesses, their wallets, and what an update changes.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::records::Record;
use crate::base::normal;

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) id: String,
    pub(super) created_at: Timestamp,
    pub(super) name: Name,
    pub(super) email: String,
    pub(super) wallets: Vec<Wallet>,
}

/// What a user is called, which is also what kind of user it is.
#[derive(Clone, Debug)]
pub(super) enum Name {
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
            Name::Individual { .. } => "individual",
            Name::Business { .. } => "business",
        }
    }

    pub(super) fn apply(&mut self, call: &Call) {
        let set = |field: &mut String, pointer: &str| {
            if let Some(text) = call.text(pointer) {
                text.clone_into(field);
            }
        };
        set(&mut self.email, "/email");
        match &mut self.name {
            Name::Individual { first, last } => {
                set(first, "/firstName");
                set(last, "/lastName");
            }
            Name::Business { name } => set(name, "/businessName"),
        }
    }

    pub(super) fn wanted(&self, call: &Call) -> bool {
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

    /// How records of money show the user.
    pub(super) fn person(&self) -> Value {
        let (first, last, business) = self.name.parts();
        json!({"email": self.email, "lastName": last, "firstName": first, "businessName": business})
    }

    pub(super) fn to_json(&self) -> Value {
        let name = match &self.name {
            Name::Individual { first, last } => format!("{first} {last}"),
            Name::Business { name } => name.clone(),
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

impl Name {
    fn parts(&self) -> (Option<&str>, Option<&str>, Option<&str>) {
        match self {
            Name::Individual { first, last } => (Some(first), Some(last), None),
            Name::Business { name } => (None, None, Some(name)),
        }
    }
}

impl Record for User {
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
