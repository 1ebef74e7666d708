//! A webhook as written.

use std::time::Duration;

use super::{Placed, days};
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::config::WebhookConfig;
use crate::notify::{NoticeEvent, PayloadFormat};

#[derive(Default)]
pub(in crate::config) struct WrittenWebhook {
    pub name: String,
    pub url: Option<Placed<Secret>>,
    pub secrets: Option<Placed<Vec<Secret>>>,
    pub events: Option<Placed<Vec<NoticeEvent>>>,
    pub environments: Option<Placed<Vec<Environment>>>,
    pub format: Option<Placed<PayloadFormat>>,
    pub details: Option<Placed<bool>>,
    pub allow_private: Option<Placed<bool>>,
    pub ca: Option<Placed<Vec<u8>>>,
    pub timeout: Option<Placed<Duration>>,
    pub keep_days: Option<Placed<usize>>,
}

impl WrittenWebhook {
    pub fn meant(self) -> Option<WebhookConfig> {
        let events = self.events.map_or_else(|| NoticeEvent::ALL.to_vec(), |events| events.value);
        let environments = self.environments.map_or_else(|| Environment::ALL.to_vec(), |all| all.value);
        Some(WebhookConfig {
            name: self.name,
            url: self.url?.value,
            secrets: self.secrets.map(|secrets| secrets.value).unwrap_or_default(),
            events: events.into_iter().collect(),
            environments: environments.into_iter().collect(),
            format: self.format?.value,
            details: self.details?.value,
            allow_private: self.allow_private?.value,
            ca_pem: self.ca.map(|ca| ca.value),
            timeout: self.timeout?.value,
            keep: days(self.keep_days?.value),
        })
    }
}
