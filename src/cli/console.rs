//! The console client of the commands: finds the address and the token, sends the request and prints the answer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use reqwest::{Certificate, Client, Method, Response, redirect};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::output::OutputFormat;
use super::{ExitReason, Sources, print, read_config_text, read_named_file, world};
use crate::adapters::regular_file::read_regular_text;
use crate::base::json::{self as strict, Limits};
use crate::base::secret::Secret;
use crate::base::visible::visible_lines;
use crate::cli::complain;
use crate::config::console_place;

const DEADLINE: Duration = Duration::from_secs(30);
/// The longest time to read one stream; the console ends a stream earlier than this.
const MAX_STREAM_TIME: Duration = Duration::from_secs(900);
/// The largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
const TOKEN: &str = "SLUICE_TOKEN";
const CONSOLE: &str = "SLUICE_CONSOLE";

/// The console's address and the token of the person who runs the command.
#[derive(Clone, Debug, Args)]
pub(super) struct ConsoleOptions {
    /// The console's address, such as `https://sluice.example:8083` [default: the environment variable SLUICE_CONSOLE,
    /// otherwise `[console]` of the configuration]
    #[arg(long, value_name = "URL")]
    console: Option<String>,
    /// The configuration that names the console [default: the environment variable SLUICE_CONFIG, otherwise
    /// sluice.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "console")]
    config: Option<PathBuf>,
    /// A file with your token [default: the environment variable SLUICE_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities to trust for the console, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Text for people, the console's answer as JSON, or its rows as CSV
    #[arg(long, value_enum, default_value = "table")]
    pub output: OutputFormat,
}

/// A request of a command to the console.
#[derive(Clone, Debug)]
pub(super) struct ConsoleCall {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
}

impl ConsoleCall {
    pub fn get(path: impl Into<String>) -> ConsoleCall {
        ConsoleCall { method: Method::GET, path: path.into(), query: Vec::new(), body: None }
    }

    /// `null` is no body.
    pub fn post(path: impl Into<String>, body: Value) -> ConsoleCall {
        let body = Some(body).filter(|body| !body.is_null());
        ConsoleCall { method: Method::POST, path: path.into(), query: Vec::new(), body }
    }

    pub fn with(mut self, name: &'static str, value: Option<String>) -> ConsoleCall {
        self.query.extend(value.map(|value| (name, value)));
        self
    }

    /// Adds a parameter of any characters.
    pub fn with_text(mut self, name: &'static str, value: &str) -> ConsoleCall {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'~');
        let escaped = value.bytes().map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") });
        self.query.push((name, escaped.collect()));
        self
    }

    fn url(&self, base: &str) -> String {
        let pairs: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
        format!("{base}/sluice/v1/{}{query}", self.path)
    }
}

/// A streamed answer.
pub(super) struct Stream(Response);

impl Stream {
    /// Returns the next chunk; nothing if the stream has ended.
    pub async fn piece(&mut self) -> anyhow::Result<Option<Bytes>> {
        self.0.chunk().await.context("the console closed the stream early")
    }
}

async fn read_answer(base: &str, answer: &mut Response) -> anyhow::Result<Value> {
    let (status, mut whole) = (answer.status(), Vec::new());
    while let Some(piece) =
        answer.chunk().await.with_context(|| format!("`{base}` closed the connection before the end of its answer"))?
    {
        whole.extend_from_slice(&piece);
        if whole.len() > MAX_ANSWER_BYTES {
            bail!("`{base}` answers with more than {MAX_ANSWER_BYTES} bytes: this is not a Sluice console");
        }
    }
    strict::parse(&whole, Limits::ANSWER)
        .map_err(|_| anyhow!("`{base}` answers {} without JSON: this is not a Sluice console", status.as_u16()))
}

impl ConsoleOptions {
    /// Sends the request and prints the answer in the wanted form; the words are the command's.
    pub fn ask(&self, ask: &ConsoleCall, words: impl Fn(&Value) -> String) -> anyhow::Result<ExitReason> {
        self.ask_for_rows(ask, None, words)
    }

    /// Does the same for an answer with a list of this name, whose members are the rows of CSV.
    pub fn ask_for_rows(
        &self,
        ask: &ConsoleCall,
        rows: Option<&str>,
        words: impl Fn(&Value) -> String,
    ) -> anyhow::Result<ExitReason> {
        let (status, body) = self.send(ask)?;
        let is_done = (200..300).contains(&status);
        if is_done || self.output == OutputFormat::Json {
            print(&self.output.text(|| words(&body), || body.clone(), rows))?;
        } else {
            complain(format_args!("sluice: {}", refusal(status, &body)));
        }
        Ok(if is_done { ExitReason::Done } else { ExitReason::Refused })
    }

    /// Sends the request; returns the status and the answer.
    pub fn send(&self, ask: &ConsoleCall) -> anyhow::Result<(u16, Value)> {
        let runtime = Runtime::new().context("the async runtime cannot start")?;
        runtime.block_on(self.fetch(ask))
    }

    pub async fn fetch(&self, ask: &ConsoleCall) -> anyhow::Result<(u16, Value)> {
        let base = self.base()?;
        let mut answer = self.begin(&base, ask, DEADLINE).await?;
        let status = answer.status().as_u16();
        Ok((status, read_answer(&base, &mut answer).await?))
    }

    /// Opens a stream; returns the console's answer if it refuses.
    pub async fn listen(&self, path: &str) -> anyhow::Result<Result<Stream, (u16, Value)>> {
        let base = self.base()?;
        let mut answer = self.begin(&base, &ConsoleCall::get(path), MAX_STREAM_TIME).await?;
        match answer.status().as_u16() {
            200 => Ok(Ok(Stream(answer))),
            status => Ok(Err((status, read_answer(&base, &mut answer).await?))),
        }
    }

    async fn begin(&self, base: &str, ask: &ConsoleCall, deadline: Duration) -> anyhow::Result<Response> {
        // Only the first installed provider counts, so a second call is harmless.
        rustls::crypto::ring::default_provider().install_default().ok();
        let (client, token) = (self.client()?, self.token()?);
        let request = client.request(ask.method.clone(), ask.url(base)).bearer_auth(token.reveal());
        let mut request = request.timeout(deadline);
        if let Some(body) = &ask.body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        request.send().await.map_err(|error| describe_request_error(base, &error))
    }

    fn client(&self) -> anyhow::Result<Client> {
        let builder = Client::builder().redirect(redirect::Policy::none()).no_proxy().connect_timeout(DEADLINE);
        let builder = match &self.ca {
            None => builder,
            Some(file) => {
                let pem = read_named_file(file)?;
                let authorities = Certificate::from_pem_bundle(&pem)
                    .with_context(|| format!("`{}` does not contain PEM certificates", file.display()))?;
                builder.tls_certs_only(authorities)
            }
        };
        builder.build().context("the HTTP client cannot be built")
    }

    fn base(&self) -> anyhow::Result<String> {
        let named =
            self.console.clone().or_else(|| if self.config.is_none() { console_of_environment() } else { None });
        if let Some(url) = named {
            let is_url = url.starts_with("https://") || url.starts_with("http://");
            if !is_url {
                bail!(
                    "`{url}` is not a URL of a console: write `https://`, the host, and the port if it is not the default"
                );
            }
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let file = Sources { config: self.config.clone(), schemas: None }.config_file();
        // Nothing else of the configuration is needed, so nothing else may prevent a freeze.
        let text = read_config_text(&file);
        let place = text.and_then(|text| console_place(&text, &file.display().to_string(), &world()));
        let place = place.map_err(|findings| {
            let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
            anyhow!(
                "name the console with `--console URL` or SLUICE_CONSOLE, or correct its configuration:\n{}",
                lines.join("\n")
            )
        })?;
        place.map(|console| address(console.listen, console.is_tls)).ok_or_else(|| {
            anyhow!("`{}` has no `[console]` section: add one, or name a console with `--console URL`", file.display())
        })
    }

    fn token(&self) -> anyhow::Result<Secret> {
        let text = match &self.token_file {
            Some(file) => match read_regular_text(file) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    bail!(
                        "the file `{}` of `--token-file` does not exist; name a file that contains your token",
                        file.display()
                    )
                }
                Err(error) => bail!("`{}` cannot be read: {error}", file.display()),
            },
            None => token_of_environment()?,
        };
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
            bail!("this is not a token: one line of printable characters is expected");
        }
        Ok(Secret::new(text.to_owned()))
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment is read in cli alone")]
fn console_of_environment() -> Option<String> {
    std::env::var(CONSOLE).ok().filter(|url| !url.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "the environment is read in cli alone")]
fn token_of_environment() -> anyhow::Result<String> {
    std::env::var(TOKEN).map_err(|_| {
        anyhow!("no token: name a file that contains it with `--token-file`, or set the environment variable `{TOKEN}`")
    })
}

/// Returns the URL of a console that listens at this address.
fn address(listen: SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    format!("{scheme}://{}", near(listen))
}

/// Returns the address at which this machine reaches a listener.
pub(super) fn near(listen: SocketAddr) -> SocketAddr {
    let here: IpAddr = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(here, listen.port())
}

fn describe_request_error(base: &str, error: &reqwest::Error) -> anyhow::Error {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    let why = causes.last().map_or_else(|| error.to_string(), Clone::clone);
    let all = causes.join(" ").to_lowercase();
    if error.is_timeout() {
        anyhow!(
            "the console at {base} did not answer in time; the action may have been done: check before you repeat it"
        )
    } else if all.contains("certificate") {
        anyhow!(
            "the certificate of {base} is not trusted: {why}; name its certificate authorities with `--ca`, and use the \
             host name of the certificate in `--console`"
        )
    } else if error.is_connect() {
        anyhow!("the console at {base} cannot be reached: {why}; is Sluice running, and is this its `[console]`?")
    } else {
        anyhow!(
            "the connection to the console at {base} broke: {why}; the action may have been done: check before you repeat it"
        )
    }
}

/// Describes a refusal of the console: status, code, message, violations and remedy.
pub(super) fn refusal(status: u16, body: &Value) -> String {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let code = text("/error/code").or_else(|| text("/error")).unwrap_or("-");
    let message = text("/error/message").or_else(|| text("/errorDetails")).unwrap_or("the console gives no reason");
    let remedy = match (status, code) {
        (401, _) => "\n  remedy: use a token of the console's issuer that has not expired",
        (403, "FORBIDDEN") => "\n  remedy: ask someone with the role, or the administrator who assigns roles",
        // The console has each path that a command asks for.
        (404, "OPERATION_NOT_FOUND") => {
            "\n  remedy: this is no console of this version of Sluice, but perhaps the address for callers: name the one of `[console]` \
             with `--console` or SLUICE_CONSOLE"
        }
        _ => "",
    };
    let violations = body.pointer("/error/details/violations").and_then(Value::as_array);
    let violation = |one: &Value| {
        let part = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("\n  {}: {}", argument_of(&part("pointer")), part("expected"))
    };
    let violations: String = violations.into_iter().flatten().map(violation).collect();
    // The message is for programs, which send JSON.
    let message = if violations.is_empty() { message } else { "these arguments cannot be used:" };
    visible_lines(&format!("the console refused ({status} {code}): {message}{violations}{remedy}")).into_owned()
}

/// Returns the argument of a command that became a member of a request, as it is typed.
fn argument_of(pointer: &str) -> String {
    let names: Vec<&str> = pointer.split('/').filter(|name| !name.is_empty()).collect();
    let name = match names.as_slice() {
        ["scope"] => return "the scope".to_owned(),
        ["filters", name, ..] | ["scope", name, ..] | [name, ..] => *name,
        [] => return "the request".to_owned(),
    };
    let typed = match name {
        "destination" => "to".to_owned(),
        "version" => return "the version".to_owned(),
        name => name.chars().fold(String::new(), |mut typed, letter| {
            if letter.is_ascii_uppercase() {
                typed.push('-');
            }
            typed.push(letter.to_ascii_lowercase());
            typed
        }),
    };
    format!("`--{typed}`")
}

/// Returns the scope of a freeze in the console's JSON. `special` is one that Sluice itself sets.
pub(super) fn scope(
    operation: Option<&str>,
    caller: Option<&str>,
    reads: bool,
    special: Option<&str>,
) -> anyhow::Result<Value> {
    match (operation, caller, special) {
        (None, None, None) => Ok(json!("all")),
        (None, None, Some(scope)) => Ok(json!(scope)),
        (Some(operation), None, None) => Ok(json!({ "operation": operation })),
        (None, Some(caller), None) => {
            let (issuer, subject) = caller
                .split_once('/')
                .ok_or_else(|| anyhow!("`--caller {caller}`: write the issuer's name, `/`, and the subject"))?;
            let what = if reads { "reads" } else { "caller" };
            Ok(json!({ what: { "issuer": issuer, "subject": subject } }))
        }
        _ => bail!("name one of `--operation`, `--caller`, `--restored` and `--clock`, not several"),
    }
}

/// Describes a scope in words.
pub(super) fn scope_in_words(scope: &Value) -> String {
    let text = |pointer: &str| scope.pointer(pointer).and_then(Value::as_str);
    match (scope.as_str(), text("/operation")) {
        (Some("restored"), _) => "all money, since the store was restored".to_owned(),
        (Some("clock"), _) => "all money, since the clock of the store leapt".to_owned(),
        (Some(_), _) => "all money".to_owned(),
        (None, Some(operation)) => format!("operation {operation}"),
        (None, None) if scope.get("gateClock").is_some() => {
            format!("the money of gate {}, for its clock", text("/gateClock").unwrap_or_default())
        }
        (None, None) => {
            let (what, at) =
                if scope.get("reads").is_some() { ("reads of caller", "reads") } else { ("caller", "caller") };
            let part = |name: &str| text(&format!("/{at}/{name}")).unwrap_or_default();
            format!("{what} {}/{}", part("issuer"), part("subject"))
        }
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
        let ask = ConsoleCall::get("requests").with("limit", Some("5".into())).with("after", None);
        assert_eq!(ask.url("http://a"), "http://a/sluice/v1/requests?limit=5");
    }

    #[test]
    fn a_scope_is_one_thing() {
        assert_eq!(scope(None, None, false, None).unwrap(), json!("all"));
        let caller = scope(None, Some("main/a/b"), false, None).unwrap();
        assert_eq!(caller, json!({"caller": {"issuer": "main", "subject": "a/b"}}));
        assert_eq!(scope_in_words(&caller), "caller main/a/b");
        assert!(scope(None, Some("payroll"), false, None).is_err());
        assert!(scope(Some("createSwap"), Some("main/x"), false, None).is_err());
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let body = json!({"status": "error", "error": {"code": "INVALID_REQUEST", "message": "no.", "details":
            {"violations": [{"pointer": "/reason", "expected": "at least 1 characters"}]}}});
        assert_eq!(
            refusal(400, &body),
            "the console refused (400 INVALID_REQUEST): these arguments cannot be used:\n  `--reason`: at least 1 characters"
        );
        for (pointer, argument) in [
            ("/scope/operation", "`--operation`"),
            ("/scope/caller/issuer", "`--caller`"),
            ("/filters/amountFrom", "`--amount-from`"),
            ("destination", "`--to`"),
            ("/record", "`--record`"),
            ("/scope", "the scope"),
            ("", "the request"),
        ] {
            assert_eq!(argument_of(pointer), argument);
        }
        let body = json!({"status": "error", "error": {"code": "OPERATION_NOT_FOUND", "message": "no."}});
        assert!(refusal(404, &body).contains("name the one of `[console]` with `--console`"));
        let body = json!({"code": 401, "error": "UNAUTHORIZED", "errorDetails": "the token has expired."});
        assert!(refusal(401, &body).contains("remedy: use a token"));
    }
}
