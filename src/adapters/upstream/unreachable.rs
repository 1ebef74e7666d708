//! Why upstream cannot be reached, in a word and with what to do.

use pingora::{Error, ErrorType};

use crate::base::ids::Environment;
use crate::base::word_enum::word_enum;

word_enum! {
    /// Why a connection to upstream was not made.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnreachableReason {
        Name = "name-lookup",
        Refused = "refused",
        NoRoute = "no-route",
        Timeout = "timeout",
        CertificateExpired = "certificate-expired",
        CertificateNotYetValid = "certificate-not-yet-valid",
        CertificateName = "certificate-name",
        CertificateAuthority = "certificate-authority",
        CertificateRevoked = "certificate-revoked",
        Certificate = "certificate",
        Tls = "tls",
        Other = "other",
    }
}

impl UnreachableReason {
    /// The engine tells why a handshake failed only in its text, which quotes the TLS library's.
    pub fn of(error: &Error) -> UnreachableReason {
        match error.root_etype() {
            ErrorType::ConnectRefused => UnreachableReason::Refused,
            ErrorType::ConnectNoRoute => UnreachableReason::NoRoute,
            ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => UnreachableReason::Timeout,
            ErrorType::TLSHandshakeFailure | ErrorType::InvalidCert => of_handshake(&error.to_string()),
            _ => UnreachableReason::Other,
        }
    }

    /// Returns what to look at.
    pub fn remedy(self) -> &'static str {
        match self {
            UnreachableReason::Name => {
                "the host has no known address: check `upstream`, and the name servers of this machine"
            }
            UnreachableReason::Refused => {
                "nothing listens there: check the host and port of `upstream`, and whether upstream runs"
            }
            UnreachableReason::NoRoute => "there is no route to it: check the network and firewalls of this machine",
            UnreachableReason::Timeout => {
                "it did not answer in time: check firewalls on the way, `timeouts.connect_ms` and `timeouts.tls_handshake_ms`"
            }
            UnreachableReason::CertificateExpired => {
                "its certificate has expired: tell the provider of the API; check the clock of this machine"
            }
            UnreachableReason::CertificateNotYetValid => {
                "its certificate is not valid yet: check the clock of this machine; tell the provider of the API"
            }
            UnreachableReason::CertificateName => {
                "its certificate is for another name: check the host of `upstream`; somebody may be between"
            }
            UnreachableReason::CertificateAuthority => {
                "its certificate is from an unknown authority: set `upstream_ca` if it is a private one; somebody may be between"
            }
            UnreachableReason::CertificateRevoked => "its certificate is revoked: tell the provider of the API",
            UnreachableReason::Certificate => "its certificate is not acceptable: tell the provider of the API",
            UnreachableReason::Tls => "it does not speak TLS as expected: check the scheme and port of `upstream`",
            UnreachableReason::Other => {
                "the connection failed: check the network of this machine, and whether upstream runs"
            }
        }
    }
}

/// Logs why upstream cannot be reached.
pub(super) fn log_unreachable(environment: Environment, reason: UnreachableReason) {
    let (why, remedy) = (reason.as_str(), reason.remedy());
    tracing::warn!(%environment, why, remedy, "upstream cannot be reached; nothing was sent");
}

fn of_handshake(text: &str) -> UnreachableReason {
    let Some((_, certificate)) = text.split_once("invalid peer certificate: ") else { return UnreachableReason::Tls };
    let known = [
        ("certificate expired", UnreachableReason::CertificateExpired),
        ("Expired", UnreachableReason::CertificateExpired),
        ("certificate not valid yet", UnreachableReason::CertificateNotYetValid),
        ("NotValidYet", UnreachableReason::CertificateNotYetValid),
        ("certificate not valid for name", UnreachableReason::CertificateName),
        ("NotValidForName", UnreachableReason::CertificateName),
        ("UnknownIssuer", UnreachableReason::CertificateAuthority),
        // Another authority of the same name.
        ("BadSignature", UnreachableReason::CertificateAuthority),
        ("Revoked", UnreachableReason::CertificateRevoked),
    ];
    let found = known.into_iter().find(|(begin, _)| certificate.starts_with(begin));
    found.map_or(UnreachableReason::Certificate, |(_, reason)| reason)
}
