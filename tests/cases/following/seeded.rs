//! Hundreds of offramps through all states, followed by two gates that are killed, over a store and a list that fail: no
//! state goes back, windows count exactly what the records say, and every foreign record is found.
//!
//! A failure prints its seed; `SLUICE_SEED=N` runs that history alone, `SLUICE_OFFRAMPS` says how many there are in each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sluice::catalog::{Catalog, Follow, SchemaFiles};
use sluice::ledger::Kind;
use sluice::stations::follow::decode_followed;
use tokio::time::{sleep, timeout};

use super::dice::Dice;
use super::id;
use super::world::{FollowWorld, Listed, Maker};

const OFFRAMPS: usize = 300;
const SEEDS: u64 = 4;
const MINUTE: i64 = 60_000_000;

/// Paths through the states, and how likely each is.
const PATHS: [(u64, &[&str]); 9] = [
    (
        40,
        &[
            "NOT_INITIATED",
            "CREATED",
            "OPEN_QUOTE",
            "AWAITING_FUNDS",
            "CRYPTO_INITIATED",
            "CRYPTO_PENDING",
            "CRYPTO_PROCESSED",
            "FIAT_INITIATED",
            "FIAT_PENDING",
            "COMPLETED",
        ],
    ),
    (10, &["CREATED", "OPEN_QUOTE", "QUOTE_FAILED"]),
    (8, &["CREATED", "AWAITING_FUNDS", "CANCELLED"]),
    (8, &["CREATED", "CRYPTO_PENDING", "CRYPTO_FAILED"]),
    (8, &["CREATED", "FIAT_PENDING", "FIAT_FAILED"]),
    (8, &["CREATED", "FIAT_PENDING", "COMPLETED", "FIAT_RETURNED"]),
    (8, &["CREATED", "CRYPTO_PROCESSED", "FIAT_FAILED", "CRYPTO_RETURNED"]),
    (5, &["CREATED", "CRYPTO_PENDING", "IN_REVIEW"]),
    // It was given back, and was paid after all.
    (5, &["CREATED", "QUOTE_FAILED", "COMPLETED"]),
];

#[expect(clippy::disallowed_methods, reason = "whoever runs the test may choose a seed")]
pub(super) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

pub(super) fn follow() -> Follow {
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    let operation = sluice::base::ids::OperationId::new("createOfframp");
    catalog.operation(&operation).unwrap().follow.clone().unwrap()
}

fn path(dice: &Dice) -> &'static [&'static str] {
    let mut at = dice.below(100);
    for (share, path) in PATHS {
        if at < share {
            return path;
        }
        at -= share;
    }
    PATHS[0].1
}

/// A payment that begins now.
pub(super) fn listed(world: &FollowWorld, n: usize, maker: Maker) -> Listed {
    let dice = &world.dice;
    // Several payments share one moment.
    let created = world.now() / 1_000_000 * 1_000_000;
    let mut since = created;
    let states = path(dice).iter().map(|state| {
        let at = since;
        since += i64::try_from(dice.below(40)).unwrap() * MINUTE + 1_000;
        (at, *state)
    });
    let states = states.collect();
    let asked = (dice.below(90_000_000) + 10_000) / 10_000 * 10_000;
    let shown = if dice.percent(8) { asked + 10_000 * (dice.below(100) + 1) } else { asked };
    Listed { n, maker, created, false_time: None, states, asked, shown }
}

#[test]
fn every_window_equals_what_upstream_says_and_no_state_goes_back() {
    let seeds: Vec<u64> = variable("SLUICE_SEED").map_or_else(|| (1..=SEEDS).collect(), |seed| vec![seed]);
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        eprintln!("seed {seed}; SLUICE_SEED={seed} runs it again");
        runtime.block_on(history(seed));
    }
}

async fn history(seed: u64) {
    let world = FollowWorld::new(seed);
    let follow = follow();
    let all = variable("SLUICE_OFFRAMPS").map_or(OFFRAMPS, |count| usize::try_from(count).unwrap());
    let dice = world.dice.clone();
    // What is older than the installation.
    for n in 0..7 {
        world.upstream.payments.lock().unwrap().push(listed(&world, n, Maker::Stranger));
    }
    sleep(Duration::from_secs(2)).await;
    let mut gates = [world.follower(0), world.follower(1)];
    gates[0].read_all().await;
    let mut ranks: BTreeMap<usize, usize> = BTreeMap::new();
    *world.upstream.trouble.lock().unwrap() = 20;
    for n in 7..all {
        if dice.percent(70) {
            sleep(Duration::from_millis(dice.below(90_000))).await;
        }
        let maker = match dice.below(20) {
            0 => Maker::Stranger,
            1 => Maker::Upstream,
            _ => Maker::Gate,
        };
        let payment = listed(&world, n, maker);
        match maker {
            Maker::Gate => world.pay(payment).await,
            Maker::Stranger | Maker::Upstream => world.upstream.payments.lock().unwrap().push(payment),
        }
        let [first, second] = &mut gates;
        if dice.percent(15) {
            // Both at once, one of them held up beyond its lease at times, and killed in the middle at others.
            let within = Duration::from_millis(dice.below(400));
            let (_, _) = tokio::join!(timeout(within, first.read_all()), async {
                if dice.percent(30) {
                    sleep(Duration::from_secs(200)).await;
                }
                second.read_all().await;
            });
            gates[0] = world.follower(0);
        } else {
            let which = usize::from(dice.percent(50));
            gates[which].read_all().await;
        }
        if n % (all / 30).max(1) == 0 {
            check(&world, &follow, &mut ranks).await;
        }
    }
    // Everything ends, and everything is well again.
    sleep(Duration::from_hours(12)).await;
    *world.upstream.trouble.lock().unwrap() = 0;
    let mut calm = world.follower(0);
    let readings = all / 500 + 3;
    for _ in 0..readings {
        sleep(Duration::from_secs(300)).await;
        calm.read_all().await;
    }
    check(&world, &follow, &mut ranks).await;
    ended(&world, &follow).await;
    // A payment past the gate is found within one reading.
    world.upstream.payments.lock().unwrap().push(listed(&world, all, Maker::Stranger));
    sleep(Duration::from_secs(300)).await;
    calm.read_all().await;
    assert_eq!(world.foreign().await.get(&id(all + 1_000_000)), Some(&"unknown-request"));
}

#[tokio::test(start_paused = true)]
async fn one_gate_reads_the_list_and_another_goes_on_when_its_lease_lapsed() {
    let world = FollowWorld::new(1);
    world.upstream.payments.lock().unwrap().push(listed(&world, 0, Maker::Stranger));
    sleep(Duration::from_secs(2)).await;
    let (mut first, mut second) = (world.follower(0), world.follower(1));
    let pages = || *world.upstream.pages.lock().unwrap();
    first.read_all().await;
    let read = pages();
    second.read_all().await;
    assert_eq!((read > 0, pages()), (true, read), "the first gate has the lease");
    sleep(Duration::from_secs(3_600)).await;
    second.read_all().await;
    assert!(pages() > read, "the lease lapsed");
}

/// No state goes back, and the windows hold exactly what the records say: of payments that nobody has seen yet, all.
pub(super) async fn check(world: &FollowWorld, follow: &Follow, ranks: &mut BTreeMap<usize, usize>) {
    let payments = world.upstream.payments.lock().unwrap().clone();
    let mut counted = [0; 2];
    for payment in payments.iter().filter(|one| one.maker == Maker::Gate) {
        let record = world.read(Kind::Followed, &format!("claim/request/{}", id(payment.n))).await;
        let Some(followed) = record.map(|bytes| decode_followed(&bytes).unwrap()) else {
            counted = [counted[0] + payment.asked, counted[1] + 1];
            continue;
        };
        let rank = follow.rank(&followed.state).unwrap();
        let before = ranks.insert(payment.n, rank);
        assert!(before.is_none_or(|before| before <= rank), "{}: the state went back to {}", payment.n, followed.state);
        assert!(payment.states.iter().any(|(_, state)| *state == followed.state), "{}: {}", payment.n, followed.state);
        if !followed.is_given_back {
            counted = [counted[0] + followed.windows[0].units, counted[1] + 1];
        }
    }
    assert_eq!(world.used().await, counted);
}

/// Each record is at its end, limits count what really left, and every foreign record is listed, and no other.
pub(super) async fn ended(world: &FollowWorld, follow: &Follow) {
    let payments = world.upstream.payments.lock().unwrap().clone();
    let (mut counted, mut foreign) = ([0; 2], BTreeSet::new());
    for payment in &payments {
        let upstream_id = id(payment.n + 1_000_000);
        match payment.maker {
            Maker::Upstream => {}
            Maker::Stranger if payment.n < 7 => {}
            Maker::Stranger => drop(foreign.insert((upstream_id, "unknown-request"))),
            Maker::Gate => {
                let last =
                    payment.states.iter().map(|(_, state)| *state).max_by_key(|state| follow.rank(state)).unwrap();
                if payment.shown != payment.asked {
                    foreign.insert((upstream_id, "other-amount"));
                }
                if !follow.state(last).unwrap().is_nothing_left {
                    counted = [counted[0] + payment.shown, counted[1] + 1];
                }
            }
        }
    }
    let told: BTreeSet<(String, &str)> = world.foreign().await.into_iter().collect();
    assert_eq!(told, foreign);
    assert_eq!(world.used().await, counted);
}
