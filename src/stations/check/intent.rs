//! A checked call.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::query;
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, RequestId, TraceId, is_identifier};
use crate::base::json;
use crate::base::normal;
use crate::base::secret::Secret;
use crate::catalog::{ClaimSource, Movement, Operation};
use crate::ledger::{Kind, RecordKey};
use crate::stations::admit::{Admitted, Caller};

/// A checked call: operation, parameters, what moves, the exact bytes to send and their fingerprint.
#[derive(Debug)]
pub struct Intent {
    environment: Environment,
    operation: Arc<Operation>,
    path: String,
    path_parameters: Vec<(String, String)>,
    query: String,
    named: Option<CallName>,
    caller: Arc<Caller>,
    movement: Option<Movement>,
    /// The body as data; null where there is none.
    value: Value,
    body: Option<Bytes>,
    fingerprint: Fingerprint,
    token: Secret,
}

/// The identity of a call's claim. It is known as soon as the body is read, even where the body violates the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallName {
    pub key: RecordKey,
    /// The requestId as the caller wrote it; an operation that is claimed by its path has none.
    pub request_id: Option<RequestId>,
    pub fingerprint: Fingerprint,
}

impl Intent {
    pub(super) fn build(admitted: Admitted, parameters: &[(String, String)], body: Option<Value>) -> Intent {
        let operation = admitted.operation().clone();
        let written = WrittenCall::of(&admitted, query::query_text(parameters), body.as_ref());
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

    /// The audit entry of this call, with its caller and its claim.
    pub fn entry(&self, kind: EntryKind, trace: &TraceId) -> Entry {
        let caller = &self.caller;
        let mut entry = Entry::of(kind)
            .operation(&self.operation.id)
            .owner(caller.issuer(), caller.subject())
            .fingerprint(self.fingerprint)
            .trace(trace);
        if let Some(requester) = caller.requester() {
            entry = entry.with("requester", requester);
        }
        match &self.named {
            Some(named) => entry.claim(&named.key, named.request_id.as_ref()),
            None => entry,
        }
    }

    /// The identity of its claim, where it can be claimed.
    pub fn named(&self) -> Option<&CallName> {
        self.named.as_ref()
    }

    /// The identity under which it is held: that of its claim, else a digest of the call and its caller.
    pub fn name(&self) -> CallName {
        self.named.clone().unwrap_or_else(|| {
            let fingerprint = self.fingerprint.to_hex();
            let of = [self.caller.issuer(), self.caller.subject(), &fingerprint].map(str::as_bytes);
            let name = format!("call/{}", Fingerprint::of(&of).to_hex());
            let key = RecordKey { environment: self.environment, kind: Kind::Claim, name };
            CallName { key, request_id: None, fingerprint: self.fingerprint }
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

/// The identity of the claim of a refused call.
pub(super) fn named_anyway(admitted: &Admitted, query: String, body: Option<&Value>) -> Option<CallName> {
    WrittenCall::of(admitted, query, body).named(admitted, body)
}

/// A call as it would be sent.
struct WrittenCall {
    path: String,
    query: String,
    body: Option<Bytes>,
    fingerprint: Fingerprint,
}

impl WrittenCall {
    fn of(admitted: &Admitted, query: String, body: Option<&Value>) -> WrittenCall {
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
        WrittenCall { fingerprint: Fingerprint::of(&parts), path, query, body }
    }

    fn named(&self, admitted: &Admitted, body: Option<&Value>) -> Option<CallName> {
        let operation = admitted.operation();
        let request_id = body.and_then(|body| request_id(operation, body));
        let name = match operation.claim.as_ref()? {
            ClaimSource::Body(_) => claim_name(request_id.as_ref()?.as_str()),
            ClaimSource::Path(names) => {
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
        Some(CallName { key, request_id, fingerprint: self.fingerprint })
    }
}

/// Returns the name of the claim of a requestId: spellings of one UUID name one payment.
pub fn claim_name(request_id: &str) -> String {
    format!("request/{}", normal::uuid(request_id))
}

fn request_id(operation: &Operation, body: &Value) -> Option<RequestId> {
    match operation.claim.as_ref()? {
        ClaimSource::Body(pointer) => RequestId::parse(pointer.get(body)?.as_str()?),
        ClaimSource::Path(_) => None,
    }
}
