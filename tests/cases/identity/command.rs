//! `sluice token`: keys and tokens to try things with, on this machine alone.

use std::path::Path;
use std::process::Output;

use super::second;
use super::watched::Watched;
use crate::support::gate::sluice;
use crate::support::{Setup, Upstream};

fn said(output: &Output) -> (Option<i32>, String) {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    said(&sluice(arguments).output().unwrap())
}

fn made(config: &Path, more: &[&str]) -> String {
    let arguments = [&["token", "make", "--config", config.to_str().unwrap()], more].concat();
    let (code, text) = run(&arguments);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.trim().split('.').count(), 3, "{text}");
    text.trim().to_owned()
}

#[test]
fn a_token_for_what_init_wrote_passes_such_a_gate() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("sluice.toml");
    let (code, text) = run(&["init", "--to", config.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    let token = made(&config, &["--subject", "ada", "--lifetime-secs", "60"]);

    let upstream = Upstream::start();
    let secret = std::fs::read_to_string(folder.path().join("token.secret")).unwrap();
    let setup = second(Setup::of(&upstream), "HS256").set("issuer.second", "issuer", "sluice-token");
    let setup = setup.file("token.secret", &secret);
    let gate = Watched::start(setup.set_raw("issuer.second", "shared_secret", r#"{ file = "token.secret" }"#));
    gate.hides(secret.trim());
    gate.assert_passes(&token);
    gate.assert_silent();
}

#[test]
fn a_token_of_keys_that_it_made_passes_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let (code, text) = run(&["token", "keys", "--folder", place]);
    assert_eq!(code, Some(0), "{text}");
    let key = folder.path().join("signing-key.pem");
    assert!(!text.contains("BEGIN"), "{text}");
    // An existing key is never overwritten.
    let before = std::fs::read(&key).unwrap();
    let (code, text) = run(&["token", "keys", "--folder", place]);
    assert!(code == Some(1) && text.contains("never overwritten"), "{text}");
    assert_eq!(std::fs::read(&key).unwrap(), before);

    let upstream = Upstream::start();
    let set = std::fs::read_to_string(folder.path().join("jwks.json")).unwrap();
    let setup = second(Setup::of(&upstream), "EdDSA").file("jwks.json", &set);
    let setup = setup.set("issuer.second", "jwks_file", "jwks.json").set("issuer.second", "roles", "realm.roles");
    let setup = setup.set_raw("issuer.second", "required", r#"["client_id"]"#);
    let gate = Watched::start(setup);
    let more = ["--issuer", "second", "--key", key.to_str().unwrap(), "--role", "payroll", "--requester", "ada"];
    gate.assert_passes(&made(&gate.path("sluice.toml"), &more));
    gate.assert_passes(&made(&gate.path("sluice.toml"), &["--issuer", "main"]));
    gate.assert_silent();
}

#[test]
fn where_anything_is_not_on_this_machine_none_is_made() {
    let elsewhere = "https://api.example.com";
    let here = || Setup::new().environment("production", "http://127.0.0.1:9");
    let secret = crate::support::token::SECRET;
    for (what, setup) in [
        ("an upstream", Setup::new().environment("production", elsewhere)),
        ("sandbox's upstream", here().environment("sandbox", elsewhere)),
        ("a listener", here().set("production", "listen", "0.0.0.0:0")),
        ("the probes", here().set("probes", "listen", "0.0.0.0:0")),
        ("an address of the network", Setup::new().environment("production", "https://192.168.1.7")),
    ] {
        let setup = setup.set_raw("store", "allow_plain", "true");
        let config = setup.write();
        let (code, text) = run(&["token", "make", "--config", config.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{what}: {text}");
        assert!(text.contains("on this machine"), "{what}: {text}");
        assert!(!text.contains("eyJ") && !text.contains(secret), "{what}: {text}");
    }
    made(&here().write(), &[]);
}

#[test]
fn what_cannot_be_made_is_said_with_what_to_do() {
    let upstream = Upstream::start();
    let setup = second(Setup::of(&upstream), "EdDSA").set("issuer.second", "jwks_url", "http://127.0.0.1:9/keys");
    let config = setup.write();
    for (more, told) in [
        (&[][..], "--issuer"),
        (&["--issuer", "third"], "the configuration has no issuer `third`"),
        (&["--issuer", "second"], "--key"),
        (&["--issuer", "main", "--key", "x.pem"], "leave `--key` out"),
        (&["--issuer", "main", "--role", "r"], "`roles`"),
        (&["--issuer", "main", "--lifetime-secs", "86401"], "86400"),
        (&["--issuer", "main", "--lifetime-secs", "0"], "86400"),
    ] {
        let (code, text) = run(&[&["token", "make", "--config", config.to_str().unwrap()], more].concat());
        assert!(code == Some(1) && text.contains(told), "{more:?}: {text}");
    }
    for more in
        [["--subject", ""], ["--subject", " "], ["--subject", "a\u{200b}b"], ["--requester", ""], ["--role", ""]]
    {
        let (code, text) = run(&[&["token", "make", "--config", config.to_str().unwrap()], &more[..]].concat());
        assert!(code == Some(2) && text.contains("every gate refuses a token with this name"), "{more:?}: {text}");
    }
}
