//! A request in the form that policies use: the caller, the operation, where its money goes, and its value.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use thiserror::Error;

use super::body_facts::Stated;
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::money::{Assets, Decimal, MicroUsd, MoneyFault, asset_name};
use crate::base::normal;
use crate::base::word_enum::word_enum;
use crate::catalog::{Charge, ChargeForm, ClaimSource, Movement, Operation, Party};
use crate::ledger::StoreTime;

/// A request, after its check.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    pub environment: Environment,
    pub operation: &'a Operation,
    /// The name of the caller's issuer.
    pub issuer: &'a str,
    pub subject: &'a str,
    /// The person behind a service's token.
    pub requester: Option<&'a str>,
    pub roles: &'a BTreeSet<String>,
    /// Path and parameters, as they are sent.
    pub path: &'a str,
    pub path_parameters: &'a [(String, String)],
    pub body: Stated<'a>,
    pub movement: Option<&'a Movement>,
}

/// The facts that a decision may use besides the request.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Returns the store's time.
    pub now: StoreTime,
    /// Whether each destination was paid before, or is known for a cool-down, by [`fact_name`]. A missing one is unknown.
    ///
    /// [`fact_name`]: super::fact_name
    pub paid: BTreeMap<String, bool>,
    /// The windows that are full in the store, by limit and key, and what they contain.
    pub exceeded: BTreeMap<(String, String), u64>,
}

impl Facts {
    pub fn now_secs(&self) -> i64 {
        self.now.as_micros().div_euclid(1_000_000)
    }
}

word_enum! {
    /// A field with names, in their normal forms.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Field {
        Environment = "the environment",
        Issuer = "the caller's issuer",
        Caller = "the caller",
        Requester = "the requester",
        Role = "a role of the caller",
        User = "every user",
        PathUser = "the user of the path",
        SourceUser = "the source's user",
        DestinationUser = "the destination's user",
        Chain = "every chain",
        SourceChain = "the source's chain",
        DestinationChain = "the destination's chain",
        Currency = "every currency",
        SourceCurrency = "the source's currency",
        DestinationCurrency = "the destination's currency",
        Wallet = "every wallet",
        SourceWallet = "the source's wallet",
        DestinationWallet = "the destination's wallet",
        DestinationExternal = "the destination's external wallet",
        Account = "every account",
        SourceAccount = "the source's account",
        DestinationAccount = "the destination's account",
        FeeWallet = "every wallet that takes fees",
    }
}

impl Field {
    /// Returns the fields that it stands for: itself, or one on each side.
    pub fn parts(self) -> &'static [Field] {
        match self {
            Field::Environment => &[Field::Environment],
            Field::Issuer => &[Field::Issuer],
            Field::Caller => &[Field::Caller],
            Field::Requester => &[Field::Requester],
            Field::Role => &[Field::Role],
            Field::User => &[Field::SourceUser, Field::DestinationUser, Field::PathUser],
            Field::PathUser => &[Field::PathUser],
            Field::SourceUser => &[Field::SourceUser],
            Field::DestinationUser => &[Field::DestinationUser],
            Field::Chain => &[Field::SourceChain, Field::DestinationChain],
            Field::SourceChain => &[Field::SourceChain],
            Field::DestinationChain => &[Field::DestinationChain],
            Field::Currency => &[Field::SourceCurrency, Field::DestinationCurrency],
            Field::SourceCurrency => &[Field::SourceCurrency],
            Field::DestinationCurrency => &[Field::DestinationCurrency],
            Field::Wallet => &[Field::SourceWallet, Field::DestinationWallet, Field::FeeWallet],
            Field::SourceWallet => &[Field::SourceWallet],
            Field::DestinationWallet => &[Field::DestinationWallet],
            Field::DestinationExternal => &[Field::DestinationExternal],
            Field::Account => &[Field::SourceAccount, Field::DestinationAccount],
            Field::SourceAccount => &[Field::SourceAccount],
            Field::DestinationAccount => &[Field::DestinationAccount],
            Field::FeeWallet => &[Field::FeeWallet],
        }
    }

    /// Whether it describes the caller: then one matching value is enough, whatever the rule does.
    pub fn is_of_caller(self) -> bool {
        matches!(self, Field::Environment | Field::Issuer | Field::Caller | Field::Requester | Field::Role)
    }
}

/// Why a request that can state an amount has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ValueFault {
    #[error("no amount is stated")]
    NotStated,
    /// The body only states what arrives, and nothing bounds what is spent.
    #[error("nothing bounds what is spent for the stated destination amount")]
    Unbounded,
    #[error("the source amount cannot be valued: {0}")]
    Source(MoneyFault),
    #[error("the destination amount cannot be valued: {0}")]
    Destination(MoneyFault),
    #[error("the limit price is invalid: {0}")]
    Price(MoneyFault),
    #[error("a fee cannot be valued: {0}")]
    Fee(MoneyFault),
    #[error("the form or the value of a fee is missing or unknown")]
    FeeForm,
}

/// How amounts are valued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Valuation {
    pub assets: Assets,
    /// How much more than the arriving value may be spent, in millionths; `None` if not configured.
    pub slippage_millionths: Option<u64>,
}

impl Valuation {
    /// Returns the value that moves: that of the greater side, and of all fees on top. A percentage is taken on the
    /// greater side.
    pub fn value(&self, movement: &Movement, now_secs: i64) -> Result<MicroUsd, ValueFault> {
        self.with_fees(self.gross(movement, now_secs)?, movement, now_secs)
    }

    /// Returns the value with all fees, for that of the greater side.
    pub(super) fn with_fees(
        &self,
        gross: MicroUsd,
        movement: &Movement,
        now_secs: i64,
    ) -> Result<MicroUsd, ValueFault> {
        let (mut on_top, mut included) = (gross, MicroUsd::default());
        for charge in &movement.charges {
            let fee = self.fee(charge, gross, movement, now_secs)?;
            let sum = if charge.is_included { &mut included } else { &mut on_top };
            *sum = sum.plus(fee).map_err(ValueFault::Fee)?;
        }
        Ok(on_top.max(included))
    }

    /// Returns the value of a fee. The contract names no asset of fees, so an amount counts in the dearer asset of the
    /// two sides.
    fn fee(
        &self,
        charge: &Charge,
        gross: MicroUsd,
        movement: &Movement,
        now_secs: i64,
    ) -> Result<MicroUsd, ValueFault> {
        let (form, value) = charge.form.zip(charge.value.as_deref()).ok_or(ValueFault::FeeForm)?;
        let value = Decimal::parse(value).map_err(ValueFault::Fee)?;
        if form == ChargeForm::Percentage {
            return gross.fraction(value).map_err(ValueFault::Fee);
        }
        let assets = [&movement.source, &movement.destination].into_iter().filter_map(|side| side.currency.as_deref());
        let mut dearest = None;
        for asset in assets {
            let worth = self.assets.value_of_fee(value, asset, now_secs).map_err(ValueFault::Fee)?;
            dearest = dearest.max(Some(worth));
        }
        dearest.ok_or(ValueFault::Fee(MoneyFault::UnknownAsset))
    }

    /// Returns the value of the greater side, if both are stated.
    fn gross(&self, movement: &Movement, now_secs: i64) -> Result<MicroUsd, ValueFault> {
        let side = |party: &Party| {
            let currency = party.currency.as_deref().unwrap_or("");
            party.amount.as_deref().map(|amount| self.assets.value(amount, currency, now_secs))
        };
        let source = side(&movement.source).transpose().map_err(ValueFault::Source)?;
        let destination = side(&movement.destination).transpose().map_err(ValueFault::Destination)?;
        match (source, destination) {
            (Some(source), destination) => Ok(destination.map_or(source, |destination| destination.max(source))),
            (None, Some(arriving)) => self.spent_for(movement, arriving, now_secs),
            (None, None) => Err(ValueFault::NotStated),
        }
    }

    fn spent_for(&self, movement: &Movement, arriving: MicroUsd, now_secs: i64) -> Result<MicroUsd, ValueFault> {
        let Party { amount, currency, .. } = &movement.destination;
        let with = movement.source.currency.as_deref().unwrap_or("");
        if let Some(price) = &movement.price {
            let price = Decimal::parse(price).map_err(ValueFault::Price)?;
            let (bought, asset) = (amount.as_deref().unwrap_or(""), currency.as_deref().unwrap_or(""));
            let spent = self.assets.spent(bought, asset, price, with).map_err(ValueFault::Price)?;
            let value = self.assets.value_of_units(spent, with, now_secs).map_err(ValueFault::Source)?;
            return Ok(value.max(arriving));
        }
        // The asset that is spent must have a value, although its amount is not stated.
        self.assets.value_of_units(1, with, now_secs).map_err(ValueFault::Source)?;
        let millionths = self.slippage_millionths.ok_or(ValueFault::Unbounded)?;
        arriving.and_millionths(millionths).map_err(ValueFault::Destination)
    }
}

/// The fields of a destination, each with the kind that its names have.
const DESTINATIONS: [(&str, Field); 5] = [
    ("user", Field::DestinationUser),
    ("wallet", Field::DestinationWallet),
    ("wallet", Field::FeeWallet),
    ("external-wallet", Field::DestinationExternal),
    ("account", Field::DestinationAccount),
];

/// A request with its names in their normal forms, and its value.
#[derive(Debug)]
pub struct View<'a> {
    pub asked: &'a PolicyRequest<'a>,
    names: Vec<(Field, Cow<'a, str>)>,
    /// `None` for operations whose bodies state no amount.
    pub value: Option<Result<MicroUsd, ValueFault>>,
}

impl<'a> View<'a> {
    pub fn of(asked: &'a PolicyRequest<'a>, valuation: &Valuation, facts: &Facts) -> View<'a> {
        let nothing = Movement::default();
        let movement = asked.movement.unwrap_or(&nothing);
        let value = asked.operation.has_amount().then(|| valuation.value(movement, facts.now_secs()));
        View { value, ..View::unvalued(asked) }
    }

    /// Returns a view without a value, whatever the operation states.
    pub(super) fn unvalued(asked: &'a PolicyRequest<'a>) -> View<'a> {
        let caller = format!("{}:{}", asked.issuer, asked.subject);
        let mut names: Vec<(Field, Cow<'a, str>)> = vec![
            (Field::Environment, asked.environment.as_str().into()),
            (Field::Issuer, asked.issuer.into()),
            (Field::Caller, caller.into()),
        ];
        names.extend(asked.requester.map(|name| (Field::Requester, name.into())));
        names.extend(asked.roles.iter().map(|role| (Field::Role, role.as_str().into())));
        let users = asked.path_parameters.iter().filter(|(name, _)| name == "userId");
        names.extend(users.map(|(_, user)| (Field::PathUser, crate::base::normal::uuid(user).into())));
        if let Some(movement) = asked.movement {
            movement_names(movement, &mut names);
        }
        View { asked, names, value: None }
    }

    /// Returns every name in a field.
    pub fn names(&self, field: Field) -> impl Iterator<Item = &str> {
        let parts = field.parts();
        self.names.iter().filter(move |(field, _)| parts.contains(field)).map(|(_, name)| name.as_ref())
    }

    /// Returns each name of the destination, with its kind; wallets that take fees are destinations too.
    pub fn destinations(&self) -> Vec<String> {
        let each = |(kind, field): &(&'static str, Field)| {
            let kind = *kind;
            self.names(*field).map(move |name| format!("{kind}:{name}")).collect::<Vec<_>>()
        };
        let names: BTreeSet<String> = DESTINATIONS.iter().flat_map(each).collect();
        names.into_iter().collect()
    }

    /// Returns each name by which the destination is known once it was paid.
    pub fn acquaintances(&self) -> Vec<String> {
        let names: BTreeSet<String> = DESTINATIONS.iter().flat_map(|(_, field)| self.known_as(*field)).collect();
        names.into_iter().collect()
    }

    /// The same, of whom the request pays: a wallet whose fees are all zero gets nothing.
    pub fn payees(&self) -> Vec<String> {
        let charges = self.asked.movement.map(|movement| movement.charges.as_slice()).unwrap_or_default();
        let takes_something = |wallet: &str| {
            let mut own = charges.iter().filter(|charge| charge.wallet.as_deref() == Some(wallet)).peekable();
            own.peek().is_none() || own.any(|charge| !charge.is_zero())
        };
        let each = |(_, field): &(&str, Field)| {
            self.known(*field, |name| *field != Field::FeeWallet || takes_something(name)).collect::<Vec<_>>()
        };
        let names: BTreeSet<String> = DESTINATIONS.iter().flat_map(each).collect();
        names.into_iter().collect()
    }

    /// Returns the names by which a part of the destination is known once it was paid. A wallet is known on its chain alone:
    /// elsewhere its address may be somebody else's.
    pub fn known_as(&self, field: Field) -> Vec<String> {
        self.known(field, |_| true).collect()
    }

    fn known(&self, field: Field, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
        let kind = DESTINATIONS.iter().find(|(_, other)| *other == field).map_or("", |(kind, _)| *kind);
        let of_fees = || self.asked.movement.and_then(|movement| movement.fee_chain.as_deref()).map(chain_name);
        let chain = match field {
            Field::DestinationWallet => self.names(Field::DestinationChain).next().map(Cow::from),
            Field::FeeWallet => of_fees(),
            _ => None,
        };
        self.names(field).filter(move |name| is_meant(name)).map(move |name| match &chain {
            Some(chain) => format!("{kind}:{chain}:{name}"),
            None => format!("{kind}:{name}"),
        })
    }

    /// Returns what makes two payments the same, whatever their requestIds: the digest of the money fields; for
    /// operations without amounts, of path and body.
    pub fn payment(&self) -> Fingerprint {
        let operation = self.asked.operation;
        let mut parts = vec![operation.id.as_str().to_owned()];
        match self.asked.movement.filter(|_| operation.has_amount()) {
            Some(movement) => {
                let names = self.names.iter().filter(|(field, _)| self.tells_payments_apart(*field));
                parts.extend(names.map(|(field, name)| format!("{field:?}:{name}")));
                for (side, party) in [("source", &movement.source), ("destination", &movement.destination)] {
                    let amount = party.amount.as_deref().map(without_outer_zeros);
                    parts.extend(amount.map(|amount| format!("{side} amount:{amount}")));
                }
                let mut charges: Vec<String> = movement.charges.iter().filter_map(charge_in_words).collect();
                charges.sort_unstable();
                parts.extend(charges);
            }
            None => parts.extend(self.said_otherwise()),
        }
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        Fingerprint::of(&parts)
    }

    /// Whether a field tells payments with amounts apart. A wallet or an account belongs to its user, whether the call names
    /// the user or not; and a wallet that takes fees is told with its fee.
    fn tells_payments_apart(&self, field: Field) -> bool {
        const OWNED: [Field; 3] = [Field::DestinationWallet, Field::DestinationExternal, Field::DestinationAccount];
        let is_owned = || OWNED.into_iter().any(|owned| self.names(owned).next().is_some());
        match field {
            Field::DestinationUser => !is_owned(),
            Field::FeeWallet => self.asked.movement.is_none_or(|movement| movement.charges.is_empty()),
            field => !field.is_of_caller(),
        }
    }

    /// Returns the identifying parts of a request without an amount: path and body.
    fn said_otherwise(&self) -> Vec<String> {
        match self.asked.body {
            Stated::Kept(kept) => kept.payment.iter().cloned().collect(),
            Stated::Whole(body) => {
                let (operation, mut body) = (self.asked.operation, body.clone());
                if let (Some(ClaimSource::Body(pointer)), Value::Object(members)) = (&operation.claim, &mut body) {
                    members.remove(pointer.as_str().trim_start_matches('/'));
                }
                write_in_normal_form(&mut body);
                let path: Vec<String> = self.asked.path.split('/').map(normal::uuid).collect();
                vec![path.join("/"), body.to_string()]
            }
        }
    }
}

/// Outer zeros have no meaning: `10`, `010` and `10.00` are one amount. Zero becomes an empty text.
fn without_outer_zeros(amount: &str) -> &str {
    let amount = match amount.contains('.') {
        true => amount.trim_end_matches('0').trim_end_matches('.'),
        false => amount,
    };
    amount.trim_start_matches('0')
}

/// Returns the identifying text of a fee; `None` for one of zero, which moves nothing.
fn charge_in_words(Charge { form, value, wallet, .. }: &Charge) -> Option<String> {
    let amount = value.as_deref().map(without_outer_zeros);
    let is_zero = form.is_some() && amount.is_some_and(str::is_empty);
    let [form, amount, wallet] =
        [form.map_or("", ChargeForm::as_str), amount.unwrap_or(""), wallet.as_deref().unwrap_or("")];
    (!is_zero).then(|| format!("fee:{form}:{amount}:{wallet}"))
}

/// Writes addresses, UUIDs and decimals in one form each: another spelling says nothing else.
fn write_in_normal_form(value: &mut Value) {
    match value {
        Value::String(text) => *text = normal::wallet(None, normal::uuid(text)),
        Value::Number(number) => {
            let plain = number.to_string();
            let digits = plain.bytes().all(|b| b.is_ascii_digit() || b == b'.') && plain.contains('.');
            let plain = digits.then(|| plain.trim_end_matches('0').trim_end_matches('.'));
            if let Some(shorter) = plain.and_then(|plain| plain.parse().ok()) {
                *number = shorter;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_in_normal_form),
        Value::Object(members) => members.values_mut().for_each(write_in_normal_form),
        Value::Null | Value::Bool(_) => {}
    }
}

fn movement_names<'a>(movement: &'a Movement, names: &mut Vec<(Field, Cow<'a, str>)>) {
    let Movement { source, destination, fee_wallets, .. } = movement;
    let mut add = |field: Field, name: Option<Cow<'a, str>>| names.extend(name.map(|name| (field, name)));
    let plain = |name: &'a Option<String>| name.as_deref().map(Cow::from);
    add(Field::SourceUser, plain(&source.user));
    add(Field::DestinationUser, plain(&destination.user));
    add(Field::SourceChain, source.chain.as_deref().map(chain_name));
    add(Field::DestinationChain, destination.chain.as_deref().map(chain_name));
    add(Field::SourceCurrency, source.currency.as_deref().map(asset_name));
    add(Field::DestinationCurrency, destination.currency.as_deref().map(asset_name));
    add(Field::SourceWallet, plain(&source.wallet));
    add(Field::DestinationWallet, plain(&destination.wallet));
    add(Field::DestinationExternal, plain(&destination.external_wallet));
    add(Field::SourceAccount, plain(&source.account));
    add(Field::DestinationAccount, plain(&destination.account));
    names.extend(fee_wallets.iter().map(|wallet| (Field::FeeWallet, wallet.as_str().into())));
}

/// Returns the normal form of a chain's name.
pub fn chain_name(name: &str) -> Cow<'_, str> {
    let upper =
        if name.bytes().any(|b| b.is_ascii_lowercase()) { name.to_ascii_uppercase().into() } else { name.into() };
    if upper == "POLYGON_MAINNET" { "POLYGON".into() } else { upper }
}
