//! `sluice demo`: what it promises to whoever tries it.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::terminal::Terminal;
use crate::support::{Answer, Redis, post};

/// How the screen ends.
const LAST: &str = "Ctrl-C ends the demo and removes its files.\n";

/// The folder of the demo's files, as its screen names it.
fn folder_of(screen: &str) -> &str {
    screen.lines().find_map(|line| line.trim().strip_prefix(". ")?.strip_suffix("/env")).unwrap()
}

/// A running demo, what its screen says, and its steps with the values of their variables.
struct Demo {
    process: Child,
    screen: String,
    env: String,
    steps: String,
}

impl Demo {
    fn start() -> Demo {
        let mut process = sluice(&["demo", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut screen = String::new();
        while !screen.ends_with(LAST) {
            screen.push_str(&format!("{}\n", lines.next().unwrap().unwrap()));
        }
        let folder = folder_of(&screen);
        let env = fs::read_to_string(format!("{folder}/env")).unwrap();
        let mut steps = fs::read_to_string(format!("{folder}/steps")).unwrap();
        for (name, value) in env.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| !name.contains(' '))
        {
            steps = steps.replace(&format!("${name}"), value);
        }
        // What it logs afterwards is read by somebody, so that it never waits.
        std::thread::spawn(move || lines.count());
        Demo { process, screen, env, steps }
    }

    /// The rest of the first line that begins so.
    fn told(&self, start: &str) -> &str {
        let mut all = self.screen.lines().chain(self.env.lines()).chain(self.steps.lines());
        all.find_map(|line| line.trim_start().strip_prefix(start)).unwrap().trim()
    }

    fn swap(&self, request_id: &str, amount: &str) -> Answer {
        let body = json!({
            "requestId": request_id,
            "source": {"chain": "POLYGON", "currency": "usdt", "amount": amount},
            "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
        });
        let production: SocketAddr = self.told("production  http://").parse().unwrap();
        let call = post("/v2/wallets/swaps").json(body.to_string());
        let token = format!("Bearer {}", self.told("TOKEN="));
        call.without("Authorization").header("Authorization", token).send(production)
    }
}

/// Ctrl-C.
fn interrupt(process: &mut Child) {
    let interrupt = format!("kill -INT {}", process.id());
    Command::new("sh").args(["-c", &interrupt]).status().unwrap();
    let status = process.wait().unwrap();
    assert!(std::thread::panicking() || status.success(), "{status}");
}

impl Drop for Demo {
    fn drop(&mut self) {
        interrupt(&mut self.process);
    }
}

#[test]
fn the_demo_shows_what_rules_and_limits_do() {
    let demo = Demo::start();
    assert_eq!(demo.screen.matches("#token=").count(), 1, "one link with a token");
    let said = |answer: Answer| format!("{} {}", answer.status, answer.code());
    let first = demo.swap("demo-2", "25.50");
    assert_eq!((first.status, first.outcome().as_str()), (201, "executed"), "{first}");
    assert_eq!(said(demo.swap("demo-3-larger", "5000")), "202 -");
    assert_eq!(said(demo.swap("demo-3-largest", "30000")), "403 POLICY_DENIED");
    for n in 1..=3 {
        assert_eq!(demo.swap(&format!("demo-3-{n}"), &format!("2{n}")).status, 201, "{n}");
    }
    assert_eq!(said(demo.swap("demo-3-4", "24")), "202 -");
    assert_eq!(demo.swap("demo-2", "25.50").header("sluice-replayed").as_deref(), Some("true"));

    let line = demo.told("SLUICE_TOKEN=");
    let (token, words) = line.split_once(" sluice ").unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    let told = sluice(&words).env("SLUICE_TOKEN", token).output().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    let used =
        "unapproved-per-caller for environment production, caller demo:you: 91.5 USD of 5000 USD used, 4908.5 USD left";
    assert!(text.contains(used), "{text}");

    // The line that explains, as it stands there.
    let line = demo.told("sluice policy explain ");
    let (before, given) = line.split_once(" --given '").unwrap();
    let words = ["policy", "explain"].into_iter().chain(before.split(' '));
    let words: Vec<&str> = words.chain(["--given", given.trim_end_matches('\'')]).collect();
    let told = sluice(&words).output().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.starts_with("hold\n  value: 5000 USD\n  because: rule larger-payments"), "{text}");
}

#[test]
fn the_demo_has_something_to_approve_by_command_line() {
    let demo = Demo::start();
    let waits = demo.swap("demo-9", "2500");
    assert_eq!((waits.status, waits.outcome().as_str()), (202, "held"), "{waits}");
    let hold = waits.json()["hold"]["id"].as_str().unwrap().to_owned();
    let lines = demo.steps.lines().map(str::trim_start).filter(|line| line.contains("sluice approvals "));
    let mut run = 0;
    for line in lines {
        let (token, words) = line.strip_prefix("SLUICE_TOKEN=").unwrap().split_once(" sluice ").unwrap();
        let words = words.replace("HOLD", &hold);
        let words: Vec<&str> = words.split(' ').collect();
        // A vote without a terminal needs it said.
        let yes = words.contains(&"approve").then_some("--yes");
        let words: Vec<&str> = words.into_iter().chain(yes).collect();
        let told = sluice(&words).env("SLUICE_TOKEN", token).output().unwrap();
        let text = String::from_utf8([told.stdout, told.stderr].concat()).unwrap();
        assert!(told.status.success() && text.contains(&hold), "{line}: {text}");
        run += 1;
    }
    assert_eq!(run, 3);
    wait_until("it to be sent", || demo.swap("demo-9", "2500").status == 201);
}

/// A demo in a terminal of a screen that small, until it is dropped.
struct ShownDemo {
    process: Child,
    terminal: Terminal,
}

impl ShownDemo {
    fn start(words: &[&str], path: Option<&Path>) -> ShownDemo {
        let terminal = Terminal::of(COLUMNS, ROWS);
        let mut command = sluice(&[&["demo", "--port", "0"], words].concat());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let process = terminal.spawn(command);
        ShownDemo { process, terminal }
    }

    /// What the terminal shows when the screen is whole.
    fn screen(&self, last: &str) -> String {
        self.terminal.wait("the demo's screen", |text| text.ends_with(last).then(|| text.to_owned()))
    }
}

impl Drop for ShownDemo {
    fn drop(&mut self) {
        interrupt(&mut self.process);
    }
}

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

/// How many rows of a terminal these lines take, and the line of the cursor.
fn rows(screen: &str) -> usize {
    let rows_of = |line: &str| line.chars().count().div_ceil(usize::from(COLUMNS)).max(1);
    screen.lines().map(rows_of).sum::<usize>() + 1
}

#[test]
fn the_demo_s_screen_fits_a_small_terminal_and_its_log_is_a_file() {
    let demo = ShownDemo::start(&[], None);
    let screen = demo.screen(LAST);
    assert!(rows(&screen) <= usize::from(ROWS), "{} rows: {screen}", rows(&screen));
    let link = screen.lines().find(|line| line.contains("#token=")).unwrap();
    let wide: Vec<&str> = screen.lines().filter(|line| line.chars().count() > usize::from(COLUMNS)).collect();
    assert_eq!(wide, [link], "only the link is longer than a line");
    // A page link, three commands, and how to go on.
    assert_eq!(screen.lines().filter(|line| line.starts_with("  swap demo-")).count(), 3, "{screen}");
    assert!(link.starts_with("http://127.0.0.1:") && screen.contains("To go on: the files `steps`"), "{screen}");
    let folder = folder_of(&screen).to_owned();
    for file in ["env", "steps", "links", "log"] {
        assert!(Path::new(&format!("{folder}/{file}")).is_file(), "{file}");
    }
    // A call is a line of the log, and the terminal stays as it is.
    let production = screen.lines().find_map(|line| line.trim().strip_prefix("production  http://")).unwrap();
    let production: SocketAddr = production.parse().unwrap();
    assert_eq!(post("/v2/wallets/swaps").json("{}").send(production).status, 401);
    wait_until("the call to be in the log", || {
        let log = fs::read_to_string(format!("{folder}/log")).unwrap();
        log.lines()
            .any(|line| line.contains("\"message\":\"request\"") && line.contains("\"http.response.status_code\":401"))
    });
    assert_eq!(demo.terminal.text(), screen);
}

#[test]
fn the_demo_on_a_redis_fits_as_well() {
    let redis = Redis::start();
    let demo = ShownDemo::start(&["--redis", &redis.url()], None);
    let screen = demo.screen("gets its recorded answer again.\n");
    assert!(rows(&screen) <= usize::from(ROWS), "{} rows: {screen}", rows(&screen));
}

/// The name of the program that opens links on this desktop.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

#[test]
fn open_gives_the_link_to_the_browser_of_the_desktop() {
    let desktop = tempfile::tempdir().unwrap();
    let (opener, opened) = (desktop.path().join(OPENER), desktop.path().join("opened"));
    let script =
        format!("#!/bin/sh\necho noise\necho \"$#\" \"$1\" > {0}.new\nexec /bin/mv {0}.new {0}\n", opened.display());
    fs::write(&opener, script).unwrap();
    fs::set_permissions(&opener, Permissions::from_mode(0o755)).unwrap();
    let demo = ShownDemo::start(&["--open"], Some(desktop.path()));
    let screen = demo.screen(LAST);
    let link = screen.lines().find(|line| line.contains("#token=")).unwrap();
    wait_until("the browser to be opened", || opened.exists());
    assert_eq!(fs::read_to_string(&opened).unwrap(), format!("1 {link}\n"));
    assert!(!demo.terminal.text().contains("noise"));
    let folder = folder_of(&screen);
    assert!(fs::read_to_string(format!("{folder}/links")).unwrap().contains(link));
}

#[test]
fn without_a_browser_open_says_so_and_the_demo_goes_on() {
    let empty = tempfile::tempdir().unwrap();
    let demo = ShownDemo::start(&["--open"], Some(empty.path()));
    let screen = demo.screen("no browser can be opened; open the link yourself\n");
    let production = screen.lines().find_map(|line| line.trim().strip_prefix("production  http://")).unwrap();
    assert_eq!(post("/v2/wallets/swaps").json("{}").send(production.parse().unwrap()).status, 401);
}
