//! The real binary, with a configuration of the test's own.

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;

use serde_json::Value;
use tempfile::TempDir;

use super::call::get;
use super::caller::Answer;
use super::canary;
use super::clock::{PATIENCE, wait_until};
pub use super::command::sluice;
use super::command::{lent, limited};
use super::shared::{Shared, follow};
use super::token::{ISSUER, SECRET, token};
use super::upstream::Upstream;

/// Rules that let everything pass that has a value.
pub const EVERYTHING: &str = r#"[[rule]]
id = "everything"
effect = "allow"
when = { op = "*" }
[[rule]]
id = "settlement-rules"
effect = "allow"
when = { op = "createSettlementRule", body = { "/rules" = "present" } }
"#;

/// A configuration in the making.
#[derive(Debug)]
pub struct Setup {
    folder: TempDir,
    sections: Vec<(String, Vec<String>)>,
    variables: Vec<(String, String)>,
    /// A listening socket that the gate is handed.
    lent: Option<TcpListener>,
    /// The soft and the hard limit of its file descriptors, if they are others than those of this process.
    descriptors: Option<(u64, u64)>,
    /// Whether the store of production is created before the gate starts.
    creates: bool,
}

impl Setup {
    pub fn new() -> Setup {
        let setup = Setup {
            folder: tempfile::tempdir().unwrap(),
            sections: vec![(String::new(), Vec::new())],
            variables: Vec::new(),
            lent: None,
            descriptors: None,
            creates: true,
        };
        std::fs::create_dir(setup.path("policies")).unwrap();
        setup
            .file("policies/everything.toml", EVERYTHING)
            .set("", "policies", "policies")
            .set("log", "format", "json")
            .set("probes", "listen", "127.0.0.1:0")
            .set_raw("probes", "hosts", r#"["gate.example"]"#)
            .set_raw("server", "threads", "2")
            .set("issuer.main", "issuer", ISSUER)
            .set_raw("issuer.main", "audience", r#"["sluice"]"#)
            .set_raw("issuer.main", "environments", r#"["production", "sandbox"]"#)
            .set_raw("issuer.main", "algorithms", r#"["HS256"]"#)
            .set("issuer.main", "shared_secret", SECRET)
    }

    /// A production listener in front of this upstream.
    pub fn of(upstream: &Upstream) -> Setup {
        Setup::new().environment("production", &upstream.url())
    }

    /// The gate starts without `sluice store create` before.
    pub fn uncreated(mut self) -> Setup {
        self.creates = false;
        self
    }

    /// Creates the store now, and not when the gate starts.
    pub fn created(mut self) -> Setup {
        let config = self.write();
        self.create_store(&config);
        self
    }

    /// Creates the store of production, once, as who installs the gate does. A gate that cannot start says so itself.
    fn create_store(&mut self, config: &Path) {
        let is_served = self.sections.iter().any(|(name, _)| name == "production");
        if std::mem::take(&mut self.creates) && is_served {
            let mut command = sluice(&["store", "create", "--config", config.to_str().unwrap()]);
            command.envs(self.variables.iter().cloned()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().unwrap();
        }
    }

    pub fn sandbox(self, upstream: &Upstream) -> Setup {
        self.environment("sandbox", &upstream.url())
    }

    pub fn environment(self, name: &str, upstream: &str) -> Setup {
        // Most upstreams of tests count what reaches them, and tell no date.
        let setup = self.set_raw(name, "ask_date", "false");
        setup.set(name, "listen", "127.0.0.1:0").set(name, "upstream", upstream)
    }

    /// Production's upstream is asked for its date, as it is where nothing is set.
    pub fn asks_date(self) -> Setup {
        self.set_raw("production", "ask_date", "true")
    }

    pub fn enforce(self) -> Setup {
        self.set("", "answers", "enforce")
    }

    pub fn timeout_ms(self, name: &str, millis: u64) -> Setup {
        self.set_raw("timeouts", name, &millis.to_string())
    }

    /// So that upstream can act on a call no more a few seconds after its commit.
    pub fn short_quiet_time(self) -> Setup {
        let millis = [("commit_ms", 500), ("connect_ms", 300), ("tls_handshake_ms", 300), ("write_ms", 200)];
        let setup = millis.into_iter().fold(self, |setup, (name, millis)| setup.timeout_ms(name, millis));
        setup.timeout_ms("answer_ms", 500).timeout_ms("upstream_max_ms", 500)
    }

    pub fn limit(self, name: &str, value: usize) -> Setup {
        self.set_raw("limits", name, &value.to_string())
    }

    /// A setting that is text.
    pub fn set(self, section: &str, name: &str, value: &str) -> Setup {
        self.set_raw(section, name, &format!("{value:?}"))
    }

    /// A setting, in TOML; a later one takes the place of an earlier one.
    pub fn set_raw(mut self, section: &str, name: &str, toml: &str) -> Setup {
        let line = format!("{name} = {toml}");
        let at = self.sections.iter().position(|(s, _)| s == section).unwrap_or_else(|| {
            self.sections.push((section.to_owned(), Vec::new()));
            self.sections.len() - 1
        });
        let lines = &mut self.sections[at].1;
        lines.retain(|l| !l.starts_with(&format!("{name} =")));
        lines.push(line);
        self
    }

    /// A file beside the configuration, which names it by its bare name.
    pub fn file(self, name: &str, content: &str) -> Setup {
        std::fs::write(self.folder.path().join(name), content).unwrap();
        self
    }

    /// A variable that the gate finds in its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Setup {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The gate may have so many file descriptors at first, and so many if it asks for more.
    pub fn descriptors(mut self, soft: u64, hard: u64) -> Setup {
        self.descriptors = Some((soft, hard));
        self
    }

    /// Hands over a listening socket, as systemd does, for production.
    pub fn lend(mut self, listener: &TcpListener) -> Setup {
        let address = listener.local_addr().unwrap().to_string();
        self.lent = Some(listener.try_clone().unwrap());
        self.set("production", "listen", &address)
    }

    /// A file beside the configuration.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Has its secrets searched for, wherever they are now.
    fn plant_secrets(&self) {
        canary::plant(token());
        let secret = |line: &String| {
            let written = line.parse::<toml::Table>().ok()?;
            let (name, value) = written.into_iter().next()?;
            ["credential", "shared_secret", "tls_key"].contains(&name.as_str()).then_some(value)
        };
        for value in self.sections.iter().flat_map(|(_, lines)| lines).filter_map(secret) {
            let text = |name: &str| value.get(name).and_then(toml::Value::as_str);
            match (value.as_str(), text("file"), text("env")) {
                (Some(text), ..) => canary::plant_pem(text),
                (_, Some(file), _) => {
                    canary::plant_pem(&std::fs::read_to_string(self.path(file)).unwrap_or_default());
                }
                (_, _, Some(name)) => {
                    let named = self.variables.iter().filter(|(n, _)| n == name);
                    named.for_each(|(_, value)| canary::plant_pem(value));
                }
                _ => {}
            }
        }
        let of_secrets = |(name, _): &&(String, String)| name.ends_with("_CREDENTIAL") || name.ends_with("_TLS_KEY");
        self.variables.iter().filter(of_secrets).for_each(|(_, value)| canary::plant_pem(value));
    }

    /// Writes the configuration.
    pub fn write(&self) -> PathBuf {
        let mut text = String::new();
        for (name, lines) in &self.sections {
            if !name.is_empty() {
                text.push_str(&format!("[{name}]\n"));
            }
            text.push_str(&format!("{}\n", lines.join("\n")));
        }
        let path = self.folder.path().join("sluice.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs the gate, and returns when it listens.
    pub fn start(self) -> Gate {
        Gate::spawn(self).listening()
    }
}

impl Gate {
    /// Waits until it listens.
    pub fn listening(mut self) -> Gate {
        let gate = &mut self;
        let addresses = gate.log.wait("the gate to listen", |lines| {
            let probes = addresses(lines, "listening for probes").pop()?;
            let people = addresses(lines, "listening for people").pop().map(|(_, address)| address);
            Some((addresses(lines, "listening for callers"), people, probes.1))
        });
        gate.callers = addresses.0;
        gate.console = addresses.1;
        gate.probes = Some(addresses.2);
        self
    }
}

/// A running gate; it is killed when it is dropped, and all that it said is searched for what nobody shall hear.
#[derive(Debug)]
pub struct Gate {
    setup: Setup,
    process: u32,
    ended: Shared<ExitStatus>,
    pub log: Shared<Value>,
    stderr: Shared<String>,
    callers: Vec<(String, SocketAddr)>,
    console: Option<SocketAddr>,
    probes: Option<SocketAddr>,
    /// What the metrics said last.
    metrics: Mutex<String>,
}

impl Gate {
    /// Runs the gate without waiting for anything.
    pub fn spawn(mut setup: Setup) -> Gate {
        let config = setup.write();
        setup.create_store(&config);
        setup.plant_secrets();
        let serve = ["serve", "--config", config.to_str().unwrap()];
        let mut command = match (&setup.lent, setup.descriptors) {
            (None, None) => sluice(&serve),
            (None, Some(limits)) => limited(limits, &serve),
            (Some(listener), _) => lent(listener, &serve),
        };
        command.envs(setup.variables.iter().cloned());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, stderr, ended) = (Shared::new(), Shared::new(), Shared::new());
        let lines = follow(child.stdout.take().unwrap(), log.clone(), |line| {
            serde_json::from_str(&line).unwrap_or(Value::String(line))
        });
        let faults = follow(child.stderr.take().unwrap(), stderr.clone(), |line| line);
        let (process, told) = (child.id(), ended.clone());
        std::thread::spawn(move || {
            let status = child.wait().unwrap();
            // What it said stands before its end.
            lines.join().unwrap();
            faults.join().unwrap();
            told.push(status);
        });
        let (callers, metrics) = (Vec::new(), Mutex::default());
        Gate { setup, process, ended, log, stderr, callers, console: None, probes: None, metrics }
    }

    pub fn production(&self) -> SocketAddr {
        self.environment("production")
    }

    pub fn sandbox(&self) -> SocketAddr {
        self.environment("sandbox")
    }

    /// Where people are served, if anywhere.
    pub fn console(&self) -> Option<SocketAddr> {
        self.console
    }

    fn environment(&self, name: &str) -> SocketAddr {
        self.callers.iter().find(|(n, _)| n == name).unwrap().1
    }

    /// Waits until money could move.
    pub fn ready(self) -> Gate {
        wait_until("the gate to be ready", || self.probe("/readyz/money").status == 200);
        self
    }

    /// Where probes and metrics are served.
    pub fn probes(&self) -> SocketAddr {
        self.probes.unwrap()
    }

    pub fn probe(&self, path: &str) -> Answer {
        get(path).header("Connection", "close").send(self.probes.unwrap())
    }

    /// The value of a series, written as Prometheus writes it; 0 if it is not there.
    pub fn metric(&self, series: &str) -> u64 {
        let text = self.probe("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// The log line of a request, found by its id.
    pub fn request_line(&self, request_id: &str) -> Value {
        self.log.wait("the log line of a request", |lines| {
            lines.iter().find(|line| line["message"] == "request" && line["request_id"] == request_id).cloned()
        })
    }

    /// A file beside the configuration.
    pub fn path(&self, name: &str) -> PathBuf {
        self.setup.path(name)
    }

    /// Ends it at once; what it was set up with can be started again.
    pub fn kill(mut self) -> Setup {
        self.keep_metrics();
        self.signal("KILL");
        self.wait_end();
        std::mem::replace(&mut self.setup, Setup::new())
    }

    /// Ends it in order; what it was set up with can be started again.
    pub fn end(mut self) -> Setup {
        self.terminate();
        self.wait_end();
        std::mem::replace(&mut self.setup, Setup::new())
    }

    /// Before it ends they are asked for once more; it may be past answering.
    fn keep_metrics(&self) {
        let Some(probes) = self.probes.filter(|_| !self.has_ended() && !self.is_stopped()) else { return };
        let asked = TcpStream::connect(probes).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        });
        if let Ok(text) = asked {
            *self.metrics.lock().unwrap() = text;
        }
    }

    /// Whether it ran to its end or was killed, it told nobody what it shall not.
    fn assert_silent(&self) {
        self.setup.plant_secrets();
        let log: Vec<String> = self.log.all().iter().map(ToString::to_string).collect();
        canary::assert_silent("the log", &log.join("\n"));
        canary::assert_silent("standard error", &self.stderr());
        canary::assert_silent("the metrics", &self.metrics.lock().unwrap());
    }

    pub fn stderr(&self) -> String {
        self.stderr.all().join("\n")
    }

    pub fn process(&self) -> u32 {
        self.process
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.keep_metrics();
        self.signal("TERM");
    }

    /// How it ended, as soon as it has.
    pub fn wait_end(&self) -> ExitStatus {
        self.ended.wait("the gate to end", |ended| ended.first().copied())
    }

    pub fn has_ended(&self) -> bool {
        !self.ended.all().is_empty()
    }

    /// Whether the process stands still because of a signal.
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.process);
        Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status().unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.keep_metrics();
            self.signal("KILL");
        }
        if !std::thread::panicking() {
            self.wait_end();
            self.assert_silent();
        } else {
            let is_dull = |line: &Value| {
                ["request", "console", "configuration"].iter().any(|message| line["message"] == *message)
            };
            let lines = self.log.all();
            let lines: Vec<String> = lines.iter().filter(|line| !is_dull(line)).map(ToString::to_string).collect();
            let last = lines.len().saturating_sub(40);
            eprintln!("the end of the gate's log:\n{}\n{}", lines[last..].join("\n"), self.stderr());
        }
    }
}

fn addresses(lines: &[Value], message: &str) -> Vec<(String, SocketAddr)> {
    let told = lines.iter().filter(|line| line["message"] == message);
    let read = |line: &Value| {
        let environment = line["environment"].as_str().unwrap_or_default().to_owned();
        (environment, line["address"].as_str().unwrap().parse().unwrap())
    };
    told.map(read).collect()
}
