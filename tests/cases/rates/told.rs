//! What callers are told of rates, in headers and bodies; what authors are told by `check`.

use super::{call, is_limited, list, parameter, rate, token, with};
use crate::support::gate::sluice;
use crate::support::shape::{operations, shape, valid};
use crate::support::upstream::answer;
use crate::support::{Act, Gate, Setup, Upstream};

#[test]
fn a_limited_call_is_answered_in_shape_c_and_says_what_became_of_it() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("one", "per = [\"operation\"]\nquota = \"1/h\"")).start();
    for operation in operations() {
        valid(operation).send(gate.production());
        let limited = valid(operation).send(gate.production());
        assert!(is_limited(&limited), "{}: {limited}", operation.id);
        let body = limited.json();
        assert_eq!((shape(&body), limited.origin().as_str()), ("C", "gateway"), "{limited}");
        assert_eq!(body["error"]["details"]["rates"], serde_json::json!(["one"]));
        let outcome = match (operation.is_write(), &operation.claim) {
            (false, _) => "-",
            (true, Some(_)) => "unknown",
            (true, None) => "not-executed",
        };
        assert_eq!(limited.outcome(), outcome, "{limited}");
        assert_eq!(outcome == "unknown", limited.text().contains("This attempt sent nothing"), "{limited}");
        assert_eq!(limited.header("ratelimit-policy").unwrap(), "\"one\";q=1;w=3600;sluice-burst=1");
        let retry: u64 = limited.header("retry-after").unwrap().parse().unwrap();
        assert!((3500..=3600).contains(&retry), "{limited}");
        assert_eq!(parameter(&limited, "ratelimit", "one", "t"), Some(retry), "{limited}");
        assert_eq!(parameter(&limited, "ratelimit", "one", "r"), Some(0), "{limited}");
    }
    assert_eq!(upstream.seen().len(), operations().count());
}

/// Streams, held errors, writes, refusals and answers that are checked first.
#[test]
fn every_answer_after_the_rates_tells_of_the_tightest() {
    for enforce in [false, true] {
        let upstream = Upstream::start();
        let policies = rate("wide", "quota = \"1000/h\"") + &rate("tight", "quota = \"100/h\"");
        let setup = with(Setup::of(&upstream), &policies);
        let gate = if enforce { setup.enforce() } else { setup }.start();
        let chunked = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        let asked = |call: crate::support::Call, act: Act, left: u64| {
            upstream.next(act);
            let answer = call.send(gate.production());
            upstream.forget();
            assert_eq!(parameter(&answer, "ratelimit", "tight", "r"), Some(left), "{answer}");
            assert_eq!(parameter(&answer, "ratelimit-policy", "wide", "q"), Some(1000), "{answer}");
            assert_eq!(parameter(&answer, "ratelimit-policy", "tight", "w"), Some(3600), "{answer}");
            assert!(answer.header("retry-after").is_none(), "{answer}");
        };
        asked(list("one"), Act::done(200), 99);
        asked(list("one"), Act::bytes(chunked), 98);
        asked(list("one"), Act::bytes(answer(500, &[("Content-Type", "text/html")], b"<p>")), 97);
        asked(list("one"), Act::bytes(answer(404, &[], b"")), 96);
        asked(call("createSwap", &token("one", &[])), Act::done(201), 95);
        asked(crate::support::post("/v2/wallets/swaps").json("{}"), Act::done(201), 94);
        asked(call("createSwap", &token("one", &[])), Act::silence().close(), 93);
    }
}

#[test]
fn what_upstream_says_of_its_own_rates_gives_way_to_the_rates_of_the_gate() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("ours", "quota = \"9/h\"")).start();
    let theirs = [
        ("RateLimit", "\"theirs\";r=3;t=5"),
        ("RateLimit-Policy", "\"theirs\";q=3"),
        ("RateLimit-Remaining", "3"),
        ("Content-Type", "application/json"),
    ];
    upstream.next(Act::bytes(answer(200, &theirs, b"{}")));
    let told = list("one").send(gate.production());
    assert_eq!(told.header("ratelimit").as_deref(), Some("\"ours\";r=8;t=400"), "{told}");
    assert!(!told.to_string().contains("theirs") && told.header("ratelimit-remaining").is_none(), "{told}");
}

#[test]
fn check_tells_what_is_wrong_with_policies() {
    let upstream = Upstream::start();
    let run = |setup: Setup| {
        let file = setup.write();
        let output = sluice(&["check", "--config", file.to_str().unwrap()]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let faulty =
        with(Setup::of(&upstream), "[[rate]]\nid = \"x\"\nops = [\"createSwop\"]\nquota = \"5/h\"\nshared = true\n");
    let (code, text) = run(faulty);
    assert_eq!(code, Some(3), "{text}");
    for told in ["policies/rates.toml:3:8", "did you mean `createSwap`?", "[redis]", "2 errors"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    let (code, text) = run(with(Setup::of(&upstream), &rate("x", "quota = \"5/h\"")));
    assert!(code == Some(0) && text.contains("0 errors"), "{text}");
    let missing = Setup::of(&upstream).set("", "policies", "nowhere");
    assert!(run(missing).1.contains("does not exist or is not readable"));
    // A set with errors never takes force.
    let gate = Gate::spawn(with(Setup::of(&upstream), "[[rul]]\nid = \"x\"\n"));
    assert_eq!(gate.wait_end().code(), Some(3));
    assert!(gate.stderr().contains("policies have no table `rul`"), "{}", gate.stderr());
}

#[test]
fn the_policies_that_init_writes_hold() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluice.toml");
    let output = sluice(&["init", "--to", file.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("policies"));
    let policies = std::fs::read_to_string(folder.path().join("policies/rates.toml")).unwrap();
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &policies).start();
    let answer = list("one").send(gate.production());
    assert_eq!(parameter(&answer, "ratelimit-policy", "per-caller", "sluice-burst"), Some(200), "{answer}");
}
