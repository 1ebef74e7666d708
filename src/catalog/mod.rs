//! The contract as data: `openapi.json` and its schemas, read once into [`Operation`]s.
//!
//! Routing, checks, the shapes of answers, the simulator and the docs all derive from here; nothing about a
//! single operation of upstream is written anywhere else. A call that matches no operation does not exist.

mod build;
mod completeness;
mod contract;
mod files;
mod find;
mod movement;
mod operation;
mod read;
mod template;

use std::sync::Arc;

pub use completeness::{completeness, examples};
pub use contract::{Contract, Place, Violation};
pub use files::SchemaFiles;
pub use find::{Found, NotFound};
pub use movement::{Movement, Party, chain_kind};
pub use operation::{Answer, Claim, Class, Fees, Money, Operation, Parameter, Reconcile, Shape, Side, Statuses};
pub use template::{Segment, Template};

use crate::base::digest::Fingerprint;
use crate::base::finding::Finding;
use crate::base::ids::OperationId;

/// Every operation that the contract knows, in the order of the file.
#[derive(Debug)]
pub struct Catalog {
    operations: Vec<Arc<Operation>>,
    digest: Fingerprint,
}

impl Catalog {
    /// Reads the contract. `enable` names operations that are off as shipped and wanted nevertheless.
    pub fn build(files: &SchemaFiles, enable: &[String]) -> Result<Catalog, Vec<Finding>> {
        let (operations, digest) = build::operations(files, enable)?;
        Ok(Catalog { operations: operations.into_iter().map(Arc::new).collect(), digest })
    }

    /// The digest of what its files say and of which operations are on; how the files are laid out says nothing.
    pub fn digest(&self) -> Fingerprint {
        self.digest
    }

    pub fn operations(&self) -> &[Arc<Operation>] {
        &self.operations
    }

    pub fn operation(&self, id: &OperationId) -> Option<&Arc<Operation>> {
        self.operations.iter().find(|o| o.id == *id)
    }

    /// The operation that a method and a path name, and the parameters in the path.
    pub fn find(&self, method: &http::Method, path: &str) -> Result<Found, NotFound> {
        find::find(&self.operations, method, path)
    }
}
