//! Sign-in at an OpenID provider: the sign-ins of one address keep nobody out.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;

use super::console;
use super::sessions::{cookie_of, page, send};
use crate::support::clock::wait_until;
use crate::support::{Act, Answer, Call, Caller, Gate, Setup, Upstream};

/// How many sign-ins of one address ask the provider at once.
const OF_ADDRESS: usize = 8;
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A gate whose people sign in at this provider, which is asked for its discovery document first.
fn gate(provider: &Upstream, upstream: &Upstream, sign_ins: &str) -> Gate {
    let url = provider.url();
    let document = json!({
        "issuer": url, "authorization_endpoint": format!("{url}/auth"), "token_endpoint": format!("{url}/token"),
    });
    provider.next(Act::json(200, document.to_string()));
    console(Setup::of(upstream))
        .set("issuer.people", "issuer", &url)
        .set("console", "public_url", "http://gate.example")
        .set("console", "oidc_client_id", "sluice")
        .set_raw("console", "sign_ins_per_minute", sign_ins)
        .start()
}

fn start() -> Call {
    page("GET", "session/start", "")
}

/// The return of a browser from the provider, by the answer to its start.
fn callback(started: &Answer) -> Call {
    assert_eq!(started.status, 302, "{started}");
    let place = started.header("location").unwrap();
    let state = place.split(['?', '&']).find_map(|field| field.strip_prefix("state=")).unwrap();
    page("GET", &format!("session/callback?code=c&state={state}"), &cookie_of(started))
}

fn place(answer: &Answer) -> String {
    answer.header("location").unwrap_or_default()
}

#[test]
fn slow_sign_ins_of_one_address_keep_those_of_others_not_out() {
    let (provider, upstream) = (Upstream::start(), Upstream::start());
    let gate = gate(&provider, &upstream, "30");
    let address = gate.console().unwrap();
    provider.always(Act::silence().hang());
    let slow: Vec<Caller> = (0..20)
        .map(|_| {
            let call = callback(&send(&gate, &start()));
            let mut caller = Caller::connect(address);
            caller.send(call.bytes());
            caller
        })
        .collect();
    wait_until("the slow sign-ins to ask the provider", || provider.seen().len() == 1 + OF_ADDRESS);
    // The beginning of a sign-in asks nobody.
    let started = send(&gate, &start());
    assert!(place(&started).contains("/auth?"), "{started}");
    provider.next(Act::json(400, "{}"));
    let other = Caller::connect_from(ELSEWHERE, address).send(callback(&started).bytes()).answer();
    assert_eq!((other.status, place(&other).as_str()), (303, "/#error=expired"), "{other}");
    assert_eq!(provider.seen().len(), 2 + OF_ADDRESS);
    // One after another has its turn, or is told that the gate is busy.
    drop(slow);
}

#[test]
fn the_end_of_a_sign_in_counts_in_the_rate_of_its_address() {
    let (provider, upstream) = (Upstream::start(), Upstream::start());
    let gate = gate(&provider, &upstream, "1");
    provider.always(Act::json(400, "{}"));
    // Ten a minute, of starts and ends together.
    let calls: Vec<Call> = (0..8).map(|_| callback(&send(&gate, &start()))).collect();
    let told: Vec<String> = calls.iter().take(3).map(|call| place(&send(&gate, call))).collect();
    assert_eq!(told, ["/#error=expired", "/#error=expired", "/#error=busy"]);
    assert_eq!(provider.seen().len(), 3);
    // Another address has a rate of its own, and the sign-in that was refused is not used up.
    let other = Caller::connect_from(ELSEWHERE, gate.console().unwrap()).send(calls[2].bytes()).answer();
    assert_eq!(place(&other), "/#error=expired");
}
