//! URLs of upstreams, key sets, pages, webhooks and Redis. A fault never repeats a URL, which may contain a password by
//! mistake.

use std::net::IpAddr;

use http::Uri;
use http::uri::Authority;
use rustls::pki_types::ServerName;

use super::fault::SettingFault;
use super::meant::UpstreamConfig;

const SENTINEL_PORT: u16 = 26_379;
const REDIS_PORT: u16 = 6_379;

/// Parses `http://` or `https://`, a host, and an optional port and path.
pub(super) fn upstream(url: &str) -> Result<UpstreamConfig, SettingFault> {
    let plain = |fault: SettingFault| {
        fault.remedy("write `https://host`, if needed with `:port` and `/path`, and nothing else")
    };
    let (tls, uri, authority) = parts(url).map_err(plain)?;
    if uri.query().is_some() {
        return Err(plain(SettingFault::new("the URL has a query (`?…`)")));
    }
    let host = host(authority.host()).map_err(plain)?;
    let port = port(&authority, tls).map_err(plain)?;
    Ok(UpstreamConfig { tls, host, port, base_path: base_path(uri.path()).map_err(plain)?, ca_pem: None })
}

/// Checks the URL of a key set: anyone who can alter its answer can forge tokens.
pub(super) fn keys(url: &str) -> Result<String, SettingFault> {
    let whole = |fault: SettingFault| {
        fault.remedy("write `https://host/path`; plain `http://` is allowed for this machine only")
    };
    let (tls, _, authority) = parts(url).map_err(whole)?;
    let host = host(authority.host()).map_err(whole)?;
    port(&authority, tls).map_err(whole)?;
    if !tls && !is_loopback(&host) {
        return Err(whole(SettingFault::new(
            "the URL is plain HTTP to another machine: anyone on the network path can insert keys",
        )));
    }
    Ok(url.to_owned())
}

/// Checks the URL of a trace collector.
pub(super) fn collector(url: &str) -> Result<String, SettingFault> {
    let whole = |fault: SettingFault| fault.remedy("write `http://host:4318` or `https://…`, if needed with a path");
    let (tls, uri, authority) = parts(url).map_err(whole)?;
    if uri.query().is_some() {
        return Err(whole(SettingFault::new("the URL has a query (`?…`)")));
    }
    host(authority.host()).map_err(whole)?;
    port(&authority, tls).map_err(whole)?;
    Ok(url.to_owned())
}

/// Whether nobody on the network path can read or alter requests to this URL.
pub fn is_safe(url: &str) -> bool {
    keys(url).is_ok()
}

/// Returns the origin of a URL as a browser sends it: scheme, host, and the port unless it is the default.
pub(super) fn origin(url: &str) -> Result<String, SettingFault> {
    let whole = |fault: SettingFault| fault.remedy("write `https://host`, if needed with `:port`, and nothing else");
    let (tls, uri, authority) = parts(url).map_err(whole)?;
    if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
        return Err(whole(SettingFault::new("the URL has a path or a query")));
    }
    let host = host(authority.host()).map_err(whole)?;
    let port = match (port(&authority, tls).map_err(whole)?, tls) {
        (443, true) | (80, false) => String::new(),
        (port, _) => format!(":{port}"),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Ok(format!("{}://{host}{port}", if tls { "https" } else { "http" }))
}

/// Returns the host name of an origin; `None` for an address.
pub(super) fn host_of_origin(origin: &str) -> Option<String> {
    let (_, authority) = origin.split_once("://")?;
    let host = authority.split(':').next().unwrap_or_default();
    (!host.starts_with('[')).then(|| host.to_owned())
}

/// Checks the URL of a webhook; `combination` checks whether plain HTTP is allowed.
pub(super) fn webhook(url: &str) -> Result<(), SettingFault> {
    let whole = |fault: SettingFault| fault.remedy("write `https://host/path`");
    let (tls, _, authority) = parts(url).map_err(whole)?;
    host(authority.host()).map_err(whole)?;
    port(&authority, tls).map_err(whole)?;
    Ok(())
}

/// Returns the URL of a witness without an end that `/add-checkpoint` would double.
pub(super) fn witness(url: &str) -> Result<String, SettingFault> {
    let whole = |fault: SettingFault| fault.remedy("write `https://host`, if needed with `:port` and a path");
    let (tls, uri, authority) = parts(url).map_err(whole)?;
    host(authority.host()).map_err(whole)?;
    port(&authority, tls).map_err(whole)?;
    if uri.query().is_some() {
        return Err(whole(SettingFault::new("the URL has a query")));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Parses the URL of a Redis: whether it uses TLS, and its host. It may contain user, password and database.
pub(super) fn redis(url: &str) -> Result<(bool, String), SettingFault> {
    let fault = |text: &str| SettingFault::new(text).remedy("write `rediss://user:password@host:6379/0`");
    // A fragment (`#insecure`) would disable the check of the certificate.
    if url.contains(['#', '?']) {
        return Err(fault("the URL has a query or a fragment (`?…`, `#…`)"));
    }
    let (tls, rest) = match url.split_once("://") {
        Some(("rediss", rest)) => (true, rest),
        Some(("redis", rest)) => (false, rest),
        _ => return Err(fault("the URL is neither `rediss://` nor `redis://`")),
    };
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !database.bytes().all(|b| b.is_ascii_digit()) {
        return Err(fault("the path after the host is not the number of a database"));
    }
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let authority: Authority = place.parse().map_err(|_| fault("the URL has no valid host"))?;
    let host = host(authority.host()).map_err(|problem| fault(&problem.text))?;
    port(&authority, tls).map_err(|problem| fault(&problem.text))?;
    if ::redis::parse_redis_url(url).is_none_or(|url| ::redis::IntoConnectionInfo::into_connection_info(url).is_err()) {
        return Err(fault("the value is not the URL of a Redis"));
    }
    Ok((tls, host))
}

/// Parses a Sentinel: its host, and its port unless it is the default.
pub(super) fn sentinel(written: &str) -> Result<(String, u16), SettingFault> {
    host_and_port(written, SENTINEL_PORT)
}

/// Parses a node of a cluster: its host, and its port unless it is the default.
pub(super) fn cluster_node(written: &str) -> Result<(String, u16), SettingFault> {
    host_and_port(written, REDIS_PORT)
}

fn host_and_port(written: &str, default: u16) -> Result<(String, u16), SettingFault> {
    let fault = |fault: SettingFault| {
        SettingFault::new(fault.text.replace("the URL", "it")).remedy(format!("write `host:{default}`"))
    };
    let odd = || fault(SettingFault::new("the value is not a host and a port"));
    if written.contains(['@', '/', '?', '#']) {
        return Err(odd());
    }
    let authority: Authority = written.parse().map_err(|_| odd())?;
    let host = host(authority.host()).map_err(fault)?;
    port(&authority, true).map_err(fault)?;
    Ok((host, authority.port_u16().unwrap_or(default)))
}

/// Splits a URL, and refuses parts that no setting may have.
fn parts(url: &str) -> Result<(bool, Uri, Authority), SettingFault> {
    // `http::Uri` drops a fragment silently.
    if url.contains('#') {
        return Err(SettingFault::new("the URL has a fragment (`#…`)"));
    }
    let uri: Uri = url.parse().map_err(|_| SettingFault::new("the value is not a URL"))?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        Some(_) => return Err(SettingFault::new("the URL is neither `https://` nor `http://`")),
        None => return Err(SettingFault::new("the URL does not begin with `https://` or `http://`")),
    };
    let authority = uri.authority().cloned().ok_or_else(|| SettingFault::new("the URL has no host"))?;
    if authority.as_str().contains('@') {
        return Err(SettingFault::new("the URL has a user or password"));
    }
    Ok((tls, uri, authority))
}

/// Whether the host is this machine.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a host is on the local link, where no payments API is, or the metadata service of a cloud.
pub(super) fn is_local_link(host: &str) -> bool {
    const METADATA: [&str; 4] = ["metadata.google.internal", "metadata", "100.100.100.200", "fd00:ec2::254"];
    METADATA.contains(&host)
        || match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(IpAddr::V4(ip)) => ip.is_link_local(),
            Ok(IpAddr::V6(ip)) => ip.is_unicast_link_local(),
            Err(_) => false,
        }
}

/// Whether a host is an IP address, which leads to one machine.
pub(super) fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// INVARIANT: the result is never empty, and is a name that upstream's certificate can be checked for.
fn host(written: &str) -> Result<String, SettingFault> {
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(written);
    let host = bare.to_ascii_lowercase();
    if host.is_empty() {
        return Err(SettingFault::new("the URL has no host"));
    }
    if host.ends_with('.') || ServerName::try_from(host.as_str()).is_err() {
        return Err(SettingFault::new("the URL's host is neither a name nor an IP address"));
    }
    Ok(host)
}

fn port(authority: &Authority, tls: bool) -> Result<u16, SettingFault> {
    match authority.port_u16() {
        Some(0) => Err(SettingFault::new("the URL's port is 0")),
        Some(port) => Ok(port),
        // A colon after the host, outside the brackets of an IPv6 address, begins a port that is invalid here.
        None if authority.as_str().rsplit(']').next().is_some_and(|rest| rest.contains(':')) => {
            Err(SettingFault::new("the URL's port is not a number up to 65535"))
        }
        None => Ok(if tls { 443 } else { 80 }),
    }
}

fn base_path(path: &str) -> Result<String, SettingFault> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let plain = |segment: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
        segment.bytes().all(allowed) && segment.bytes().any(|b| b != b'.')
    };
    match path.strip_prefix('/') {
        None => Ok(String::new()),
        Some(segments) if segments.split('/').all(plain) => Ok(path.to_owned()),
        Some(_) => Err(SettingFault::new("the URL's path contains more than `A-Za-z0-9._~-` between slashes")),
    }
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
            assert_eq!(upstream(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn what_leads_nowhere_or_astray_is_refused() {
        for (url, what) in [
            ("", "not a URL"),
            ("api.example.com", "does not begin with"),
            ("/path", "does not begin with"),
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
            let fault = upstream(url).unwrap_err();
            assert!(fault.text.contains(what), "{url}: {}", fault.text);
            assert!(!format!("{fault:?}").contains("hunter2"));
        }
    }

    #[test]
    fn keys_come_over_tls_or_from_this_machine() {
        for url in [
            "https://issuer.example.com/.well-known/jwks.json",
            "https://issuer.example.com:8443/keys?tenant=7",
            "http://127.0.0.1:9000/jwks.json",
            "http://[::1]/",
        ] {
            assert_eq!(keys(url).unwrap(), url);
        }
        for (url, what) in [
            ("http://issuer.example.com/jwks.json", "plain HTTP to another machine"),
            ("http://localhost.example.com/", "plain HTTP to another machine"),
            ("issuer.example.com", "does not begin with"),
            ("file:///etc/jwks.json", ""),
            ("https://me:hunter2@issuer.example.com/", "user or password"),
            ("https://issuer.example.com/#hunter2", "fragment"),
            ("https://issuer.example.com:0/", "port is 0"),
            ("https://issuer..example.com/", "neither a name"),
            ("", "not a URL"),
        ] {
            let fault = keys(url).unwrap_err();
            assert!(fault.text.contains(what) && fault.remedy.is_some(), "{url}: {}", fault.text);
            assert!(!format!("{fault:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_redis_is_named_with_its_password_and_nothing_odd() {
        for (url, tls, host) in [
            ("redis://127.0.0.1:6379", false, "127.0.0.1"),
            ("redis://localhost", false, "localhost"),
            ("rediss://:hunter2@redis.example.com:6380/3", true, "redis.example.com"),
            ("rediss://me:hunter%402@redis.example.com/", true, "redis.example.com"),
            ("redis://[::1]:6379/0", false, "::1"),
        ] {
            assert_eq!(redis(url).unwrap(), (tls, host.to_owned()), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:6379",
            "http://127.0.0.1:6379",
            "unix:///tmp/redis.sock",
            "redis://",
            "redis://:hunter2@",
            "redis://h/x",
            "redis://h/0/1",
            "redis://h:0",
            "redis://h:99999",
            "rediss://h/#insecure",
            "redis://h?protocol=resp3",
            "redis://a b",
        ] {
            let fault = redis(url).unwrap_err();
            assert!(fault.remedy.is_some() && !format!("{fault:?}").contains("hunter2"), "{url}: {fault:?}");
        }
    }

    #[test]
    fn a_sentinel_is_a_host_and_a_port() {
        for (written, host, port) in [
            ("127.0.0.1:5000", "127.0.0.1", 5_000),
            ("Sentinel-1.example.com", "sentinel-1.example.com", 26_379),
            ("[::1]:7000", "::1", 7_000),
        ] {
            assert_eq!(sentinel(written).unwrap(), (host.to_owned(), port), "{written}");
        }
        for written in ["", "redis://h:1", "me:hunter2@h:1", "h:0", "h:99999", "h:", "h:1/0", "h#x", "a b", "h..x"] {
            let fault = sentinel(written).unwrap_err();
            assert!(fault.remedy.is_some() && !format!("{fault:?}").contains("hunter2"), "{written}: {fault:?}");
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
