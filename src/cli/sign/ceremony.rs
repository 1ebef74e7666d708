//! The page at which a passkey signs: its files, a listener of this machine that serves them, and the answer.
//!
//! The listener serves a page on this machine, which fetches the task with a secret that is in the link alone. That page has
//! the passkey sign, or opens a page of the same files on another host that does. The answer is taken only if it is for the
//! challenge that was computed here, was made on the expected page, and verified the person.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::stated::{ComputedStatement, SigningGround, lie};
use crate::adapters::random;
use crate::base::digest::{Fingerprint, plain_sha256};
use crate::base::json::written_as::base64url;
use crate::base::json::{self as strict, Limits};
use crate::base::secret::Secret;
use crate::base::webauthn::{Assertion, AssertionError, AssertionTerms, SyncedKeys, challenge_code};
use crate::stations::hold::{CHALLENGE_TIME, list_challenge};

/// The length of the salt of a code.
const SALT_BYTES: usize = 16;
/// More than any answer of a page has.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How long the last answer to the page may take.
const LAST_ANSWER_TIME: Duration = Duration::from_secs(2);
/// Only the page's own files, and the listener itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; \
     base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageFile {
    pub name: &'static str,
    kind: &'static str,
    pub content: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! page_files {
    ($($name:literal $kind:expr, $path:literal;)*) => {
        [$(PageFile { name: $name, kind: $kind, content: include_bytes!($path) },)*]
    };
}

/// The files of the page; another host serves the same.
pub(super) const PAGE_FILES: &[PageFile] = &page_files![
    "index.html" "text/html; charset=utf-8", "index.html";
    "sign.css" "text/css; charset=utf-8", "sign.css";
    "sign.js" SCRIPT, "sign.js";
    "assertion.js" SCRIPT, "../../console/web/assertion.js";
    "fingerprint.js" SCRIPT, "../../console/web/fingerprint.js";
];

/// Statements to be signed with one signature, and where.
#[derive(Debug)]
pub(super) struct SigningTask {
    page: String,
    rp_id: String,
    /// Empty for one statement.
    pub together: Vec<Fingerprint>,
    challenge: [u8; 32],
    /// As the page is told it.
    told: Value,
    /// As the terminal shows it.
    words: String,
    /// What the terminal and the page show alike.
    code: String,
}

/// The answer of the page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageAnswer {
    credential: String,
    assertion: Assertion,
}

/// What the page is told of the signature: whether it counts, and words.
type PageOutcome = (bool, String);
type WaitingAnswer = (PageAnswer, oneshot::Sender<PageOutcome>);

/// The listener, and the page's way back.
#[derive(Debug)]
pub(super) struct Ceremony {
    port: u16,
    secret: Secret,
    answers: mpsc::Receiver<WaitingAnswer>,
    server: RunningServer,
}

#[derive(Debug)]
struct RunningServer {
    task: JoinHandle<std::io::Result<()>>,
    stop: Arc<Notify>,
}

/// A signature that is for the task, and the page that waits to be told what became of it.
#[derive(Debug)]
pub(super) struct PasskeyAnswer {
    pub credential: String,
    pub assertion: Assertion,
    page: oneshot::Sender<PageOutcome>,
    server: RunningServer,
}

struct SigningListener {
    /// As browsers name it.
    host: String,
    secret: Secret,
    task: String,
    answers: mpsc::Sender<WaitingAnswer>,
}

impl SigningTask {
    pub fn of(page: String, ground: &SigningGround, all: &[&ComputedStatement]) -> anyhow::Result<SigningTask> {
        let first = all.first().context("there is nothing to sign")?;
        if all.iter().any(|stated| stated.credentials != first.credentials) {
            return Err(lie("with other passkeys for one vote"));
        }
        let digests: Vec<Fingerprint> = all.iter().map(|stated| stated.digest()).collect();
        let (challenge, together) = match all {
            [only] => (plain_sha256(only.statement.as_bytes()), Vec::new()),
            _ => (list_challenge(&digests), digests),
        };
        let shown = |stated: &&ComputedStatement| json!({ "title": stated.title, "facts": stated.facts });
        let rp_id = ground.signing.rp_id.clone();
        let salt = random::bytes::<SALT_BYTES>().context("the operating system gives no random bytes")?;
        let told = json!({
            "salt": base64url::encoded(&salt),
            "page": page,
            "rpId": rp_id,
            "credentials": first.credentials,
            "statements": all.iter().map(|stated| &stated.statement).collect::<Vec<_>>(),
            "shown": all.iter().map(shown).collect::<Vec<_>>(),
        });
        let words = all.iter().map(|stated| stated.in_words()).collect();
        let code = challenge_code(&salt, &challenge);
        Ok(SigningTask { page, rp_id, together, challenge, told, words, code })
    }

    /// Returns what the person is to read in the terminal.
    pub fn in_words(&self, link: &str) -> String {
        let (words, code) = (&self.words, &self.code);
        format!(
            "{words}\nCode: {code}\n\nOpen this link in a browser on this machine within five minutes, compare the code, and sign:\n{link}\n"
        )
    }

    /// Returns the port of a page that this command serves, or 0.
    fn own_port(&self) -> u16 {
        self.page.strip_prefix("http://localhost:").and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    fn verify(&self, assertion: &Assertion) -> Result<u32, AssertionError> {
        let takes_origin = |origin: &str| origin == self.page;
        let (rp_id, challenge) = (self.rp_id.as_str(), self.challenge.as_slice());
        // The gate knows which keys may be synced.
        let synced = SyncedKeys::Allow;
        assertion.meets(AssertionTerms { rp_id, challenge, synced, takes_origin: &takes_origin })
    }
}

impl Ceremony {
    /// Listens on this machine alone.
    pub async fn begin(task: &SigningTask) -> anyhow::Result<Ceremony> {
        let wanted = task.own_port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await;
        let listener = listener.with_context(|| format!("cannot listen on port {wanted} of this machine"))?;
        let port = listener.local_addr().context("the address of the listener is unknown")?.port();
        let (secret, (sender, answers)) = (random::key(), mpsc::channel(1));
        let host = format!("localhost:{port}");
        let listening =
            Arc::new(SigningListener { host, secret: secret.clone(), task: task.told.to_string(), answers: sender });
        let stop = Arc::new(Notify::new());
        let (router, stopped) = (Router::new().fallback(answer).with_state(listening), Arc::clone(&stop));
        let serving = axum::serve(listener, router).with_graceful_shutdown(async move { stopped.notified().await });
        let task = tokio::spawn(async move { serving.await });
        Ok(Ceremony { port, secret, answers, server: RunningServer { task, stop } })
    }

    /// Returns the link of the page; the secret in it never leaves this machine.
    pub fn link(&self) -> String {
        format!("http://localhost:{}/#{}", self.port, self.secret.reveal())
    }

    /// Waits for the signature; fails where the page answers with one that is for something else.
    pub async fn signed(mut self, task: &SigningTask) -> anyhow::Result<PasskeyAnswer> {
        let Ok(answered) = timeout(CHALLENGE_TIME, self.answers.recv()).await else {
            bail!("nobody signed within five minutes: nothing was sent; begin again");
        };
        let (PageAnswer { credential, assertion }, page) = answered.context("the page cannot be served any more")?;
        let answer = PasskeyAnswer { credential, assertion, page, server: self.server };
        match task.verify(&answer.assertion) {
            Ok(_) => Ok(answer),
            Err(why) => {
                let refused =
                    format!("the signature is not for what is shown here: {why}; it was not sent to the gate");
                answer.end(&refused, false).await;
                Err(anyhow!("{refused}. Do not trust the page at which it was made, and report this to its operators"))
            }
        }
    }
}

impl PasskeyAnswer {
    /// Tells the page what became of it, and stops serving it.
    pub async fn end(self, words: &str, is_done: bool) {
        // A page that was closed is told nothing.
        drop(self.page.send((is_done, words.to_owned())));
        self.server.stop.notify_one();
        drop(timeout(LAST_ANSWER_TIME, self.server.task).await);
    }
}

async fn answer(State(listening): State<Arc<SigningListener>>, request: Request) -> Response {
    let headers = request.headers();
    let is_here = headers.get(HOST).is_some_and(|host| host.as_bytes() == listening.host.as_bytes());
    let file = PAGE_FILES.iter().find(|file| match request.uri().path() {
        "/" => file.name == "index.html",
        path => path.strip_prefix('/') == Some(file.name),
    });
    match (request.method(), request.uri().path(), file) {
        _ if !is_here => refused(StatusCode::FORBIDDEN),
        (&Method::GET, _, Some(file)) => response(StatusCode::OK, file.kind, Body::from(file.content)),
        (&Method::GET, "/task", None) if listening.knows(headers) => json_response(listening.task.clone()),
        (&Method::POST, "/answer", None) if listening.knows(headers) && listening.is_own_page(headers) => {
            listening.take(request.into_body()).await
        }
        (_, "/task" | "/answer", None) => refused(StatusCode::FORBIDDEN),
        _ => refused(StatusCode::NOT_FOUND),
    }
}

impl SigningListener {
    fn knows(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        sent.is_some_and(|sent| bool::from(sent.ct_eq(self.secret.reveal().as_bytes())))
    }

    fn is_own_page(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        origin.and_then(|origin| origin.strip_prefix("http://")) == Some(self.host.as_str())
    }

    /// Takes the answer of the page, and tells it what becomes of it.
    async fn take(&self, body: Body) -> Response {
        let read = to_bytes(body, MAX_ANSWER_BYTES).await.ok();
        let read = read.and_then(|bytes| strict::from_slice::<PageAnswer>(&bytes, Limits::ANSWER).ok());
        let Some(page_answer) = read else { return refused(StatusCode::BAD_REQUEST) };
        let (page, outcome) = oneshot::channel();
        if self.answers.try_send((page_answer, page)).is_err() {
            return refused(StatusCode::CONFLICT);
        }
        match outcome.await {
            Ok((is_done, words)) => json_response(json!({ "done": is_done, "words": words }).to_string()),
            Err(_) => refused(StatusCode::GONE),
        }
    }
}

fn json_response(text: String) -> Response {
    response(StatusCode::OK, "application/json", Body::from(text))
}

fn refused(status: StatusCode) -> Response {
    response(status, "text/plain; charset=utf-8", Body::empty())
}

fn response(status: StatusCode, kind: &'static str, body: Body) -> Response {
    const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl fmt::Debug for PageAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageAnswer").field("credential", &self.credential).finish_non_exhaustive()
    }
}
