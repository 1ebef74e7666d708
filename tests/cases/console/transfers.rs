//! The store of gates on a Redis is exported, backed up and imported; no payment is made again on the way.

use std::path::Path;

use serde_json::json;

use super::{console, lift, swap};
use crate::cases::claims::{assert_again, told};
use crate::cases::nodes::setup;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::shape::swap_record;
use crate::support::{Act, Answer, Call, Gate, Redis, Setup, Upstream};

const FROZEN: &str = "503 FROZEN unknown";

fn store(arguments: &[&str]) -> Result<String, String> {
    let output = sluice(&[&["store"], arguments].concat()).output().unwrap();
    let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr }).into();
    if output.status.success() { Ok(said) } else { Err(said) }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The upstreams of production and sandbox.
struct Upstreams(Upstream, Upstream);

impl Upstreams {
    fn start() -> Upstreams {
        Upstreams(Upstream::start(), Upstream::start())
    }

    fn seen(&self) -> usize {
        self.0.seen().len() + self.1.seen().len()
    }
}

fn of_redis(upstreams: &Upstreams, redis: &Redis, node: &str) -> Setup {
    let setup = setup(&upstreams.0, &redis.url(), node).sandbox(&upstreams.1);
    console(setup).set_raw("store", "all_nodes", r#"["left", "right"]"#)
}

/// A gate that ended lacks what the others did since; together their journals are whole.
fn verify(folders: &[&Path]) {
    let folders: Vec<String> = folders.iter().map(|folder| text(folder)).collect();
    let mut arguments = vec!["audit", "verify"];
    arguments.extend(folders.iter().map(String::as_str));
    let output = sluice(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A call that was paid, with its answer.
fn paid(upstream: &Upstream, request_id: &str, at: std::net::SocketAddr) -> (Call, Answer) {
    upstream.next(Act::json(201, swap_record(request_id)));
    let call = swap(request_id);
    let answer = call.send_when_met(at);
    assert_eq!(told(&answer), "201 - executed");
    (call, answer)
}

/// Everything that was paid in both environments, and a call in doubt.
struct Past {
    production: Vec<(Call, Answer)>,
    sandbox: (Call, Answer),
    doubt: Call,
}

impl Past {
    fn of(upstreams: &Upstreams, left: &Gate, right: &Gate) -> Past {
        let at = |request_id, gate: &Gate| paid(&upstreams.0, request_id, gate.production());
        let production = vec![at("at-left", left), at("at-right", right)];
        let sandbox = paid(&upstreams.1, "in-sandbox", right.sandbox());
        let doubt = swap("doubt");
        upstreams.0.next(Act::silence().close());
        assert_eq!(told(&doubt.send(left.production())), "502 OUTCOME_UNKNOWN unknown");
        Past { production, sandbox, doubt }
    }

    fn is_known(&self, gate: &Gate) {
        for (call, answer) in &self.production {
            assert_again(answer, &call.send(gate.production()));
        }
        assert_again(&self.sandbox.1, &self.sandbox.0.send(gate.sandbox()));
        assert_eq!(told(&self.doubt.send(gate.production())), "409 OUTCOME_UNKNOWN unknown");
    }
}

#[test]
fn a_redis_is_restored_from_its_backup_and_its_gates_go_on_with_their_journals() {
    let (upstreams, redis) = (Upstreams::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| of_redis(&upstreams, &redis, node).start());
    let past = Past::of(&upstreams, &left, &right);
    let (config, backup) = (text(&left.path("sluice.toml")), text(&left.path("backup.jsonl")));
    let back_up = || store(&["backup", "--redis", "--config", &config, "--to", &backup]);

    let why = back_up().unwrap_err();
    assert!(why.contains("gates use the store in this Redis: `left`, `right`; stop all of them"), "{why}");
    let right = right.end();
    let why = back_up().unwrap_err();
    assert!(why.contains("gates use the store in this Redis: `left`; stop"), "{why}");
    // One that was killed may still send.
    let left = left.kill();
    assert!(back_up().unwrap_err().contains("`left`"));
    wait_until("the killed gate to count as ended", || back_up().is_ok());
    assert!(back_up().unwrap_err().contains("cannot be written"), "an existing file stays");

    redis.ask(&["FLUSHALL"]);
    let why = store(&["export", "--redis", "--config", &config]).unwrap_err();
    assert!(why.contains("the Redis holds no store of production"), "{why}");
    let import = || store(&["import", "--redis", "--config", &config, "--input", &backup]);
    assert!(import().unwrap().contains("Money is closed in every environment"));
    assert!(import().unwrap_err().contains("already contains a store"));

    let (left, right) = (left.start(), right.start());
    let sent = upstreams.seen();
    for gate in [&left, &right] {
        past.is_known(gate);
        assert_eq!(told(&swap("new").send(gate.production())), FROZEN);
    }
    assert_eq!(upstreams.seen(), sent);
    assert_eq!(left.metric("sluice_store_rebuilds_total{environment=\"production\"}"), 0, "the journals agree");
    assert_eq!(lift(&left, json!("restored")).json()["changed"], true);
    wait_until("money to move", || told(&swap("new").send(right.production())) == "200 - executed");
    past.is_known(&right);
    let (left, right) = (retired(left), right.end());
    verify(&[&left.path("sluice-audit"), &right.path("sluice-audit")]);
}

/// Ends a gate in order, while another one runs that takes what its journal has.
fn retired(gate: Gate) -> Setup {
    gate.terminate();
    gate.wait_end();
    let said = |words: &str| gate.log.all().iter().filter(|line| line.to_string().contains(words)).count();
    assert_eq!(said("this gate retired"), 2, "in both environments: {:#?}", gate.log.all());
    gate.end()
}

/// One gate goes on with its journal, and the other way back works as well.
#[test]
fn a_redis_moves_into_an_embedded_store_and_back() {
    let (upstreams, redis) = (Upstreams::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| of_redis(&upstreams, &redis, node).start());
    let past = Past::of(&upstreams, &left, &right);
    let (left, right) = (left.end(), right.end());
    let config = text(&left.write());
    let (first, second) = (text(&left.path("first.jsonl")), text(&left.path("second.jsonl")));
    let folder = text(&left.path("sluice-data"));
    store(&["export", "--redis", "--config", &config, "--to", &first]).unwrap();
    store(&["import", "--folder", &folder, "--input", &first, "--node", "left"]).unwrap();
    let why = store(&["import", "--folder", &folder, "--input", &first]).unwrap_err();
    assert!(why.contains("already contains a store: name an empty folder"), "{why}");

    let left = left.set("store", "kind", "embedded").start();
    let sent = upstreams.seen();
    past.is_known(&left);
    assert_eq!(told(&swap("new").send(left.production())), FROZEN);
    assert_eq!(upstreams.seen(), sent);
    assert_eq!(lift(&left, json!("restored")).json()["changed"], true);
    let later = paid(&upstreams.0, "later", left.production());

    let left = left.end();
    verify(&[&left.path("sluice-audit")]);
    store(&["export", "--folder", &folder, "--to", &second]).unwrap();
    redis.ask(&["FLUSHALL"]);
    let left = left.set("store", "kind", "redis");
    left.write();
    store(&["import", "--redis", "--config", &config, "--input", &second]).unwrap();
    let (left, right) = (left.start(), right.start());
    let sent = upstreams.seen();
    for gate in [&left, &right] {
        // The other gate has to tell it what happened meanwhile.
        wait_until("the gate to use the store", || !told(&later.0.send(gate.production())).contains("UNAVAILABLE"));
        past.is_known(gate);
        assert_again(&later.1, &later.0.send(gate.production()));
    }
    assert_eq!(upstreams.seen(), sent);
    assert_eq!(lift(&left, json!("restored")).json()["changed"], true);
    wait_until("money to move", || told(&swap("newer").send(right.production())) == "200 - executed");
}

/// The journals know what was paid since the backup.
#[test]
fn what_was_paid_after_the_backup_is_not_paid_again() {
    let (upstreams, redis) = (Upstreams::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| of_redis(&upstreams, &redis, node).start());
    let past = Past::of(&upstreams, &left, &right);
    let (left, right) = (left.end(), right.end());
    let (config, backup) = (text(&left.write()), text(&left.path("backup.jsonl")));
    store(&["backup", "--redis", "--config", &config, "--to", &backup]).unwrap();
    let (left, right) = (left.start(), right.start());
    let later = paid(&upstreams.0, "later", right.production());
    let (left, right) = (left.end(), right.end());
    redis.ask(&["FLUSHALL"]);
    store(&["import", "--redis", "--config", &config, "--input", &backup]).unwrap();

    let (left, right) = (left.start(), right.start());
    let sent = upstreams.seen();
    for gate in [&left, &right] {
        let is_again = || told(&later.0.send(gate.production())) == "201 - executed again";
        wait_until("what was paid since to be known", is_again);
        past.is_known(gate);
    }
    assert_eq!(upstreams.seen(), sent);
}
