//! The host names under which a listener answers.
//!
//! A page of another site can let a name of its own resolve to a gate's address; the browser then takes the gate's
//! answers for that site's (DNS rebinding). Such a request carries the other site's name. IP addresses and `localhost`
//! are always accepted, for no other site can have them as its name.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use http::Uri;
use http::header::{HOST, HeaderMap};

/// The refusal of a request with another host name.
pub const FOREIGN_HOST: &str = "this listener does not answer under the host name of the request";

/// The names of a listener, besides its addresses.
#[derive(Clone, Debug, Default)]
pub struct HostNames(BTreeSet<String>);

impl HostNames {
    pub fn new<'n>(names: impl IntoIterator<Item = &'n String>) -> HostNames {
        HostNames(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Returns whether a request is addressed to this listener. A request without one readable host is not.
    pub fn accept(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            _ => None,
        };
        let is_own = |host: &str| self.is_own(host);
        host.is_some_and(is_own) && uri.authority().is_none_or(|target| is_own(target.as_str()))
    }

    fn is_own(&self, host: &str) -> bool {
        if let Some(rest) = host.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
        }
        let (name, port) = host.find(':').map_or((host, ""), |at| host.split_at(at));
        let name = name.to_ascii_lowercase();
        is_port(port) && (name.parse::<Ipv4Addr>().is_ok() || name == "localhost" || self.0.contains(&name))
    }
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(target: &str, hosts: &[&str]) -> bool {
        let names = ["Gate.Example".to_owned()];
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        HostNames::new(&names).accept(&target.parse().unwrap(), &headers)
    }

    #[test]
    fn only_its_own_names_and_addresses_are_accepted() {
        for own in
            ["gate.example", "GATE.example:8083", "127.0.0.1", "10.1.2.3:9090", "[::1]", "[::1]:80", "localhost:1"]
        {
            assert!(accepts("/", &[own]), "{own}");
        }
        for other in [
            "evil.example",
            "gate.example.evil.example",
            "gate.example.",
            "gate.example:x",
            "gate.example:80:80",
            "127.0.0.1.evil.example",
            "a@gate.example",
            "[::1",
            "[evil.example]",
            "[::1]evil",
            "localhost.evil.example",
            "",
        ] {
            assert!(!accepts("/", &[other]), "{other}");
        }
        assert!(!accepts("/", &[]) && !accepts("/", &["gate.example", "gate.example"]));
        assert!(!accepts("http://evil.example/", &["gate.example"]));
        assert!(accepts("http://gate.example/", &["gate.example"]));
    }
}
