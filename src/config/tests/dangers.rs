//! Settings that are valid, and with which money or secrets are in danger.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::base::ed25519;
use crate::base::finding::Severity;

fn warned(text: &str, key: &str) -> Vec<String> {
    let reading = read_in(text, &[("seal.key", key)], &[]).unwrap();
    reading.warnings.into_iter().map(|finding| finding.text).collect()
}

#[test]
fn a_seal_key_that_anybody_guesses_is_told() {
    for key in ["0".repeat(64), "5e".repeat(32), format!("{}=\n", "A".repeat(43))] {
        let [told] = warned(MINIMAL, &key).try_into().unwrap();
        assert!(told.starts_with("`store.seal_key` is the same byte 32 times"), "{told}");
    }
    assert_eq!(warned(MINIMAL, &format!("{}00", "5e".repeat(31))), [""; 0]);
}

#[test]
fn a_key_with_which_no_gate_starts_is_refused_by_its_name() {
    let pem = ed25519::to_pem(&[7; 32]);
    let (_, other) = certificate();
    let told = |key: &str, more: &str| {
        let files =
            [("a.key", key), ("short.key", "not a key at all\n"), ("good.key", SEAL_KEY), ("other.pem", &other)];
        let files = [&files[..], &[("cp.pem", pem.reveal())]].concat();
        let text = format!("{MINIMAL}[store]\nseal_key = {{ file = \"a.key\" }}\n{more}");
        let findings = match read_in(&text, &files, &[]) {
            Ok(reading) => reading.warnings,
            Err(findings) => findings,
        };
        let told = |f: Finding| format!("{:?} {} {}", f.severity, f.place.unwrap_or_default(), f.text);
        findings.into_iter().map(told).collect::<Vec<_>>()
    };
    let fault = "is not a key: a key is 32 random bytes, as base64 or as 64 hexadecimal digits";
    for key in ["not a key at all", &"05".repeat(31), &"zz".repeat(32), ""] {
        let found = told(key, "");
        assert!(found.iter().any(|told| told.starts_with("Error 5:12 `store.seal_key`")), "{key}: {found:?}");
    }
    assert_eq!(told("short", ""), [format!("Error 5:12 `store.seal_key` {fault}")]);
    let former = "former_seal_key = { file = \"short.key\" }\n";
    assert_eq!(told(SEAL_KEY, former), [format!("Error 6:19 `store.former_seal_key` {fault}")]);
    let ids = "seal_key_id = \"a b\"\n";
    assert_eq!(told(SEAL_KEY, ids), ["Error 6:15 `store.seal_key_id` cannot be the id of a key"]);
    // One key in two forms.
    let same = told(&STANDARD.encode([0x5e, 0x6f].repeat(16)), "former_seal_key = { file = \"good.key\" }\n");
    let [one] = same.as_slice() else { panic!("{same:?}") };
    assert!(
        one.starts_with("Insecure 6:19 `store.seal_key` and `store.former_seal_key` are one key, under the ids `1`")
    );
    for (name, is_good) in [("short.key", false), ("other.pem", false), ("cp.pem", true)] {
        let found = told(SEAL_KEY, &format!("[audit]\ncheckpoint_key = {{ file = \"{name}\" }}\n"));
        let expected = "Error 7:18 `audit.checkpoint_key` is not an Ed25519 private key in PEM".to_owned();
        assert_eq!(found, if is_good { vec![] } else { vec![expected] });
    }
}

#[test]
fn what_lets_roles_and_tokens_last_or_money_move_unasked_is_told() {
    const CONSOLE: &str = "[console]\nlisten = \"127.0.0.1:8083\"\nissuer = \"main\"\n\
                           public_url = \"https://c.example.com\"\n";
    let issuer = ISSUER.replace("algorithms", "roles = \"roles\"\nalgorithms");
    let told = |production: &str, more: &str, lifetime: &str| {
        let text = format!("{MINIMAL}{production}{more}{issuer}{lifetime}");
        warned(&text, SEAL_KEY)
    };
    let oidc = |more: &str| told("", &format!("{CONSOLE}oidc_client_id = \"sluice\"\n{more}"), "");
    let by_token = "`console.token_sign_in` is true beside `oidc_client_id`: a session from a token keeps a role that was taken \
                    away for up to 28800 s";
    assert_eq!(oidc(""), [by_token]);
    assert_eq!(oidc("session_longest_secs = 1200\n")[0], by_token.replace("28800", "1200"));
    assert_eq!(oidc("token_sign_in = false\noidc_renew_secs = 3600\n"), [""; 0]);
    let renews = "`console.oidc_renew_secs` is 7200: a person acts for up to 7200 s with a role that was taken away";
    assert_eq!(oidc("token_sign_in = false\noidc_renew_secs = 7200\n"), [renews]);
    assert_eq!(told("", CONSOLE, ""), [""; 0], "without a provider, people have nothing but tokens");
    let [lasts] = told("", "", "longest_lifetime_secs = 31536000\n").try_into().unwrap();
    assert!(
        lasts.starts_with("`issuer.main.longest_lifetime_secs` is 31536000") && lasts.ends_with(" 365 days"),
        "{lasts}"
    );
    assert_eq!(told("", "", "longest_lifetime_secs = 604800\n"), [""; 0]);
    let [date] = told("ask_date = false\n", "", "").try_into().unwrap();
    assert!(date.starts_with("`production.ask_date` is false"), "{date}");
    let [hasty] = told("", "[timeouts]\nupstream_max_ms = 1000\nanswer_ms = 1000\n", "").try_into().unwrap();
    assert!(hasty.starts_with("`timeouts.upstream_max_ms` is 1000"), "{hasty}");
    assert_eq!(told("", "[timeouts]\nupstream_max_ms = 30000\n", ""), [""; 0]);
}

#[test]
fn an_upstream_that_is_the_gate_itself_is_told() {
    let with = |listen: &str, upstream: &str| {
        let text = format!("[production]\nlisten = \"{listen}\"\nupstream = \"{upstream}\"\n");
        let upstream_is = |text: &String| text.contains(".upstream` is `");
        warned(&text, SEAL_KEY).into_iter().filter(upstream_is).collect::<Vec<_>>()
    };
    for (listen, upstream) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("127.0.0.1:8080", "http://localhost:8080/v2"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("10.0.0.5:8443", "https://10.0.0.5:8443"),
    ] {
        let told = with(listen, upstream);
        assert!(told.len() == 1 && told[0].starts_with("`production.upstream` is `production.listen`"), "{told:?}");
    }
    for (listen, upstream) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8081"),
        ("10.0.0.5:8443", "https://10.0.0.6:8443"),
        ("10.0.0.5:8443", "http://127.0.0.1:8443"),
        ("127.0.0.1:8443", "https://api.example.com"),
    ] {
        assert_eq!(with(listen, upstream), [""; 0], "{listen} {upstream}");
    }
}

/// The findings that are errors with `--production`.
fn insecure(text: &str) -> Vec<String> {
    let findings = read_in(text, &[], &[]).unwrap().warnings.into_iter();
    let insecure = findings.filter(|finding| finding.severity == Severity::Insecure);
    insecure.map(|finding| format!("{} {}", finding.text, finding.remedy.unwrap())).collect()
}

#[test]
fn settings_with_which_the_gate_hardly_works_are_told() {
    for (added, told) in [
        ("[follow]\nenabled = false\n", "`follow.enabled` is false"),
        ("[store]\nwait_secs = 0\nseal_key = { file = \"seal.key\" }\n", "`store.wait_secs` is 0"),
        ("[timeouts]\nhead_ms = 1\n", "`timeouts.head_ms` is 1"),
        ("[timeouts]\nbody_ms = 99\n", "`timeouts.body_ms` is 99"),
        ("[timeouts]\nclient_handshake_ms = 1\n", "`timeouts.client_handshake_ms` is 1"),
        ("[timeouts]\ncommit_ms = 1\n", "`timeouts.commit_ms` is 1"),
        ("[timeouts]\nconnect_ms = 1\n", "`timeouts.connect_ms` is 1"),
        ("[timeouts]\ntls_handshake_ms = 1\n", "`timeouts.tls_handshake_ms` is 1"),
        ("[timeouts]\nwrite_ms = 1\n", "`timeouts.write_ms` is 1"),
        ("[timeouts]\nanswer_ms = 999\n", "`timeouts.answer_ms` is 999"),
        ("[timeouts]\nclient_write_ms = 1\n", "`timeouts.client_write_ms` is 1"),
        ("[limits]\nbody_bytes = 1\n", "`limits.body_bytes` is 1"),
        ("[log]\nlevel = \"error\"\n", "`log.level` is `error`"),
        ("[probes]\nlisten = \"127.0.0.1:0\"\n", "`probes.listen` has port 0"),
    ] {
        let [found] = insecure(&format!("{MINIMAL}{added}")).try_into().unwrap();
        assert!(found.starts_with(told), "{found}");
        // A simulator on this machine moves no money.
        let trial = MINIMAL.replace("https://api.example.com", "http://127.0.0.1:1");
        assert_eq!(insecure(&format!("{trial}{added}")), [""; 0], "{added}");
    }
    assert_eq!(insecure(MINIMAL), [""; 0]);
    let fine = "[timeouts]\nhead_ms = 100\nanswer_ms = 1000\n[limits]\nbody_bytes = 1024\n[log]\nlevel = \"warn\"\n";
    assert_eq!(insecure(&format!("{MINIMAL}{fine}")), [""; 0]);
    let found = insecure(&MINIMAL.replace(":8080", ":0"));
    assert!(found.len() == 1 && found[0].starts_with("`production.listen` has port 0"), "{found:?}");
}

#[test]
fn a_console_in_the_clear_and_one_that_nobody_can_use_are_told() {
    let people = "[issuer.people]\nissuer = \"p\"\naudience = [\"a\"]\nenvironments = []\nalgorithms = [\"RS256\"]\n\
                  jwks_url = \"https://p.example/keys\"\n";
    let with = |roles: &str, console: &str| {
        let console = format!("[console]\nlisten = \"127.0.0.1:8083\"\nissuer = \"people\"\n{console}");
        insecure(&format!("{MINIMAL}{}{people}roles = \"{roles}\"\n{console}", ISSUER.trim_start()))
    };
    assert_eq!(with("realm_access.roles", "public_url = \"https://sluice.example\"\n"), [""; 0]);
    for here in ["http://127.0.0.1:8083", "http://localhost:8083", "http://[::1]:8083"] {
        assert_eq!(with("roles", &format!("public_url = \"{here}\"\n")), [""; 0]);
    }
    for (roles, console, told) in [
        ("roles", "public_url = \"http://sluice.example\"\n", "`console.public_url` is plain HTTP"),
        ("roles", "session_idle_secs = 1\n", "`console.session_idle_secs` is 1"),
        ("roles", "session_longest_secs = 59\n", "`console.session_longest_secs` is 59"),
        ("roles", "oidc_renew_secs = 1\n", "`console.oidc_renew_secs` is 1"),
        ("sub", "", "`issuer.people.roles` is `sub`"),
        ("iss", "", "`issuer.people.roles` is `iss`"),
        ("preferred_username", "", "`issuer.people.roles` is `preferred_username`"),
    ] {
        let [found] = with(roles, console).try_into().unwrap();
        assert!(found.starts_with(told), "{found}");
    }
}

#[test]
fn an_upstream_that_is_no_payments_api_is_told() {
    let with = |host: &str| insecure(&MINIMAL.replace("api.example.com", host));
    for host in [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "metadata.google.internal",
    ] {
        let found = with(host);
        assert!(
            found.len() == 1 && found[0].starts_with("`production.upstream` is an address of"),
            "{host}: {found:?}"
        );
    }
    for host in ["api.example.com", "10.0.0.1", "192.168.1.1", "[fd00::1]", "metadata.example.com"] {
        assert_eq!(with(host), [""; 0], "{host}");
    }
}

#[test]
fn what_is_wrong_in_any_case_is_refused() {
    let store = |more: &str| format!("{MINIMAL}[store]\nseal_key = {{ file = \"seal.key\" }}\n{more}");
    let told = |text: &str| {
        let findings = read_in(text, &[], &[]).unwrap_err().into_iter().filter(|finding| finding.is_error());
        findings.map(|f| format!("{} {}", f.place.unwrap(), f.text)).collect::<Vec<_>>()
    };
    let found = told(&store("all_nodes = [\"gate\", \"gate-2\", \"gate\"]\n"));
    assert_eq!(found, ["6:13 `store.all_nodes` lists `gate` twice"]);
    let found = told(&store("journal_copies = 2\n"));
    assert_eq!(found, ["6:18 `store.journal_copies` has no effect: `store.kind` is not `redis`"]);
    let redis = "kind = \"redis\"\nnode = \"a\"\nall_nodes = [\"a\", \"b\"]\njournal_copies = 3\n\
                 [redis]\nurl = \"redis://127.0.0.1\"\n";
    let found = told(&store(redis));
    let fault = "`store.journal_copies` is 3, but `store.all_nodes` lists 2 gates: the Redis could never drop an entry";
    assert_eq!(found, [format!("9:18 {fault}")]);
    assert!(read_in(&store(&redis.replace("copies = 3", "copies = 2")), &[], &[]).is_ok());
    let pattern = format!("{MINIMAL}{}", ISSUER.replace("[\"sluice\"]", "[\"sluice\", \"*\"]"));
    let found = told(&pattern);
    assert!(found.len() == 1 && found[0].contains("`issuer.main.audience` contains `*`"), "{found:?}");
}

#[test]
fn a_limit_of_an_address_that_limits_nothing_is_told() {
    let with = |limits: &str| warned(&format!("{MINIMAL}[limits]\n{limits}"), SEAL_KEY);
    assert_eq!(with("connections = 100\n"), [""; 0]);
    assert_eq!(with("connections = 100\nconnections_per_peer = 50\n"), [""; 0]);
    let [found] = with("connections = 100\nconnections_per_peer = 100\n").try_into().unwrap();
    assert!(found.starts_with("`limits.connections_per_peer` (100) has no effect"), "{found}");
}
