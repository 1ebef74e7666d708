//! What a checked request means.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::query;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, RequestId, is_identifier};
use crate::base::json;
use crate::base::normal::{self, AddressKind};
use crate::base::pointer::Pointer;
use crate::base::secret::Secret;
use crate::catalog::{Claim, Movement, Operation, Violation, chain_kind};
use crate::commit::{Kind, RecordKey};
use crate::stations::admit::{Admitted, Caller};

/// A checked call: operation, parameters, what moves, the exact bytes to send and their fingerprint.
#[derive(Debug)]
pub struct Intent {
    environment: Environment,
    operation: Arc<Operation>,
    path: String,
    path_parameters: Vec<(String, String)>,
    query: String,
    named: Option<Named>,
    caller: Arc<Caller>,
    movement: Option<Movement>,
    /// The body as data; null where there is none.
    value: Value,
    body: Option<Bytes>,
    fingerprint: Fingerprint,
    token: Secret,
}

/// By what a call's claim is known. It can be told as soon as the body is read, even where that is not what the
/// contract says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub key: RecordKey,
    /// As the caller wrote it; an operation that is claimed by its path has none.
    pub request_id: Option<RequestId>,
    pub fingerprint: Fingerprint,
}

impl Intent {
    pub(super) fn build(admitted: Admitted, parameters: &[(String, String)], body: Option<Value>) -> Intent {
        let operation = admitted.operation().clone();
        let written = Written::of(&admitted, query::write(parameters), body.as_ref());
        let named = written.named(&admitted, body.as_ref());
        let value = body.unwrap_or(Value::Null);
        Intent {
            environment: admitted.environment(),
            named,
            movement: operation.movement(&value),
            value,
            fingerprint: written.fingerprint,
            caller: admitted.caller().clone(),
            token: admitted.token().clone(),
            body: written.body,
            path: written.path,
            path_parameters: admitted.path_parameters().to_vec(),
            query: written.query,
            operation,
        }
    }

    pub fn environment(&self) -> Environment {
        self.environment
    }

    pub fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    /// By what its claim is known, where it can be claimed.
    pub fn named(&self) -> Option<&Named> {
        self.named.as_ref()
    }

    /// By what it is known if it waits for people: by its own name, else by itself and who asks for it.
    pub fn name(&self) -> Named {
        self.named.clone().unwrap_or_else(|| {
            let fingerprint = self.fingerprint.to_hex();
            let of = [self.caller.issuer(), self.caller.subject(), &fingerprint].map(str::as_bytes);
            let name = format!("call/{}", Fingerprint::of(&of).to_hex());
            let key = RecordKey { environment: self.environment, kind: Kind::Claim, name };
            Named { key, request_id: None, fingerprint: self.fingerprint }
        })
    }

    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    pub fn movement(&self) -> Option<&Movement> {
        self.movement.as_ref()
    }

    /// Path without the query, below upstream's base path.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn path_parameters(&self) -> &[(String, String)] {
        &self.path_parameters
    }

    /// The body as data; null where there is none.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The exact bytes to send.
    pub fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Path and query as they are sent, below upstream's base path.
    pub fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    pub fn token(&self) -> &Secret {
        &self.token
    }
}

/// By what the claim of a call is known that goes no further.
pub(super) fn named_anyway(admitted: &Admitted, query: String, body: Option<&Value>) -> Option<Named> {
    Written::of(admitted, query, body).named(admitted, body)
}

/// A call as it would be sent.
struct Written {
    path: String,
    query: String,
    body: Option<Bytes>,
    fingerprint: Fingerprint,
}

impl Written {
    fn of(admitted: &Admitted, query: String, body: Option<&Value>) -> Written {
        let operation = admitted.operation();
        let path = operation.template.fill(admitted.path_parameters());
        let body = body.map(json::to_bytes).map(Bytes::from);
        let parts: [&[u8]; 5] = [
            operation.id.as_str().as_bytes(),
            operation.method.as_str().as_bytes(),
            path.as_bytes(),
            query.as_bytes(),
            body.as_deref().unwrap_or_default(),
        ];
        Written { fingerprint: Fingerprint::of(&parts), path, query, body }
    }

    fn named(&self, admitted: &Admitted, body: Option<&Value>) -> Option<Named> {
        let operation = admitted.operation();
        let request_id = body.and_then(|body| request_id(operation, body));
        let name = match operation.claim.as_ref()? {
            Claim::Body(_) => format!("request/{}", normal::uuid(request_id.as_ref()?.as_str())),
            Claim::Path(names) => {
                let mut name = format!("path/{}", operation.id);
                for wanted in names {
                    let (_, value) = admitted.path_parameters().iter().find(|(name, _)| name == wanted)?;
                    name.push('/');
                    name.push_str(&normal::uuid(is_identifier(value).then_some(value)?));
                }
                name
            }
        };
        let key = RecordKey { environment: admitted.environment(), kind: Kind::Claim, name };
        Some(Named { key, request_id, fingerprint: self.fingerprint })
    }
}

/// Addresses that their chain could not have written.
pub(super) fn address_violations(operation: &Operation, body: &Value) -> Vec<Violation> {
    let Some(money) = &operation.money else { return Vec::new() };
    let mut violations = Vec::new();
    for side in [&money.source, &money.destination] {
        let kind = chain_kind(side.chain.as_ref(), body);
        violations.extend(misspelt(side.wallet.iter(), kind, body));
    }
    let kind = chain_kind(money.fees.chain.as_ref(), body);
    violations.extend(misspelt(money.fees.wallets.iter(), kind, body));
    violations
}

fn misspelt<'p>(wallets: impl Iterator<Item = &'p Pointer>, kind: Option<AddressKind>, body: &Value) -> Vec<Violation> {
    let written = wallets.flat_map(|pointer| pointer.all(body));
    let wrong = written.filter_map(|(place, value)| {
        let text = value.as_str()?;
        let kind = kind.or_else(|| AddressKind::of_address(text))?;
        kind.normal(text).is_none().then(|| Violation::new(place, "format", kind.expected()))
    });
    wrong.collect()
}

fn request_id(operation: &Operation, body: &Value) -> Option<RequestId> {
    match operation.claim.as_ref()? {
        Claim::Body(pointer) => RequestId::parse(pointer.get(body)?.as_str()?),
        Claim::Path(_) => None,
    }
}
