//! The client of a webhook: one URL, signed, over TLS, to a checked address, with a deadline on the whole delivery.
//!
//! Redirects are not followed, no proxy from the environment variables is used, and no connection is kept: every
//! message looks the host up anew, and connects only to an address that was checked. Only the status of the answer
//! counts; its body is left unread.

mod address;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use jiff::Timestamp;
use reqwest::{Client, Url};
use thiserror::Error;

pub use address::{Forbidden, Places};

use super::identity::fetch;
use crate::config::WebhookConfig;
use crate::notify::{PayloadFormat, SigningSecret, signature};

/// The deadline for connecting, within that of the delivery.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest wait that a webhook may ask for.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
const NAME: &str = concat!("sluice/", env!("CARGO_PKG_VERSION"));

/// A client of one webhook.
pub struct Webhook {
    name: String,
    url: Url,
    client: Client,
    places: Places,
    secrets: Vec<SigningSecret>,
    pub format: PayloadFormat,
    pub details: bool,
    /// The deadline of one whole delivery.
    pub timeout: Duration,
}

/// Why a webhook cannot be used.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct WebhookError(String);

/// The result of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    Delivered(u16),
    /// The webhook wants no more messages.
    Gone,
    /// The message is to be sent again; not before this time, if the webhook named one.
    Refused {
        status: u16,
        wait: Option<Duration>,
    },
    /// Nothing was sent: the webhook may not connect to its host.
    Forbidden(&'static str),
    Untrusted(&'static str),
    /// No whole answer came in time.
    Silent,
    Unreachable,
}

impl Came {
    /// Returns the result's name in metrics and logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Came::Delivered(_) => "delivered",
            Came::Gone => "gone",
            Came::Refused { status: 300..400, .. } => "redirect",
            Came::Refused { status: 400..500, .. } => "client_error",
            Came::Refused { .. } => "server_error",
            Came::Forbidden(_) => "forbidden",
            Came::Untrusted(_) => "untrusted",
            Came::Silent => "timeout",
            Came::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Came::Delivered(status) => write!(f, "it accepted the message ({status})"),
            Came::Gone => f.write_str("it wants no more messages (410)"),
            Came::Refused { status: status @ 300..400, .. } => {
                write!(f, "it answered {status}; redirects are not followed: configure the URL that it redirects to")
            }
            Came::Refused { status, .. } => write!(f, "it answered {status}"),
            Came::Forbidden(why) => f.write_str(why),
            Came::Untrusted(why) => f.write_str(why),
            Came::Silent => f.write_str("it did not answer in time"),
            Came::Unreachable => f.write_str("it could not be reached, or the connection broke off"),
        }
    }
}

impl Webhook {
    pub fn new(config: &WebhookConfig) -> Result<Webhook, WebhookError> {
        let fault = |why: &dyn fmt::Display| WebhookError(format!("`webhook.{}` cannot be used: {why}", config.name));
        let url: Url = config.url.reveal().parse().map_err(|_| fault(&"`url` is not a URL"))?;
        let places = Places { allow_private: config.allow_private, is_plain: url.scheme() != "https" };
        let builder = fetch::builder(config.ca_pem.as_deref(), config.timeout, config.timeout.min(CONNECT));
        let builder = builder.map_err(|error| fault(&error))?;
        let builder = builder.user_agent(NAME).http1_only().pool_max_idle_per_host(0).dns_resolver(places);
        let secrets = config.secrets.iter().map(|secret| SigningSecret::parse(secret.reveal()));
        Ok(Webhook {
            name: config.name.clone(),
            client: builder.build().map_err(|error| fault(&error))?,
            url,
            places,
            secrets: secrets.collect::<Option<_>>().ok_or_else(|| fault(&"one of `secrets` is not a valid secret"))?,
            format: config.format,
            details: config.details,
            timeout: config.timeout,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the host alone: the rest of the URL may contain a secret.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Sends a message once.
    pub async fn send(&self, id: &str, at: Timestamp, body: String) -> Came {
        // A name is checked when it is looked up; a literal address is not looked up, so it is checked here.
        let literal = self.host().trim_start_matches('[').trim_end_matches(']').parse().ok();
        if let Some(Err(forbidden)) = literal.map(|ip| self.places.judge(&[ip])) {
            return Came::Forbidden(forbidden.0);
        }
        let secs = at.as_second();
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        request = request.header("webhook-id", id).header("webhook-timestamp", secs);
        if !self.secrets.is_empty() {
            request = request.header("webhook-signature", signature(&self.secrets, id, secs, &body));
        }
        match request.body(Bytes::from(body)).send().await {
            Ok(answer) => delivery(answer.status().as_u16(), answer.headers(), at),
            Err(error) => lost(&error),
        }
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("host", &self.host()).finish_non_exhaustive()
    }
}

fn delivery(status: u16, headers: &HeaderMap, now: Timestamp) -> Came {
    match status {
        200..300 => Came::Delivered(status),
        410 => Came::Gone,
        _ => {
            let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let wait = after.and_then(|text| wait(text.trim(), now));
            Came::Refused { status, wait: wait.map(|wait| wait.min(LONGEST_WAIT)) }
        }
    }
}

/// Parses a wait: seconds, or a date.
fn wait(text: &str, now: Timestamp) -> Option<Duration> {
    match text.parse() {
        Ok(secs) => Some(Duration::from_secs(secs)),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
        }
    }
}

fn lost(error: &reqwest::Error) -> Came {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(forbidden) = error.downcast_ref::<Forbidden>() {
            return Came::Forbidden(forbidden.0);
        }
        next = error.source();
    }
    match fetch::why_untrusted(error) {
        Some(why) => Came::Untrusted(why),
        None if error.is_timeout() => Came::Silent,
        None => Came::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_means_is_its_status() {
        let mut headers = HeaderMap::new();
        let now = "2015-10-21T07:27:30Z".parse().unwrap();
        let delivery = |status, headers: &HeaderMap| delivery(status, headers, now);
        assert_eq!(delivery(204, &headers), Came::Delivered(204));
        assert_eq!(delivery(410, &headers), Came::Gone);
        for (status, word) in [(302, "redirect"), (404, "client_error"), (503, "server_error"), (99, "server_error")] {
            let came = delivery(status, &headers);
            assert_eq!((came.as_str(), &came), (word, &Came::Refused { status, wait: None }));
        }
        for (written, wait) in [
            ("7", Some(Duration::from_secs(7))),
            (" 99999999999 ", Some(LONGEST_WAIT)),
            ("-1", None),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(Duration::from_secs(30))),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(Duration::ZERO)),
            ("Mon, 21 Oct 2115 07:28:00 GMT", Some(LONGEST_WAIT)),
            ("soon", None),
            ("", None),
        ] {
            headers.insert(RETRY_AFTER, written.parse().unwrap());
            assert_eq!(delivery(429, &headers), Came::Refused { status: 429, wait }, "{written}");
        }
    }
}
