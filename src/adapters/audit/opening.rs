//! The audit log of a node whose disk cannot be used yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::AuditFiles;
use crate::adapters::opening::Opening;
use crate::audit::OnDisk;
use crate::base::ids::Environment;
use crate::ledger::{Number, Outstanding};
use crate::ports::{AuditFault, AuditSink};

/// An audit log that takes nothing until it is opened.
#[derive(Debug, Default)]
pub struct OpeningAudit {
    files: Opening<AuditFiles>,
    /// Whether it is the log's own disk that cannot be used.
    is_failing: AtomicBool,
}

impl OpeningAudit {
    pub fn opens(&self, files: Arc<AuditFiles>) {
        self.files.opens(files);
    }

    /// Notes whether the log's own disk cannot be used.
    pub fn fails(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::Release);
    }

    fn files(&self) -> Result<Arc<AuditFiles>, AuditFault> {
        self.files
            .now()
            .ok_or_else(|| AuditFault::Disk("it could not be opened since this gate was started".to_owned()))
    }
}

#[async_trait]
impl AuditSink for OpeningAudit {
    async fn append(&self, entries: Vec<Outstanding>) -> Result<OnDisk, AuditFault> {
        self.files()?.append(entries).await
    }

    fn highest(&self, environment: Environment) -> Number {
        self.files.now().map(|files| files.highest(environment)).unwrap_or_default()
    }

    async fn skip(&self, environment: Environment, up_to: Number) -> Result<(), AuditFault> {
        self.files()?.skip(environment, up_to).await
    }

    async fn begin_again(&self, environment: Environment, behind: Number) -> Result<(), AuditFault> {
        self.files()?.begin_again(environment, behind).await
    }

    async fn suspend(&self, environment: Environment) -> Result<(), AuditFault> {
        self.files()?.suspend(environment).await
    }

    fn resume(&self, environment: Environment) {
        if let Some(files) = self.files.now() {
            files.resume(environment);
        }
    }

    async fn gap(&self) {
        self.files.opened().await.gap().await;
    }

    fn is_well(&self) -> bool {
        self.files.now().map_or_else(|| !self.is_failing.load(Ordering::Acquire), |files| files.is_well())
    }

    fn trouble(&self) -> Option<String> {
        self.files.now().and_then(|files| files.trouble())
    }

    fn lacks_witnesses(&self) -> bool {
        self.files.now().is_some_and(|files| files.lacks_witnesses())
    }
}
