//! The command line: what is wrong is said, with an exit code that a script can read.

use std::fs;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Output;

use crate::support::gate::sluice;
use crate::support::{Gate, Setup, Upstream};

fn run(arguments: &[&str]) -> Output {
    sluice(arguments).output().unwrap()
}

/// Everything that was said, and the exit code.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn help_lists_every_command() {
    let (code, text) = said(&run(&["--help"]));
    assert_eq!(code, Some(0));
    for command in ["serve", "check", "init", "simulate", "demo", "audit", "policy"] {
        assert!(text.contains(&format!("\n  {command} ")), "{command}: {text}");
        assert_eq!(run(&[command, "--help"]).status.code(), Some(0), "{command}");
    }
    let told = text.split("Exit codes:\n").nth(1).unwrap().lines();
    let codes: Vec<u8> = told.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "{text}");
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["srve"]).status.code(), Some(2));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

#[test]
fn what_init_writes_passes_check_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluice.toml");
    let file = file.to_str().unwrap();
    let (code, text) = said(&run(&["init", "--to", file]));
    assert!(code == Some(0) && text.contains("sluice check"), "{text}");
    let (code, text) = said(&run(&["check", "--config", file]));
    assert!(code == Some(0) && text.contains("0 errors"), "{text}");
    let (code, text) = said(&run(&["init", "--to", file]));
    assert!(code == Some(1) && text.contains("--force"), "{text}");
    assert_eq!(run(&["init", "--to", file, "--force"]).status.code(), Some(0));
}

#[test]
fn check_tells_all_that_is_wrong_with_its_place() {
    let upstream = Upstream::start();
    let faulty = Setup::of(&upstream).set("production", "upstrem", "x").set_raw("limits", "body_bytes", "\"many\"");
    let file = faulty.write();
    let (code, text) = said(&run(&["check", "--config", file.to_str().unwrap()]));
    assert_eq!(code, Some(3), "{text}");
    for told in ["`upstream`", "body_bytes", "sluice.toml:", "2 errors"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    let (code, text) = said(&run(&["check", "--output", "json", "--config", file.to_str().unwrap()]));
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["errors"]), (Some(3), &2.into()));
    let (code, text) = said(&run(&["serve", "--config", file.to_str().unwrap()]));
    assert!(code == Some(3) && text.contains("body_bytes"), "{text}");
    let (code, text) = said(&run(&["check", "--config", "/nowhere/sluice.toml"]));
    assert!(code == Some(3) && text.contains("sluice init"), "{text}");
}

#[test]
fn check_holds_a_contract_to_completeness() {
    let schemas = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas");
    let (code, text) = said(&run(&["check", "--schemas", schemas]));
    assert!(code == Some(0) && text.contains("0 errors"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(schemas).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let (code, text) = said(&run(&["check", "--schemas", folder.path().to_str().unwrap()]));
    assert!(code == Some(3) && text.contains("examples"), "{text}");
}

#[test]
fn check_names_every_insecure_combination_and_for_production_they_are_errors() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    fs::create_dir(setup.path("sluice-audit")).unwrap();
    let setup = setup
        .set("production", "listen", "0.0.0.0:0")
        .set("probes", "listen", "0.0.0.0:0")
        .set("issuer.main", "roles", "roles")
        .set("console", "listen", "127.0.0.1:0")
        .set("console", "issuer", "main")
        .file("sluice-audit/operands.key", &"k".repeat(64))
        .set_raw("audit", "operand_key", r#"{ file = "sluice-audit/operands.key" }"#)
        .file("token", "a-token-of-upstream")
        .set_raw("production", "credential", r#"{ file = "token" }"#);
    let file = setup.write();
    let modes = [
        ("", 0o755),
        ("policies", 0o777),
        ("policies/everything.toml", 0o666),
        ("token", 0o644),
        ("sluice-audit/operands.key", 0o600),
        ("sluice.toml", 0o644),
    ];
    for (name, mode) in modes {
        fs::set_permissions(setup.path(name), Permissions::from_mode(mode)).unwrap();
    }
    let (code, text) = said(&run(&["check", "--config", file.to_str().unwrap()]));
    assert!(code == Some(0) && text.contains("0 errors, "), "{text}");
    let told = [
        "`production.listen` speaks plain HTTP",
        "`probes.listen` is every address",
        "`audit.checkpoint_key` is not set",
        "`store.seal_key` is not set",
        "`console.issuer`: `[issuer.main]` is the issuer of callers, too",
        "`issuer.main.shared_secret` is a secret in plain text",
        "`issuer.main.shared_secret`: whoever has the secret",
        "`loosening` is `free`",
        "operands.key: it contains a secret and lies in `audit.folder`",
        "policies: every user of this machine can change it",
        "everything.toml: every user of this machine can change it",
        "token: it contains a secret, and every user",
        "sluice.toml: it contains a secret, and every user",
    ];
    for told in told {
        assert!(text.contains(told), "{told}: {text}");
    }
    // The rules have no tests: odd, but not insecure.
    assert!(text.contains(&format!("{} warnings", told.len() + 1)), "{text}");
    let (code, text) = said(&run(&["check", "--production", "--config", file.to_str().unwrap()]));
    assert!(code == Some(3) && text.contains(&format!("{} errors, 1 warning", told.len())), "{text}");

    // What others cannot reach, they cannot read.
    fs::set_permissions(setup.path(""), Permissions::from_mode(0o700)).unwrap();
    let (_, text) = said(&run(&["check", "--config", file.to_str().unwrap()]));
    assert!(!text.contains("every user of this machine"), "{text}");
}

/// What a check of a gate that moves real money says of its folders.
fn checked(setup: Setup, more: &[&str]) -> (Option<i32>, String) {
    let setup = setup.set("production", "upstream", "https://api.example.com");
    let setup = setup.set("store", "seal_key", &"5e6f".repeat(16));
    let file = setup.write();
    said(&run(&[&["check", "--config", file.to_str().unwrap()], more].concat()))
}

#[test]
fn check_names_folders_in_which_what_was_paid_is_not_safe() {
    let among = "and the folder of policies are the same, or one lies in the other";
    let in_memory = "lies in memory: a start of the machine loses what was paid";
    let upstream = Upstream::start();
    for folder in ["policies", "policies/audit", "."] {
        let (code, text) = checked(Setup::of(&upstream).set("audit", "folder", folder), &["--production"]);
        assert!(code == Some(3) && text.contains(&format!("`audit.folder` {among}")), "{folder}: {text}");
    }
    let (_, text) = checked(Setup::of(&upstream).set("store", "folder", "policies"), &[]);
    assert!(text.contains(&format!("`store.folder` {among}")), "{text}");
    let (_, text) = checked(Setup::of(&upstream).set("audit", "folder", "policies-audit"), &[]);
    assert!(!text.contains(among), "{text}");
    // Linux has these folders in memory.
    for folder in ["/dev/shm", "/proc"] {
        let folder = format!("{folder}/sluice-{}", std::process::id());
        for setting in ["store", "audit"] {
            let (code, text) = checked(Setup::of(&upstream).set(setting, "folder", &folder), &["--production"]);
            let told = format!("{folder}: it is `{setting}.folder`, and {in_memory}");
            assert!(code == Some(3) && text.contains(&told), "{text}");
        }
    }
}

#[test]
fn check_names_secrets_that_are_none_and_a_gate_at_which_nobody_can_act() {
    let upstream = Upstream::start();
    let with = |token: &str, other: &str| {
        let setup = Setup::of(&upstream).file("token", token).file("operands", other);
        let setup = setup.set_raw("production", "credential", r#"{ file = "token" }"#);
        checked(setup.set_raw("audit", "operand_key", r#"{ file = "operands" }"#), &["--production"])
    };
    let (own, other) = ("k".repeat(64), "m".repeat(64));
    let (code, text) = with("put-here-the-token-that-upstream-gave-you\n", &own);
    assert!(code == Some(3) && text.contains("token: it has the placeholder that `sluice init` wrote"), "{text}");
    let (code, text) = with(&own, &own);
    assert!(code == Some(3) && text.contains("operands: it has the same secret as "), "{text}");
    let (_, text) = with(&own, &other);
    assert!(!text.contains("placeholder") && !text.contains("the same secret"), "{text}");
    assert!(text.contains("warning: ") && text.contains("there is no `[console]`: nobody can approve"), "{text}");
}

#[test]
fn check_names_folders_that_others_can_write_and_keys_that_a_group_can_read() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    let data = setup.path("sluice-audit/data");
    fs::create_dir_all(&data).unwrap();
    let setup = setup.set("store", "folder", data.to_str().unwrap()).file("token", "a-token-of-upstream").set_raw(
        "production",
        "credential",
        r#"{ file = "token" }"#,
    );
    let file = setup.write();
    // The group of whoever checks is the gate's own; only root gives a file to another.
    let group = rustix::process::getegid().as_raw() + 1;
    let is_given = [setup.path("token"), data.clone()].iter().all(|path| chown(path, None, Some(group)).is_ok());
    let modes = [("", 0o755), ("sluice-audit", 0o777), ("sluice-audit/data", 0o770), ("token", 0o640)];
    for (name, mode) in modes {
        fs::set_permissions(setup.path(name), Permissions::from_mode(mode)).unwrap();
    }
    let of_group = [
        "token: it contains a secret, and every user of its group can read it",
        "data: it is `store.folder`, and every user of its group can remove",
    ];
    let mut told = vec![
        "sluice-audit: it is `audit.folder`, and every user of this machine can remove",
        "data: `store.folder` lies in `audit.folder`",
    ];
    told.extend(of_group.iter().filter(|_| is_given));
    let (code, text) = said(&run(&["check", "--production", "--config", file.to_str().unwrap()]));
    assert_eq!(code, Some(3), "{text}");
    for told in told {
        assert!(text.lines().any(|line| line.contains(told) && line.contains("error")), "{told}: {text}");
    }
    let own = rustix::process::getegid().as_raw();
    for (name, mode) in [("sluice-audit", 0o700), ("sluice-audit/data", 0o770), ("token", 0o640)] {
        drop(chown(setup.path(name), None, Some(own)));
        fs::set_permissions(setup.path(name), Permissions::from_mode(mode)).unwrap();
    }
    let (_, text) = said(&run(&["check", "--production", "--config", file.to_str().unwrap()]));
    assert!(!text.contains("every user of its group") && !text.contains("can remove or replace"), "{text}");
}

/// The program with its output into a pipe that nobody reads.
#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    for arguments in [&["operations"][..], &["policy", "fields"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = sluice(arguments).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]), "{arguments:?}");
    }
}

#[test]
fn examples_completions_and_man_pages_are_there_for_every_command() {
    let (code, text) = said(&run(&["approvals", "approve", "--help"]));
    assert!(code == Some(0) && text.contains("Examples:\n  sluice approvals approve "), "{text}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, text) = said(&run(&["completions", shell]));
        assert!(code == Some(0) && text.contains("approvals") && text.contains("check-export"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = said(&run(&["man", "--folder", folder.path().to_str().unwrap()]));
    assert!(code == Some(0) && text.contains("pages written"), "{text}");
    let page = fs::read_to_string(folder.path().join("sluice-approvals-approve.1")).unwrap();
    assert!(page.contains("sluice approvals approve") && page.contains("invoice 4711"), "{page}");
    assert!(folder.path().join("sluice.1").exists());
}

#[test]
fn every_list_has_the_same_forms() {
    let (code, text) = said(&run(&["check", "--output", "csv", "--config", "/nowhere.toml"]));
    assert!(code == Some(3) && text.starts_with("example,file,"), "{text}");
    let (_, text) = said(&run(&["check", "--output", "lines"]));
    assert!(text.contains("table, json, csv"), "{text}");
}

#[test]
fn check_names_settings_that_let_money_go_another_way() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream)
        .sandbox(&upstream)
        .set("redis", "url", "redis://redis.example:6379/0")
        .set_raw("redis", "allow_unsafe", "true")
        .set_raw("audit", "production_bytes", "0")
        .set("telemetry", "otlp", "http://collector.example:4318")
        .set("store", "kind", "redis")
        .set("store", "node", "gate-1");
    let file = setup.write();
    let (_, text) = said(&run(&["check", "--production", "--config", file.to_str().unwrap()]));
    for told in [
        "error: ",
        "`production.credential` is not set",
        "`sandbox.upstream` and `production.upstream` are the same",
        "`redis.allow_unsafe`: a Redis that may evict",
        "`audit.production_bytes` is 0",
        "`telemetry.otlp` is plain HTTP to another machine",
        "`redis.url` is without TLS to another machine",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("warning: ") || !text.contains("without TLS to another machine\nwarning"), "{text}");
}

/// One issuer may be that of many services.
#[test]
fn check_recommends_prefixes_where_the_rules_let_several_callers_pay() {
    let upstream = Upstream::start();
    let rule = |callers: &str| {
        format!("[[rule]]\nid = \"pays\"\neffect = \"allow\"\nwhen = {{ op = [\"createSwap\"], caller = {callers} }}\n")
    };
    let checked = |setup: Setup| said(&run(&["check", "--config", setup.write().to_str().unwrap()])).1;
    let with = |callers: &str| Setup::of(&upstream).file("policies/everything.toml", &rule(callers));
    let several = r#"["main:payroll", "main:treasury"]"#;
    let told = "the rules let 2 callers pay, and `main:treasury` has no prefix of requestIds of its own";
    let payroll = r#"["main:payroll=pay-"]"#;
    let text = checked(with(several).set_raw("", "request_id_prefixes", payroll));
    assert!(text.contains(told) && text.contains("give each caller that pays its own prefix"), "{text}");
    let shared = checked(with(several).set_raw("", "request_id_prefixes", r#"["main=m-"]"#));
    assert!(shared.contains("`main:payroll` has no prefix of requestIds of its own"), "{shared}");
    let each = with(several).set_raw("", "request_id_prefixes", r#"["main:payroll=pay-", "main:treasury=tre-"]"#);
    let roles = |roles: &str| {
        let rule = rule(r#""x""#).replace(r#"caller = "x""#, &format!("role = {roles}"));
        Setup::of(&upstream).file("policies/everything.toml", &rule)
    };
    let text = checked(roles(r#"["payouts", "suppliers"]"#));
    assert!(text.contains("the rules let callers of 2 roles pay, and nobody has a prefix of requestIds"), "{text}");
    let prefixed = roles(r#"["payouts", "suppliers"]"#).set_raw("", "request_id_prefixes", payroll);
    for setup in [with(r#""main:payroll""#), each, roles(r#""payouts""#), prefixed] {
        let text = checked(setup);
        assert!(!text.contains("no prefix of requestIds"), "{text}");
    }
}

#[test]
fn an_unknown_variable_is_refused_with_the_nearest_name() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    let file = setup.write();
    for command in ["check", "serve"] {
        let mut run = sluice(&[command, "--config", file.to_str().unwrap()]);
        let (code, text) = said(&run.env("SLUICE_PRODUCTION_LISTN", "127.0.0.1:0").output().unwrap());
        assert_eq!(code, Some(3), "{command}: {text}");
        assert!(text.contains("SLUICE_PRODUCTION_LISTN") && text.contains("SLUICE_PRODUCTION_LISTEN"), "{text}");
    }
    let mut check = sluice(&["check", "--config", file.to_str().unwrap()]);
    let (code, text) = said(&check.env("SLUICE_LISTN", "x").output().unwrap());
    assert!(code == Some(3) && text.contains("SLUICE_LISTN"), "{text}");
}

#[test]
fn a_variable_goes_before_the_file() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    let file = setup.write();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut serve = sluice(&["serve"]);
    serve.env("SLUICE_CONFIG", &file).env("SLUICE_PRODUCTION_LISTEN", &address);
    let (code, text) = said(&serve.output().unwrap());
    assert!(code == Some(1) && text.contains(&address), "{text}");
}

#[test]
fn a_taken_port_ends_the_process_at_once() {
    let upstream = Upstream::start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for section in ["production", "probes"] {
        let gate = Gate::spawn(Setup::of(&upstream).set(section, "listen", &address));
        assert_eq!(gate.wait_end().code(), Some(1));
        for told in [address.as_str(), section, "set another address"] {
            assert!(gate.stderr().contains(told), "{told}: {}", gate.stderr());
        }
        assert!(!gate.log.all().iter().any(|line| line["message"] == "listening for callers"));
    }
}
