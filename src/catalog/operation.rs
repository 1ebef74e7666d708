//! What Sluice knows of one operation.

use http::Method;

use super::contract::Contract;
use super::template::Template;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;

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
    pub answers: Vec<Answer>,
    pub claim: Option<Claim>,
    pub money: Option<Money>,
    pub reconcile: Option<Reconcile>,
    /// Places of its body that the contract does not know and the configuration lists: a rule must name what stands there.
    pub further: Vec<Pointer>,
    /// The statuses by which upstream proves that nothing was executed.
    pub not_executed: Vec<u16>,
}

impl Operation {
    pub fn is_write(&self) -> bool {
        self.class != Class::Read
    }

    /// What the contract says of an answer with this status: its own entry, else its range, else the default.
    pub fn answer(&self, status: u16) -> Option<&Answer> {
        let fits = |wanted: fn(&Statuses, u16) -> bool| self.answers.iter().find(|a| wanted(&a.statuses, status));
        fits(|s, status| *s == Statuses::One(status))
            .or_else(|| fits(|s, status| *s == Statuses::Hundred(status / 100)))
            .or_else(|| fits(|s, _| *s == Statuses::Default))
    }

    /// What the contract says of success.
    pub fn success(&self) -> Option<&Answer> {
        self.answers.iter().find(|a| match a.statuses {
            Statuses::One(status) => (200..300).contains(&status),
            Statuses::Hundred(hundred) => hundred == 2,
            Statuses::Default => false,
        })
    }
}

/// How much an operation can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    Read,
    /// Alters state, diverts no money.
    Change,
    /// Moves or diverts money.
    Money,
}

impl Class {
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Change => "change",
            Class::Money => "money",
        }
    }
}

/// A parameter of the path or the query, checked as a string.
#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    pub required: bool,
    pub contract: Contract,
}

/// An answer that the contract documents.
#[derive(Debug)]
pub struct Answer {
    pub statuses: Statuses,
    /// The one error shape that is documented for these statuses; `None` for success and for the default.
    pub shape: Option<Shape>,
    pub contract: Contract,
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
pub enum Shape {
    /// `code` (integer), `error`, `errorDetails`.
    A,
    /// `status: "error"`, `error: {code, message}`.
    B,
    /// B with `error.details`.
    C,
    /// `error` alone.
    D,
}

impl Shape {
    /// What is built where the interface maps no shape to a status.
    pub fn usual(status: u16) -> Shape {
        match status {
            401 | 500..=599 => Shape::A,
            404 => Shape::B,
            _ => Shape::C,
        }
    }
}

/// What makes two requests the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The requestId at this place of the body.
    Body(Pointer),
    /// These parameters of the path.
    Path(Vec<String>),
}

/// Where a body says what moves, from where, to where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Money {
    pub source: Side,
    pub destination: Side,
    pub fees: Fees,
    /// Units of the destination's currency for one of the source's, at least.
    pub price: Option<Pointer>,
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

/// Who takes a part of what moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fees {
    pub wallets: Vec<Pointer>,
    pub values: Vec<Pointer>,
    /// The chain that the wallets are on.
    pub chain: Option<Pointer>,
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
