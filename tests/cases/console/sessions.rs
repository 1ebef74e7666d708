//! Sessions of browsers: how they begin, what they may do, and how they end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use sluice::adapters::clock::{Stopwatch, SystemClock};
use sluice::ports::Clock as _;

use super::policies::assert_described;
use super::{PEOPLE, act, ask, audited, console, operator, token_of, told};
use crate::cases::nodes;
use crate::support::clock::{PATIENCE, wait_until};
use crate::support::token::{claims, signed};
use crate::support::{Answer, Call, Gate, Redis, Setup, Upstream, canary};

const OWN: &str = "http://gate.example";

/// What a page of the console asks, with this cookie.
pub(super) fn page(method: &str, path: &str, cookie: &str) -> Call {
    let call = Call::new(method, format!("/sluice/v1/{path}")).without("Authorization").header("Origin", OWN);
    let call = call.header("Sluice-Console", "1").header("Sec-Fetch-Site", "same-origin");
    if cookie.is_empty() { call } else { call.header("Cookie", cookie) }
}

pub(super) fn send(gate: &Gate, call: &Call) -> Answer {
    call.send(gate.console().expect("a console"))
}

/// The cookie that an answer gives, as a browser shows it.
pub(super) fn cookie_of(answer: &Answer) -> String {
    let given = answer.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {answer}"));
    let pair = given.split(';').next().unwrap().to_owned();
    canary::plant(pair.split_once('=').unwrap().1);
    pair
}

pub(super) fn with_token(token: &str, cookie: &str) -> Call {
    canary::plant(token);
    page("POST", "session", cookie).json(json!({ "token": token }).to_string())
}

/// Signs in, and gives the cookie.
pub(super) fn signed_in(gate: &Gate, token: &str) -> String {
    let answer = send(gate, &with_token(token, ""));
    assert_described(&answer, "session");
    cookie_of(&answer)
}

fn shown(gate: &Gate, cookie: &str) -> Answer {
    send(gate, &page("GET", "session", cookie))
}

fn freezing() -> Value {
    json!({"environment": "production", "scope": {"operation": "createOfframp"}, "reason": "a drill"})
}

fn frozen(gate: &Gate) -> usize {
    ask(gate, "GET", "freezes", &operator("o"), None).json()["freezes"].as_array().unwrap().len()
}

#[test]
fn a_session_is_its_person_with_the_roles_of_their_token() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let ways = send(&gate, &page("GET", "session/ways", ""));
    assert_described(&ways, "ways");
    assert_eq!(ways.json(), json!({"token": true, "oidc": null}));
    let (ann, bob) = (operator("ann"), token_of(PEOPLE, "bob", &["viewer", "janitor"]));
    let (of_ann, of_bob) = (signed_in(&gate, &ann), signed_in(&gate, &bob));
    let answer = shown(&gate, &of_bob);
    assert_described(&answer, "session");
    assert_eq!(answer.json()["person"], json!({"issuer": "people", "subject": "bob"}));
    assert_eq!(answer.json()["roles"], json!(["viewer"]));
    let freeze = |cookie: &str| send(&gate, &page("POST", "freezes", cookie).json(freezing().to_string()));
    assert_eq!(told(&freeze(&of_bob)), (403, "FORBIDDEN".to_owned()));
    assert_eq!(send(&gate, &page("GET", "freezes", &of_bob)).json()["freezes"], json!([]));
    assert_eq!(freeze(&of_ann).status, 201);
    let entry = audited(&gate, &[("/what", json!("frozen"))]);
    assert_eq!(entry["by"], json!({"issuer": "people", "subject": "ann"}));
    let signed_in = gate.metric("sluice_console_sign_ins_total{outcome=\"signed-in\",way=\"token\"}");
    assert_eq!(signed_in, 2);
}

#[test]
fn whoever_is_not_believed_or_has_no_role_has_no_session() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let mut expired = claims();
    (expired["iss"], expired["roles"], expired["exp"]) = (json!(PEOPLE), json!(["operator"]), json!(1_700_000_600));
    for (token, expected) in [
        (signed(&expired), (401, "UNAUTHORIZED")),
        (token_of("https://issuer.test", "ann", &["operator"]), (401, "UNAUTHORIZED")),
        ("x".to_owned(), (401, "UNAUTHORIZED")),
        ("Bearer x y".to_owned(), (401, "UNAUTHORIZED")),
        (token_of(PEOPLE, "ann", &["janitor"]), (403, "FORBIDDEN")),
    ] {
        let answer = send(&gate, &with_token(&token, ""));
        assert_eq!(told(&answer), (expected.0, expected.1.to_owned()), "{answer}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    let token = operator("ann");
    for body in [json!({}), json!({"token": ""}), json!({"token": token, "x": 1}), json!({"token": "x".repeat(9_000)})]
    {
        let answer = send(&gate, &page("POST", "session", "").json(body.to_string()));
        assert_eq!(told(&answer), (400, "INVALID_REQUEST".to_owned()), "{answer}");
    }
    let forbidden = console(Setup::of(&upstream)).set_raw("console", "token_sign_in", "false").start();
    assert_eq!(send(&forbidden, &page("GET", "session/ways", "")).json()["token"], json!(false));
    assert_eq!(told(&send(&forbidden, &with_token(&token, ""))), (403, "FORBIDDEN".to_owned()));
}

#[test]
fn cookies_are_out_of_reach_and_answers_are_kept_by_nobody() {
    let upstream = Upstream::start();
    let plain = console(Setup::of(&upstream)).start();
    let proxied = console(Setup::of(&upstream)).set("console", "public_url", "https://Gate.Example:443/").start();
    for (gate, own, expected) in [
        (&plain, OWN, "sluice-session=V; Path=/; HttpOnly; SameSite=Strict"),
        (&proxied, "https://gate.example", "__Host-sluice-session=V; Path=/; HttpOnly; SameSite=Strict; Secure"),
    ] {
        let call = with_token(&operator("ann"), "").without("Origin").header("Origin", own);
        let answer = send(gate, &call);
        let cookie = cookie_of(&answer);
        let value = cookie.split_once('=').unwrap().1;
        assert_eq!(value.len(), 43, "256 bits");
        assert_eq!(answer.header("set-cookie").unwrap().replace(value, "V"), expected);
        for answer in [&answer, &shown(gate, &cookie), &shown(gate, "")] {
            for (name, value) in [
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
                ("x-frame-options", "DENY"),
                ("referrer-policy", "no-referrer"),
                ("cross-origin-resource-policy", "same-origin"),
            ] {
                assert_eq!(answer.header(name).as_deref(), Some(value), "{name}");
            }
        }
        assert_eq!(shown(gate, &cookie).status, 200);
        assert_eq!(shown(gate, &cookie.replace("__Host-", "").replace("sluice", "Sluice")).status, 401);
    }
    let refused = send(&proxied, &with_token(&operator("ann"), ""));
    assert_eq!(told(&refused), (403, "FORBIDDEN".to_owned()), "it has another origin");
}

#[test]
fn what_another_site_makes_a_browser_ask_is_refused() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let cookie = signed_in(&gate, &operator("ann"));
    let bare = |method: &str, path: &str| {
        let call = Call::new(method, format!("/sluice/v1/{path}")).without("Authorization");
        call.header("Cookie", cookie.clone())
    };
    let (page, own) = (("Sluice-Console", "1"), ("Origin", OWN));
    let from = |site| ("Sec-Fetch-Site", site);
    let forged: [&[(&str, &str)]; 9] = [
        &[],
        &[own, from("same-origin")],
        &[page],
        &[page, ("Origin", "https://evil.example")],
        &[page, ("Origin", "null"), from("cross-site")],
        &[page, ("Origin", "https://gate.example")],
        &[page, ("Origin", "http://gate.example:8083"), from("same-site")],
        &[page, own, from("cross-site")],
        &[page, own, ("Origin", "https://evil.example")],
    ];
    let token = json!({ "token": operator("mallory") }).to_string();
    for headers in forged {
        for (method, path, body) in [
            ("POST", "freezes", Some(freezing().to_string())),
            ("POST", "holds/x/approve", Some("{}".to_owned())),
            ("POST", "session", Some(token.clone())),
            ("DELETE", "session", None),
        ] {
            let call = headers.iter().fold(bare(method, path), |call, (name, value)| call.header(name, *value));
            let call = body.iter().fold(call, |call, body| call.json(body));
            let answer = send(&gate, &call);
            assert_eq!(told(&answer), (403, "FORBIDDEN".to_owned()), "{headers:?} {method} {path}: {answer}");
            assert_eq!(answer.header("set-cookie"), None, "{headers:?}");
        }
    }
    let whole = [page, own].into_iter().fold(bare("POST", "freezes"), |call, (name, value)| call.header(name, value));
    let as_form = whole.clone().header("Content-Type", "text/plain").body(freezing().to_string());
    assert_eq!(send(&gate, &as_form).status, 415);
    assert_eq!((frozen(&gate), shown(&gate, &cookie).status), (0, 200));
    assert_eq!(send(&gate, &whole.json(freezing().to_string())).status, 201);
}

#[test]
fn a_sign_in_makes_a_session_of_its_own_whatever_was_shown() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let planted = format!("sluice-session={}", "A".repeat(43));
    let of_mallory = signed_in(&gate, &token_of(PEOPLE, "mallory", &["viewer"]));
    for chosen in [&planted, &of_mallory] {
        let mine = cookie_of(&send(&gate, &with_token(&operator("ann"), chosen)));
        assert!(mine != *chosen && shown(&gate, &mine).json()["person"]["subject"] == json!("ann"));
    }
    assert_eq!(shown(&gate, &planted).status, 401);
    assert_eq!(shown(&gate, &of_mallory).json()["person"]["subject"], json!("mallory"));
    let twice = format!("{of_mallory}; {planted}");
    assert_eq!(told(&shown(&gate, &twice)), (401, "UNAUTHORIZED".to_owned()));
    assert_eq!(send(&gate, &page("GET", "freezes", &twice)).status, 401);
    let both = act("GET", "freezes", &operator("ann")).header("Cookie", of_mallory);
    assert_eq!(told(&send(&gate, &both)), (401, "UNAUTHORIZED".to_owned()), "one of two people");
    let other = act("GET", "freezes", &operator("ann")).header("Cookie", "theme=dark");
    assert_eq!(send(&gate, &other).status, 200);
}

#[test]
fn who_signs_out_is_out() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let [one, other] = [(); 2].map(|()| signed_in(&gate, &operator("ann")));
    let out = || send(&gate, &page("DELETE", "session", &one));
    let answer = out();
    assert_described(&answer, "signedOut");
    assert_eq!(answer.json(), json!({"changed": true}));
    assert_eq!(answer.header("set-cookie").unwrap(), "sluice-session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    assert_eq!(shown(&gate, &one).status, 401);
    assert_eq!(send(&gate, &page("GET", "freezes", &one)).status, 401);
    assert_eq!((out().json(), shown(&gate, &other).status), (json!({"changed": false}), 200));
    let gone = audited(&gate, &[("/what", json!("signed-out"))]);
    let begun = audited(&gate, &[("/what", json!("signed-in")), ("/session", gone["session"].clone())]);
    assert_eq!((&begun["by"]["subject"], &begun["way"]), (&json!("ann"), &json!("token")));
}

#[test]
fn all_sessions_of_a_person_are_ended_by_them_or_by_an_operator() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let viewer = token_of(PEOPLE, "vera", &["viewer"]);
    let elsewhere = token_of(PEOPLE, " VERA", &["viewer"]);
    let [first, second, third] = [&viewer, &viewer, &elsewhere].map(|token| signed_in(&gate, token));
    let of_olga = signed_in(&gate, &operator("olga"));
    let end = |cookie: &str, body: Value| send(&gate, &page("POST", "sessions/end", cookie).json(body.to_string()));
    let of_another = end(&first, json!({"person": "olga", "reason": "a prank"}));
    assert_eq!(told(&of_another), (403, "FORBIDDEN".to_owned()));
    assert_eq!(shown(&gate, &of_olga).status, 200);
    assert_eq!(end(&first, json!({"person": "vera"})).status, 400, "nobody said why");

    let answer = end(&of_olga, json!({"person": "vera", "reason": "a lost phone"}));
    assert_described(&answer, "endSessionsAnswer");
    assert_eq!(answer.json(), json!({"ended": 3}));
    let stand = [&first, &second, &third, &of_olga].map(|cookie| shown(&gate, cookie).status);
    assert_eq!(stand, [401, 401, 401, 200]);
    let entry = audited(&gate, &[("/what", json!("sessions-ended"))]);
    assert_eq!((&entry["by"]["subject"], &entry["person"]), (&json!("olga"), &json!("people:vera")));
    assert_eq!((&entry["reason"], entry["ended"].as_array().unwrap().len()), (&json!("a lost phone"), 3));

    let again = signed_in(&gate, &viewer);
    assert_eq!(end(&again, json!({"reason": "I leave this place"})).json(), json!({"ended": 1}));
    assert_eq!(shown(&gate, &again).status, 401);
    assert_eq!(end(&of_olga, json!({"person": "nobody", "reason": "to see"})).json(), json!({"ended": 0}));
}

#[test]
fn what_a_session_listens_to_ends_with_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let cookie = signed_in(&gate, &token_of(PEOPLE, "vera", &["viewer"]));
    let mut listener = TcpStream::connect(gate.console().unwrap()).unwrap();
    listener.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("Host: gate.example\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\n");
    listener.write_all(format!("GET /sluice/v1/holds/changes HTTP/1.1\r\n{head}\r\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(listener).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("data: ")), "it is told where it stands");
    assert_eq!(
        send(&gate, &page("POST", "sessions/end", &cookie).json(json!({"reason": "x"}).to_string())).status,
        200
    );
    let until = Stopwatch::start();
    for line in lines {
        line.expect("it ends, and before anybody loses patience");
        assert!(until.elapsed() < PATIENCE, "it goes on");
    }
}

/// Whoever signs in while their sessions are ended is out or in, and never in a session that nobody can end.
#[test]
fn who_signs_in_meanwhile_has_a_session_that_can_be_ended() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = ["left", "right"].map(|node| console(nodes::setup(&upstream, &redis.url(), node)).start());
    let [left, right] = &gates;
    let viewer = token_of(PEOPLE, "vera", &["viewer"]);
    let end =
        || act("POST", "sessions/end", &operator("olga")).json(json!({"person": "vera", "reason": "x"}).to_string());
    let come = || {
        let answer = send(left, &with_token(&viewer, ""));
        (answer.status == 200).then(|| cookie_of(&answer))
    };
    let cookies: Vec<String> = std::thread::scope(|threads| {
        let coming = [(); 2].map(|()| threads.spawn(|| (0..60).filter_map(|_| come()).collect::<Vec<_>>()));
        while !coming.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            // Two that change the same at one time may both be told to come again, and nothing is half done.
            assert!([200, 503].contains(&send(right, &end()).status));
        }
        coming.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(!cookies.is_empty());
    assert_eq!(send(right, &end()).status, 200);
    let standing = cookies.iter().filter(|cookie| shown(left, cookie).status == 200).count();
    assert_eq!(standing, 0);
}

#[test]
fn one_person_has_so_many_sessions_and_the_oldest_ends() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let of_bob = signed_in(&gate, &operator("bob"));
    let all: Vec<String> = (0..18).map(|_| signed_in(&gate, &operator("ann"))).collect();
    let stand: Vec<bool> = all.iter().map(|cookie| shown(&gate, cookie).status == 200).collect();
    assert_eq!(stand.iter().filter(|stands| **stands).count(), 16, "{stand:?}");
    assert!(!stand[0] && !stand[1]);
    assert_eq!(shown(&gate, &of_bob).status, 200);
}

#[test]
fn a_session_ends_unused_and_is_kept_by_use_alone() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "session_idle_secs", "5").start();
    let idle_until = |cookie: &str| shown(&gate, cookie).json()["idleUntil"].as_str().map(str::to_owned);
    let used = signed_in(&gate, &operator("ann"));
    let first = idle_until(&used).unwrap();
    wait_until("its use to be written down", || idle_until(&used).is_some_and(|until| until > first));
    let (left, background) = (signed_in(&gate, &operator("bob")), ("Sluice-Background", "1"));
    wait_until("a session that nobody uses to end", || {
        let asks = page("GET", "freezes", &left).header(background.0, background.1);
        send(&gate, &asks).status == 401
    });
    assert_eq!(audited(&gate, &[("/what", json!("stayed-in"))])["by"]["subject"], json!("ann"));
}

#[test]
fn a_session_ends_with_its_token_and_after_its_longest_time() {
    let upstream = Upstream::start();
    let setup = console(Setup::of(&upstream)).set_raw("issuer.people", "leeway_secs", "0");
    let gate = setup.set_raw("console", "session_longest_secs", "4").start();
    let cookie = signed_in(&gate, &operator("ann"));
    wait_until("a session that is used to end", || shown(&gate, &cookie).status == 401);
    let (now, mut short) = (SystemClock.now().as_second(), claims());
    (short["iss"], short["roles"]) = (json!(PEOPLE), json!(["operator"]));
    (short["iat"], short["exp"]) = (json!(now), json!(now + 3));
    let answer = send(&gate, &with_token(&signed(&short), ""));
    let ends: jiff::Timestamp = answer.json()["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!(ends.as_second() <= now + 3, "{answer}");
}

#[test]
fn a_session_is_known_and_ended_at_every_node() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let gates = ["left", "right"].map(|node| console(nodes::setup(&upstream, &redis.url(), node)).start());
    let [left, right] = &gates;
    let [one, other] = [(); 2].map(|()| signed_in(left, &operator("ann")));
    assert_eq!((shown(right, &one).status, shown(right, &other).status), (200, 200));
    assert_eq!(send(right, &page("DELETE", "session", &one)).json(), json!({"changed": true}));
    assert_eq!((shown(left, &one).status, shown(left, &other).status), (401, 200));

    redis.go();
    let away = (503, "STORE_UNAVAILABLE".to_owned());
    let freeze = page("POST", "freezes", &other).json(freezing().to_string());
    let calls = [
        page("GET", "session", &other),
        page("GET", "freezes", &other),
        freeze.clone(),
        page("DELETE", "session", &other),
        with_token(&operator("ann"), ""),
    ];
    for call in calls {
        let answer = send(left, &call);
        assert_eq!((told(&answer), answer.header("set-cookie")), (away.clone(), None), "{}", call.line());
    }
    redis.come();
    wait_until("the store to be back", || shown(left, &other).status == 200);
    assert_eq!(frozen(left), 0);
}

/// Whoever writes the store kept the records of two sessions, and puts them back; then the records of their ends are removed.
#[test]
fn a_session_that_ended_is_not_opened_again_by_its_record() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setup = console(nodes::setup(&upstream, &redis.url(), "left")).set("store", "seal_key", &"5e".repeat(32));
    let gate = setup.start();
    let [one, other] = [(); 2].map(|()| signed_in(&gate, &operator("ann")));
    let names = redis.ask(&["KEYS", "sluice:{production}:r:session:*"]);
    assert_eq!(names.len(), 3, "two sessions and their list: {names:?}");
    let copy = |from: &str, to: &str| redis.ask(&["COPY", from, to, "REPLACE"]);
    names.iter().for_each(|name| drop(copy(name, &format!("aside-{name}"))));
    assert_eq!(send(&gate, &page("DELETE", "session", &one)).json(), json!({"changed": true}));
    let end = page("POST", "sessions/end", &other).json(json!({"reason": "a stolen cookie"}).to_string());
    assert_eq!(send(&gate, &end).json(), json!({"ended": 1}));
    names.iter().for_each(|name| drop(copy(&format!("aside-{name}"), name)));
    for cookie in [&one, &other] {
        assert_eq!(shown(&gate, cookie).status, 401);
        assert_eq!(send(&gate, &page("POST", "freezes", cookie).json(freezing().to_string())).status, 401);
    }
    assert_eq!(frozen(&gate), 0);
    let again = signed_in(&gate, &operator("ann"));
    assert_eq!(shown(&gate, &again).status, 200);
    let end = page("POST", "sessions/end", &again).json(json!({"reason": "to see"}).to_string());
    assert_eq!(send(&gate, &end).json(), json!({"ended": 1}), "those that were put back are over already");
    // Before the journal had their ends, nothing could tell that they are missing.
    nodes::all_have_it(&redis);
    let ends = redis.ask(&["KEYS", "sluice:{production}:r:session-end:*"]);
    assert!(ends.len() >= 2, "{ends:?}");
    ends.iter().for_each(|end| drop(redis.ask(&["DEL", end])));
    for cookie in [&one, &other] {
        assert_eq!(told(&shown(&gate, cookie)), (503, "STORE_UNAVAILABLE".to_owned()));
        assert_eq!(send(&gate, &page("POST", "freezes", cookie).json(freezing().to_string())).status, 503);
    }
    assert_eq!(frozen(&gate), 0);
    let refused = "sluice_store_records_refused_total{environment=\"production\",reason=\"changed\"}";
    assert!(gate.metric(refused) > 0);
}
