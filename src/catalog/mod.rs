//! The contract as data: `openapi.json` and its schemas, read once into [`Operation`]s.
//!
//! Routing, checks, error shapes, the simulator and the docs derive from here; nothing about a single operation of
//! upstream is written anywhere else. A call that matches no operation does not exist.

mod binding;
mod body_fields;
mod build;
mod bundle;
mod completeness;
mod contract;
mod files;
mod find;
mod flat_contract;
mod follow;
mod movement;
mod operation;
mod pattern_words;
mod read;
mod refusals;
mod request_id_place;
mod source;
mod template;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

pub use body_fields::{BodyField, BodyFields, FieldKind, FieldLookup, FormField};
pub use completeness::{completeness, examples};
pub use contract::{BodyPlace, Contract, Violation};
pub use files::SchemaFiles;
pub use find::{NotFound, Route};
pub use follow::{Follow, FollowedState, StateMeaning};
pub use movement::{Charge, ChargeForm, Movement, Party};
pub use operation::{
    AnswerContract, AnsweredRecord, ChargePointers, ClaimSource, Class, ErrorShape, Fees, Money, Operation, Parameter,
    Reconcile, Side, Statuses,
};
pub use refusals::{Listing, RefusalLists};
pub use source::ContractSource;
pub use template::{Segment, Template};

use crate::base::digest::Fingerprint;
use crate::base::finding::Finding;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;

/// Every operation that the contract knows, in the order of the file.
#[derive(Debug)]
pub struct Catalog {
    operations: Vec<Arc<Operation>>,
    digest: Fingerprint,
    /// The files that it was built from.
    files: SchemaFiles,
    document: OnceLock<Bytes>,
    binding: Fingerprint,
    source: ContractSource,
}

impl Catalog {
    /// Builds the catalogue. `enable` names operations that are off as shipped.
    pub fn build(files: &SchemaFiles, enable: &[String]) -> Result<Catalog, Vec<Finding>> {
        let (operations, digest, binding) = build::operations(files, enable)?;
        let operations = operations.into_iter().map(Arc::new).collect();
        let source = ContractSource::of(files, enable);
        Ok(Catalog { operations, digest, binding, source, files: files.clone(), document: OnceLock::new() })
    }

    /// Adds body fields that the contract does not know, each written as `operation:/pointer`. A body may have them,
    /// but a rule must name them. `file` is the file that lists them.
    pub fn with_further(mut self, further: &[String], file: &str) -> Result<Catalog, Vec<Finding>> {
        let (mut findings, mut parts) = (Vec::new(), vec![self.digest.to_hex()]);
        for text in further {
            let (id, place) = text.split_once(':').unwrap_or((text, ""));
            let pointer = Pointer::parse(place).filter(|pointer| !pointer.has_star());
            let operation = self.operations.iter_mut().find(|operation| operation.id.as_str() == id);
            match (operation.filter(|operation| operation.body.is_some()), pointer) {
                (Some(operation), Some(pointer)) => {
                    // INVARIANT: nobody shares a catalogue that is still being built.
                    if let Some(operation) = Arc::get_mut(operation) {
                        operation.further.push(pointer);
                    }
                    parts.push(text.clone());
                }
                _ => findings.push(
                    Finding::error(
                        file,
                        format!("`catalog.further`: `{}` is not a field of a body", text.escape_debug()),
                    )
                    .remedy("write an operation that has a body and a JSON pointer: `createOfframp:/memo`"),
                ),
            }
        }
        if parts.len() > 1 {
            let binding = [vec![self.binding.to_hex()], parts.get(1..).unwrap_or_default().to_vec()].concat();
            let digest_of =
                |parts: &[String]| Fingerprint::of(&parts.iter().map(String::as_bytes).collect::<Vec<&[u8]>>());
            (self.digest, self.binding) = (digest_of(&parts), digest_of(&binding));
            self.source.with_further(further);
        }
        if findings.is_empty() { Ok(self) } else { Err(findings) }
    }

    /// The digest of the contract's content and of the enabled operations; the layout of the files does not count.
    pub fn digest(&self) -> Fingerprint {
        self.digest
    }

    /// The contract of a gate as one OpenAPI document for machines: the enabled operations, and all that the gate adds.
    pub fn document(&self) -> &Bytes {
        self.document.get_or_init(|| {
            let enabled: Vec<&Operation> = self.operations.iter().map(|o| &**o).filter(|o| o.enabled).collect();
            Bytes::from(bundle::bundled(&self.files, &enabled).to_string())
        })
    }

    /// The digest of everything in the contract but descriptions and the answers to reads.
    pub fn binding(&self) -> Fingerprint {
        self.binding
    }

    /// The texts from which the catalogue can be built again.
    pub fn source(&self) -> &ContractSource {
        &self.source
    }

    pub fn operations(&self) -> &[Arc<Operation>] {
        &self.operations
    }

    pub fn operation(&self, id: &OperationId) -> Option<&Arc<Operation>> {
        self.operations.iter().find(|o| o.id == *id)
    }

    /// Finds the operation of a method and a path, with the path's parameters.
    ///
    /// ```
    /// use http::Method;
    /// use sluice::catalog::{Catalog, SchemaFiles};
    ///
    /// let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    /// let route = catalog.find(&Method::POST, "/v2/wallets/swaps").unwrap();
    /// assert_eq!(route.operation.id.as_str(), "createSwap");
    /// assert!(catalog.find(&Method::PATCH, "/v2/wallets/swaps").is_err());
    /// ```
    pub fn find(&self, method: &http::Method, path: &str) -> Result<Route, NotFound> {
        find::find(&self.operations, method, path)
    }
}
