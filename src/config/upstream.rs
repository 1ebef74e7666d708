//! The URL of an upstream. A fault never repeats it: it may hold a password, wrongly.

use std::net::IpAddr;

use http::Uri;
use rustls::pki_types::ServerName;

use super::meant::UpstreamConfig;
use super::written::Fault;

/// Reads `http://` or `https://`, a host, and where written a port and a path.
pub(super) fn parse(url: &str) -> Result<UpstreamConfig, Fault> {
    // `http::Uri` drops a fragment without a word.
    if url.contains('#') {
        return Err(fault("the URL has a fragment (`#…`)"));
    }
    let uri: Uri = url.parse().map_err(|_| fault("this is not a URL"))?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        Some(_) => return Err(fault("the URL is neither `https://` nor `http://`")),
        None => return Err(fault("the URL does not say `https://` or `http://`")),
    };
    let authority = uri.authority().ok_or_else(|| fault("the URL has no host"))?;
    if authority.as_str().contains('@') {
        return Err(fault("the URL has a user or password"));
    }
    if uri.query().is_some() {
        return Err(fault("the URL has a query (`?…`)"));
    }
    let host = host(authority.host())?;
    let port = port(authority, tls)?;
    Ok(UpstreamConfig { tls, host, port, base_path: base_path(uri.path())?, ca_pem: None })
}

/// Whether the host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// INVARIANT: never empty, and a name that upstream's certificate can be checked for.
fn host(written: &str) -> Result<String, Fault> {
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(written);
    let host = bare.to_ascii_lowercase();
    if host.is_empty() {
        return Err(fault("the URL has no host"));
    }
    if host.ends_with('.') || ServerName::try_from(host.as_str()).is_err() {
        return Err(fault("the URL's host is neither a name nor an IP address"));
    }
    Ok(host)
}

fn port(authority: &http::uri::Authority, tls: bool) -> Result<u16, Fault> {
    match authority.port_u16() {
        Some(0) => Err(fault("the URL's port is 0")),
        Some(port) => Ok(port),
        // A colon after the host, outside the brackets of an IPv6 address: a port stands there, and cannot be read.
        None if authority.as_str().rsplit(']').next().is_some_and(|rest| rest.contains(':')) => {
            Err(fault("the URL's port is not a number up to 65535"))
        }
        None => Ok(if tls { 443 } else { 80 }),
    }
}

fn base_path(path: &str) -> Result<String, Fault> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let plain = |segment: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
        segment.bytes().all(allowed) && segment.bytes().any(|b| b != b'.')
    };
    match path.strip_prefix('/') {
        None => Ok(String::new()),
        Some(segments) if segments.split('/').all(plain) => Ok(path.to_owned()),
        Some(_) => Err(fault("the URL's path is more than names of `A-Za-z0-9._~-` between slashes")),
    }
}

fn fault(text: &str) -> Fault {
    Fault::new(text).remedy("write `https://host`, and `:port` and `/path` where needed, nothing else")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_its_parts() {
        for (url, tls, host, port, base_path) in [
            ("https://api.example.com", true, "api.example.com", 443, ""),
            ("https://API.Example.com/", true, "api.example.com", 443, ""),
            ("https://api.example.com:8443/pay/v2/", true, "api.example.com", 8443, "/pay/v2"),
            ("http://localhost", false, "localhost", 80, ""),
            ("http://127.0.0.1:9080", false, "127.0.0.1", 9080, ""),
            ("https://[::1]:9080/x", true, "::1", 9080, "/x"),
            ("https://[::1]", true, "::1", 443, ""),
        ] {
            let expected = UpstreamConfig { tls, host: host.into(), port, base_path: base_path.into(), ca_pem: None };
            assert_eq!(parse(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn what_leads_nowhere_or_astray_is_refused() {
        for (url, what) in [
            ("", "not a URL"),
            ("api.example.com", "does not say"),
            ("/path", "does not say"),
            ("ftp://api.example.com", "neither `https://` nor `http://`"),
            ("https://", ""),
            ("https:///path", ""),
            ("https://:443", "host"),
            ("https://me:hunter2@api.example.com", "user or password"),
            ("https://@api.example.com", "user or password"),
            ("https://api.example.com?x=1", "query"),
            ("https://api.example.com/#x", "fragment"),
            ("https://api.example.com:0", "port is 0"),
            ("https://api.example.com:", "port is not a number"),
            ("https://api.example.com:99999", ""),
            ("https://api.example.com.", "neither a name"),
            ("https://api..example.com", "neither a name"),
            ("https://api.example.com/a/../b", "path"),
            ("https://api.example.com//", "path"),
            ("https://api.example.com/%2e", "path"),
            ("https://api.exa mple.com", "not a URL"),
        ] {
            let fault = parse(url).unwrap_err();
            assert!(fault.text.contains(what), "{url}: {}", fault.text);
            assert!(!format!("{fault:?}").contains("hunter2"));
        }
    }

    #[test]
    fn this_machine_is_known_by_name_and_address() {
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example.com", "10.0.0.1", "api.example.com", "127.0.0.1.example.com"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
