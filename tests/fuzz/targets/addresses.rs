//! Addresses: of webhooks, and of payments.

use std::net::IpAddr;

use sluice::adapters::webhook::Places;
use sluice::base::normal::{is_uuid, known_wallet, uuid, wallet};
use sluice::config::is_safe_url;

use super::text;

/// No address of a machine of the organization is public, in whatever form it is written.
pub fn webhook(input: &[u8]) {
    let Some(text) = text(input) else { return };
    is_safe_url(text);
    let addresses: Vec<IpAddr> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let open = Places { allow_private: false, is_plain: false };
    if addresses.is_empty() || open.judge(&addresses).is_err() {
        return;
    }
    for address in &addresses {
        let special = match address {
            IpAddr::V4(v4) => {
                v4.is_private()
                    || v4.is_loopback()
                    || v4.is_link_local()
                    || v4.is_multicast()
                    || v4.is_broadcast()
                    || v4.is_unspecified()
            }
            IpAddr::V6(v6) => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local()
                    || v6.to_ipv4_mapped().is_some()
            }
        };
        assert!(!special, "{address} is taken for public");
        assert!(open.judge(&[*address]).is_ok(), "one of good addresses is bad");
    }
    assert!(Places { allow_private: false, is_plain: true }.judge(&addresses).is_err(), "plain HTTP to the internet");
}

/// An address has one form, whatever its letters: an EVM address in lower case is the same, and its form is its own. A UUID
/// has one form, whatever its letters and hyphens.
pub fn payment(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if let Some(normal) = known_wallet(None, text) {
        assert_eq!(wallet(None, text.to_owned()), normal);
        if normal.starts_with("0x") {
            assert_eq!(known_wallet(None, &normal).as_deref(), Some(normal.as_str()));
            assert_eq!(known_wallet(None, &text.to_ascii_lowercase()).as_deref(), Some(normal.as_str()));
        } else {
            assert_eq!(known_wallet(None, &normal), None, "a form of one kind is an address of another");
        }
    }
    let normal = uuid(text);
    assert_eq!(uuid(&normal), normal);
    if is_uuid(&normal) {
        let digits = |text: &str| text.replace('-', "").to_ascii_lowercase();
        assert_eq!(digits(text), digits(&normal), "only case and hyphens may differ");
    } else {
        assert_eq!(normal, text, "text that is no UUID stays as it is");
    }
}
