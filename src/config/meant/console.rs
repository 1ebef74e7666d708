//! The configuration of the console.

use std::net::SocketAddr;
use std::time::Duration;

use super::ListenerTls;
use crate::base::secret::Secret;
use crate::people::session::SessionTerms;
use crate::people::visibility::Visibility;
use crate::stations::hold::Owners;

/// The console.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    pub listen: SocketAddr,
    pub tls: Option<ListenerTls>,
    /// The name of the one issuer whose tokens are accepted; it has a field for roles.
    pub issuer: String,
    pub owners: Owners,
    /// Whose calls each role sees.
    pub visibility: Visibility,
    /// How many of the newest payments are indexed.
    pub payments_indexed: usize,
    /// The host names under which it answers, besides addresses.
    pub hosts: Vec<String>,
    /// The audiences of people's tokens; empty for all of the issuer.
    pub audiences: Vec<String>,
    pub sign_ins_per_minute: u64,
    pub acts_per_minute: u64,
    /// The most audit entries of people's acts that move no money, of an environment within an hour.
    pub entries_per_hour: usize,
    /// The exact origin that browsers use, if configured.
    pub origin: Option<String>,
    pub sessions: SessionTerms,
    /// Whether a browser may sign in with a token.
    pub token_sign_in: bool,
    pub oidc: Option<OidcConfig>,
    /// How long before the expiry of a hold a reminder is sent.
    pub remind_before: Duration,
}

/// The OpenID provider where people sign in.
#[derive(Clone, Debug)]
pub struct OidcConfig {
    /// Its URL, which is also the `iss` of the console's issuer.
    pub issuer: String,
    /// One of the audiences of the console's issuer.
    pub client_id: String,
    pub client_secret: Option<Secret>,
    pub scopes: Vec<String>,
    /// How long a session lasts until the page signs in again by itself.
    pub renew: Duration,
    /// The name shown to people.
    pub name: String,
    /// The authorities to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// The origin of the console in browsers.
    pub origin: String,
}
