//! The command line is a client of the console, and nothing more.

use std::net::TcpListener;
use std::process::Output;

use serde_json::{Value, json};

use super::{PEOPLE, console, in_doubt, operator, swap, token_of};
use crate::support::clock::{upstream_time, wait_until};
use crate::support::gate::sluice;
use crate::support::shape::{examples, operation};
use crate::support::tls::Authority;
use crate::support::{Gate, Setup, Upstream};

fn run(arguments: &[&str], token: Option<&str>) -> (i32, String, String) {
    let mut command = sluice(arguments);
    if let Some(token) = token {
        command.env("SLUICE_TOKEN", token);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn url(gate: &Gate) -> String {
    format!("http://{}", gate.console().unwrap())
}

#[test]
fn money_is_frozen_listed_and_let_go() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let (url, token) = (url(&gate), operator("ops-1"));
    let at = |words: &[&str]| run(&[words, &["--console", &url]].concat(), Some(&token));
    let freeze = ["freeze", "--environment", "production", "--reason", "a drill"];
    let (code, out, _) = at(&freeze);
    assert!(code == 0 && out.starts_with("Frozen: production, all money, since "), "{out}");
    assert!(out.contains("by people/ops-1: a drill"), "{out}");
    let (code, out, _) = at(&freeze);
    assert!(code == 0 && out.starts_with("Already frozen: "), "{out}");
    assert_eq!(swap("f-1").send(gate.production()).code(), "FROZEN");
    assert_eq!(at(&[&freeze[..], &["--caller", "main/test"]].concat()).0, 0);
    let (code, out, _) = at(&["freezes"]);
    assert!(code == 0 && out.lines().count() == 3 && out.contains("caller main/test"), "{out}");
    let (_, out, _) = at(&["freezes", "--output", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["freezes"].as_array().unwrap().len(), 2);
    let (_, out, _) = at(&["freezes", "--output", "csv"]);
    assert!(out.lines().count() == 3 && out.lines().next().unwrap().contains("environment,"), "{out}");
    let unfreeze = ["unfreeze", "--environment", "production", "--reason", "seen it"];
    let second = operator("ops-2");
    let confirm = |words: &[&str]| run(&[words, &["--console", &url]].concat(), Some(&second));
    let (code, out, _) = at(&unfreeze);
    let recorded = "Recorded. It stays frozen until one more person confirms it: production, all money\n";
    assert_eq!((code, out.as_str()), (0, recorded));
    assert!(at(&["freezes"]).1.contains("to be lifted, according to people/ops-1; one more person must confirm it"));
    let (code, out, _) = confirm(&unfreeze);
    let rest = "Unfrozen: production, all money\nStill frozen: production, caller main/test, since ";
    assert!(code == 0 && out.starts_with(rest), "{out}");
    assert!(
        at(&unfreeze).1.starts_with("Not frozen: production, all money\nStill frozen: production, caller main/test, ")
    );
    let not_restored = at(&[&unfreeze[..], &["--restored"]].concat()).1;
    assert!(
        not_restored.starts_with("Not frozen: production, all money, since the store was restored\nStill frozen: ")
    );
    let of_caller = [&unfreeze[..], &["--caller", "main/test"]].concat();
    assert_eq!((at(&of_caller).0, confirm(&of_caller).0), (0, 0));
    assert_eq!(at(&["freezes"]).1, "Nothing is frozen.\n");
}

#[test]
fn calls_in_doubt_are_listed_shown_and_resolved() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let url = url(&gate);
    let at = |words: &[&str], who: &str| run(&[words, &["--console", &url]].concat(), Some(&operator(who)));
    assert_eq!(at(&["requests", "list"], "ops-1").1, "No calls are in state `unknown`.\n");
    in_doubt(&gate, &upstream, "l-1");
    in_doubt(&gate, &upstream, "l-2");
    let (_, out, _) = at(&["requests", "list", "--limit", "1"], "ops-1");
    assert!(out.contains("\nproduction   l-1      unknown  createSwap  main/test  20"), "{out}");
    assert!(
        out.contains("  from 0.000001 usdt, on POLYGON") && out.ends_with("more: --after production:l-1\n"),
        "{out}"
    );
    let (_, out, _) = at(&["requests", "show", "--environment", "production", "l-1"], "ops-1");
    assert!(out.starts_with("production l-1: createSwap by main/test, unknown\n  "), "{out}");
    assert!(out.contains("\n  fingerprint ") && out.contains("\n  sent.") && out.contains("\n  value  "), "{out}");
    let (_, out, _) = at(&["requests", "show", "--environment", "production", "l-1", "--output", "json"], "ops-1");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["state"], "unknown");

    let absent =
        ["requests", "resolve", "l-1", "--environment", "production", "--outcome", "absent", "--reason", "looked"];
    let mut first = String::new();
    wait_until("the time in which upstream may still do it to be over", || {
        let (_, out, err) = at(&absent, "ops-1");
        first = out;
        !err.contains("409 TOO_EARLY")
    });
    assert_eq!(first, "Recorded. The outcome stays unknown until one more person confirms it.\n");
    let (code, _, err) = at(&absent, "ops-1");
    assert!(code == 4 && err.contains("409 TWO_PEOPLE_NEEDED"), "{err}");
    assert_eq!(at(&absent, "ops-2").1, "Resolved as not executed, by two people: the caller may send it again.\n");

    let mut record: Value = serde_json::from_slice(&examples(operation("createSwap"), "answer-good-")[0].1).unwrap();
    record["transferDetails"]["requestId"] = json!("l-2");
    record["transferDetails"]["createdAt"] = json!(upstream_time(0));
    let file = gate.path("record.json");
    std::fs::write(&file, record.to_string()).unwrap();
    let executed =
        ["requests", "resolve", "l-2", "--environment", "production", "--outcome", "executed", "--reason", "r"];
    assert_eq!(at(&executed, "ops-1").0, 2, "it takes a record");
    let with_record = [&executed[..], &["--record", file.to_str().unwrap()]].concat();
    assert!(at(&with_record, "ops-1").1.starts_with("Recorded."));
    assert!(at(&["requests", "list"], "ops-1").1.contains("executed according to people/ops-1"));
    assert_eq!(at(&with_record, "ops-2").1, "Resolved as executed: the caller gets the record from now on.\n");
    assert_eq!(swap("l-2").send(gate.production()).json(), record);
    let (code, _, err) = at(&["requests", "show", "--environment", "production", "a/b"], "ops-1");
    assert!(code == 1 && err.contains("is not a requestId"), "{err}");
}

#[test]
fn what_goes_wrong_is_told_to_the_person_who_reads_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let url = url(&gate);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (nowhere, gate_url) = (format!("http://{free}"), format!("http://{}", gate.production()));
    let viewer = token_of(PEOPLE, "v", &["viewer"]);
    let freeze = |url: &str, token: Option<&str>| {
        run(&["freeze", "--environment", "production", "--reason", "r", "--console", url], token)
    };
    for (result, code, told) in [
        (freeze(&nowhere, Some(&viewer)), 1, "cannot be reached"),
        (freeze("sluice.example", Some(&viewer)), 1, "is not a URL"),
        (freeze(&url, None), 1, "SLUICE_TOKEN"),
        (freeze(&url, Some("a b")), 1, "this is not a token"),
        (freeze(&url, Some("x.y.z")), 4, "remedy: use a token of the console's issuer"),
        (freeze(&url, Some(&viewer)), 4, "needs the role `operator`"),
        (freeze(&gate_url, Some(&viewer)), 4, "name the one of `[console]` with `--console`"),
        (freeze(&upstream.url(), Some(&viewer)), 0, ""),
    ] {
        // The last is no console at all: it is believed, as any server would be that answers so.
        assert!(result.0 == code && result.2.contains(told), "{told}: {result:?}");
        assert!(!result.2.contains(&viewer), "a token is told");
    }
    let (code, _, err) = run(&["freezes", "--console", &url, "--token-file", "/nowhere"], None);
    assert!(code == 1 && err.contains("does not exist; name a file that contains your token"), "{err}");
    let (code, _, err) = run(&["freezes", "--config", "/nowhere.toml"], Some(&viewer));
    assert!(code == 1 && err.contains("--console URL"), "{err}");
    let plain = Setup::of(&upstream);
    let config = plain.write();
    let (code, _, err) = run(&["freezes", "--config", config.to_str().unwrap()], Some(&viewer));
    assert!(code == 1 && err.contains("has no `[console]`"), "{err}");
}

/// The shell has arguments; what the console says of JSON is for programs.
#[test]
fn an_argument_that_cannot_be_used_is_named_as_it_is_typed() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let (url, token) = (url(&gate), token_of(PEOPLE, "ops-1", &["viewer", "operator"]));
    let freeze = ["freeze", "--environment", "production", "--reason", "r", "--operation", "createOffram"];
    for (words, code, told) in [
        (
            &["payments", "list", "--from", "2026-13-01"][..],
            2,
            "for '--from <YYYY-MM-DD|TIME>': expected a day such as",
        ),
        (&["payments", "list", "--amount-from", "1e3"], 2, "without a currency: it has an exponent"),
        (
            &["payments", "statement", "--day", "2026-02-30"],
            2,
            "'--day <YYYY-MM-DD>': expected a day such as 2026-11-20",
        ),
        (&["payments", "statement", "--day", "2026-11-30", "--zone", "Mars/X"], 2, "the IANA time zone database"),
        (&freeze, 4, "these arguments cannot be used:\n  `--operation`: the id of a write operation"),
        (&["payments", "list", "--until", "2026-11-01", "--from", "2026-11-30"], 4, "  `--until`: a time after"),
    ] {
        let (found, _, err) = run(&[words, &["--console", &url]].concat(), Some(&token));
        assert!(found == code && err.contains(told), "{words:?}: {found}: {err}");
        assert!(!err.contains("details.violations"), "{err}");
    }
    let statement = ["payments", "statement", "--console", &url, "--day"];
    let (code, out, _) = run(&[&statement[..], &["2100-02-28"]].concat(), Some(&token));
    assert_eq!((code, out.as_str()), (0, "This day has not begun.\n"));
    let (code, out, _) = run(&[&statement[..], &["2026-01-01"]].concat(), Some(&token));
    assert!(code == 0 && out.starts_with("No payment was sent or ended on this day, and none was open.\n"), "{out}");
}

#[test]
fn the_console_is_found_by_its_configuration_behind_tls() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let own = authority.certify(&["127.0.0.1", "localhost"]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gate = console(Setup::of(&upstream))
        .file("cert.pem", &own.certificate)
        .file("key.pem", &own.key)
        .file("ca.pem", &authority.pem())
        .file("my.token", &format!("{}\n", operator("ops-1")))
        .set("console", "listen", &free.to_string())
        .set("console", "tls_certificate", "cert.pem")
        .set_raw("console", "tls_key", r#"{ file = "key.pem" }"#)
        .start();
    let path = |name: &str| gate.path(name).to_str().unwrap().to_owned();
    let (config, token, ca) = (path("sluice.toml"), path("my.token"), path("ca.pem"));
    let words = ["freezes", "--config", &config, "--token-file", &token];
    let (code, out, err) = run(&[&words[..], &["--ca", &ca]].concat(), None);
    assert_eq!((code, out.as_str()), (0, "Nothing is frozen.\n"), "{err}");
    let (code, _, err) = run(&words, None);
    assert!(code == 1 && err.contains("--ca"), "{err}");
}
