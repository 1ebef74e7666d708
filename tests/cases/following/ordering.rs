//! The times and the order of upstream's list: a false time hides nothing and is told, and clocks that leap lose no record.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::id;
use super::seeded::{check, ended, follow, listed};
use super::world::{FollowWorld, Listed, Maker};

const DAY_SECS: i64 = 86_400;
const FUTURE: i64 = 32_472_144_000_000_000;

/// The name that upstream gave to the nth payment.
fn name(n: usize) -> String {
    id(n + 1_000_000)
}

/// A world whose list was empty at the first reading, and whose gates then sent no payment.
async fn of_strangers(count: usize) -> (FollowWorld, Vec<Listed>) {
    let world = FollowWorld::new(1);
    world.follower(0).read_all().await;
    let mut all = Vec::new();
    for n in 0..count {
        sleep(Duration::from_secs(1)).await;
        all.push(listed(&world, n, Maker::Stranger));
    }
    (world, all)
}

/// Reads the list so many times, and returns the problem of each record that is told.
async fn told(world: &FollowWorld, readings: usize) -> BTreeMap<String, Vec<&'static str>> {
    let mut gate = world.follower(0);
    for _ in 0..readings {
        sleep(Duration::from_secs(60)).await;
        gate.read_all().await;
    }
    world.problems().await
}

#[tokio::test(start_paused = true)]
async fn a_false_time_at_the_end_of_a_page_hides_no_other_record() {
    // The last records of the first page, and some of others.
    let places: [&[usize]; 3] = [&[50], &[50, 51, 52, 53, 54], &[51, 50, 7, 120]];
    for (false_time, false_ones) in [0, FUTURE].into_iter().flat_map(|time| places.map(|places| (time, places))) {
        let (world, mut all) = of_strangers(150).await;
        for place in false_ones {
            all[*place].false_time = Some(false_time);
        }
        *world.upstream.payments.lock().unwrap() = all;
        let told = told(&world, 2).await;
        let unseen: Vec<usize> = (0..150).filter(|n| !told.contains_key(&name(*n))).collect();
        assert_eq!(unseen, Vec::<usize>::new(), "time {false_time} at {false_ones:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_that_contradicts_its_place_is_told_once_and_upstreams_own_are_not() {
    for false_time in [0, FUTURE] {
        let (world, mut all) = of_strangers(150).await;
        all[50].false_time = Some(false_time);
        all[20].false_time = Some(all[20].created - 3_600_000_000);
        all[80].false_time = Some(false_time);
        all[80].maker = Maker::Upstream;
        *world.upstream.payments.lock().unwrap() = all;
        let told = told(&world, 6).await;
        let of_time: Vec<&String> =
            told.iter().filter(|(_, problems)| problems.contains(&"false-time")).map(|(name, _)| name).collect();
        assert_eq!(of_time, [&name(20), &name(50)], "{false_time}");
    }
    // A list that is in no order at all raises a few alerts, not one for each record.
    let (world, mut all) = of_strangers(90).await;
    let times: Vec<i64> = all.iter().map(|one| one.created).collect();
    all.iter_mut().zip(times.iter().rev()).for_each(|(one, time)| one.false_time = Some(*time));
    *world.upstream.payments.lock().unwrap() = all;
    let told = told(&world, 30).await;
    let of_time = told.values().filter(|problems| problems.contains(&"false-time")).count();
    assert!((1..=10).contains(&of_time), "{of_time}");
}

#[tokio::test(start_paused = true)]
async fn a_record_of_the_future_is_not_the_latest_and_hides_nothing_new() {
    let world = FollowWorld::new(1);
    for n in 0..1_500 {
        sleep(Duration::from_secs(1)).await;
        let payment = listed(&world, n, Maker::Stranger);
        world.upstream.payments.lock().unwrap().push(payment);
    }
    let mut gate = world.follower(0);
    gate.read_all().await;
    let mut future = listed(&world, 1_500, Maker::Stranger);
    future.false_time = Some(FUTURE);
    world.upstream.payments.lock().unwrap().push(future);
    sleep(Duration::from_secs(60)).await;
    // It also reads on in the old records.
    gate.read_all().await;
    for n in 1_501..1_651 {
        sleep(Duration::from_millis(100)).await;
        let payment = listed(&world, n, Maker::Stranger);
        world.upstream.payments.lock().unwrap().push(payment);
    }
    sleep(Duration::from_secs(60)).await;
    gate.read_all().await;
    let told = world.problems().await;
    let unseen: Vec<usize> = (1_500..1_651).filter(|n| !told.contains_key(&name(*n))).collect();
    assert_eq!((unseen, told.len()), (Vec::new(), 151));
}

#[tokio::test(start_paused = true)]
async fn clocks_that_leap_beside_following_lose_no_record_and_no_window() {
    for seed in 1..=3 {
        let world = FollowWorld::new(seed);
        let (follow, dice) = (follow(), world.dice.clone());
        for n in 0..7 {
            world.upstream.payments.lock().unwrap().push(listed(&world, n, Maker::Stranger));
        }
        sleep(Duration::from_secs(2)).await;
        let mut gates = [world.follower(0), world.follower(1)];
        gates[0].read_all().await;
        let mut ranks = BTreeMap::new();
        *world.upstream.trouble.lock().unwrap() = 10;
        for n in 7..120 {
            sleep(Duration::from_secs(dice.below(180))).await;
            // Each clock is right, ahead or behind, by minutes or days.
            // While the store's is ahead by more, money is closed, and nothing is sent.
            let leaps = [0, 0, 600, -600, -2 * DAY_SECS, -450 * DAY_SECS, 2 * DAY_SECS, 450 * DAY_SECS];
            for (clock, leaps) in [(&world.gates_clock, &leaps[..]), (&world.stores_clock, &leaps[..6])] {
                if dice.percent(20) {
                    clock.leap(leaps[usize::try_from(dice.below(leaps.len() as u64)).unwrap()]);
                }
            }
            let maker = [Maker::Gate, Maker::Gate, Maker::Stranger, Maker::Upstream][n % 4];
            let payment = listed(&world, n, maker);
            match maker {
                Maker::Gate => world.pay(payment).await,
                Maker::Stranger | Maker::Upstream => world.upstream.payments.lock().unwrap().push(payment),
            }
            if dice.percent(10) {
                gates[0] = world.follower(0);
            }
            gates[usize::from(dice.percent(50))].read_all().await;
            if n % 10 == 0 {
                check(&world, &follow, &mut ranks).await;
            }
        }
        [&world.gates_clock, &world.stores_clock].iter().for_each(|clock| clock.leap(0));
        *world.upstream.trouble.lock().unwrap() = 0;
        sleep(Duration::from_hours(12)).await;
        for _ in 0..4 {
            sleep(Duration::from_secs(300)).await;
            gates[1].read_all().await;
        }
        check(&world, &follow, &mut ranks).await;
        ended(&world, &follow).await;
    }
}
