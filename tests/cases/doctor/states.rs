//! What the doctor says of a running gate that is not as it should be: the line, its remedy and the exit code.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{CLOSED, PROBLEMS, config_of, findings, listening, wait_for};
use crate::cases::console::console;
use crate::cases::holds;
use crate::cases::identity::{fetched_from, show_a_key};
use crate::support::clock::wait_until;
use crate::support::false_clock::FalseClock;
use crate::support::gate::sluice;
use crate::support::tls::Authority;
use crate::support::upstream::{Reserved, answer as response};
use crate::support::{Act, Gate, Setup, Upstream, get};

/// The same configuration with another address of a listener, in a file of its own.
fn elsewhere(gate: &Gate, section: &str, address: SocketAddr) -> PathBuf {
    let config = gate.path("elsewhere.toml");
    let text = fs::read_to_string(config_of(gate)).unwrap();
    fs::write(&config, listening(&text, section, address)).unwrap();
    config
}

fn address_of(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// The findings, or the advice, with their remedies.
#[track_caller]
fn told(said: &Value, list: &str, text: &str, remedy: &str) {
    let is_it = |one: &&Value| one.to_string().contains(text);
    let one = said[list].as_array().unwrap().iter().find(is_it).unwrap_or_else(|| panic!("no `{text}`: {said}"));
    assert!(one["remedy"].as_str().unwrap().contains(remedy), "{one}");
}

#[test]
fn the_console_answers_under_each_of_its_names() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set("console", "public_url", "http://people.example:8083").start().ready();
    let config = config_of(&gate);
    let place = gate.console().unwrap();
    let line = format!("OK       console answers at http://{place}, and as `gate.example`, and as `people.example`\n");
    wait_for(&config, 0, &line);
    // The running gate has not read this name.
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("people.example", "other.example")).unwrap();
    let said = wait_for(&config, PROBLEMS, "console refuses requests for http://other.example:");
    told(&said, "findings", "other.example", "start it again");
}

/// A command that creates another store would be the wrong remedy.
#[test]
fn a_store_whose_file_is_gone_while_its_gate_runs_is_no_new_one() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let config = config_of(&gate);
    fs::remove_file(gate.path("sluice-data/store.redb")).unwrap();
    let said = wait_for(&config, PROBLEMS, "lacks its file `store.redb`, although a gate runs");
    told(&said, "findings", "the file of the store is gone", "create no store");
    assert!(!findings(&said).contains("there is no store yet"), "{said}");
    assert_eq!(said["environments"][0]["money"], "open");
}

#[test]
fn a_console_that_does_not_answer_is_a_problem() {
    let (upstream, free) = (Upstream::start(), Reserved::new());
    let gate = console(Setup::of(&upstream)).start().ready();
    let nobody = address_of(&free.url());
    let config = elsewhere(&gate, "console", nobody);
    let said =
        wait_for(&config, PROBLEMS, &format!("PROBLEM  console does not answer at http://{nobody}: no connection"));
    told(&said, "findings", "no connection", "compare `console.listen` with that of the running gate");
    let config = elsewhere(&gate, "console", upstream.address());
    let said = wait_for(&config, PROBLEMS, "but another program does: it says 200");
    told(&said, "findings", "another program", "look who listens there");
}

#[test]
fn a_console_behind_tls_is_asked_as_well() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let own = authority.certify(&["gate.example"]);
    let gate = console(Setup::of(&upstream))
        .file("cert.pem", &own.certificate)
        .file("key.pem", &own.key)
        .set("console", "tls_certificate", "cert.pem")
        .set_raw("console", "tls_key", r#"{ file = "key.pem" }"#)
        .start()
        .ready();
    let line = format!("console answers at https://{}, and as `gate.example`\n", gate.console().unwrap());
    wait_for(&config_of(&gate), 0, &line);
}

#[test]
fn an_issuer_whose_keys_cannot_be_fetched_is_named() {
    let (upstream, dead) = (Upstream::start(), Upstream::start());
    dead.always(Act::silence().close());
    let gate = fetched_from(Setup::of(&upstream), &dead).start();
    let said = wait_for(&config_of(&gate), CLOSED, "PROBLEM  issuer the keys of `second` were never fetched");
    told(&said, "findings", "never fetched", "check that the gate reaches its `jwks_url`: its tokens get 503");
    told(&said, "findings", "money is closed", "check that the gate reaches the issuers of tokens");
}

#[test]
fn faulty_policies_and_settings_after_a_reload_are_problems() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let config = config_of(&gate);
    wait_for(&config, 0, "No problems found.");
    let rules = gate.path("policies/everything.toml");
    let former = fs::read_to_string(&rules).unwrap();
    fs::write(&rules, former.replace("effect = \"allow\"", "effect = \"alow\"")).unwrap();
    gate.signal("HUP");
    let said = wait_for(&config, PROBLEMS, "reloads the newest policies have errors; the former ones stay in force");
    told(&said, "findings", "the newest policies have errors", "`sluice check` shows the errors");
    told(&said, "findings", "policies cannot be used: error: ", "`sluice check` shows all errors");
    assert!(findings(&said).contains("everything.toml:3:10: "), "{said}");
    assert_eq!(said["environments"][0]["money"], "open");
    fs::write(&rules, &former).unwrap();
    wait_for(&config, 0, "No problems found.");

    let text = fs::read_to_string(gate.path("sluice.toml")).unwrap();
    fs::write(gate.path("sluice.toml"), format!("colour = \"red\"\n{text}")).unwrap();
    gate.signal("HUP");
    let line = "reloads the newest configuration has errors; the former one stays in use";
    let said = wait_for(&config, PROBLEMS, line);
    told(&said, "findings", "the newest configuration has errors", "`sluice check` shows the errors");
    // Without a configuration there is no gate to ask.
    let (code, _) = said_by(&gate.path("sluice.toml"));
    assert_eq!(code, 1);
}

#[test]
fn a_gate_whose_clock_differs_from_the_machine_s_is_a_problem() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    clock.leap(10);
    let setup =
        clock.variables().into_iter().fold(Setup::of(&upstream), |setup, (name, value)| setup.variable(&name, &value));
    let gate = setup.start().ready();
    let said = wait_for(&config_of(&gate), PROBLEMS, "PROBLEM  clock the gate's clock and this machine's differ by ");
    told(&said, "findings", "differ by ", "synchronize the clocks (NTP)");
    assert_eq!(said["environments"][0]["money"], "open");
}

/// People may let a hold expire, so this is advice.
#[test]
fn a_hold_that_expires_soon_is_advice() {
    let upstream = Upstream::start();
    let setup = holds::gate(&upstream, holds::RULES).set_raw("console", "remind_before_secs", "604_800");
    let gate = setup.start().ready();
    let config = config_of(&gate);
    wait_for(&config, 0, "No problems found.");
    holds::held(&gate, "h-1");
    let said = wait_for(&config, 0, "ADVICE: production: 1 hold expires soon and lacks approvals");
    told(&said, "advice", "1 hold expires soon", "`sluice approvals list` shows them");
    assert!(findings(&said) == "[]" && said["healthy"] == true, "{said}");
    holds::held(&gate, "h-2");
    wait_for(&config, 0, "ADVICE: production: 2 holds expire soon and lack approvals");
}

/// Probes that answer as those of this gate do, with other lines of its metrics.
fn changed_probes(gate: &Gate, change: impl Fn(&str) -> String + Send + 'static) -> SocketAddr {
    let (probes, listener) = (gate.probes(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let Some(first) = head.next() else { continue };
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let answer = get(first.split(' ').nth(1).unwrap()).header("Connection", "close").send(probes);
            let text: String = answer.text().lines().map(|line| change(line) + "\n").collect();
            stream.write_all(&response(answer.status, &[("Connection", "close")], text.as_bytes())).ok();
        }
    });
    address
}

/// What the doctor says of this gate if its metrics say something else: its exit code and its lines.
fn of_other_metrics(gate: &Gate, change: impl Fn(&str) -> String + Send + 'static) -> (i32, String) {
    said_by(&elsewhere(gate, "probes", changed_probes(gate, change)))
}

fn said_by(config: &Path) -> (i32, String) {
    let arguments = ["doctor", "--config", config.to_str().unwrap()];
    let output = sluice(&arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_gate_of_another_version_is_advice() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let own = env!("CARGO_PKG_VERSION");
    let (code, lines) = of_other_metrics(&gate, move |line| match line.starts_with("sluice_build_info{") {
        true => line.replace(&format!("\"{own}\""), "\"0.1.9\""),
        false => line.to_owned(),
    });
    let advice = format!(
        "ADVICE: the gate has version 0.1.9, this command {own}\n  remedy: finish the upgrade: start the gate again\n"
    );
    assert!(code == 0 && lines.contains(&advice) && lines.contains("gate version 0.1.9 answers"), "{code}: {lines}");
}

#[test]
fn keys_of_an_issuer_that_were_not_fetched_for_long_are_a_problem() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    show_a_key(&keys);
    let gate = fetched_from(Setup::of(&upstream), &keys).start().ready();
    let age = "sluice_keys_age_seconds{issuer=\"second\"} ";
    wait_until("the keys to be fetched", || gate.probe("/metrics").text().contains(age));
    let (code, lines) = of_other_metrics(&gate, move |line| match line.starts_with(age) {
        true => format!("{age}86400"),
        false => line.to_owned(),
    });
    let problem =
        "PROBLEM: issuer the keys of `second` are 24 h old\n  remedy: check that the gate reaches its `jwks_url`\n";
    assert!(code == PROBLEMS && lines.contains(problem), "{code}: {lines}");
}
