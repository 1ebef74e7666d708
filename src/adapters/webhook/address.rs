//! Where a webhook may connect to: the public internet, unless private addresses are allowed.
//!
//! The checked addresses are those that are connected to: all addresses of one lookup are checked here, and the
//! connection is made to one of them. A name that resolves differently a moment later changes nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

use crate::adapters::names::LookupPurpose;

/// The addresses that a webhook may have.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub allow_private: bool,
    /// The URL is plain HTTP, which must never leave the organization.
    pub is_plain: bool,
}

/// Why a webhook may not connect to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Forbidden(pub &'static str);

impl Places {
    /// Checks all addresses of a host: one forbidden address is enough to refuse, because the owner of the name may mix
    /// them.
    pub fn judge(self, addresses: &[IpAddr]) -> Result<(), Forbidden> {
        let all_public = addresses.iter().all(|ip| is_public(*ip));
        if !self.allow_private && !all_public {
            return Err(Forbidden(
                "its host has a private, loopback or special address: `allow_private = true` allows that",
            ));
        }
        if self.is_plain && addresses.iter().any(|ip| is_public(*ip)) {
            return Err(Forbidden("its URL is plain HTTP, and its host is on the public internet: write `https://`"));
        }
        Ok(())
    }
}

impl Resolve for Places {
    fn resolve(&self, name: Name) -> Resolving {
        let places = *self;
        Box::pin(async move {
            let found = LookupPurpose::Notices.lookup(name.as_str()).await?;
            places.judge(&found)?;
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

/// Whether an address is public. An unknown kind of address is not.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Follows the registry of special-purpose addresses (RFC 6890 and its updates).
fn is_public_v4(ip: Ipv4Addr) -> bool {
    !matches!(
        ip.octets(),
        [0 | 10 | 127, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 31, 196, _]
            | [192, 52, 193, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [192, 175, 48, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [224..=255, ..]
    )
}

/// Allows only global unicast, without addresses that embed another: IPv4 mapped, translated, tunnelled.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let is_global = matches!(ip.segments(), [0x2000..=0x3fff, ..]);
    let is_special = matches!(
        ip.segments(),
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] | [0x2620, 0x004f, 0x8000, ..] | [0x3fff, 0..=0x0fff, ..]
    );
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: Places = Places { allow_private: false, is_plain: false };

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_what_is_public_is_public() {
        for public in ["8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.0.1.1"] {
            assert!(is_public(ip(public)), "{public}");
        }
        for public in ["2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "2001:200::1"] {
            assert!(is_public(ip(public)), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378::1",
            "2001:db8::1",
            "2001:20::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(ip(special)), "{special}");
        }
    }

    #[test]
    fn one_address_that_leads_astray_is_enough() {
        assert_eq!(PUBLIC.judge(&[ip("8.8.8.8"), ip("2606:4700:4700::1111")]), Ok(()));
        assert!(PUBLIC.judge(&[ip("8.8.8.8"), ip("10.0.0.1")]).is_err());
        assert!(PUBLIC.judge(&[ip("::ffff:10.0.0.1")]).is_err());
        let private = Places { allow_private: true, ..PUBLIC };
        assert_eq!(private.judge(&[ip("10.0.0.1"), ip("8.8.8.8")]), Ok(()));
        let plain = Places { is_plain: true, ..private };
        assert_eq!(plain.judge(&[ip("10.0.0.1")]), Ok(()));
        assert!(plain.judge(&[ip("10.0.0.1"), ip("8.8.8.8")]).is_err(), "plain HTTP never goes to the internet");
    }
}
