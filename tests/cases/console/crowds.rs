//! Many requests, sessions and streams at the console, and requests that are meant for somebody else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::sessions::{page, send, signed_in, with_token};
use super::{PEOPLE, act, ask, console, operator, token_of, told};
use crate::support::clock::{PATIENCE, wait_until};
use crate::support::token::{ISSUER, claims, signed};
use crate::support::{Answer, Gate, Setup, Upstream, get};

fn viewer(subject: &str) -> String {
    token_of(PEOPLE, subject, &["viewer"])
}

fn sign_in(gate: &Gate, token: &str) -> Answer {
    send(gate, &with_token(token, ""))
}

fn limited() -> (u16, String) {
    (429, "RATE_LIMITED".to_owned())
}

fn sign_ins(gate: &Gate, outcome: &str) -> u64 {
    gate.metric(&format!("sluice_console_sign_ins_total{{outcome=\"{outcome}\",way=\"token\"}}"))
}

#[test]
fn one_person_signs_in_so_often_and_no_more_while_others_do() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "sign_ins_per_minute", "3").start();
    for _ in 0..3 {
        signed_in(&gate, &viewer("vera"));
    }
    let refused = sign_in(&gate, &viewer("vera"));
    assert_eq!(told(&refused), limited());
    let wait: u64 = refused.header("retry-after").expect("a time").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    signed_in(&gate, &viewer("walt"));
    assert_eq!((sign_ins(&gate, "signed-in"), sign_ins(&gate, "rate")), (4, 1));
}

#[test]
fn one_address_tries_so_many_tokens_and_no_more() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "sign_ins_per_minute", "1").start();
    for nth in 0..10 {
        let wrong = token_of("https://nobody.test", &format!("guess-{nth}"), &["operator"]);
        assert_eq!(sign_in(&gate, &wrong).status, 401);
    }
    assert_eq!(told(&sign_in(&gate, &viewer("vera"))), limited());
}

#[test]
fn one_person_asks_so_often_and_no_more_while_others_do() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "acts_per_minute", "60").start();
    let look = |who: &str| send(&gate, &act("GET", "freezes", &viewer(who)));
    let answers: Vec<u16> = (0..40).map(|_| look("vera").status).collect();
    assert!(answers.contains(&429) && answers.starts_with(&[200; 12]), "{answers:?}");
    assert_eq!(look("walt").status, 200);
}

/// Freezes an operation, and gives what the console says.
fn stop(gate: &Gate, token: &str) -> u16 {
    let freeze = json!({"environment": "production", "scope": {"operation": "createSwap"}, "reason": "an incident"});
    ask(gate, "POST", "freezes", token, Some(freeze)).status
}

fn count(statuses: impl Iterator<Item = u16>, status: u16) -> usize {
    statuses.filter(|one| *one == status).count()
}

#[test]
fn what_is_refused_to_one_person_uses_up_nothing_of_others_at_the_address() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "acts_per_minute", "60").start();
    let vera = viewer("vera");
    let look = || send(&gate, &act("GET", "freezes", &vera)).status;
    // The address may make 120 at once.
    assert!(count((0..300).map(|_| look()), 429) >= 200);
    assert_eq!(send(&gate, &act("GET", "freezes", &viewer("walt"))).status, 200);
    assert!([200, 201].contains(&stop(&gate, &operator("ops-1"))));
}

#[test]
fn credentials_that_are_not_believed_use_up_nothing_of_people_at_the_address() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "acts_per_minute", "60").start();
    let page_of_operator = signed_in(&gate, &operator("ops-2"));
    let tries = |call: &dyn Fn() -> crate::support::Call| -> Vec<u16> {
        (0..250).map(|_| send(&gate, &call()).status).collect()
    };
    for statuses in [tries(&|| act("GET", "freezes", "x.y.z")), tries(&|| act("GET", "nowhere", "x.y.z"))] {
        let refused = count(statuses.iter().copied(), 429);
        assert!((20..=130).contains(&refused) && statuses[0] != 429, "{refused}: {statuses:?}");
    }
    let (rest, last) = page_of_operator.split_at(page_of_operator.len() - 1);
    let other = if last == "0" { "1" } else { "0" };
    let forged = || page("GET", "freezes", &format!("{rest}{other}"));
    assert!(count(tries(&forged).into_iter(), 429) >= 20);
    assert_eq!(send(&gate, &page("GET", "freezes", &page_of_operator)).status, 200);
    assert_eq!(send(&gate, &act("GET", "freezes", &viewer("walt"))).status, 200);
    assert!([200, 201].contains(&stop(&gate, &operator("ops-1"))));
    let freeze = json!({"environment": "production", "scope": "all", "reason": "an incident"});
    let freeze = page("POST", "freezes", &page_of_operator).json(freeze.to_string());
    assert_eq!(send(&gate, &freeze).status, 201);
}

#[test]
fn neither_other_people_nor_ones_own_looks_use_up_what_stops_money() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "acts_per_minute", "60").start();
    let look = |who: usize| send(&gate, &act("GET", "freezes", &operator(&format!("ops-{who}")))).status;
    // Twelve at once are one person's, 120 the address's.
    let statuses: Vec<u16> = (0..20).flat_map(|who| (0..14).map(move |_| who)).map(look).collect();
    assert!(count(statuses.into_iter(), 429) > 20 * 2 + 20, "the address was not at its rate");
    for who in 0..20 {
        assert!([200, 201].contains(&stop(&gate, &operator(&format!("ops-{who}")))), "{who}");
    }
    // Nobody freezes without end.
    assert!(count((0..40).map(|_| stop(&gate, &operator("ops-1"))), 429) >= 15);
}

#[test]
fn sessions_of_all_people_are_bounded_and_those_that_ended_make_room() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "sessions_most", "2");
    let gate = gate.set_raw("console", "session_idle_secs", "2").start();
    let first = signed_in(&gate, &viewer("vera"));
    signed_in(&gate, &viewer("walt"));
    assert_eq!(told(&sign_in(&gate, &viewer("xena"))), (503, "OVERLOADED".to_owned()));
    assert_eq!(sign_ins(&gate, "full"), 1);
    assert_eq!(send(&gate, &page("DELETE", "session", &first)).status, 200);
    signed_in(&gate, &viewer("xena"));
    wait_until("idle sessions to make room", || sign_in(&gate, &viewer("yuri")).status == 200);
}

/// Opens a stream of changes, and gives its status.
pub(super) fn stream(gate: &Gate, token: &str) -> (u16, BufReader<TcpStream>) {
    let mut socket = TcpStream::connect(gate.console().unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("Host: gate.example\r\nAuthorization: Bearer {token}\r\n");
    socket.write_all(format!("GET /sluice/v1/holds/changes HTTP/1.1\r\n{head}\r\n").as_bytes()).unwrap();
    let (mut reader, mut line) = (BufReader::new(socket), String::new());
    reader.read_line(&mut line).unwrap();
    (line.split(' ').nth(1).unwrap().parse().unwrap(), reader)
}

#[test]
fn nobody_takes_all_streams() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let (vera, walt) = (viewer("vera"), viewer("walt"));
    let all: Vec<_> = (0..64).map(|_| stream(&gate, &vera)).collect();
    let open = all.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!(open, 32);
    assert!(all.iter().all(|(status, _)| matches!(status, 200 | 503)));
    assert_eq!(stream(&gate, &walt).0, 200);
    drop(all);
    // A gate notices a closed stream when it writes to it.
    wait_until("closed streams to make room", || {
        let freeze = json!({"environment": "production", "scope": {"operation": "createSwap"}, "reason": "a change"});
        for path in ["freezes", "freezes/lift"] {
            ask(&gate, "POST", path, &operator("ops-1"), Some(freeze.clone()));
        }
        stream(&gate, &vera).0 == 200
    });
}

#[test]
fn requests_for_other_hosts_get_nothing() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let host = |call: crate::support::Call, host: &str| call.without("Host").header("Host", host);
    for foreign in ["evil.example", "gate.example.evil.example", "127.0.0.1.evil.example:80"] {
        for path in ["/", "/page/app.js", "/sluice/v1/openapi.json", "/sluice/v1/freezes"] {
            let call = host(get(path), foreign).without("Authorization");
            let answer = send(&gate, &call.header("Authorization", format!("Bearer {}", operator("ops-1"))));
            assert_eq!(told(&answer), (403, "FORBIDDEN".to_owned()), "{foreign}{path}");
        }
        for path in ["/metrics", "/livez", "/readyz", "/readyz/money"] {
            let answer = host(get(path), foreign).header("Connection", "close").send(gate.probes());
            assert_eq!(answer.status, 403, "{foreign}{path}");
            assert!(!answer.text().contains("sluice_"), "{answer}");
        }
    }
    for own in ["gate.example", "GATE.example:8083", "127.0.0.1:1", "localhost", "[::1]:8083"] {
        assert_eq!(send(&gate, &host(get("/"), own)).status, 200, "{own}");
        assert_eq!(host(get("/livez"), own).send(gate.probes()).status, 200, "{own}");
    }
}

/// A gate whose callers and people have one issuer, with these audiences of people.
fn shared_issuer(upstream: &Upstream, audience: &str) -> Gate {
    Setup::of(upstream)
        .set_raw("issuer.main", "audience", r#"["sluice", "sluice-console"]"#)
        .set("issuer.main", "roles", "roles")
        .set("console", "listen", "127.0.0.1:0")
        .set("console", "issuer", "main")
        .set_raw("console", "hosts", r#"["gate.example"]"#)
        .set_raw("console", "audience", audience)
        .start()
}

#[test]
fn tokens_of_people_are_for_the_console_and_tokens_of_callers_are_not() {
    let upstream = Upstream::start();
    let gate = shared_issuer(&upstream, r#"["sluice-console"]"#);
    let token = |audience: Value| {
        let mut claims = claims();
        (claims["iss"], claims["aud"], claims["roles"]) = (json!(ISSUER), audience, json!(["operator"]));
        signed(&claims)
    };
    let call = |token: &str| {
        let call = get("/v2/users").without("Authorization").header("Authorization", format!("Bearer {token}"));
        call.send(gate.production()).status
    };
    let at_console = |token: &str| send(&gate, &act("GET", "freezes", token)).status;
    let of_service = token(json!("sluice"));
    assert_eq!((call(&of_service) == 401, at_console(&of_service)), (false, 401));
    assert_eq!(sign_in(&gate, &of_service).status, 401);
    for of_person in [token(json!("sluice-console")), token(json!(["sluice", "sluice-console"]))] {
        assert_eq!((call(&of_person), at_console(&of_person)), (401, 200));
    }
    assert_eq!(gate.metric("sluice_tokens_refused_total{environment=\"console\",reason=\"audience\"}"), 2);
}
