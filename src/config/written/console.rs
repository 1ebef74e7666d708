//! The console as written.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Placed, WrittenIssuer, tls};
use crate::base::secret::Secret;
use crate::config::meant::SubjectForm;
use crate::config::url;
use crate::config::{ConsoleConfig, OidcConfig};
use crate::people::session::SessionTerms;
use crate::people::visibility::Visibility;
use crate::stations::hold::Owners;

#[derive(Default)]
pub(in crate::config) struct WrittenConsole {
    pub listen: Option<Placed<SocketAddr>>,
    pub issuer: Option<Placed<String>>,
    pub owners: Option<Placed<Vec<String>>>,
    pub visible: Option<Placed<Vec<String>>>,
    pub payments_indexed: Option<Placed<usize>>,
    pub public_url: Option<Placed<String>>,
    pub hosts: Option<Placed<Vec<String>>>,
    pub audiences: Option<Placed<Vec<String>>>,
    pub sign_ins_per_minute: Option<Placed<usize>>,
    pub acts_per_minute: Option<Placed<usize>>,
    pub entries_per_hour: Option<Placed<usize>>,
    pub sessions_most: Option<Placed<usize>>,
    pub remind_before: Option<Placed<Duration>>,
    pub session_idle: Option<Placed<Duration>>,
    pub session_longest: Option<Placed<Duration>>,
    pub token_sign_in: Option<Placed<bool>>,
    pub oidc_client_id: Option<Placed<String>>,
    pub oidc_client_secret: Option<Placed<Secret>>,
    pub oidc_scopes: Option<Placed<Vec<String>>>,
    pub oidc_renew: Option<Placed<Duration>>,
    pub oidc_name: Option<Placed<String>>,
    pub oidc_ca: Option<Placed<Vec<u8>>>,
    pub tls_certificate: Option<Placed<Vec<u8>>>,
    pub tls_key: Option<Placed<Secret>>,
}

impl WrittenConsole {
    /// Returns `None` if the section is invalid, `Some(None)` if it is not written.
    pub(super) fn meant(self, issuers: &[WrittenIssuer]) -> Option<Option<ConsoleConfig>> {
        if self.listen.is_none() && self.issuer.is_none() {
            return Some(None);
        }
        let issuer = self.issuer?.value;
        let oidc = match self.oidc_client_id {
            None => None,
            Some(client_id) => Some(OidcConfig {
                issuer: issuers.iter().find(|one| one.name == issuer)?.issuer.as_ref()?.value.clone(),
                client_id: client_id.value,
                client_secret: self.oidc_client_secret.map(|secret| secret.value),
                scopes: self.oidc_scopes?.value,
                renew: self.oidc_renew?.value,
                name: self.oidc_name?.value,
                ca_pem: self.oidc_ca.map(|ca| ca.value),
                origin: self.public_url.as_ref()?.value.clone(),
            }),
        };
        let mut hosts = self.hosts?.value;
        hosts.extend(self.public_url.as_ref().and_then(|url| url::host_of_origin(&url.value)));
        let is_opaque =
            |one: &&WrittenIssuer| one.subjects.as_ref().is_some_and(|form| form.value == SubjectForm::Opaque);
        let opaque = issuers.iter().filter(is_opaque).map(|one| one.name.clone());
        let is_shared = issuers.iter().any(|one| one.name == issuer && one.is_for_callers());
        let audiences = match (self.audiences?.value, &oidc) {
            (named, _) if !named.is_empty() => named,
            (_, Some(oidc)) if is_shared => vec![oidc.client_id.clone()],
            (none, _) => none,
        };
        Some(Some(ConsoleConfig {
            listen: self.listen?.value,
            tls: tls(self.tls_certificate, self.tls_key, None)?,
            issuer,
            owners: Owners::parse(&self.owners?.value)?.with_opaque(opaque),
            visibility: Visibility::parse(&self.visible?.value)?,
            payments_indexed: self.payments_indexed?.value,
            hosts,
            audiences,
            sign_ins_per_minute: u64::try_from(self.sign_ins_per_minute?.value).ok()?,
            acts_per_minute: u64::try_from(self.acts_per_minute?.value).ok()?,
            entries_per_hour: self.entries_per_hour?.value,
            origin: self.public_url.map(|url| url.value),
            sessions: SessionTerms {
                idle: self.session_idle?.value,
                longest: self.session_longest?.value,
                most: self.sessions_most?.value,
            },
            token_sign_in: self.token_sign_in?.value,
            oidc,
            remind_before: self.remind_before?.value,
        }))
    }
}
