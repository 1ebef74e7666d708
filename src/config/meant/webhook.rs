//! The configuration of webhooks.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::notify::{NoticeEvent, PayloadFormat};

/// One webhook.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    pub name: String,
    /// A secret, because its path may contain one.
    pub url: Secret,
    /// The Standard Webhooks secrets; empty only for a chat.
    pub secrets: Vec<Secret>,
    pub events: BTreeSet<NoticeEvent>,
    pub environments: BTreeSet<Environment>,
    pub format: PayloadFormat,
    /// Whether notices contain amounts and requesters.
    pub details: bool,
    /// Whether its host may have a private address.
    pub allow_private: bool,
    pub ca_pem: Option<Vec<u8>>,
    pub timeout: Duration,
    /// How long delivery of a message is retried.
    pub keep: Duration,
}
