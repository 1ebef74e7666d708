//! The pages of upstream's list: how many records it gives, how many share a moment, and when it is away.

use std::time::Duration;

use sluice::journey::follow::FollowPace;
use tokio::time::sleep;

use super::id;
use super::seeded::listed;
use super::world::{FollowWorld, Listed, Maker, PACE};

const MINUTE: Duration = Duration::from_secs(60);

/// A world whose list was empty at the first reading; then strangers paid at these times, counted from then on.
async fn world_of(micros: impl Iterator<Item = i64>) -> FollowWorld {
    let world = FollowWorld::new(1);
    world.follower(0).read_all().await;
    sleep(MINUTE).await;
    let begin = world.now();
    let payment = |(n, after): (usize, i64)| Listed { created: begin + after, ..listed(&world, n, Maker::Stranger) };
    let payments = micros.enumerate().map(payment).collect();
    *world.upstream.payments.lock().unwrap() = payments;
    world
}

/// The numbers of the payments below `count` that are told as nobody's after so many readings.
async fn told(world: &FollowWorld, count: usize, readings: usize) -> Vec<usize> {
    let mut gate = world.follower(0);
    for _ in 0..readings {
        sleep(MINUTE).await;
        gate.read_all().await;
    }
    let told = world.problems().await;
    let is_told = |n: &usize| told.get(&id(n + 1_000_000)).is_some_and(|all| all.contains(&"unknown-request"));
    (0..count).filter(is_told).collect()
}

async fn crowded(world: &FollowWorld) -> usize {
    world.problems().await.values().filter(|all| all.contains(&"crowded-time")).count()
}

#[tokio::test(start_paused = true)]
async fn a_page_with_fewer_records_than_were_asked_for_hides_none() {
    for most in [1, 2, 10, 37, 99] {
        let world = world_of((0..60).map(|n| n * 1_000_000)).await;
        *world.upstream.most.lock().unwrap() = most;
        assert_eq!(told(&world, 60, 40).await, Vec::from_iter(0..60), "{most} in a page");
        assert_eq!(crowded(&world).await, 0, "{most} in a page");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_read_to_its_end_takes_few_pages() {
    let world = world_of((0..60).map(|n| n * 1_000_000)).await;
    let before = *world.upstream.pages.lock().unwrap();
    assert_eq!(told(&world, 60, 10).await.len(), 60);
    let pages = *world.upstream.pages.lock().unwrap() - before;
    assert!(pages <= 30, "{pages} pages in 10 readings");
}

#[tokio::test(start_paused = true)]
async fn records_of_one_moment_are_all_read_or_told_to_be_too_many() {
    let around = |moment: Vec<i64>| (0..20).map(|n| n * 1_000_000).chain(moment).chain((31..41).map(|n| n * 1_000_000));
    let at = 30_000_000;
    // As many as a page has at one microsecond, with others of that millisecond; and more, each at its own microsecond.
    for moment in [
        std::iter::repeat_n(at, 80).chain(std::iter::repeat_n(at + 500, 50)).collect(),
        std::iter::repeat_n(at, 99).chain(std::iter::repeat_n(at + 1, 99)).collect(),
        (0..130).map(|n| at + n).collect::<Vec<i64>>(),
    ] {
        let count = moment.len() + 30;
        let world = world_of(around(moment)).await;
        assert_eq!(told(&world, count, 4).await, Vec::from_iter(0..count));
        assert_eq!(crowded(&world).await, 0);
    }
    // Upstream's cursor is a time: of more records of one microsecond than a page has, only so many can be read.
    let world = world_of(around(vec![at; 130])).await;
    let told = told(&world, 160, 4).await;
    assert_eq!(told.iter().filter(|n| (20..150).contains(*n)).count(), 100);
    assert_eq!(told.iter().filter(|n| !(20..150).contains(*n)).count(), 30, "none before or after them is hidden");
    assert_eq!(crowded(&world).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_away_is_asked_for_with_growing_pauses() {
    let world = FollowWorld::new(1);
    let mut gate = world.follower_at(0, FollowPace { longest_pause: 8 * MINUTE, ..PACE });
    let mut asked = Vec::new();
    for minute in 0..60 {
        *world.upstream.most.lock().unwrap() = if (40..50).contains(&minute) { usize::MAX } else { 0 };
        let before = *world.upstream.pages.lock().unwrap();
        gate.read_all().await;
        if *world.upstream.pages.lock().unwrap() > before {
            asked.push(minute);
        }
        // A reading takes some milliseconds.
        sleep(MINUTE).await;
    }
    // The pause doubles up to the longest one; a reading that succeeds ends it.
    let failing = [0, 1, 3, 7, 15, 23, 31, 39];
    let well = 47..50;
    let failing_again = [50, 51, 53, 57];
    assert_eq!(asked, failing.into_iter().chain(well).chain(failing_again).collect::<Vec<u64>>());
}
