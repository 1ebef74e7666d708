//! Whether the console answers at its address, and under each name that the configuration gives it.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::{Client, redirect};
use serde_json::Value;

use super::report::DoctorReport;
use crate::cli::console::near;
use crate::config::Config;

/// How long to wait for an answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// The document that the console shows to everybody, and its title there.
const DOCUMENT: &str = "/sluice/v1/openapi.json";
const TITLE: &str = "Sluice console API";

/// The reasons why a console does not answer a request under one of its names.
enum ConsoleFault {
    /// Nobody answers, or not HTTP.
    Silent(String),
    /// The listener is for other names.
    RefusesName,
    /// Another program answers.
    NoConsole(String),
}

/// Asks the console for the document of its API. No token is sent, so certificates are not judged.
pub(super) async fn check(config: &Config, report: &mut DoctorReport) {
    let Some(console) = &config.console else { return };
    // Only the first installed provider counts, so a second call is harmless.
    rustls::crypto::ring::default_provider().install_default().ok();
    let (address, scheme) = (near(console.listen), if console.tls.is_some() { "https" } else { "http" });
    let url = format!("{scheme}://{address}");
    for name in std::iter::once(None).chain(console.hosts.iter().map(|name| Some(name.as_str()))) {
        let base = name.map_or_else(|| url.clone(), |name| format!("{scheme}://{name}:{}", address.port()));
        let Err(fault) = ask(&base, name, address).await else { continue };
        let (text, remedy) = match fault {
            ConsoleFault::Silent(why) => (
                format!("does not answer at {url}: {why}; nobody can approve, freeze or look"),
                "look at the gate's process and its log, and compare `console.listen` with that of the running gate",
            ),
            ConsoleFault::NoConsole(what) => (
                format!("does not answer at {base}, but another program does: {what}"),
                "compare `console.listen` with that of the running gate, and look who listens there",
            ),
            ConsoleFault::RefusesName => (
                format!("refuses requests for {base}, although the configuration names this host"),
                "the running gate has other `console.hosts` and `console.public_url`: start it again",
            ),
        };
        return report.problem("console", None, &text, remedy);
    }
    let under: String = console.hosts.iter().map(|name| format!(", and as `{name}`")).collect();
    report.well("console", None, &format!("answers at {url}{under}"));
}

async fn ask(base: &str, name: Option<&str>, address: SocketAddr) -> Result<(), ConsoleFault> {
    let silent = |why: &str| ConsoleFault::Silent(why.to_owned());
    let builder = Client::builder().redirect(redirect::Policy::none()).no_proxy().timeout(DEADLINE);
    let builder = builder.tls_danger_accept_invalid_certs(true);
    let builder = match name {
        Some(name) => builder.resolve(name, address),
        None => builder,
    };
    let client = builder.build().map_err(|error| silent(&error.to_string()))?;
    let answer = client.get(format!("{base}{DOCUMENT}")).send().await;
    let answer = answer.map_err(|error| {
        silent(if error.is_timeout() {
            "no answer in time"
        } else if error.is_connect() {
            "no connection"
        } else {
            "the connection broke"
        })
    })?;
    let status = answer.status().as_u16();
    let text = answer.text().await.map_err(|_| silent("its answer was cut off"))?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    match (status, body.pointer("/info/title"), body.pointer("/error/code")) {
        (200, Some(title), _) if *title == TITLE => Ok(()),
        (403, _, Some(code)) if *code == "FORBIDDEN" => Err(ConsoleFault::RefusesName),
        _ => Err(ConsoleFault::NoConsole(format!("it says {status}, without the console's document"))),
    }
}
