//! The way of a command to the console: address, token, request, and what is told of an answer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use reqwest::{Certificate, Client, Method, Response, redirect};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Ending, Sources, print, read_config};
use crate::base::secret::Secret;

const DEADLINE: Duration = Duration::from_secs(30);
/// The console ends one before.
const LONGEST_STREAM: Duration = Duration::from_secs(900);
/// The largest answer that is read.
const MOST_BYTES: usize = 8 * 1024 * 1024;
const TOKEN: &str = "SLUICE_TOKEN";

/// Where the console is, and who asks.
#[derive(Clone, Debug, Args)]
pub(super) struct Way {
    /// The console's address, as `https://sluice.example:8083` [default: `[console]` of the configuration]
    #[arg(long, value_name = "URL")]
    console: Option<String>,
    /// The configuration that names the console [default: the variable SLUICE_CONFIG, else sluice.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "console")]
    config: Option<PathBuf>,
    /// A file with your token [default: the variable SLUICE_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The authorities that the console's certificate may come from, as a PEM file, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Words for people, or the console's answer as JSON
    #[arg(long, value_enum, default_value = "words")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Words,
    Json,
}

/// What a command asks of the console.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
}

impl Ask {
    pub fn get(path: impl Into<String>) -> Ask {
        Ask { method: Method::GET, path: path.into(), query: Vec::new(), body: None }
    }

    pub fn post(path: impl Into<String>, body: Value) -> Ask {
        Ask { method: Method::POST, path: path.into(), query: Vec::new(), body: Some(body) }
    }

    pub fn with(mut self, name: &'static str, value: Option<String>) -> Ask {
        self.query.extend(value.map(|value| (name, value)));
        self
    }

    fn url(&self, base: &str) -> String {
        let pairs: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
        format!("{base}/sluice/v1/{}{query}", self.path)
    }
}

/// An answer that does not end soon.
pub(super) struct Stream(Response);

impl Stream {
    /// What comes next; nothing if it has ended.
    pub async fn piece(&mut self) -> anyhow::Result<Option<Bytes>> {
        self.0.chunk().await.context("the console broke off its stream")
    }
}

async fn whole(base: &str, answer: &mut Response) -> anyhow::Result<Value> {
    let (status, mut whole) = (answer.status(), Vec::new());
    while let Some(piece) = answer.chunk().await.with_context(|| format!("`{base}` broke off its answer"))? {
        whole.extend_from_slice(&piece);
        if whole.len() > MOST_BYTES {
            bail!("`{base}` answers with more than {MOST_BYTES} bytes: this is not a console of Sluice");
        }
    }
    serde_json::from_slice(&whole)
        .map_err(|_| anyhow!("`{base}` answers {} without JSON: this is not a console of Sluice", status.as_u16()))
}

impl Way {
    /// Asks, and tells the answer: as it is, or in the words that the command has for it.
    pub fn ask(&self, ask: &Ask, words: impl Fn(&Value) -> String) -> anyhow::Result<Ending> {
        let (status, body) = self.send(ask)?;
        let is_done = (200..300).contains(&status);
        if self.output == Output::Json {
            print(&format!("{body:#}\n"))?;
        } else if is_done {
            print(&words(&body))?;
        } else {
            eprintln!("sluice: {}", refusal(status, &body));
        }
        Ok(if is_done { Ending::Done } else { Ending::Refused })
    }

    pub fn wants_json(&self) -> bool {
        self.output == Output::Json
    }

    /// Asks, and gives status and answer.
    pub fn send(&self, ask: &Ask) -> anyhow::Result<(u16, Value)> {
        let runtime = Runtime::new().context("no threads to run on")?;
        runtime.block_on(self.fetch(ask))
    }

    pub async fn fetch(&self, ask: &Ask) -> anyhow::Result<(u16, Value)> {
        let base = self.base()?;
        let mut answer = self.begin(&base, ask, DEADLINE).await?;
        let status = answer.status().as_u16();
        Ok((status, whole(&base, &mut answer).await?))
    }

    /// Opens a stream; or what the console answers instead.
    pub async fn listen(&self, path: &str) -> anyhow::Result<Result<Stream, (u16, Value)>> {
        let base = self.base()?;
        let mut answer = self.begin(&base, &Ask::get(path), LONGEST_STREAM).await?;
        match answer.status().as_u16() {
            200 => Ok(Ok(Stream(answer))),
            status => Ok(Err((status, whole(&base, &mut answer).await?))),
        }
    }

    async fn begin(&self, base: &str, ask: &Ask, deadline: Duration) -> anyhow::Result<Response> {
        // The first provider that is installed is the one that everybody gets.
        rustls::crypto::ring::default_provider().install_default().ok();
        let (client, token) = (self.client()?, self.token()?);
        let request = client.request(ask.method.clone(), ask.url(base)).bearer_auth(token.reveal());
        let mut request = request.timeout(deadline);
        if let Some(body) = &ask.body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        request.send().await.map_err(|error| unreachable(base, &error))
    }

    fn client(&self) -> anyhow::Result<Client> {
        let builder = Client::builder().redirect(redirect::Policy::none()).no_proxy().connect_timeout(DEADLINE);
        let builder = match &self.ca {
            None => builder,
            Some(file) => {
                let pem = std::fs::read(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
                let authorities = Certificate::from_pem_bundle(&pem)
                    .with_context(|| format!("`{}` holds no certificates as PEM", file.display()))?;
                builder.tls_certs_only(authorities)
            }
        };
        builder.build().context("no request can be made")
    }

    fn base(&self) -> anyhow::Result<String> {
        if let Some(url) = &self.console {
            let is_url = url.starts_with("https://") || url.starts_with("http://");
            if !is_url {
                bail!("`--console {url}` is no URL: write `https://` and the host, and its port where it has one");
            }
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let file = Sources { config: self.config.clone(), schemas: None }.config_file();
        let reading = read_config(&file).map_err(|findings| {
            let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
            anyhow!("name the console with `--console URL`, or its configuration:\n{}", told.join("\n"))
        })?;
        let console = reading.config.console;
        console.as_ref().map(|console| address(console.listen, console.tls.is_some())).ok_or_else(|| {
            anyhow!("`{}` has no `[console]`: write one, or name one with `--console URL`", file.display())
        })
    }

    fn token(&self) -> anyhow::Result<Secret> {
        let text = match &self.token_file {
            Some(file) => match std::fs::read_to_string(file) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    bail!("there is no file `{}`: `--token-file` names one with your token", file.display())
                }
                Err(error) => bail!("`{}` cannot be read: {error}", file.display()),
            },
            None => token_of_environment()?,
        };
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
            bail!("this is no token: one line of printable characters is expected");
        }
        Ok(Secret::new(text.to_owned()))
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment is read in cli alone")]
fn token_of_environment() -> anyhow::Result<String> {
    std::env::var(TOKEN)
        .map_err(|_| anyhow!("who are you? Name a file with your token by `--token-file`, or set `{TOKEN}`"))
}

/// Where a console is reached that listens there.
fn address(listen: SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    let here: IpAddr = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(here, listen.port()))
}

fn unreachable(base: &str, error: &reqwest::Error) -> anyhow::Error {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    let why = causes.last().map_or_else(|| error.to_string(), Clone::clone);
    let all = causes.join(" ").to_lowercase();
    if error.is_timeout() {
        anyhow!("the console at {base} did not answer in time; what was asked for may have been done: look")
    } else if all.contains("certificate") {
        anyhow!(
            "the certificate of {base} is not accepted: {why}; name its authorities with `--ca`, and the host that it is \
             made for with `--console`"
        )
    } else if error.is_connect() {
        anyhow!("the console at {base} cannot be reached: {why}; is Sluice running, and is this its `[console]`?")
    } else {
        anyhow!("the console at {base} broke off: {why}; what was asked for may have been done: look")
    }
}

/// What a refusal says, for whoever reads it.
pub(super) fn refusal(status: u16, body: &Value) -> String {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let code = text("/error/code").or_else(|| text("/error")).unwrap_or("-");
    let message = text("/error/message").or_else(|| text("/errorDetails")).unwrap_or("the console says nothing more");
    let remedy = match status {
        401 => "\n  remedy: show a token of the console's issuer that has not expired",
        403 if code == "FORBIDDEN" => "\n  remedy: ask someone who may, or whoever gives roles to people",
        _ => "",
    };
    let violations = body.pointer("/error/details/violations").and_then(Value::as_array);
    let violation = |one: &Value| {
        let part = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("\n  {}: {}", part("pointer"), part("expected"))
    };
    let violations: String = violations.into_iter().flatten().map(violation).collect();
    format!("the console refused ({status} {code}): {message}{violations}{remedy}")
}

/// What operators freeze, as the console reads it.
pub(super) fn scope(operation: Option<&str>, caller: Option<&str>, restored: bool) -> anyhow::Result<Value> {
    match (operation, caller, restored) {
        (None, None, false) => Ok(json!("all")),
        (None, None, true) => Ok(json!("restored")),
        (Some(operation), None, false) => Ok(json!({ "operation": operation })),
        (None, Some(caller), false) => {
            let (issuer, subject) = caller
                .split_once('/')
                .ok_or_else(|| anyhow!("`--caller {caller}`: write the issuer's name, `/`, and the subject"))?;
            Ok(json!({ "caller": { "issuer": issuer, "subject": subject } }))
        }
        _ => bail!("freeze one thing at a time"),
    }
}

/// A scope in words.
pub(super) fn scope_in_words(scope: &Value) -> String {
    let text = |pointer: &str| scope.pointer(pointer).and_then(Value::as_str);
    match (scope.as_str(), text("/operation")) {
        (Some("restored"), _) => "all money, since the store was restored".to_owned(),
        (Some(_), _) => "all money".to_owned(),
        (None, Some(operation)) => format!("operation {operation}"),
        (None, None) => format!(
            "caller {}/{}",
            text("/caller/issuer").unwrap_or_default(),
            text("/caller/subject").unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_asked_where_it_listens() {
        let plain = |listen: &str| address(listen.parse().unwrap(), false);
        assert_eq!(plain("0.0.0.0:8083"), "http://127.0.0.1:8083");
        assert_eq!(plain("[::]:8083"), "http://[::1]:8083");
        assert_eq!(plain("10.0.0.7:8083"), "http://10.0.0.7:8083");
        let ask = Ask::get("requests").with("limit", Some("5".into())).with("after", None);
        assert_eq!(ask.url("http://a"), "http://a/sluice/v1/requests?limit=5");
    }

    #[test]
    fn a_scope_is_one_thing() {
        assert_eq!(scope(None, None, false).unwrap(), json!("all"));
        let caller = scope(None, Some("main/a/b"), false).unwrap();
        assert_eq!(caller, json!({"caller": {"issuer": "main", "subject": "a/b"}}));
        assert_eq!(scope_in_words(&caller), "caller main/a/b");
        assert!(scope(None, Some("payroll"), false).is_err());
        assert!(scope(Some("createSwap"), Some("main/x"), false).is_err());
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let body = json!({"status": "error", "error": {"code": "INVALID_REQUEST", "message": "no.", "details":
            {"violations": [{"pointer": "/reason", "expected": "at least 1 characters"}]}}});
        assert_eq!(
            refusal(400, &body),
            "the console refused (400 INVALID_REQUEST): no.\n  /reason: at least 1 characters"
        );
        let body = json!({"code": 401, "error": "UNAUTHORIZED", "errorDetails": "the token has expired."});
        assert!(refusal(401, &body).contains("remedy: show a token"));
    }
}
