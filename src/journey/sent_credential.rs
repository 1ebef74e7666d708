//! The gate's own credential as one call sent it: no answer to that call may repeat it to anyone.

use std::sync::Arc;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};

use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::base::secret_search::{SecretSearch, is_searched};
use crate::stations::forward::{AnswerBody, Sent};

/// The credential that one call sent; a file may have another one by now.
#[derive(Clone, Debug)]
pub struct SentCredential {
    environment: Environment,
    /// `None` where the caller's own token was sent, or where the credential is too short to be searched for.
    secret: Option<Arc<Secret>>,
}

impl SentCredential {
    pub(super) fn new(environment: Environment, secret: Option<Arc<Secret>>) -> SentCredential {
        SentCredential { environment, secret: secret.filter(|secret| is_searched(secret)) }
    }

    /// Removes the headers of upstream's answer that contain the credential, such as those that a proxy echoes. Of
    /// `Content-Type`, the media type stays.
    pub fn remove_revealing(&self, headers: &mut HeaderMap) {
        let Some(secret) = &self.secret else { return };
        let secret = secret.reveal().as_bytes();
        let is_in = |text: &[u8]| text.windows(secret.len()).any(|window| window == secret);
        let found = headers.iter().filter(|(_, value)| is_in(value.as_bytes()));
        let names: Vec<HeaderName> = found.map(|(name, _)| name.clone()).collect();
        let media_type =
            headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().split(|byte| *byte == b';').next());
        let media_type = media_type.filter(|media_type| !is_in(media_type));
        let media_type = media_type.and_then(|media_type| HeaderValue::from_bytes(media_type).ok());
        for name in &names {
            headers.remove(name);
        }
        if names.contains(&CONTENT_TYPE) {
            headers.extend(media_type.map(|media_type| (CONTENT_TYPE, media_type)));
        }
        if !names.is_empty() {
            tracing::error!(
                environment = %self.environment,
                headers = ?names,
                "headers of upstream's answer contain the gate's credential and are withheld from the caller; report them to the \
                 provider of the API"
            );
        }
    }

    /// Returns whether a body contains the credential.
    pub fn is_in(&self, body: &[u8]) -> bool {
        let found = self.secret.as_ref().is_some_and(|secret| SecretSearch::finds(secret, body));
        if found {
            self.log_found();
        }
        found
    }

    /// Returns whether the complete body of an answer contains the credential.
    pub fn is_in_answer(&self, sent: &Sent) -> bool {
        match sent {
            Sent::Answered { body: AnswerBody::Complete(body), .. } => self.is_in(body),
            Sent::Answered { body: AnswerBody::Incomplete { .. }, .. }
            | Sent::Lost(_)
            | Sent::NotWritten
            | Sent::TooLate => false,
        }
    }

    /// Returns a search through a body that arrives in pieces; `None` if there is nothing to search for.
    pub fn search(&self) -> Option<SecretSearch> {
        self.secret.clone().and_then(SecretSearch::new)
    }

    /// Returns whether a body is encoded, and so cannot be searched for the credential.
    pub fn cannot_be_searched_for(&self, headers: &HeaderMap) -> bool {
        let is_encoded = |encoding: &HeaderValue| encoding.as_bytes() != b"identity";
        self.secret.is_some() && headers.get_all(CONTENT_ENCODING).iter().any(is_encoded)
    }

    pub fn log_found(&self) {
        tracing::error!(
            environment = %self.environment,
            "the body of upstream's answer contains the gate's credential and is withheld from the caller; report it to the \
             provider of the API"
        );
    }
}
