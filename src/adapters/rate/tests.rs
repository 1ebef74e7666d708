use std::time::Duration;

use super::local::{Local, MAX_BUCKETS};
use super::open::OpenCalls;
use crate::base::digest::Fingerprint;
use crate::catalog::{Catalog, SchemaFiles};
use crate::policy::{KnownNames, Quota, Rate, RateBound, read_policies};
use crate::ports::Take;

const SECOND: u64 = 1_000_000_000;

fn rates(lines: &[&str]) -> Vec<Rate> {
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    let text = |(at, line): (usize, &&str)| format!("[[rate]]\nid = \"r{at}\"\nops = [\"*\"]\n{line}\n");
    let text: String = lines.iter().enumerate().map(text).collect();
    read_policies(&[("x.toml".to_owned(), text)], &KnownNames { catalog: &catalog, issuers: &[], can_share: true })
        .unwrap()
        .policies
        .rates
}

fn bucket(n: u64) -> Fingerprint {
    Fingerprint::of(&[&n.to_be_bytes()])
}

fn quota(rate: &Rate) -> Quota {
    let RateBound::Quota(quota) = rate.bound else { panic!("a quota") };
    quota
}

/// A call that takes from the same bucket of every rate.
fn takes(rates: &[Rate], n: u64) -> Vec<Take<'_>> {
    rates.iter().enumerate().map(|(at, rate)| Take { rate, at, quota: quota(rate), bucket: bucket(n) }).collect()
}

/// Which buckets had room.
fn room(local: &Local, takes: &[Take<'_>], now: u64) -> Vec<bool> {
    local.take_at(takes, now).iter().map(|taken| taken.mark.has_room).collect()
}

#[test]
fn what_one_refuses_takes_nothing_from_another() {
    let rates = rates(&["quota = \"1/h burst 5\"", "quota = \"1/h burst 2\"", "quota = \"1/h burst 9\""]);
    let local = Local::new(3);
    for _ in 0..2 {
        assert_eq!(room(&local, &takes(&rates, 1), 0), [true; 3]);
    }
    for _ in 0..50 {
        let taken = local.take_at(&takes(&rates, 1), 0);
        let told: Vec<_> = taken.iter().map(|t| (t.mark.has_room, t.mark.left)).collect();
        assert_eq!(told, [(true, 3), (false, 0), (true, 7)]);
    }
    // The order in which they are written makes no difference.
    let backwards: Vec<_> = takes(&rates, 1).into_iter().rev().collect();
    assert_eq!(room(&local, &backwards, 0), [true, false, true]);
    assert_eq!(room(&local, &takes(&rates, 2), 0), [true; 3]);
}

#[test]
fn a_shadow_refuses_nothing_and_is_taken_from_by_what_passes() {
    let rates = rates(&["quota = \"1/h burst 1\"\nmode = \"shadow\"", "quota = \"1/h burst 3\""]);
    let local = Local::new(2);
    let told: Vec<_> = (0..4).map(|_| room(&local, &takes(&rates, 1), 0)).collect();
    assert_eq!(told, [vec![true, true], vec![false, true], vec![false, true], vec![false, false]]);
    assert_eq!(room(&local, &takes(&rates, 1), 3600 * SECOND), [true, true]);
}

#[test]
fn many_threads_get_no_more_than_there_is() {
    let rates = rates(&["quota = \"1/h burst 500\"", "quota = \"1/h burst 300\""]);
    let local = Local::new(2);
    let passed: usize = std::thread::scope(|scope| {
        let count = || (0..200).filter(|_| room(&local, &takes(&rates, 7), 5) == [true, true]).count();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 300);
    assert_eq!(local.take_at(&takes(&rates, 7), 5)[0].mark.left, 200);
}

#[test]
fn what_was_taken_is_given_back() {
    let rates = rates(&["quota = \"1/h burst 2\""]);
    let local = Local::new(1);
    let call = takes(&rates, 1);
    for _ in 0..10 {
        let taken = local.take_now(&call);
        assert!(taken[0].mark.has_room);
        local.give_back(&call, &taken);
    }
    let twice = [local.take_now(&call), local.take_now(&call)];
    assert!(twice.iter().all(|taken| taken[0].mark.has_room));
    // What was refused took nothing, and gives nothing back.
    let third = local.take_now(&call);
    local.give_back(&call, &third);
    assert!(!third[0].mark.has_room && !local.take_now(&call)[0].mark.has_room);
}

#[test]
fn what_was_allowed_elsewhere_counts_here() {
    let rates = rates(&["quota = \"1/h burst 2\""]);
    let local = Local::new(1);
    for _ in 0..5 {
        local.note(&takes(&rates, 1));
    }
    let mark = local.take_now(&takes(&rates, 1))[0].mark;
    assert!(!mark.has_room && mark.more_in.unwrap() <= Duration::from_secs(3600), "{mark:?}");
}

#[test]
fn a_flood_of_callers_fills_a_bounded_room() {
    let rates = rates(&["quota = \"1/day burst 3\"", "quota = \"1/day burst 1\""]);
    let local = Local::new(2);
    let all = takes(&rates, 0);
    let (flooded, other) = all.split_at(1);
    let busy = [Take { bucket: bucket(u64::MAX), ..flooded[0] }];
    assert_eq!(room(&local, other, 0), [true]);
    for now in 0..3 {
        assert_eq!(room(&local, &busy, now), [true]);
    }
    let most = 16 * MAX_BUCKETS;
    for n in 0..(most as u64 * 2) {
        room(&local, &[Take { bucket: bucket(n), ..flooded[0] }], 3 + n);
    }
    assert!(local.len() <= most + 1, "{}", local.len());
    // Whoever has used up what is allowed is not forgotten, and another rate has no part in it.
    assert_eq!(room(&local, &busy, SECOND), [false]);
    assert_eq!(room(&local, other, SECOND), [false]);
}

#[test]
fn buckets_that_are_full_again_are_dropped() {
    let rates = rates(&["quota = \"1000/s burst 1\""]);
    let local = Local::new(1);
    let base = takes(&rates, 0)[0];
    for n in 0..200_000 {
        room(&local, &[Take { bucket: bucket(n), ..base }], n * SECOND / 1000);
    }
    assert!(local.len() <= 16 * 300, "{}", local.len());
}

#[test]
fn a_slot_is_free_when_it_is_dropped() {
    let open = OpenCalls::default();
    let wishes = [(bucket(1), 2, true), (bucket(2), 1, false)];
    let (first, held) = open.enter(&wishes);
    assert_eq!((first, held.len()), (vec![(0, true), (0, true)], 2));
    let (second, more) = open.enter(&wishes);
    // The second bucket is a shadow: it is over, and refuses nothing.
    assert_eq!((second, more.len()), (vec![(1, true), (1, false)], 2));
    let (third, none) = open.enter(&wishes);
    assert_eq!((third[0], none.len()), ((2, false), 0));
    drop(held);
    assert_eq!(open.enter(&wishes).0, [(1, true), (1, false)]);
    drop(more);
    assert_eq!(open.len(), 0);
}
