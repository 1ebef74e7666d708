//! A Redis that its Sentinels name: a failover loses nothing that was acknowledged, and pays nothing twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Duration;

use sluice::adapters::redis::{NotReady, Redis as Connection};
use sluice::base::secret::Secret;
use sluice::config::{Login, RedisConfig, RedisPlace, SentinelsConfig};
use sluice::telemetry::Metrics;

use serde_json::json;

use super::claims::{assert_again, swap, told};
use super::console::{ask, console, operator};
use crate::support::clock::{PATIENCE, Watch, wait_until};
use crate::support::scripted::Scripted;
use crate::support::sentinels::{GATE, MASTER, Sentinel, Sentinels};
use crate::support::tls::Authority;
use crate::support::{Answer, Between, Call, Gate, Redis, Setup, Upstream, get};

const DEADLINE: Duration = Duration::from_millis(500);
/// A call ends within this, whatever the Redis does: to begin and to settle, each with a second look, and then some.
const BOUND: Duration = Duration::from_secs(8);
pub(super) const CALLERS: usize = 8;

pub(super) fn setup(upstream: &Upstream, sentinels: &Sentinels, node: &str) -> Setup {
    let setup = Setup::of(upstream).set("store", "kind", "redis").set("store", "node", node);
    let setup = setup.set_raw("redis", "sentinels", &sentinels.addresses()).set("redis", "master", MASTER);
    let setup = setup.set_raw("redis", "tls", "false").set("redis", "durability", "replicated");
    setup.set_raw("redis", "timeout_ms", &DEADLINE.as_millis().to_string())
}

pub(super) fn pays(gate: &Gate) -> bool {
    swap().send(gate.production()).status == 200
}

/// What callers were told, each of whom repeats a swap until it is known what became of it.
#[derive(Default)]
pub(super) struct Told {
    pub executed: Vec<(Call, Answer)>,
    pub in_doubt: Vec<Call>,
    longest: Duration,
}

/// Ends the callers, also where a check fails.
pub(super) struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(super) fn caller(gates: &[Gate; 2], at: usize, is_over: &AtomicBool, paid: &AtomicUsize) -> Told {
    let (mut told_all, mut turn) = (Told::default(), at);
    while !is_over.load(Ordering::SeqCst) {
        let call = swap();
        let patience = Watch::start();
        loop {
            // A repeat goes to the other gate.
            turn += 1;
            let watch = Watch::start();
            let answer = call.send(gates[turn % 2].production());
            told_all.longest = told_all.longest.max(watch.elapsed());
            let what = told(&answer);
            if answer.outcome() == "executed" {
                paid.fetch_add(1, Ordering::SeqCst);
                told_all.executed.push((call, answer));
                break;
            }
            if what.contains("OUTCOME_UNKNOWN") {
                told_all.in_doubt.push(call);
                break;
            }
            // On a busy machine, a connection to upstream may take too long: nothing was sent then.
            let repeated = ["STORE_UNAVAILABLE", "REQUEST_IN_PROGRESS", "UPSTREAM_UNAVAILABLE"];
            let is_to_be_repeated = repeated.iter().any(|code| what.contains(code));
            assert!(is_to_be_repeated && patience.elapsed() < PATIENCE * 2, "{what}: {answer}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
    told_all
}

#[test]
fn a_failover_under_load_pays_nothing_twice_and_forgets_nothing() {
    let (upstream, mut sentinels) = (Upstream::start(), Sentinels::start(2));
    let gates = ["left", "right"].map(|node| setup(&upstream, &sentinels, node).start());
    let (is_over, paid) = (AtomicBool::new(false), AtomicUsize::new(0));
    let told: Vec<Told> = scope(|scope| {
        let (gates, is_over, paid) = (&gates, &is_over, &paid);
        let over = Over(is_over);
        let callers: Vec<_> = (0..CALLERS).map(|at| scope.spawn(move || caller(gates, at, is_over, paid))).collect();
        wait_until("the load", || paid.load(Ordering::SeqCst) > 50);
        let old = sentinels.named(0);
        sentinels.all[0].go();
        let watch = Watch::start();
        wait_until("the failover", || sentinels.named(0) != old);
        let named = Watch::start();
        let before = paid.load(Ordering::SeqCst);
        for gate in gates {
            wait_until("money to move again", || pays(gate));
            assert_eq!(get("/v2/users").send(gate.production()).status, 200);
        }
        println!("named after {:?}, money after {:?} more", watch.elapsed() - named.elapsed(), named.elapsed());
        wait_until("the load to go on", || paid.load(Ordering::SeqCst) > before + 50);
        drop(over);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let mut sent = BTreeMap::<String, usize>::new();
    for seen in upstream.seen().iter().filter(|seen| seen.line().starts_with("POST")) {
        *sent.entry(seen.text()).or_default() += 1;
    }
    assert!(sent.values().all(|count| *count == 1), "paid twice");
    for told in &told {
        assert!(told.longest < BOUND, "{:?}", told.longest);
        for (call, first) in &told.executed {
            assert_again(first, &call.send(gates[0].production()));
        }
        // Nobody calls it not executed, and nobody sends it again.
        for call in &told.in_doubt {
            let again = call.send(gates[1].production());
            assert!(["unknown", "executed"].contains(&again.outcome().as_str()), "{again}");
        }
    }
    assert_eq!(upstream.posts(), sent.len());
}

/// Whatever it says, it takes swaps as if nobody else did.
#[test]
fn a_redis_that_was_frozen_while_another_took_its_place_is_left() {
    let (upstream, sentinels) = (Upstream::start(), Sentinels::start(2));
    let gates = ["left", "right"].map(|node| setup(&upstream, &sentinels, node).start());
    wait_until("money to move", || gates.iter().all(pays));
    let paid = swap();
    let first = paid.send(gates[0].production());
    assert_eq!(told(&first), "200 - executed");
    let old = sentinels.named(0);
    sentinels.all[0].freeze();
    let watch = Watch::start();
    assert_eq!(told(&swap().send(gates[0].production())), "503 STORE_UNAVAILABLE unknown");
    assert!(watch.elapsed() < BOUND, "{:?}", watch.elapsed());
    wait_until("the failover", || sentinels.named(0) != old);
    wait_until("money to move again", || gates.iter().all(pays));
    sentinels.all[0].thaw();
    for gate in &gates {
        assert_again(&first, &paid.send(gate.production()));
        wait_until("money to move", || pays(gate));
    }
}

/// Two gates, one of which stays with the former primary and reaches one Sentinel alone, while the other follows the
/// promoted one.
struct SplitGates {
    upstream: Upstream,
    sentinels: Sentinels,
    left: Gate,
    right: Gate,
    cut: Vec<Between>,
    /// It never hears of a failover.
    _deaf: Scripted,
    /// Every swap that was asked for.
    calls: Vec<Call>,
}

impl SplitGates {
    fn start(replicas: usize, durability: &str) -> SplitGates {
        let (upstream, sentinels) = (Upstream::start(), Sentinels::start(replicas));
        let cut: Vec<Between> = (1..3).map(|at| Between::to(sentinels.port(at))).collect();
        let login = |setup: Setup| {
            let setup = console(setup).set("redis", "user", GATE[0]).set("redis", "password", GATE[1]);
            setup.set("redis", "durability", durability).set_raw("redis", "allow_split", "true")
        };
        let deaf = saying(&sentinels.all[0], 0);
        let addresses = format!("[\"{}\", \"{}\", \"{}\"]", deaf.address(), cut[0].address(), cut[1].address());
        let left = login(setup(&upstream, &sentinels, "left")).set_raw("redis", "sentinels", &addresses).start();
        let right = login(setup(&upstream, &sentinels, "right")).start();
        wait_until("money to move", || pays(&left) && pays(&right));
        SplitGates { upstream, sentinels, left, right, cut, _deaf: deaf, calls: Vec::new() }
    }

    fn split(&self) {
        self.cut.iter().for_each(|between| between.lead(1));
        self.sentinels.split();
    }

    fn heal(&self) {
        self.sentinels.heal();
        (1..3).zip(&self.cut).for_each(|(at, between)| between.lead(self.sentinels.port(at)));
    }

    /// Sends one swap at both gates; returns the answers of left and right.
    fn swap_at_both(&mut self) -> [Answer; 2] {
        let call = swap();
        // Which of them is first must not matter.
        let answers = if self.calls.len().is_multiple_of(2) {
            [&self.left, &self.right].map(|gate| call.send(gate.production()))
        } else {
            let [right, left] = [&self.right, &self.left].map(|gate| call.send(gate.production()));
            [left, right]
        };
        self.calls.push(call);
        answers
    }

    /// Sends swaps until the former primary carries no money any more.
    fn former_primary_stops(&mut self, old: u16) {
        let mut stopped = 0;
        wait_until("the gate at the former primary to stop", || {
            let [left, _] = self.swap_at_both();
            stopped += usize::from(self.sentinels.named(1) != old && left.status == 503);
            stopped >= 20
        });
        wait_until("the probe to say so", || self.left.probe("/readyz/money").status == 503);
    }

    /// Repeats every swap at both gates: nothing was sent twice.
    fn assert_paid_once(&self) {
        for call in &self.calls {
            call.send(self.right.production());
            call.send(self.left.production());
        }
        let mut sent = BTreeMap::<String, usize>::new();
        for seen in self.upstream.seen().iter().filter(|seen| seen.line().starts_with("POST")) {
            *sent.entry(seen.text()).or_default() += 1;
        }
        assert!(sent.values().all(|count| *count == 1), "paid twice");
    }
}

/// The former primary took commits that the promoted one never had, and the gates saw them: nobody knows what else the gate
/// there sent, until its journal comes.
#[test]
fn a_split_pays_nothing_twice_and_the_former_primary_nothing_at_all() {
    let mut gates = SplitGates::start(1, "acknowledged");
    let old = gates.sentinels.all[0].port();
    gates.split();
    gates.former_primary_stops(old);
    assert!(!pays(&gates.right));
    gates.assert_paid_once();
    gates.heal();
    wait_until("money to move at both gates", || pays(&gates.left) && pays(&gates.right));
    gates.assert_paid_once();
}

/// What people do there is lost with the former primary.
#[test]
fn a_gate_that_no_majority_names_takes_no_acts_of_people() {
    let mut gates = SplitGates::start(1, "acknowledged");
    let old = gates.sentinels.all[0].port();
    gates.split();
    gates.former_primary_stops(old);
    let freeze = |gate: &Gate| {
        let scope = json!({"operation": "createSwap"});
        let body = json!({"environment": "production", "scope": scope, "reason": "drill"});
        ask(gate, "POST", "freezes", &operator("ops-1"), Some(body))
    };
    let refused = freeze(&gates.left);
    assert!(refused.status == 503 && refused.text().contains("cut off from the majority"), "{refused}");
    wait_until("the gate at the promoted primary to take it", || freeze(&gates.right).status < 300);
    gates.heal();
    wait_until("it to hold at both gates", || {
        [&gates.left, &gates.right].iter().all(|gate| told(&swap().send(gate.production())).contains("FROZEN"))
    });
}

/// One Sentinel that is cut off, at two addresses, would be more than half of three.
#[test]
fn one_sentinel_at_two_addresses_has_one_voice() {
    let (upstream, sentinels) = (Upstream::start(), Sentinels::start(1));
    let [one, gone] = [sentinels.port(0), 1];
    let addresses = format!(r#"["127.0.0.1:{one}", "localhost:{one}", "127.0.0.1:{gone}"]"#);
    let gate = setup(&upstream, &sentinels, "left").set_raw("redis", "sentinels", &addresses).start();
    wait_until("the gate to wait for a majority", || gate.probe("/readyz/money").text().contains("no majority"));
    assert!(!pays(&gate));
    let gate = gate.end().set_raw("redis", "sentinels", &sentinels.addresses()).start();
    wait_until("money to move", || pays(&gate));
}

/// Nothing was on its way when the former primary was cut off, so the promoted one lacks nothing: it carries money when the
/// fence is over, and needs nobody for that.
#[test]
fn a_promoted_primary_that_lacks_nothing_carries_money_after_the_fence() {
    let mut gates = SplitGates::start(2, "replicated");
    let old = gates.sentinels.all[0].port();
    gates.split();
    wait_until("the failover", || gates.sentinels.named(1) != old);
    let promoted = Watch::start();
    // A call that a gate sends to the former primary would be one that the promoted one lacks.
    let readiness = || gates.right.probe("/readyz/money");
    wait_until("the gate to leave the former primary", || readiness().status == 503);
    wait_until("the fence to be over", || readiness().status == 200);
    // Its replica may still be on the way.
    wait_until("money to move at the promoted primary", || pays(&gates.right));
    // Half of the fence may be over before a test hears of the failover.
    assert!(promoted.elapsed() > Duration::from_millis(2_500), "{:?}", promoted.elapsed());
    for _ in 0..10 {
        let [left, right] = gates.swap_at_both();
        assert_eq!((left.status, right.status), (503, 200), "{left} {right}");
    }
    assert_eq!(gates.left.probe("/readyz/money").status, 503);
    gates.assert_paid_once();
    gates.heal();
    wait_until("money to move at both gates", || pays(&gates.left) && pays(&gates.right));
    gates.assert_paid_once();
}

fn at(addresses: Vec<(String, u16)>) -> SentinelsConfig {
    let (login, sentinel_login) = (Login::default(), Login::default());
    SentinelsConfig { addresses, master: MASTER.to_owned(), login, sentinel_login, tls: false }
}

fn connect(place: SentinelsConfig, ca_pem: Option<Vec<u8>>) -> Arc<Connection> {
    let place = RedisPlace::Sentinels(place);
    let config = RedisConfig { place, ca_pem, timeout: Duration::from_secs(2), nodes: 2, fence: None, demands: None };
    let connection = Arc::new(Connection::new(&config, Metrics::new().unwrap()).unwrap());
    tokio::spawn(connection.clone().keep_connected());
    connection
}

/// One that says that this Redis is the one, since this failover.
fn saying(redis: &Redis, epoch: u64) -> Scripted {
    let sentinel = Scripted::start();
    say(&sentinel, redis, epoch);
    sentinel
}

fn say(sentinel: &Scripted, redis: &Redis, epoch: u64) {
    let port = redis.port().to_string();
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let address = format!("*2\r\n{}{}", bulk("127.0.0.1"), bulk(&port));
    sentinel.answers("SENTINEL GET-MASTER-ADDR-BY-NAME", &address);
    let master = format!("*4\r\n{}{}{}{}", bulk("name"), bulk(MASTER), bulk("config-epoch"), bulk(&epoch.to_string()));
    sentinel.answers("SENTINEL MASTER", &master);
    sentinel.answers("SENTINEL MYID", &bulk(&format!("sentinel-{epoch}")));
}

async fn name_of(connection: &Connection) -> Option<String> {
    let asked =
        connection.ask(async |mut there, _| ::redis::cmd("GET").arg("name").query_async(&mut there).await).await;
    asked.ok()
}

async fn wait_for(connection: &Connection, name: &str) {
    let watch = Watch::start();
    while name_of(connection).await.as_deref() != Some(name) {
        assert!(watch.elapsed() < PATIENCE, "waited in vain for {name}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_failover_counts_whoever_tells_of_it() {
    let [old, new] = ["old", "new"].map(|name| {
        let redis = Redis::start();
        redis.ask(&["SET", "name", name]);
        redis
    });
    let (stale, fresh) = (saying(&old, 3), saying(&new, 4));
    let address = |sentinel: &Scripted| ("127.0.0.1".to_owned(), sentinel.address().port());
    for addresses in [vec![address(&stale), address(&fresh)], vec![address(&fresh), address(&stale)]] {
        let connection = connect(at(addresses), None);
        connection.ready_within(PATIENCE).await.unwrap();
        assert_eq!(name_of(&connection).await.unwrap(), "new");
    }
    // One that is alone is believed, until another tells of more.
    fresh.answers("SENTINEL GET-MASTER-ADDR-BY-NAME", "*-1\r\n");
    let connection = connect(at(vec![address(&stale), address(&fresh)]), None);
    connection.ready_within(PATIENCE).await.unwrap();
    assert_eq!(name_of(&connection).await.unwrap(), "old");
    say(&fresh, &new, 4);
    wait_for(&connection, "new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_must_log_in_does_so_at_both() {
    let redis = Redis::start();
    redis.ask(&["SET", "name", "guarded"]);
    redis.ask(&["ACL", "SETUSER", "sluice", "on", ">of-the-redis", "~*", "+@all"]);
    redis.ask(&["CONFIG", "SET", "requirepass", "of-nobody"]);
    let sentinel = Sentinel::start(
        redis.port(),
        &[
            "sentinel auth-pass sluice of-nobody",
            "user watcher on >of-the-sentinels -@all +ping +hello +auth +sentinel|get-master-addr-by-name +sentinel|master +sentinel|myid +client",
        ],
    );
    let login = |user: &str, password: &str| Login {
        user: Some(user.to_owned()),
        password: Some(Secret::new(password.to_owned())),
    };
    let place = |at_redis, at_sentinel| SentinelsConfig {
        login: at_redis,
        sentinel_login: at_sentinel,
        ..at(vec![("localhost".to_owned(), sentinel.port())])
    };
    let guarded = connect(place(login("sluice", "of-the-redis"), login("watcher", "of-the-sentinels")), None);
    guarded.ready_within(PATIENCE).await.unwrap();
    assert_eq!(name_of(&guarded).await.unwrap(), "guarded");
    let refused = async |wrong| connect(wrong, None).ready_within(Duration::from_secs(1)).await.unwrap_err();
    let at_redis = refused(place(login("sluice", "wrong"), login("watcher", "of-the-sentinels"))).await;
    assert!(at_redis.to_string().contains("refuses the user or the password"), "{at_redis}");
    let at_sentinels = refused(place(login("sluice", "of-the-redis"), login("watcher", "wrong"))).await;
    assert!(at_sentinels.to_string().contains("Sentinel"), "{at_sentinels}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_redis_behind_tls_are_believed_by_their_authority_alone() {
    let authority = Authority::new();
    let certified = authority.certify(&["127.0.0.1"]);
    let redis = Redis::start_tls(&certified);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        std::fs::write(folder.path().join(name), content).unwrap();
        folder.path().join(name).display().to_string()
    };
    let (certificate, key) = (file("certificate.pem", &certified.certificate), file("key.pem", &certified.key));
    let sentinel = Sentinel::start_tls(redis.port(), &certificate, &key);
    let place = || SentinelsConfig { tls: true, ..at(vec![("127.0.0.1".to_owned(), sentinel.port())]) };
    let connection = connect(place(), Some(authority.pem().into_bytes()));
    connection.ready_within(PATIENCE).await.unwrap();
    let wary = connect(place(), Some(Authority::new().pem().into_bytes())).ready_within(Duration::from_secs(1)).await;
    assert_eq!(wary, Err(NotReady::Away));
    let plain = SentinelsConfig { tls: false, ..place() };
    assert_eq!(connect(plain, None).ready_within(Duration::from_secs(1)).await, Err(NotReady::Away));
}
