//! However many windows and open calls there are, limits are told as they are, or told to be more.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sluice::adapters::clock::SystemClock;
use sluice::adapters::store::embedded::{Embedded, Options};
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, NodeId, Step, WindowKey, WindowSpan};
use sluice::ports::Store as _;

use super::policies::{SMALL_GO_LARGER_WAIT, assert_described};
use super::{PEOPLE, ask, console, operator, swap, token_of};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Act, Gate, Setup, Upstream, post};

const USD: u64 = 1_000_000;
/// More than one answer lists.
const MANY: usize = 1_100;
/// Its window is the last one by its name, in each store.
const LAST: &str = "zzz-the-last-of-all-callers";

const LIMITS: &str = r#"
[[limit]]
id = "caller-day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["caller"]
max = "100 USD"
over = "deny"
[[limit]]
id = "organization"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "100000 USD"
over = "deny"
"#;

fn rules() -> String {
    format!("{SMALL_GO_LARGER_WAIT}{LIMITS}")
}

fn setup(upstream: &Upstream) -> Setup {
    let setup = console(Setup::of(upstream)).file("policies/everything.toml", &rules());
    setup.set("production", "credential", "of-the-gate-itself")
}

/// Plants windows in the store of a gate that is stopped.
async fn plant(setup: &Setup, windows: &[(WindowKey, u64)]) {
    let store = Embedded::open(&setup.path("sluice-data"), Arc::new(SystemClock), Options::default()).unwrap();
    let span = WindowSpan::Rolling { bucket: Duration::from_secs(3_600), count: 24 };
    for part in windows.chunks(500) {
        let reserve = |(window, units): &(WindowKey, u64)| {
            let holder = format!("planted {} {}", window.limit, window.key);
            Step::Reserve { window: window.clone(), span, holder, units: *units, max: u64::MAX }
        };
        let (node, entry) = (NodeId::parse("gate").unwrap(), Bytes::from_static(b"{}"));
        let steps = part.iter().map(reserve).collect();
        store.commit(Commit { environment: Environment::Production, node, steps, entry }).await.unwrap();
    }
}

fn window(limit: &str, key: &Value) -> WindowKey {
    WindowKey { limit: limit.to_owned(), key: key.to_string() }
}

fn of_caller(subject: &str) -> WindowKey {
    window("caller-day", &json!({"caller": format!("main:{subject}")}))
}

fn usage(gate: &Gate, query: &str) -> Value {
    let answer = ask(gate, "GET", &format!("usage{query}"), &token_of(PEOPLE, "anna", &["viewer"]), None);
    assert_described(&answer, "usage");
    answer.json()
}

fn of_limit<'v>(told: &'v Value, limit: &str) -> Vec<&'v Value> {
    told["usage"].as_array().unwrap().iter().filter(|one| one["limit"] == limit).collect()
}

fn amounts(one: &Value) -> [u64; 3] {
    ["used", "inFlight", "pending"].map(|name| one[name].as_u64().unwrap())
}

fn pay(gate: &Gate, request_id: &str, amount: &str) -> u16 {
    let mut body = super::body("createSwap", request_id);
    body["source"]["amount"] = json!(amount);
    post("/v2/wallets/swaps").json(body.to_string()).send(gate.production()).status
}

#[tokio::test]
async fn of_many_windows_the_fullest_are_told() {
    let upstream = Upstream::start();
    let setup = setup(&upstream).start().ready().end();
    let mut windows: Vec<_> = (0..MANY).map(|nth| (of_caller(&format!("c-{nth:05}")), 2 * USD)).collect();
    windows.push((of_caller(LAST), 99 * USD));
    windows.push((window("organization", &json!({"environment": "production"})), 900 * USD));
    plant(&setup, &windows).await;
    let gate = setup.start().ready();

    let told = usage(&gate, "");
    let first = &told["usage"][0];
    assert_eq!(
        (&first["key"]["caller"], amounts(first)),
        (&json!(format!("main:{LAST}")), [99 * USD, 0, 0]),
        "{first}"
    );
    let organization = of_limit(&told, "organization");
    assert_eq!((organization.len(), amounts(organization[0])), (1, [900 * USD, 0, 0]), "{organization:?}");
    assert_eq!((&told["more"], &told["unreadWindows"], &told["unused"]), (&json!(true), &json!(false), &json!([])));
    assert!((1_000..=1_003).contains(&told["usage"].as_array().unwrap().len()), "{}", told["usage"]);
    assert_eq!(usage(&gate, "?limit=organization")["more"], false);
    let of_one = usage(&gate, "?limit=caller-day");
    assert_eq!((of_one["usage"].as_array().unwrap().len(), &of_one["more"]), (1_001, &json!(true)));

    let series = |name: &str, limit: &str| {
        gate.metric(&format!("{name}{{environment=\"production\",limit=\"{limit}\",mode=\"enforce\"}}"))
    };
    wait_until("the fullest window to be measured", || series("sluice_limit_used_usd", "caller-day") == 99);
    assert_eq!(series("sluice_limit_left_usd", "caller-day"), 1);
    assert_eq!(series("sluice_limit_used_usd", "organization"), 900);

    let url = format!("http://{}", gate.console().unwrap());
    let run = |words: &[&str]| {
        let words = [&["policy", "usage", "--console", &url], words].concat();
        let output = sluice(&words).env("SLUICE_TOKEN", operator("ops-1")).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let text = run(&["--limit", "caller-day"]);
    assert!(text.lines().next().unwrap().contains(LAST), "{text}");
    assert!(text.ends_with("Other keys are in use, none of them fuller than those of its limit here.\n"), "{text}");
    assert!(run(&["--limit", "organization"]).ends_with("99100 USD left\n"), "{}", run(&["--limit", "organization"]));

    // The window of a held call is not among those that are listed, and is told with its own use.
    assert_eq!((pay(&gate, "r-1", "1"), pay(&gate, "r-2", "60")), (200, 202));
    let told = usage(&gate, "?limit=caller-day");
    let held = told["usage"].as_array().unwrap().iter().find(|one| one["pending"] != 0).unwrap();
    assert_eq!(amounts(held), [USD, 0, 60 * USD], "{held}");
}

#[tokio::test]
async fn windows_of_the_gate_s_own_hide_no_limit() {
    let upstream = Upstream::start();
    let setup = setup(&upstream).start().ready().end();
    let own = |nth: usize| (WindowKey { limit: "(holds)".to_owned(), key: format!("main/c-{nth:05}") }, 1);
    let mut windows: Vec<_> = (0..MANY).map(own).collect();
    windows.push((window("organization", &json!({"environment": "production"})), 900 * USD));
    plant(&setup, &windows).await;
    let gate = setup.start().ready();
    let told = usage(&gate, "");
    let organization = of_limit(&told, "organization");
    assert_eq!((organization.len(), &told["more"]), (1, &json!(false)), "{told}");
    assert_eq!(amounts(organization[0]), [900 * USD, 0, 0]);
    assert_eq!(told["unused"][0]["limit"], "caller-day", "{told}");
}

/// More than were read at a time.
#[test]
fn every_open_call_is_in_the_sums() {
    const HELD: u64 = 230;
    let upstream = Upstream::start();
    let rules = rules().replace("\"100 USD\"", "\"100000 USD\"");
    let gate = setup(&upstream).file("policies/everything.toml", &rules).start().ready();
    std::thread::scope(|scope| {
        for part in 0..4 {
            let gate = &gate;
            scope.spawn(move || {
                for nth in (0..HELD).filter(|nth| nth % 4 == part) {
                    assert_eq!(pay(gate, &format!("h-{nth}"), "60"), 202);
                }
            });
        }
    });
    upstream.next(Act::silence().close());
    assert_eq!(swap("u-1").send(gate.production()).status, 502);
    let told = usage(&gate, "");
    for limit in ["caller-day", "organization"] {
        let [used, in_flight, pending] = amounts(of_limit(&told, limit)[0]);
        assert_eq!((used == in_flight, pending), (true, HELD * 60 * USD), "{limit}: {told}");
    }
    assert_eq!((&told["more"], &told["unreadCalls"]), (&json!(false), &json!(false)));
}
