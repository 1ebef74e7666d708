//! A freeze works when other things do not, and says when it may have missed.

use std::fs;
use std::net::TcpListener;

use super::{console, operator, swap};
use crate::support::gate::sluice;
use crate::support::{Setup, Upstream, token};

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = sluice(arguments).env("SLUICE_TOKEN", operator("ops-1")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const FREEZE: [&str; 5] = ["freeze", "--environment", "production", "--reason", "a drill"];

#[test]
fn a_freeze_needs_nothing_of_the_configuration_but_the_console() {
    let upstream = Upstream::start();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gate = console(Setup::of(&upstream)).set("console", "listen", &free.to_string()).start();
    let whole = fs::read_to_string(gate.path("sluice.toml")).unwrap();
    let file = gate.path("other.toml");
    let with = |text: &str, words: &[&str]| {
        fs::write(&file, text).unwrap();
        run(&[words, &["--config", file.to_str().unwrap()]].concat())
    };
    let faulty = format!("{whole}\n[webhooks]\nurl = 1\n\n[issuer.third]\njwks_file = \"/nowhere/keys.json\"\n");
    let (code, out, err) = with(&faulty, &FREEZE);
    assert!(code == 0 && out.starts_with("Frozen: production, all money") && err.is_empty(), "{code} {out} {err}");
    for words in [&["freezes"][..], &["approvals", "list"], &["requests", "list"]] {
        let (code, _, err) = with(&faulty, words);
        assert!(code == 0 && err.is_empty(), "{words:?} {code} {err}");
    }
    // Only the fault that prevents it is told.
    let elsewhere = faulty.replace(&format!("\"{free}\""), "\"somewhere\"");
    let (code, _, err) = with(&elsewhere, &FREEZE);
    assert!(code == 1 && err.contains("`console.listen` is no address") && !err.contains("webhooks"), "{code} {err}");
    let (code, _, err) = with("[console\n", &FREEZE);
    assert!(code == 1 && err.contains("not valid TOML") && err.contains("--console URL"), "{code} {err}");
}

#[test]
fn who_freezes_a_caller_learns_whether_any_call_of_it_is_known() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(swap("known").send(gate.production()).status, 200);
    let url = format!("http://{}", gate.console().unwrap());
    let of = |caller: &str| run(&[&FREEZE[..], &["--caller", caller, "--console", &url]].concat());
    let spelt = "letters.\nOther spellings of this name are not frozen by it: main/test.\n";
    for (mistake, told) in [("main/tset", " Known callers: main/test.\n"), ("main/TEST", spelt)] {
        let (code, out, _) = of(mistake);
        let frozen = format!("Frozen: production, caller {mistake}, since ");
        assert!(code == 0 && out.starts_with(&frozen), "{out}");
        assert!(
            out.contains("\nNo call of this caller is known: check the name, with the case of its letters."),
            "{out}"
        );
        assert!(out.ends_with(told), "{out}");
        assert_eq!(swap(mistake.rsplit('/').next().unwrap()).send(gate.production()).status, 200);
    }
    let mut claims = token::claims();
    for (id, subject, status) in [("a", "Test", 200), ("b", "\u{ff54}est ", 200), ("c", "TEST", 503)] {
        claims["sub"] = subject.into();
        let call = swap(id).without("authorization");
        let call = call.header("Authorization", format!("Bearer {}", token::signed(&claims)));
        assert_eq!(call.send(gate.production()).status, status, "{subject}");
    }
    // A known caller goes on under the other spellings of its name.
    let (code, out, _) = of("main/test");
    assert!(
        code == 0 && out.starts_with("Frozen: production, caller main/test, ") && !out.contains("No call"),
        "{out}"
    );
    let spelt = "\nOther spellings of this name are not frozen by it: main/Test, main/\u{ff54}est .\n";
    assert!(out.ends_with(spelt), "{out}");
    assert_eq!(swap("frozen").send(gate.production()).code(), "FROZEN");
    let unfreeze = ["unfreeze", "--environment", "production", "--reason", "seen it", "--console", &url];
    let (_, out, _) = run(&unfreeze);
    assert!(out.starts_with("Not frozen: production, all money\nStill frozen: production, caller main/"), "{out}");
    assert_eq!(out.lines().count(), 4, "{out}");
}
