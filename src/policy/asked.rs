//! A request as policies look at it: who asks for what, where its money goes, and what that is worth.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::kept::Stated;
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::money::{Assets, Decimal, MicroUsd, MoneyFault, asset_name};
use crate::catalog::{Claim, Movement, Operation, Party};
use crate::commit::StoreTime;

/// A request, after its check.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
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

/// All that a decision may look at besides the request.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// By the store's clock.
    pub now: StoreTime,
    /// Whether each destination was paid before, by the names of [`destinations`]. One that is not in it is not known.
    pub paid: BTreeMap<String, bool>,
    /// The windows that the store found full: limit and key.
    pub exceeded: BTreeSet<(String, String)>,
}

impl Facts {
    pub fn now_secs(&self) -> i64 {
        self.now.as_micros().div_euclid(1_000_000)
    }
}

/// What has names, in their normal forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Environment,
    Issuer,
    Caller,
    Requester,
    Role,
    User,
    PathUser,
    SourceUser,
    DestinationUser,
    Chain,
    SourceChain,
    DestinationChain,
    Currency,
    SourceCurrency,
    DestinationCurrency,
    Wallet,
    SourceWallet,
    DestinationWallet,
    DestinationExternal,
    Account,
    SourceAccount,
    DestinationAccount,
    FeeWallet,
}

impl Field {
    pub(super) const ALL: [Field; 23] = [
        Field::Environment,
        Field::Issuer,
        Field::Caller,
        Field::Requester,
        Field::Role,
        Field::User,
        Field::PathUser,
        Field::SourceUser,
        Field::DestinationUser,
        Field::Chain,
        Field::SourceChain,
        Field::DestinationChain,
        Field::Currency,
        Field::SourceCurrency,
        Field::DestinationCurrency,
        Field::Wallet,
        Field::SourceWallet,
        Field::DestinationWallet,
        Field::DestinationExternal,
        Field::Account,
        Field::SourceAccount,
        Field::DestinationAccount,
        Field::FeeWallet,
    ];

    /// Those that it stands for: itself, or one on each side.
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
            Field::Wallet => &[Field::SourceWallet, Field::DestinationWallet],
            Field::SourceWallet => &[Field::SourceWallet],
            Field::DestinationWallet => &[Field::DestinationWallet],
            Field::DestinationExternal => &[Field::DestinationExternal],
            Field::Account => &[Field::SourceAccount, Field::DestinationAccount],
            Field::SourceAccount => &[Field::SourceAccount],
            Field::DestinationAccount => &[Field::DestinationAccount],
            Field::FeeWallet => &[Field::FeeWallet],
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Field::Environment => "the environment",
            Field::Issuer => "the caller's issuer",
            Field::Caller => "the caller",
            Field::Requester => "the requester",
            Field::Role => "a role of the caller",
            Field::User => "every user",
            Field::PathUser => "the user of the path",
            Field::SourceUser => "the source's user",
            Field::DestinationUser => "the destination's user",
            Field::Chain => "every chain",
            Field::SourceChain => "the source's chain",
            Field::DestinationChain => "the destination's chain",
            Field::Currency => "every currency",
            Field::SourceCurrency => "the source's currency",
            Field::DestinationCurrency => "the destination's currency",
            Field::Wallet => "every wallet",
            Field::SourceWallet => "the source's wallet",
            Field::DestinationWallet => "the destination's wallet",
            Field::DestinationExternal => "the destination's external wallet",
            Field::Account => "every account",
            Field::SourceAccount => "the source's account",
            Field::DestinationAccount => "the destination's account",
            Field::FeeWallet => "every wallet that takes fees",
        }
    }

    /// Whether it is of the caller: then one fitting value is enough, whatever the rule does.
    pub fn is_of_caller(self) -> bool {
        matches!(self, Field::Environment | Field::Issuer | Field::Caller | Field::Requester | Field::Role)
    }
}

/// Why a request that can state an amount has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFault {
    NotStated,
    /// It states only what arrives, and nothing bounds what is spent for it.
    Unbounded,
    Source(MoneyFault),
    Destination(MoneyFault),
    Price(MoneyFault),
}

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueFault::NotStated => f.write_str("no amount is stated"),
            ValueFault::Unbounded => f.write_str("nothing bounds what is spent for the stated destination amount"),
            ValueFault::Source(fault) => write!(f, "the source amount cannot be valued: {fault}"),
            ValueFault::Destination(fault) => write!(f, "the destination amount cannot be valued: {fault}"),
            ValueFault::Price(fault) => write!(f, "the limit price cannot be read: {fault}"),
        }
    }
}

/// How amounts are valued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Valuation {
    pub assets: Assets,
    /// How much more than the value of what arrives may be spent for it, in millionths; nothing where that is not said.
    pub slippage_millionths: Option<u64>,
}

impl Valuation {
    /// The value of what moves: of the greater side, where both are stated.
    pub fn value(&self, movement: &Movement, now_secs: i64) -> Result<MicroUsd, ValueFault> {
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
        // What is spent must be an asset that can be valued, though its amount is not stated.
        self.assets.value_of_units(1, with, now_secs).map_err(ValueFault::Source)?;
        let millionths = self.slippage_millionths.ok_or(ValueFault::Unbounded)?;
        arriving.and_millionths(millionths).map_err(ValueFault::Destination)
    }
}

/// A request with its names in their normal forms, and its value.
#[derive(Debug)]
pub struct View<'a> {
    pub asked: &'a Asked<'a>,
    names: Vec<(Field, Cow<'a, str>)>,
    /// Nothing for operations whose bodies state no amount.
    pub value: Option<Result<MicroUsd, ValueFault>>,
}

impl<'a> View<'a> {
    pub fn of(asked: &'a Asked<'a>, valuation: &Valuation, facts: &Facts) -> View<'a> {
        let nothing = Movement::default();
        let movement = asked.movement.unwrap_or(&nothing);
        let value = asked.operation.has_amount().then(|| valuation.value(movement, facts.now_secs()));
        View { value, ..View::unvalued(asked) }
    }

    /// Without a value, whatever the operation states.
    pub(super) fn unvalued(asked: &'a Asked<'a>) -> View<'a> {
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

    /// Every name that stands there.
    pub fn names(&self, field: Field) -> impl Iterator<Item = &str> {
        let parts = field.parts();
        self.names.iter().filter(move |(field, _)| parts.contains(field)).map(|(_, name)| name.as_ref())
    }

    /// Each way in which the destination is named, told apart from names of another kind.
    pub fn destinations(&self) -> Vec<String> {
        let kinds = [
            ("user", Field::DestinationUser),
            ("wallet", Field::DestinationWallet),
            ("external-wallet", Field::DestinationExternal),
            ("account", Field::DestinationAccount),
        ];
        kinds.iter().flat_map(|(kind, field)| self.names(*field).map(move |name| format!("{kind}:{name}"))).collect()
    }

    /// What makes two payments the same one, whatever their requestIds: the digest of what is said about money; of
    /// operations without amounts, of path and body.
    pub fn payment(&self) -> Fingerprint {
        let operation = self.asked.operation;
        let mut parts = vec![operation.id.as_str().to_owned()];
        match self.asked.movement.filter(|_| operation.has_amount()) {
            Some(movement) => {
                let names = self.names.iter().filter(|(field, _)| !field.is_of_caller());
                parts.extend(names.map(|(field, name)| format!("{field:?}:{name}")));
                for (side, party) in [("source", &movement.source), ("destination", &movement.destination)] {
                    // Trailing zeros say nothing: `10` and `10.00` are one payment.
                    let amount = party.amount.as_deref().map(|amount| match amount.contains('.') {
                        true => amount.trim_end_matches('0').trim_end_matches('.'),
                        false => amount,
                    });
                    parts.extend(amount.map(|amount| format!("{side} amount:{amount}")));
                }
            }
            None => parts.extend(self.said_otherwise()),
        }
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        Fingerprint::of(&parts)
    }

    /// What is said where no amount is: path and body.
    fn said_otherwise(&self) -> Vec<String> {
        match self.asked.body {
            Stated::Kept(kept) => kept.payment.iter().cloned().collect(),
            Stated::Whole(body) => {
                let (operation, mut body) = (self.asked.operation, body.clone());
                if let (Some(Claim::Body(pointer)), Value::Object(members)) = (&operation.claim, &mut body) {
                    members.remove(pointer.as_str().trim_start_matches('/'));
                }
                vec![self.asked.path.to_owned(), body.to_string()]
            }
        }
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

/// The one form of a chain's name.
pub fn chain_name(name: &str) -> Cow<'_, str> {
    let upper =
        if name.bytes().any(|b| b.is_ascii_lowercase()) { name.to_ascii_uppercase().into() } else { name.into() };
    if upper == "POLYGON_MAINNET" { "POLYGON".into() } else { upper }
}
