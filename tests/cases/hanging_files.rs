//! Files that a gate reads again and again, and that are none: pipes, devices, endless files and folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::claims::{swap, told};
use crate::support::clock::{Watch, wait_until};
use crate::support::gate::{EVERYTHING, sluice};
use crate::support::{Gate, Setup, Upstream};

const FAULTY: &str = "sluice_reload_faulty";
const REFUSED: &str = "the new configuration or policies have errors; those in use stay";

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn endless(path: &Path) {
    symlink("/dev/zero", path).unwrap();
}

fn large(path: &Path) {
    fs::File::create(path).unwrap().set_len(3 << 30).unwrap();
}

/// How a file is put there, and what the gate says of it.
type Trap = (fn(&Path), &'static str);

const TRAPS: [Trap; 3] = [
    (pipe, "this is not a regular file"),
    (endless, "this is not a regular file"),
    (large, "it is larger than 16 MiB"),
];

/// Policies take force as if nothing had been there.
fn reloads(gate: &Gate, at: usize) {
    let rules =
        format!("{EVERYTHING}\n[[rule]]\nid = \"more-{at}\"\neffect = \"deny\"\nwhen = {{ op = \"createOfframp\" }}\n");
    fs::write(gate.path("policies/everything.toml"), rules).unwrap();
    let message = "policies came into force";
    wait_until("the policies to take force", || {
        gate.log.all().iter().filter(|line| line["message"] == message).count() >= at + 2
    });
    assert_eq!(gate.metric(FAULTY), 0);
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
}

#[test]
fn whatever_stands_among_the_policies_reloads_go_on() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for (at, (put, why)) in TRAPS.into_iter().enumerate() {
        let trap = gate.path("policies/x.toml");
        put(&trap);
        wait_until("the fault to be told", || gate.metric(FAULTY) == 1);
        wait_until("the fault to be logged", || {
            let lines = gate.log.all();
            lines.iter().any(|line| line.to_string().contains(why))
                && lines.iter().any(|line| line["message"] == REFUSED)
        });
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        fs::remove_file(trap).unwrap();
        reloads(&gate, at);
    }
}

fn ends_soon(arguments: &[&str], setup: &Setup) -> String {
    let file = setup.write();
    let watch = Watch::start();
    let output = sluice(&[arguments, &["--config", file.to_str().unwrap()]].concat()).output().unwrap();
    assert!(watch.elapsed() < Duration::from_secs(20), "{arguments:?}");
    assert!(output.status.code().is_some_and(|code| code == 3), "{arguments:?}: {:?}", output.status);
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn a_start_and_a_check_name_what_is_no_file() {
    let upstream = Upstream::start();
    for (put, why) in TRAPS {
        let setup = Setup::of(&upstream);
        setup.write();
        put(&setup.path("policies/x.toml"));
        for command in ["check", "serve"] {
            let text = ends_soon(&[command], &setup);
            assert!(text.contains(why) && text.contains("x.toml"), "{command}: {text}");
        }
        let setup = Setup::of(&upstream).set_raw("store", "seal_key", "{ file = \"seal.key\" }");
        setup.write();
        put(&setup.path("seal.key"));
        let text = ends_soon(&["check"], &setup);
        assert!(text.contains(why) && text.contains("seal.key"), "{text}");
    }
}

#[test]
fn a_contract_whose_folders_lead_back_to_themselves_is_read_once() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).set_raw("catalog", "schemas", "\"schemas\"");
    setup.write();
    let schemas = setup.path("schemas");
    crate::support::copy_folder(Path::new("schemas"), &schemas);
    symlink(".", schemas.join("a")).unwrap();
    symlink(".", schemas.join("b")).unwrap();
    let gate = setup.start();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    let setup = gate.end();
    pipe(&schemas.join("pipe.json"));
    let text = ends_soon(&["check"], &setup);
    assert!(text.contains("pipe.json") && text.contains("not a regular file"), "{text}");
}

#[test]
fn what_is_no_file_among_the_audit_files_is_named() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    let setup = gate.end();
    let audit = setup.path("sluice-audit");
    let verify = |name: &str| {
        let watch = Watch::start();
        let output = sluice(&["audit", "verify", audit.to_str().unwrap()]).output().unwrap();
        assert!(watch.elapsed() < Duration::from_secs(20), "{name}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success() && text.contains(name) && text.contains("not a regular file"), "{text}");
    };
    let mut setup = setup;
    for put in [pipe as fn(&Path), endless, |path: &Path| fs::create_dir(path).unwrap()] {
        for name in ["audit-gate-00000002.jsonl", "audit-gate.checkpoints.jsonl"] {
            let trap = audit.join(name);
            put(&trap);
            verify(name);
            let gate = Gate::spawn(setup);
            assert!(!gate.wait_end().success(), "{name}");
            let said = gate.stderr();
            assert!(said.contains("not a regular file"), "{name}: {said}");
            setup = gate.kill();
            let is_folder = fs::symlink_metadata(&trap).unwrap().is_dir();
            if is_folder { fs::remove_dir(trap).unwrap() } else { fs::remove_file(trap).unwrap() }
        }
    }
    // The note of how far the journal reached lies beside the store.
    let note = setup.path("sluice-data/journal-reach.json");
    fs::remove_file(&note).unwrap();
    fs::create_dir(&note).unwrap();
    let gate = Gate::spawn(setup);
    assert!(!gate.wait_end().success());
    let said = gate.stderr();
    assert!(said.contains("journal-reach.json`: this is not a regular file"), "{said}");
}

#[test]
fn a_record_that_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (put, why) in TRAPS {
        let file = folder.path().join("record.json");
        put(&file);
        let watch = Watch::start();
        let resolve =
            ["requests", "resolve", "r-1", "--environment", "production", "--outcome", "executed", "--record"];
        let more = [file.to_str().unwrap(), "--reason", "r", "--console", "http://127.0.0.1:1"];
        let output = sluice(&[&resolve[..], &more].concat()).output().unwrap();
        assert!(watch.elapsed() < Duration::from_secs(20), "{why}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains(why) && text.contains("record.json"), "{text}");
        fs::remove_file(file).unwrap();
    }
}

/// What a command says that ends soon, and fails.
fn fails_soon(arguments: &[&str]) -> String {
    let watch = Watch::start();
    let output = sluice(arguments).env_remove("SLUICE_TOKEN").output().unwrap();
    assert!(watch.elapsed() < Duration::from_secs(20) && !output.status.success(), "{arguments:?}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Keys, certificates, tokens, exports and receipts that arguments name: commands with `TRAP` in the place of one, and
/// whether they read it whole.
const NAMING: [(&[&str], bool); 14] = [
    (&["token", "make", "--config", "CONFIG", "--issuer", "keys", "--key", "TRAP"], true),
    (&["freezes", "--console", "http://127.0.0.1:1", "--token-file", "TRAP"], true),
    (&["freezes", "--console", "https://127.0.0.1:1", "--token-file", "FILE", "--ca", "TRAP"], true),
    (&["audit", "verify", "AUDIT", "--public-key", "TRAP"], true),
    (&["audit", "verify", "AUDIT", "--checkpoints", "TRAP"], false),
    (&["audit", "check-receipt", "TRAP", "--public-key", "FILE"], true),
    (&["audit", "check-export", "FILE", "--digest", "TRAP"], true),
    (&["audit", "check-export", "TRAP", "--digest", "DIGEST"], false),
    (&["payments", "verify", "TRAP"], true),
    (&["recovery", "hand-in", "TRAP", "--reason", "r", "--console", "http://127.0.0.1:1"], true),
    (&["passkeys", "enrol", "POLICIES", "--table", "TRAP"], true),
    (&["witness", "--name", "w.example", "--key", "TRAP", "--show-key"], true),
    (&["witness", "--name", "w.example", "--key", "KEY", "--log-key", "TRAP"], true),
    (&["store", "import", "--folder", "STORE", "--input", "TRAP"], false),
];

#[test]
fn what_an_argument_names_and_is_no_file_is_refused() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream)
        .set("issuer.keys", "issuer", "k")
        .set_raw("issuer.keys", "audience", "[\"a\"]")
        .set_raw("issuer.keys", "environments", "[\"production\"]")
        .set_raw("issuer.keys", "algorithms", "[\"EdDSA\"]")
        .set("issuer.keys", "jwks_file", "jwks.json")
        .file("a.file", "a-token")
        .file("a.digest", r#"{"format":1,"entries":0,"bytes":0,"sha256":"0"}"#);
    let keys = sluice(&["token", "keys"]).current_dir(setup.path("")).output().unwrap();
    assert!(keys.status.success(), "{keys:?}");
    let gate = setup.start();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    let setup = gate.end();
    assert!(sluice(&["audit", "key", setup.path("key.pem").to_str().unwrap()]).output().unwrap().status.success());
    let places = [
        ("CONFIG", "sluice.toml"),
        ("FILE", "a.file"),
        ("AUDIT", "sluice-audit"),
        ("DIGEST", "a.digest"),
        ("POLICIES", "policies"),
        ("KEY", "key.pem"),
        ("STORE", "a-store"),
        ("TRAP", "trap"),
    ];
    let place = |word: &&str| match places.iter().find(|(name, _)| name == word) {
        Some((_, name)) => setup.path(name).to_str().unwrap().to_owned(),
        None => (*word).to_owned(),
    };
    for (put, why) in TRAPS {
        put(&setup.path("trap"));
        for (command, is_read_whole) in NAMING {
            if why.contains("larger") && !is_read_whole {
                continue;
            }
            let arguments: Vec<String> = command.iter().map(place).collect();
            let said = fails_soon(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(said.contains("trap") && said.contains(why), "{command:?}: {said}");
        }
        fs::remove_file(setup.path("trap")).unwrap();
    }
}
