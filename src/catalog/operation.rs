//! An operation of the contract.

use http::Method;

use super::body_fields::BodyFields;
use super::contract::{Contract, Violation};
use super::flat_contract::FlatContract;
use super::follow::Follow;
use super::refusals::RefusalLists;
use super::template::Template;
use crate::base::ids::OperationId;
use crate::base::json::{FlatJson, Limits};
use crate::base::pointer::Pointer;
use crate::base::word_enum::word_enum;

/// One call of the upstream API.
#[derive(Debug)]
pub struct Operation {
    pub id: OperationId,
    pub method: Method,
    pub template: Template,
    pub class: Class,
    pub summary: String,
    /// Off operations are in the contract, but do not exist for callers until the configuration lists them.
    pub enabled: bool,
    pub path_parameters: Vec<Parameter>,
    pub query_parameters: Vec<Parameter>,
    /// `None`: the operation has no body; none or `{}` is accepted and none is forwarded.
    pub body: Option<Contract>,
    /// The fields that its bodies may have.
    pub body_fields: Option<BodyFields>,
    pub answers: Vec<AnswerContract>,
    pub claim: Option<ClaimSource>,
    pub money: Option<Money>,
    pub reconcile: Option<Reconcile>,
    /// How a payment is followed after its send; `None` where upstream has no list of them.
    pub follow: Option<Follow>,
    /// Body fields that the configuration lists and the contract does not know: a rule must name each one that is
    /// present.
    pub further: Vec<Pointer>,
    /// The statuses and codes by which upstream proves, or does not prove, that nothing was executed.
    pub refusals: RefusalLists,
    /// The place of the call's requestId in a successful answer; `None` if the call has none in its body.
    pub answered_request_id: Option<Pointer>,
    /// The record that the path names and a successful answer is.
    pub answered_record: Option<AnsweredRecord>,
}

impl Operation {
    /// Returns the fields of money that a matched rule must name if the body has them: no value covers them.
    pub fn fields_to_name(&self) -> impl Iterator<Item = &Pointer> {
        self.further.iter().chain(self.money.iter().flat_map(|money| &money.uncovered))
    }

    pub fn is_write(&self) -> bool {
        self.class != Class::Read
    }

    /// The documented answer of this status: its own entry, else its range, else the default.
    pub fn answer(&self, status: u16) -> Option<&AnswerContract> {
        let fits = |wanted: fn(&Statuses, u16) -> bool| self.answers.iter().find(|a| wanted(&a.statuses, status));
        fits(|s, status| *s == Statuses::One(status))
            .or_else(|| fits(|s, status| *s == Statuses::Hundred(status / 100)))
            .or_else(|| fits(|s, _| *s == Statuses::Default))
    }

    /// The shape of errors with this status: the documented one, else the usual one.
    pub fn error_shape(&self, status: u16) -> ErrorShape {
        self.answer(status).and_then(|answer| answer.shape).unwrap_or_else(|| ErrorShape::usual(status))
    }

    /// The documented form of an answer with this 2xx status: its own, else that of any success.
    pub fn success_of(&self, status: u16) -> Option<&AnswerContract> {
        self.answer(status).filter(|answer| answer.statuses != Statuses::Default).or_else(|| self.success())
    }

    /// The documented success.
    pub fn success(&self) -> Option<&AnswerContract> {
        self.answers.iter().find(|a| match a.statuses {
            Statuses::One(status) => (200..300).contains(&status),
            Statuses::Hundred(hundred) => hundred == 2,
            Statuses::Default => false,
        })
    }
}

word_enum! {
    /// The class of an operation: how much it can do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Class {
        Read = "read",
        /// Alters state and diverts no money.
        Change = "change",
        /// Moves or diverts money.
        Money = "money",
    }
}

/// A parameter of the path or the query, checked as a string.
#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    pub required: bool,
    pub contract: Contract,
}

/// The most values of an answer of which a tree is made to name the place of a violation.
const MOST_TO_NAME: usize = 4_096;

/// An answer that the contract documents.
#[derive(Debug)]
pub struct AnswerContract {
    pub statuses: Statuses,
    /// The one error shape that is documented for these statuses; `None` for success and for the default.
    pub shape: Option<ErrorShape>,
    pub contract: Contract,
    /// The same schema, for answers as they are written.
    pub(super) flat: FlatContract,
}

impl AnswerContract {
    /// Returns the first violation in an answer. One that is as documented is read without building a tree.
    pub fn first_violation(&self, answer: &[u8]) -> Option<Violation> {
        match FlatJson::parse(answer, Limits::UPSTREAM) {
            Ok(flat) if self.flat.accepts(&flat) => None,
            Ok(flat) if flat.count() > MOST_TO_NAME => Some(Violation::new(
                "",
                "schema",
                "what the contract documents; the answer is too large to name the place",
            )),
            Ok(flat) => self.contract.violations(&flat.root().to_tree()).into_iter().next(),
            Err(error) => Some(Violation::new("", "json", error.to_string())),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    One(u16),
    /// `2` for 200 to 299.
    Hundred(u16),
    Default,
}

/// The API's four error shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorShape {
    /// `code` (integer), `error`, `errorDetails`.
    A,
    /// `status: "error"`, `error: {code, message}`.
    B,
    /// B with `error.details`.
    C,
    /// `error` alone.
    D,
}

impl ErrorShape {
    /// The shape where the interface maps none to a status.
    pub fn usual(status: u16) -> ErrorShape {
        match status {
            401 | 500..=599 => ErrorShape::A,
            404 => ErrorShape::B,
            _ => ErrorShape::C,
        }
    }
}

/// A record that the path names and a successful answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredRecord {
    /// The parameter of the path with its id.
    pub parameter: String,
    /// The place of its id in the answer.
    pub id: Pointer,
}

/// The source of a claim's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// The requestId in this body field.
    Body(Pointer),
    /// These parameters of the path.
    Path(Vec<String>),
}

/// The body fields of the money: how much, from where, to where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Money {
    pub source: Side,
    pub destination: Side,
    pub fees: Fees,
    /// Units of the destination's currency for one of the source's, at least.
    pub price: Option<Pointer>,
    /// Fields that state money which no value covers: a rule must name each one that is present.
    pub uncovered: Vec<Pointer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    pub amount: Option<Pointer>,
    pub currency: Option<Pointer>,
    pub chain: Option<Pointer>,
    pub party: Option<Pointer>,
    pub wallet: Option<Pointer>,
    pub external_wallet: Option<Pointer>,
    pub account: Option<Pointer>,
}

/// The body fields of fees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fees {
    pub wallets: Vec<Pointer>,
    /// The field of the wallets' chain.
    pub chain: Option<Pointer>,
    pub charges: Vec<ChargePointers>,
}

/// The fields of fees that count in the value of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargePointers {
    /// One fee, or each fee of a list.
    pub each: Pointer,
    /// The fee's amount or fraction, inside of it.
    pub value: Pointer,
    /// The word for its form, inside of it.
    pub kind: Pointer,
    /// The words for an amount.
    pub flat: Vec<String>,
    /// The words for a fraction of the payment.
    pub percentage: Vec<String>,
    /// Whether the amount of the payment contains it; otherwise it counts on top.
    pub is_included: bool,
}

impl ChargePointers {
    /// Returns the pointer to a field of each fee.
    pub fn inside(&self, field: &Pointer) -> Option<Pointer> {
        Pointer::parse(&format!("{}{field}", self.each))
    }

    /// Returns the list that the fees are in; `None` if there is one fee only.
    pub fn list(&self) -> Option<Pointer> {
        let (list, _) = self.each.as_str().split_once("/*")?;
        Pointer::parse(list)
    }
}

/// The read that finds a record by its requestId.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconcile {
    pub operation: OperationId,
    pub records: Pointer,
    pub request_id: Pointer,
    /// Whether a record that is not found there proves that nothing was executed.
    pub absence_proves: bool,
}
