//! A gate moves from its own store into a Redis that others will share, and forgets no claim on the way.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{console, lift, swap};
use crate::cases::claims::{assert_again, told};
use crate::support::gate::sluice;
use crate::support::shape::swap_record;
use crate::support::{Act, Gate, Redis, Setup, Upstream};

fn run(arguments: &[&str]) -> Result<String, String> {
    let output = sluice(arguments).output().unwrap();
    let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr }).into();
    if output.status.success() { Ok(said) } else { Err(said) }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_store_moves_into_a_redis_without_forgetting_a_claim_and_starts_closed() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let gate = console(Setup::of(&upstream)).start();
    upstream.next(Act::json(201, swap_record("paid")));
    let first = swap("paid").send(gate.production());
    assert_eq!(told(&first), "201 - executed");
    upstream.next(Act::silence().close());
    assert_eq!(told(&swap("in-doubt").send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    let setup = gate.end();
    let export = text(&setup.path("export"));
    run(&["store", "export", "--folder", &text(&setup.path("sluice-data")), "--to", &export]).unwrap();

    let setup = setup
        .set("store", "kind", "redis")
        .set("store", "node", "gate")
        .set("redis", "url", &redis.url())
        .set_raw("redis", "timeout_ms", "1000");
    let config = text(&setup.write());
    let into = |file: &str| run(&["store", "import", "--redis", "--config", &config, "--input", file]);

    // A file that is cut is refused before anything is written.
    let cut = text(&setup.path("cut"));
    let whole = fs::read_to_string(&export).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    assert!(into(&cut).unwrap_err().contains("the export was cut"));
    assert_eq!(redis.ask(&["DBSIZE"]), ["0"]);
    // From standard input it ends nowhere near a store.
    let mut import = sluice(&["store", "import", "--redis", "--config", &config]);
    let output = import.stdin(fs::File::open(&cut).unwrap()).output().unwrap();
    assert!(!output.status.success());
    let gate = Gate::spawn(setup);
    assert!(!gate.wait_end().success());
    assert!(gate.stderr().contains("import into this store did not end"), "{}", gate.stderr());
    let setup = gate.end();
    assert!(into(&export).unwrap_err().contains("already"));
    redis.ask(&["FLUSHALL"]);

    assert!(into(&export).unwrap().contains("Money is closed in every environment"));
    assert!(into(&export).unwrap_err().contains("already"));
    // It outlives what a Redis outlives.
    redis.go();
    redis.come();
    let gate = setup.start();
    let sent = upstream.seen().len();
    assert_eq!(told(&swap("new").send(gate.production())).get(..10), Some("503 FROZEN"));
    assert_again(&first, &swap("paid").send(gate.production()));
    assert_eq!(told(&swap("in-doubt").send(gate.production())), "409 OUTCOME_UNKNOWN unknown");
    assert_eq!(upstream.seen().len(), sent);
    std::thread::park_timeout(std::time::Duration::from_millis(2_500));
    assert_eq!(told(&swap("new").send(gate.production())).get(..10), Some("503 FROZEN"), "only a person opens it");
    assert_eq!(lift(&gate, json!("restored")).json()["changed"], true);
    assert_eq!(told(&swap("new").send(gate.production())), "200 - executed");
    let setup = gate.end();
    run(&["audit", "verify", &text(&setup.path("sluice-audit"))]).unwrap();
}
