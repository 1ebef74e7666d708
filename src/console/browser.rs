//! Cookies of the console, and the check that a request comes from the console's own page.
//!
//! A browser sends cookies whichever site made it send the request. Therefore a request that changes something must
//! carry a header that no other site can set, and the browser must state that the request comes from the console's
//! origin.

use http::header::{COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use crate::config::ConsoleConfig;
use crate::people::session::SessionId;

/// The header that only the console's page sends.
const OF_THE_PAGE: HeaderName = HeaderName::from_static("sluice-console");
/// The header of requests that the page sends by itself, without an action of the user.
const BACKGROUND: HeaderName = HeaderName::from_static("sluice-background");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How browsers reach the console, and therefore which cookies they get.
#[derive(Clone, Debug)]
pub(super) struct Browsers {
    is_tls: bool,
    /// Whether cookies are restricted to encrypted connections and to this host.
    is_secure: bool,
    /// The configured origin of the console.
    origin: Option<String>,
}

/// The console's cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    Session,
    /// The cookie of a sign-in that is under way at the provider. The redirect from the provider must carry it, which
    /// `SameSite=Strict` would prevent.
    SignIn {
        secs: u32,
    },
}

/// The cookie that a request carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CookieValue<T> {
    Nothing,
    /// The value is malformed, or the cookie appears twice.
    Invalid,
    One(T),
}

impl Browsers {
    pub fn new(config: &ConsoleConfig) -> Browsers {
        let is_https = config.origin.as_ref().is_some_and(|origin| origin.starts_with("https:"));
        let is_tls = config.tls.is_some();
        Browsers { is_tls, is_secure: is_tls || is_https, origin: config.origin.clone() }
    }

    pub fn session(&self, headers: &HeaderMap) -> CookieValue<SessionId> {
        match self.cookie(headers, Cookie::Session) {
            CookieValue::One(text) => SessionId::parse(text).map_or(CookieValue::Invalid, CookieValue::One),
            CookieValue::Nothing => CookieValue::Nothing,
            CookieValue::Invalid => CookieValue::Invalid,
        }
    }

    pub fn cookie<'h>(&self, headers: &'h HeaderMap, cookie: Cookie) -> CookieValue<&'h str> {
        let mut found = CookieValue::Nothing;
        for value in headers.get_all(COOKIE) {
            let Ok(text) = value.to_str() else { return CookieValue::Invalid };
            let pairs = text.split(';').filter_map(|pair| pair.trim_matches(' ').split_once('='));
            for (_, value) in pairs.filter(|(name, _)| *name == self.name(cookie)) {
                found =
                    if found == CookieValue::Nothing { CookieValue::One(value) } else { return CookieValue::Invalid };
            }
        }
        found
    }

    /// Returns the header that sets the cookie.
    pub fn set_cookie(&self, cookie: Cookie, value: &str) -> Option<HeaderValue> {
        let life = match cookie {
            Cookie::Session => "SameSite=Strict".to_owned(),
            Cookie::SignIn { secs } => format!("SameSite=Lax; Max-Age={secs}"),
        };
        self.header(cookie, value, &life)
    }

    /// Returns the header that deletes the cookie.
    pub fn delete_cookie(&self, cookie: Cookie) -> Option<HeaderValue> {
        let site = match cookie {
            Cookie::Session => "Strict",
            Cookie::SignIn { .. } => "Lax",
        };
        self.header(cookie, "", &format!("SameSite={site}; Max-Age=0"))
    }

    fn header(&self, cookie: Cookie, value: &str, life: &str) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{}={value}; Path=/; HttpOnly; {life}{secure}", self.name(cookie));
        let mut header = HeaderValue::from_str(&text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// Returns the cookie's name. With the prefix `__Host-`, browsers accept it only over TLS and only from this host.
    fn name(&self, cookie: Cookie) -> &'static str {
        match (cookie, self.is_secure) {
            (Cookie::Session, true) => "__Host-sluice-session",
            (Cookie::Session, false) => "sluice-session",
            (Cookie::SignIn { .. }, true) => "__Host-sluice-sign-in",
            (Cookie::SignIn { .. }, false) => "sluice-sign-in",
        }
    }

    /// Checks that the console's own page sends the request; returns the reason if not.
    pub fn is_own(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        if one(headers, &OF_THE_PAGE)? != Some("1") {
            return Err("the header `Sluice-Console: 1` is missing; only the console's own page may do this");
        }
        let (origin, site) = (one(headers, &ORIGIN)?, one(headers, &FETCH_SITE)?);
        if origin.is_none() && site.is_none() {
            return Err("the origin of the request is missing: send `Origin` or `Sec-Fetch-Site`");
        }
        if site.is_some_and(|site| site != "same-origin") {
            return Err("the request comes from another site");
        }
        let own = match &self.origin {
            Some(origin) => Some(origin.clone()),
            None => one(headers, &HOST)?.map(|host| {
                let scheme = if self.is_tls { "https" } else { "http" };
                format!("{scheme}://{}", host.to_ascii_lowercase())
            }),
        };
        if origin.is_some_and(|origin| Some(origin) != own.as_deref()) {
            return Err(
                "the request comes from another site, or the console is reached at another address than `console.public_url`",
            );
        }
        Ok(())
    }

    /// Returns whether the request is an action of the user.
    pub fn is_use(headers: &HeaderMap) -> bool {
        !headers.contains_key(BACKGROUND)
    }
}

fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, &'static str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| "a header is not valid text"),
        (Some(_), Some(_)) => Err("a header appears twice"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browsers(is_tls: bool, origin: Option<&str>) -> Browsers {
        let is_https = origin.is_some_and(|origin| origin.starts_with("https:"));
        Browsers { is_tls, is_secure: is_tls || is_https, origin: origin.map(str::to_owned) }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn cookies_are_of_this_host_and_encrypted_wherever_they_can_be() {
        let given = |of: Browsers, cookie| of.set_cookie(cookie, "v").unwrap().to_str().unwrap().to_owned();
        let proxied = || browsers(false, Some("https://sluice.example"));
        for of in [browsers(true, None), proxied(), browsers(true, Some("https://sluice.example"))] {
            let text = given(of, Cookie::Session);
            assert_eq!(text, "__Host-sluice-session=v; Path=/; HttpOnly; SameSite=Strict; Secure");
        }
        let text = given(proxied(), Cookie::SignIn { secs: 600 });
        assert_eq!(text, "__Host-sluice-sign-in=v; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure");
        let text = given(browsers(false, None), Cookie::Session);
        assert_eq!(text, "sluice-session=v; Path=/; HttpOnly; SameSite=Strict");
        assert!(browsers(true, None).delete_cookie(Cookie::Session).unwrap().to_str().unwrap().contains("=; Path=/;"));
    }

    #[test]
    fn a_cookie_is_found_by_its_one_name() {
        let (plain, secure) = (browsers(false, None), browsers(true, None));
        let id = "A".repeat(43);
        let shown = |of: &Browsers, lines: &[&str]| {
            let pairs: Vec<_> = lines.iter().map(|line| ("cookie", *line)).collect();
            matches!(of.session(&headers(&pairs)), CookieValue::One(_))
        };
        assert!(shown(&plain, &[&format!("a=b; sluice-session={id}; c=d")]));
        assert!(shown(&plain, &["a=b", &format!("sluice-session={id}")]));
        assert!(shown(&secure, &[&format!("__Host-sluice-session={id}")]));
        assert!(!shown(&secure, &[&format!("sluice-session={id}")]), "anyone could have set that cookie");
        assert!(!shown(&plain, &[&format!("xsluice-session={id}")]));
        let twice = format!("sluice-session={id}; sluice-session={}", "B".repeat(43));
        for odd in [twice.as_str(), "sluice-session=", "sluice-session=x"] {
            assert!(matches!(plain.session(&headers(&[("cookie", odd)])), CookieValue::Invalid), "{odd}");
        }
    }

    #[test]
    fn only_a_page_of_the_console_itself_is_its_own() {
        let host = ("host", "127.0.0.1:8083");
        let (page, same) = (("sluice-console", "1"), ("sec-fetch-site", "same-origin"));
        let own = ("origin", "http://127.0.0.1:8083");
        let plain = browsers(false, None);
        for good in [&[host, page, own, same][..], &[host, page, own], &[host, page, same]] {
            assert_eq!(plain.is_own(&headers(good)), Ok(()), "{good:?}");
        }
        for bad in [
            &[host, own, same][..],
            &[host, page],
            &[host, ("sluice-console", "true"), own],
            &[host, page, page, own],
            &[host, page, ("origin", "null")],
            &[host, page, ("origin", "https://127.0.0.1:8083")],
            &[host, page, ("origin", "http://127.0.0.1:8084"), same],
            &[host, page, ("origin", "http://evil.example")],
            &[host, page, own, own],
            &[host, page, own, ("sec-fetch-site", "same-site")],
            &[host, page, own, ("sec-fetch-site", "cross-site")],
            &[page, own],
        ] {
            assert!(plain.is_own(&headers(bad)).is_err(), "{bad:?}");
        }
        let named = browsers(false, Some("https://sluice.example"));
        assert!(named.is_own(&headers(&[host, page, own])).is_err());
        assert!(named.is_own(&headers(&[host, page, ("origin", "https://sluice.example")])).is_ok());
    }
}
