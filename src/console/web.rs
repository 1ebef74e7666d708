//! The page: files that are built into the program, and the headers that restrict what a browser does with them.
//!
//! The files are the same for everyone and contain no data: browsers may keep them, and revalidate them each time.
//! The data comes from the acts, whose answers may not be cached. No script, style or picture comes from elsewhere or
//! is inline, and data never becomes markup.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use http::{Method, StatusCode};

use super::server::ConsoleServer;
use crate::adapters::random::trace_id;
use crate::base::digest::Fingerprint;
use crate::stations::admit::AdmitRefusal;
use crate::stations::reply::{self, Refusal, Reply, ReplyOrigin, refused};

/// The content security policy: only resources of this origin, no framing, and no markup from strings.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; \
     require-trusted-types-for 'script'; trusted-types 'none'";
/// The page gets no access to devices.
const PERMISSIONS: &str = "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()";
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub path: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal $kind:ident $name:literal,)*) => {
        [$(File { path: $path, kind: $kind, content: include_bytes!(concat!("web/", $name)) },)*]
    };
}

/// Every file, by its path.
pub(super) const FILES: &[File] = &files![
    "/" HTML "index.html",
    "/page/style.css" STYLE "style.css",
    "/page/icon.svg" PICTURE "icon.svg",
    "/page/app.js" SCRIPT "app.js",
    "/page/api.js" SCRIPT "api.js",
    "/page/changes.js" SCRIPT "changes.js",
    "/page/dom.js" SCRIPT "dom.js",
    "/page/words.js" SCRIPT "words.js",
    "/page/fingerprint.js" SCRIPT "fingerprint.js",
    "/page/dialog.js" SCRIPT "dialog.js",
    "/page/signin.js" SCRIPT "signin.js",
    "/page/renewal.js" SCRIPT "renewal.js",
    "/page/queue.js" SCRIPT "queue.js",
    "/page/hold.js" SCRIPT "hold.js",
    "/page/risk.js" SCRIPT "risk.js",
    "/page/batch.js" SCRIPT "batch.js",
    "/page/keys.js" SCRIPT "keys.js",
    "/page/vote.js" SCRIPT "vote.js",
    "/page/amounts.js" SCRIPT "amounts.js",
    "/page/exports.js" SCRIPT "exports.js",
    "/page/receipts.js" SCRIPT "receipts.js",
    "/page/filters.js" SCRIPT "filters.js",
    "/page/passkey.js" SCRIPT "passkey.js",
    "/page/assertion.js" SCRIPT "assertion.js",
    "/page/overview.js" SCRIPT "overview.js",
    "/page/payments.js" SCRIPT "payments.js",
    "/page/statement.js" SCRIPT "statement.js",
    "/page/money.js" SCRIPT "money.js",
    "/page/charts.js" SCRIPT "charts.js",
    "/page/freezes.js" SCRIPT "freezes.js",
    "/page/doubts.js" SCRIPT "doubts.js",
    "/page/foreign.js" SCRIPT "foreign.js",
    "/page/standins.js" SCRIPT "standins.js",
    "/page/hindsight.js" SCRIPT "hindsight.js",
    "/page/policy.js" SCRIPT "policy.js",
    "/page/tables.js" SCRIPT "tables.js",
    "/page/explain.js" SCRIPT "explain.js",
    "/page/trial.js" SCRIPT "trial.js",
    "/page/attention.js" SCRIPT "attention.js",
    "/page/history.js" SCRIPT "history.js",
];

impl ConsoleServer {
    /// Answers a request for a file.
    pub(super) fn file(&self, file: File, request: &Request) -> Response {
        let trace = trace_id(request.headers().get(reply::REQUEST_ID).and_then(|h| h.to_str().ok()));
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let refusal = AdmitRefusal::MethodNotAllowed(vec![Method::GET, Method::HEAD]);
            return self.finish(refused(&Refusal::Admit(refusal), None), &trace);
        }
        let tag = format!("\"{}\"", Fingerprint::of(&[file.content]).to_hex());
        let is_known = request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let (status, body) = match is_known {
            true => (StatusCode::NOT_MODIFIED, Bytes::new()),
            false => (StatusCode::OK, Bytes::from_static(file.content)),
        };
        self.inside.metrics.console_answered("page", status.as_u16());
        let body = Reply {
            status: status.as_u16(),
            headers: HeaderMap::new(),
            body,
            origin: ReplyOrigin::Gateway,
            executed: None,
            code: None,
        };
        let mut response = self.finish(body, &trace);
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, file.kind),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (PERMISSIONS_POLICY, PERMISSIONS),
            (OPENER_POLICY, "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
        if request.method() == Method::HEAD {
            *response.body_mut() = Body::empty();
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_serves_all_its_files() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/web");
        let mut there: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let served = FILES.iter().map(|file| file.path.strip_prefix("/page/").unwrap_or("index.html").to_owned());
        let mut served: Vec<String> = served.collect();
        there.sort();
        served.sort();
        assert_eq!(there, served);
        let whole: usize = FILES.iter().map(|file| file.content.len()).sum();
        // 90 KiB of it are payments, charts of money, the risk of a hold, the keys and batches of the queue, forms for rules, and passkeys.
        assert!(whole < 278 * 1024, "{whole} bytes");
    }
}
