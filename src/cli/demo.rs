//! `sluice demo`: runs a simulator and a gate on loopback, and prints calls to try.

mod text;

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::create_store::create_now;
use super::token::{TokenSigner, WantedToken, make_token};
use super::{ExitReason, complain, policies, print, random_secret};
use crate::adapters::clock::SystemClock;
use crate::adapters::policies::PolicyFolder;
use crate::base::finding::Finding;
use crate::base::secret::Secret;
use crate::catalog::{Catalog, SchemaFiles};
use crate::config::{self, Config, ConfigWorld};
use crate::ports::Clock as _;
use crate::serve::process::{Process, StartInputs};
use crate::serve::{ReadAgain, StartConfig};
use crate::simulator::{Settings, Simulator};
use crate::telemetry;

/// Try the gate: runs a simulator and a gate on loopback, with nothing to install
///
/// Prints one screen: the page, three calls, and where all steps are. Tokens and the log are in files. Ctrl-C ends the demo
/// and removes them.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Port of the production gate; sandbox, probes and console use the next three. With 0, any free ports are used
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Keep the store in this Redis: `redis://127.0.0.1:6379/1`. The data stays there when the demo ends
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Open the console's page in the browser
    #[arg(long)]
    open: bool,
}

/// The `iss` of the callers' tokens.
const ISSUER: &str = "sluice-demo";
/// The `aud` of all tokens.
const AUDIENCE: &str = "sluice";
/// The `iss` of people's tokens.
const PEOPLE: &str = "sluice-demo-people";
/// The variables that hold the signing secrets, in the demo's own environment.
const SECRET: &str = "TOKEN_SECRET";
const SECRET_OF_PEOPLE: &str = "TOKEN_SECRET_OF_PEOPLE";
/// The policy folder inside the demo's folder.
const POLICIES: &str = "policies";
/// The variable that holds the URL of the Redis, in the demo's own environment.
const REDIS_URL: &str = "REDIS_URL";

pub(super) fn run(arguments: &DemoArgs) -> anyhow::Result<ExitReason> {
    let files = SchemaFiles::built_in();
    let catalog = Catalog::build(&files, &[]).map_err(|findings| join_findings(&findings))?;
    let runtime = Runtime::new().context("the async runtime cannot start")?;
    let production = runtime.block_on(simulator(&files))?;
    let sandbox = runtime.block_on(simulator(&files))?;
    let secrets = [random_secret()?, random_secret()?];
    let folder = Folder::new()?;
    let config = configuration(arguments, production, sandbox, &secrets, &folder.0)?;
    create_now(&config)?;
    policies::write_shipped(&folder.0.join(POLICIES), "people").context("the demo's policies cannot be written")?;
    let catalog = Arc::new(catalog);
    let policies = PolicyFolder::of(&config, catalog.clone(), "demo").map_err(|findings| join_findings(&findings))?;
    let loaded = policies.load().map_err(|findings| join_findings(&findings))?;
    let (files, written) = Default::default();
    let read = StartConfig { config: config.clone(), written, folder: policies, policies: loaded, files };
    let read_again = {
        let read = read.clone();
        ReadAgain(Arc::new(move || Ok(StartConfig { policies: read.folder.load()?, ..read.clone() })))
    };
    let (handed, supervisor) = Default::default();
    let process = Process::start(StartInputs { read, read_again, handed, supervisor })
        .context("the demo cannot start; if a port is in use, choose others with `--port`")?;
    let tokens = Tokens {
        caller: token_of(&config, "demo", "you", &[])?,
        operators: [
            token_of(&config, "people", "ops-1", &["operator"])?,
            token_of(&config, "people", "ops-2", &["operator"])?,
        ],
        approvers: [
            token_of(&config, "people", "ops-3", &["approver"])?,
            token_of(&config, "people", "finance-1", &["approver"])?,
        ],
    };
    let addresses = process.addresses();
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    for (name, content) in [
        ("env", text::env(addresses, &tokens, &program)),
        ("links", text::links(addresses, &tokens)),
        ("steps", text::steps(addresses, production, &folder.0.join(POLICIES))),
    ] {
        let path = folder.0.join(name);
        std::fs::write(&path, content).with_context(|| format!("`{}` cannot be written", path.display()))?;
    }
    let path = folder.0.join("log");
    let log = std::fs::File::create(&path).with_context(|| format!("`{}` cannot be written", path.display()))?;
    let _log = telemetry::init_in(&config.log, log).context("the log cannot start")?;
    print(&text::screen(addresses, &tokens, &folder.0))?;
    if arguments.redis.is_some() {
        print(text::OF_REDIS)?;
    }
    if arguments.open {
        let [of_ops, _] = &tokens.approvers;
        open_page(&text::link(addresses, of_ops));
    }
    process.serve()?;
    print("The demo has ended.\n")?;
    Ok(ExitReason::Done)
}

/// Opens the page in the browser of this desktop.
fn open_page(link: &str) {
    let openers: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open"] };
    let silent = |opener: &&str| {
        let mut command = Command::new(opener);
        command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    };
    if !openers.iter().any(silent) {
        complain(format_args!("sluice: no browser can be opened; open the link yourself"));
    }
}

/// The folder of the demo's store, audit log and policies; it is removed when the demo ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Folder> {
        let path = std::env::temp_dir().join(format!("sluice-demo-{}", std::process::id()));
        // The tokens in it are for this user alone.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("`{}` cannot be created", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

async fn simulator(files: &SchemaFiles) -> anyhow::Result<SocketAddr> {
    let simulator = Simulator::of_files(files, Arc::new(SystemClock), Settings::default())
        .map_err(|findings| join_findings(&findings))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the simulator cannot listen")?;
    let address = listener.local_addr().context("the simulator's address is unknown")?;
    tokio::spawn(simulator.serve(listener));
    Ok(address)
}

/// Builds the configuration. The tokens of callers and of people are signed with two different secrets.
fn configuration(
    DemoArgs { port, redis, .. }: &DemoArgs,
    production: SocketAddr,
    sandbox: SocketAddr,
    [callers, people]: &[Secret; 2],
    folder: &Path,
) -> anyhow::Result<Config> {
    let port = *port;
    // Losing the demo's data is harmless, and no other running demo has this node name.
    let shared = redis.as_ref().map_or_else(String::new, |_| {
        format!(
            "kind = \"redis\"\nnode = \"demo-{}\"\n[redis]\nurl = {{ env = \"{REDIS_URL}\" }}\nallow_unsafe = true\n\
             timeout_ms = 1_000\n",
            std::process::id()
        )
    });
    let nth = |n: u16| if port == 0 { 0 } else { port.saturating_add(n) };
    let text = format!(
        "policies = \"{}\"\n[production]\nlisten = \"127.0.0.1:{}\"\nupstream = \"http://{production}\"\ncredential = \"demo-production\"\n\
         [sandbox]\nlisten = \"127.0.0.1:{}\"\nupstream = \"http://{sandbox}\"\ncredential = \"demo-sandbox\"\n\
         [issuer.demo]\nissuer = \"{ISSUER}\"\naudience = [\"{AUDIENCE}\"]\nenvironments = [\"production\", \"sandbox\"]\n\
         algorithms = [\"HS256\"]\nshared_secret = {{ env = \"{SECRET}\" }}\n\
         [timeouts]\nanswer_ms = 5_000\n[reconcile]\nfirst_look_ms = 1_000\n[probes]\nlisten = \"127.0.0.1:{}\"\n\
         [console]\nlisten = \"127.0.0.1:{}\"\nissuer = \"people\"\n\
         [issuer.people]\nissuer = \"{PEOPLE}\"\naudience = [\"{AUDIENCE}\"]\nenvironments = []\n\
         algorithms = [\"HS256\"]\nroles = \"roles\"\nshared_secret = {{ env = \"{SECRET_OF_PEOPLE}\" }}\n\
         [audit]\nfolder = \"{}\"\n[store]\nfolder = \"{}\"\n{shared}",
        folder.join(POLICIES).display(),
        nth(0),
        nth(1),
        nth(2),
        nth(3),
        folder.join("audit").display(),
        folder.join("store").display(),
    );
    // The demo uses only these variables, not the environment of the process.
    let world = ConfigWorld {
        environment: BTreeMap::from([
            (SECRET.to_owned(), callers.reveal().into()),
            (SECRET_OF_PEOPLE.to_owned(), people.reveal().into()),
            (REDIS_URL.to_owned(), redis.clone().unwrap_or_default().into()),
        ]),
        read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
        is_folder: &|asked| asked == folder || asked == folder.join(POLICIES),
    };
    let reading = config::parse_config(&text, "demo", &world).map_err(|findings| join_findings(&findings))?;
    Ok(reading.config)
}

/// The tokens of the demo.
struct Tokens {
    caller: String,
    operators: [String; 2],
    approvers: [String; 2],
}

fn token_of(config: &Config, issuer: &str, subject: &str, roles: &[&str]) -> anyhow::Result<String> {
    let issuer =
        config.issuers.iter().find(|one| one.name == issuer).context("the demo's configuration lacks an issuer")?;
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    let lifetime_secs = 8 * 60 * 60;
    let wanted = WantedToken { subject: subject.to_owned(), roles, lifetime_secs, ..WantedToken::default() };
    make_token(issuer, &TokenSigner::of(issuer, None)?, &wanted, SystemClock.now())
}

fn join_findings(findings: &[Finding]) -> anyhow::Error {
    anyhow!(findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KeySource;

    #[test]
    fn its_tokens_are_signed_with_the_secret_of_this_run() {
        let (production, sandbox) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
        let there = Path::new("/there");
        let secrets = [random_secret().unwrap(), random_secret().unwrap()];
        assert_ne!(secrets[0], secrets[1]);
        let config =
            configuration(&DemoArgs { port: 0, redis: None, open: false }, production, sandbox, &secrets, there)
                .unwrap();
        for (name, iss, secret, environments) in [("demo", ISSUER, &secrets[0], 2), ("people", PEOPLE, &secrets[1], 0)]
        {
            let issuer = config.issuers.iter().find(|issuer| issuer.name == name).unwrap();
            assert!(matches!(&issuer.keys, KeySource::Shared(shared) if shared == secret));
            assert_eq!((issuer.issuer.as_str(), issuer.environments.len()), (iss, environments));
        }
    }
}
