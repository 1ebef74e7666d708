//! The part of a request that rules have read, recorded so that it can be decided again.
//!
//! Personal data and the destinations of money are recorded as digests under a key; rules whose names are digested
//! under the same key can decide the request again. A field that no rule read is not recorded, and never guessed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::acquaintance::{fact_name, fact_parts};
use super::body_facts::KeptOperands;
use super::condition::{Condition, SoughtValue, Ways};
use super::literal::Literal;
use super::request::{Field, PolicyRequest, View};
use super::rules::{Rules, Verdict};
use crate::base::keyed::OperandKey;
use crate::base::normal;
use crate::base::pointer::Pointer;
use crate::catalog::{Charge, ChargeForm, Movement, Party};
use crate::ledger::StoreTime;

/// A request as it was decided, and the facts of the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operands {
    /// The identifier of the key.
    pub key: String,
    /// The store's time that the decision assumed.
    pub now: StoreTime,
    pub roles: BTreeSet<String>,
    pub path_parameters: Vec<(String, String)>,
    pub movement: Option<Movement>,
    /// The value at the time of the decision, in micro-USD.
    pub value: Option<u64>,
    pub paid: BTreeMap<String, bool>,
    pub body: KeptOperands,
}

impl Literal {
    fn keyed(&self, key: &OperandKey) -> String {
        match self {
            Literal::Text(text) => key.name("text", text),
            Literal::Number(number) => key.name("number", &number.to_string()),
            Literal::Truth(truth) => key.name("truth", &truth.to_string()),
        }
    }
}

/// Returns the operands of a decision, for its audit entry.
pub fn operands(
    asked: &PolicyRequest<'_>,
    places: &[Pointer],
    now: StoreTime,
    verdict: &Verdict,
    key: &OperandKey,
) -> Value {
    let mut told = Map::new();
    told.insert("key".to_owned(), key.id().into());
    told.insert("now".to_owned(), now.as_micros().into());
    let mut add = |name: &str, value: Value| {
        if !matches!(&value, Value::Null) && value != json!({}) && value != json!([]) {
            told.insert(name.to_owned(), value);
        }
    };
    add("roles", asked.roles.iter().map(String::as_str).collect());
    let path = asked.path_parameters.iter().map(|(name, value)| {
        let value = key.name("name", &normal::uuid(value));
        (name.clone(), Value::from(value))
    });
    add("path", Value::Object(path.collect()));
    if let Some(movement) = asked.movement {
        add("source", party(&movement.source, key));
        add("destination", party(&movement.destination, key));
        add("fees", movement.fee_wallets.iter().map(|wallet| key.name("name", wallet)).collect());
        add("feeChain", movement.fee_chain.clone().into());
        add("charges", movement.charges.iter().map(|one| charge(one, key)).collect());
        add("price", movement.price.clone().into());
    }
    add("value", verdict.value.map(|value| value.as_u64()).into());
    let paid = verdict.assumed.iter().map(|(name, paid)| {
        let (destination, cooldown) = fact_parts(name);
        let (kind, name) = destination.rsplit_once(':').unwrap_or(("", destination));
        (fact_name(&format!("{kind}:{}", key.name("name", name)), cooldown), Value::from(*paid))
    });
    add("paid", Value::Object(paid.collect()));
    let places = places.iter().chain(asked.operation.fields_to_name());
    let body = places.map(|place| {
        let literals = asked.body.literals(place).unwrap_or_default();
        let keyed: Vec<Option<String>> =
            literals.iter().map(|literal| literal.as_ref().map(|literal| literal.keyed(key))).collect();
        (place.to_string(), Value::from(keyed))
    });
    add("body", Value::Object(body.collect()));
    if !asked.operation.has_amount() {
        let view = View::unvalued(asked);
        add("payment", key.name("payment", &view.payment().to_hex()).into());
    }
    Value::Object(told)
}

fn charge(charge: &Charge, key: &OperandKey) -> Value {
    let Charge { form, value, wallet, is_included } = charge;
    json!({
        "form": form.map(ChargeForm::as_str),
        "value": value,
        "wallet": wallet.as_ref().map(|wallet| key.name("name", wallet)),
        "included": is_included,
    })
}

fn read_charge(told: &Value) -> Option<Charge> {
    let text = |name: &str| told.get(name).and_then(Value::as_str);
    Some(Charge {
        form: text("form").and_then(ChargeForm::parse),
        value: text("value").map(str::to_owned),
        wallet: text("wallet").map(str::to_owned),
        is_included: told.get("included")?.as_bool()?,
    })
}

fn party(party: &Party, key: &OperandKey) -> Value {
    let Party { amount, currency, chain, user, wallet, external_wallet, account } = party;
    let plain = [("amount", amount), ("currency", currency), ("chain", chain)];
    let personal = [("user", user), ("wallet", wallet), ("externalWallet", external_wallet), ("account", account)];
    let plain = plain.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into())));
    let personal = personal
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), key.name("name", value.as_ref()?).into())));
    Value::Object(plain.chain(personal).collect())
}

impl Operands {
    /// Parses the operands that [`operands`] wrote; `None` if they are invalid.
    pub fn read(told: &Value) -> Option<Operands> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |name: &str| -> Option<Vec<String>> {
            told.get(name).map_or(Some(Vec::new()), |list| list.as_array()?.iter().map(text).collect())
        };
        let members = |name: &str| -> Option<Map<String, Value>> {
            told.get(name).map_or_else(|| Some(Map::new()), |members| members.as_object().cloned())
        };
        let side = |name: &str| members(name).map(|members| read_party(&members));
        let literal = |value: &Value| value.as_str().map(str::to_owned);
        let place =
            |(place, found): (String, Value)| Some((place, found.as_array()?.iter().map(literal).collect::<Vec<_>>()));
        Some(Operands {
            key: text(told.get("key")?)?,
            now: StoreTime::of_micros(told.get("now")?.as_i64()?),
            roles: texts("roles")?.into_iter().collect(),
            path_parameters: members("path")?
                .iter()
                .map(|(name, value)| Some((name.clone(), text(value)?)))
                .collect::<Option<_>>()?,
            movement: Some(Movement {
                source: side("source")?,
                destination: side("destination")?,
                fee_wallets: texts("fees")?,
                fee_chain: told.get("feeChain").and_then(text),
                charges: told
                    .get("charges")
                    .map_or(Some(Vec::new()), |list| list.as_array()?.iter().map(read_charge).collect())?,
                price: told.get("price").and_then(text),
            }),
            value: told.get("value").and_then(Value::as_u64),
            paid: members("paid")?
                .iter()
                .map(|(name, paid)| Some((name.clone(), paid.as_bool()?)))
                .collect::<Option<_>>()?,
            body: KeptOperands {
                places: members("body")?.into_iter().map(place).collect::<Option<_>>()?,
                payment: told.get("payment").and_then(text),
            },
        })
    }
}

fn read_party(members: &Map<String, Value>) -> Party {
    let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
    Party {
        amount: text("amount"),
        currency: text("currency"),
        chain: text("chain"),
        user: text("user"),
        wallet: text("wallet"),
        external_wallet: text("externalWallet"),
        account: text("account"),
    }
}

impl Rules {
    /// Returns the same rules with personal names digested under a key.
    pub fn keyed(&self, key: &OperandKey) -> Rules {
        let (mut rules, mut limits) = (self.rules.clone(), self.limits.clone());
        let of_rules = rules.iter_mut().map(|rule| &mut rule.when.conditions);
        let of_limits = limits.iter_mut().map(|limit| &mut limit.conditions);
        for condition in of_rules.chain(of_limits).flatten() {
            put_under(condition, key);
        }
        Rules::new(rules, limits, self.approvals.clone(), self.groups.clone(), self.valuation.clone())
    }
}

fn put_under(condition: &mut Condition, key: &OperandKey) {
    let names = |set: &BTreeSet<String>| set.iter().map(|name| key.name("name", name)).collect();
    match condition {
        Condition::Names(field, set) | Condition::NotNames(field, set) if is_personal(*field) => *set = names(set),
        Condition::FeesOnlyTo(set) => *set = names(set),
        Condition::Destination(Ways { user, wallet, external_wallet })
        | Condition::NotDestination(Ways { user, wallet, external_wallet }) => {
            for set in [user, wallet, external_wallet] {
                *set = names(set);
            }
        }
        Condition::Body(_, SoughtValue::Among(set) | SoughtValue::NotAmong(set)) => {
            *set = set.iter().map(|literal| Literal::Text(literal.keyed(key))).collect();
        }
        Condition::During(_, _, inner) => put_under(inner, key),
        Condition::Names(..)
        | Condition::NotNames(..)
        | Condition::NewDestination { .. }
        | Condition::Amount { .. }
        | Condition::Price(_)
        | Condition::Body(_, SoughtValue::Present | SoughtValue::Absent)
        | Condition::Weekday(..)
        | Condition::Hour(..)
        | Condition::Date(..) => {}
    }
}

fn is_personal(field: Field) -> bool {
    match field {
        Field::User
        | Field::PathUser
        | Field::SourceUser
        | Field::DestinationUser
        | Field::Wallet
        | Field::SourceWallet
        | Field::DestinationWallet
        | Field::DestinationExternal
        | Field::Account
        | Field::SourceAccount
        | Field::DestinationAccount
        | Field::FeeWallet => true,
        Field::Environment
        | Field::Issuer
        | Field::Caller
        | Field::Requester
        | Field::Role
        | Field::Chain
        | Field::SourceChain
        | Field::DestinationChain
        | Field::Currency
        | Field::SourceCurrency
        | Field::DestinationCurrency => false,
    }
}
