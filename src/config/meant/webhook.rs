//! Who is told what happens.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::stations::tell::{Event, Format};

/// One webhook.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    pub name: String,
    /// What stands in its path may be a secret.
    pub url: Secret,
    /// As Standard Webhooks has them; none is only where a chat is told.
    pub secrets: Vec<Secret>,
    pub events: BTreeSet<Event>,
    pub environments: BTreeSet<Environment>,
    pub format: Format,
    /// Whether amounts and requesters are told.
    pub details: bool,
    /// Its host may be on no public address.
    pub allow_private: bool,
    pub ca_pem: Option<Vec<u8>>,
    pub timeout: Duration,
    /// How long a message is tried.
    pub keep: Duration,
}
