//! Settings that are valid, and with which money or secrets are in danger.

use super::*;

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
    for key in [format!("{}00", "5e".repeat(31)), "05".repeat(31)] {
        assert_eq!(warned(MINIMAL, &key), [""; 0], "{key}");
    }
}

#[test]
fn an_upstream_that_is_the_gate_itself_is_told() {
    let with = |listen: &str, upstream: &str| {
        let text = format!("[production]\nlisten = \"{listen}\"\nupstream = \"{upstream}\"\n");
        let upstream_is = |text: &String| text.contains(".upstream` is `");
        warned(&text, "a key").into_iter().filter(upstream_is).collect::<Vec<_>>()
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
        ("127.0.0.1:0", "https://api.example.com"),
    ] {
        assert_eq!(with(listen, upstream), [""; 0], "{listen} {upstream}");
    }
}
