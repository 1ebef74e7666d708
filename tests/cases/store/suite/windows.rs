//! Windows, and what holders reserve in them.

use std::time::Duration;

use sluice::base::ids::Environment;
use sluice::ledger::{Commit, CommitError, ConflictCause, MAX_UNITS, Step, StoreFault, WindowKey, WindowSpan};

use super::super::asked::*;
use super::super::{BEGIN, Subject};

pub async fn a_fixed_span_ends(subject: &Subject) {
    let store = &*subject.store;
    let day = |from: i64, to: i64| WindowSpan::Fixed { from: at(BEGIN + from), to: at(BEGIN + to) };
    let (first, second) = (day(0, 10), day(10, 20));
    does(store, vec![reserve(first, "a", 6, 10)]).await;
    assert_eq!(stands(store, vec![reserve(second, "b", 1, 10)]).await, [(0, ConflictCause::Time)]);
    subject.clock.advance(micros(9));
    does(store, vec![reserve(first, "b", 4, 10)]).await;
    assert_eq!((used(store, first).await, used(store, second).await), (10, 0));
    subject.clock.advance(micros(1));
    assert_eq!(stands(store, vec![reserve(first, "c", 0, 10)]).await, [(0, ConflictCause::Time)]);
    assert_eq!(stands(store, vec![force(first, "c", 1)]).await, [(0, ConflictCause::Time)]);
    does(store, vec![reserve(second, "c", 10, 10)]).await;
    assert_eq!(used(store, second).await, 10);
}

pub async fn a_rolling_window_forgets_whole_buckets(subject: &Subject) {
    let store = &*subject.store;
    // Buckets of ten: what is of 1 is of the bucket that begins at 0.
    let span = rolling(micros(10), 3);
    subject.clock.advance(micros(1));
    does(store, vec![reserve(span, "a", 1, 100)]).await;
    subject.clock.advance(micros(8));
    does(store, vec![reserve(span, "b", 10, 100)]).await;
    assert_eq!(used(store, span).await, 11);
    // In the bucket of 30 the window begins somewhere in the bucket of 0, which counts whole.
    subject.clock.set(BEGIN + 39);
    assert_eq!(used(store, span).await, 11);
    assert_eq!(stands(store, vec![reserve(span, "c", 90, 100)]).await, [(0, ConflictCause::Used(11))]);
    subject.clock.set(BEGIN + 40);
    assert_eq!(used(store, span).await, 0);
    does(store, vec![reserve(span, "c", 100, 100)]).await;
}

pub async fn max_is_exact(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 60);
    does(store, vec![reserve(span, "a", 3, 10)]).await;
    assert_eq!(stands(store, vec![reserve(span, "b", 8, 10)]).await, [(0, ConflictCause::Used(3))]);
    does(store, vec![reserve(span, "b", 7, 10)]).await;
    assert_eq!(stands(store, vec![reserve(span, "c", 1, 10)]).await, [(0, ConflictCause::Used(10))]);
    does(store, vec![reserve(span, "c", 0, 10)]).await;
    assert_eq!(stands(store, vec![reserve(span, "d", 0, 9)]).await, [(0, ConflictCause::Used(10))]);
}

pub async fn many_slots_are_summed_up_exactly(subject: &Subject) {
    const MAX: u64 = 1_000_000;
    let store = &*subject.store;
    // They reach as far back, in buckets of other lengths.
    let (fine, coarse) = (rolling(micros(10), 12), rolling(micros(60), 2));
    let mut counted: Vec<(i64, u64)> = Vec::new();
    for nth in 1..60_i64 {
        let now = BEGIN + 4 * nth;
        subject.clock.set(now);
        let (holder, units) = (format!("h-{nth}"), u64::try_from(nth).unwrap());
        does(store, vec![reserve(fine, &holder, units, MAX)]).await;
        counted.push((now - now % 10, units));
        if nth % 5 == 0 {
            does(store, vec![give_back(&holder)]).await;
            counted.pop();
        }
        if nth % 3 == 0 {
            used(store, coarse).await;
        }
        let from = now - now % 10 - 120;
        let sum = counted.iter().filter(|(begin, _)| begin + 10 > from).map(|(_, units)| units).sum();
        let too_much = vec![reserve(fine, "one-more", 1, sum)];
        assert_eq!(stands(store, too_much).await, [(0, ConflictCause::Used(sum))], "{nth}");
        if nth % 7 == 0 {
            // What the other reach counts in the slot of a longer bucket counts in both.
            does(store, vec![reserve(coarse, &format!("c-{nth}"), 0, MAX)]).await;
        }
    }
}

pub async fn force_passes_the_limit(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 60);
    does(store, vec![reserve(span, "a", 10, 10)]).await;
    does(store, vec![force(span, "b", 5)]).await;
    assert_eq!(used(store, span).await, 15);
    assert_eq!(stands(store, vec![force(span, "b", 5)]).await, [(0, ConflictCause::Reserved)]);
    does(store, vec![give_back("b")]).await;
    assert_eq!(used(store, span).await, 10);
}

pub async fn a_late_booking_counts_in_its_own_time(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(micros(10), 3);
    subject.clock.set(BEGIN + 25);
    does(store, vec![reserve(span, "a", 10, 10)]).await;
    // It passes the limit, and leaves the window with the bucket of its send.
    does(store, vec![book(span, 7, at(BEGIN + 5))]).await;
    assert_eq!(used(store, span).await, 17);
    assert_eq!(stands(store, vec![reserve(span, "b", 1, 17)]).await, [(0, ConflictCause::Used(17))]);
    subject.clock.set(BEGIN + 40);
    assert_eq!(used(store, span).await, 10);
    does(store, vec![book(span, 7, at(BEGIN + 5))]).await;
    assert_eq!(used(store, span).await, 10);
    let day = WindowSpan::Fixed { from: at(BEGIN), to: at(BEGIN + 100) };
    does(store, vec![book(day, 5, at(BEGIN + 100))]).await;
    does(store, vec![book(day, MAX_UNITS, at(BEGIN + 1))]).await;
    assert!(used(store, day).await >= MAX_UNITS);
}

pub async fn units_that_are_taken_away_leave_their_own_slot(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(micros(10), 3);
    does(store, vec![book(span, 7, at(BEGIN + 5))]).await;
    subject.clock.set(BEGIN + 25);
    does(store, vec![reserve(span, "a", 10, 100)]).await;
    does(store, vec![unbook(span, 3, at(BEGIN + 5))]).await;
    assert_eq!(used(store, span).await, 14);
    // No more than there is, and not from another slot.
    does(store, vec![unbook(span, 50, at(BEGIN + 5))]).await;
    does(store, vec![unbook(span, 1, at(BEGIN + 15))]).await;
    assert_eq!(used(store, span).await, 10);
    does(store, vec![book(span, 4, at(BEGIN + 5))]).await;
    assert_eq!(used(store, span).await, 14);
    // What no window reaches any more stays as it is.
    subject.clock.set(BEGIN + 41);
    does(store, vec![unbook(span, 4, at(BEGIN + 5))]).await;
    assert_eq!(used(store, span).await, 10);
    let day = WindowSpan::Fixed { from: at(BEGIN), to: at(BEGIN + 100) };
    does(store, vec![unbook(day, 5, at(BEGIN + 100))]).await;
    assert_eq!(used(store, span).await, 10);
}

pub async fn settle_and_give_back_once(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 60);
    does(store, vec![reserve(span, "a", 3, 10)]).await;
    does(store, vec![reserve(span, "b", 4, 10)]).await;
    for _ in 0..2 {
        does(store, vec![give_back("a")]).await;
        assert_eq!(used(store, span).await, 4);
    }
    for step in [settle("b"), settle("b"), give_back("b"), settle("nobody"), give_back("nobody")] {
        does(store, vec![step]).await;
        assert_eq!(used(store, span).await, 4);
    }
    // Who has settled may reserve again, and give back that.
    does(store, vec![reserve(span, "b", 6, 10)]).await;
    does(store, vec![give_back("b")]).await;
    assert_eq!(used(store, span).await, 4);
}

pub async fn one_reservation_for_each_holder(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 1);
    does(store, vec![reserve(span, "a", 1, 10)]).await;
    assert_eq!(stands(store, vec![reserve(span, "a", 1, 10)]).await, [(0, ConflictCause::Reserved)]);
    // However long ago it was.
    subject.clock.advance(secs(600));
    assert_eq!(stands(store, vec![reserve(span, "a", 1, 10)]).await, [(0, ConflictCause::Reserved)]);
    does(store, vec![settle("a")]).await;
    does(store, vec![reserve(span, "a", 1, 10)]).await;
}

pub async fn windows_are_apart(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 1);
    let windows = [("a", "bc"), ("ab", "c"), ("a", "b"), ("", "abc")];
    for (at, (limit, key)) in windows.iter().enumerate() {
        let (window, units) = (window(limit, key), 1 << at);
        let step = Step::Reserve { window, span, holder: "h".to_owned(), units, max: units };
        does(store, vec![step]).await;
    }
    for (at, (limit, key)) in windows.iter().enumerate() {
        assert_eq!(store.used(ENVIRONMENT, &window(limit, key), span).await.unwrap(), 1 << at);
        assert_eq!(store.used(Environment::Production, &window(limit, key), span).await.unwrap(), 0);
    }
    let steps = vec![Step::Reserve { window: window("a", "b"), span, holder: "h".to_owned(), units: 1, max: 1 }];
    store.commit(Commit { environment: Environment::Production, ..commit(steps) }).await.unwrap();
}

pub async fn senseless_spans_are_refused(subject: &Subject) {
    let store = &*subject.store;
    let spans = [
        rolling(Duration::ZERO, 1),
        rolling(Duration::from_nanos(1), 1),
        rolling(Duration::MAX, 1),
        WindowSpan::Fixed { from: at(BEGIN), to: at(BEGIN) },
        WindowSpan::Fixed { from: at(BEGIN + 1), to: at(BEGIN) },
    ];
    for span in spans {
        let refused = store.commit(commit(vec![reserve(span, "a", 1, 10)])).await;
        assert!(matches!(refused, Err(CommitError::Fault(StoreFault::Broken(_)))), "{span:?}: {refused:?}");
        assert!(matches!(store.used(ENVIRONMENT, &day(), span).await, Err(StoreFault::Broken(_))), "{span:?}");
    }
}

pub async fn what_is_given_back_late_counts_no_longer(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 2);
    does(store, vec![reserve(span, "a", 5, 10)]).await;
    subject.clock.advance(secs(60));
    does(store, vec![reserve(span, "b", 5, 10)]).await;
    // It goes from the bucket in which it was reserved.
    does(store, vec![give_back("a")]).await;
    assert_eq!(used(store, span).await, 5);
    does(store, vec![reserve(span, "a", 5, 10)]).await;
    subject.clock.advance(secs(6_000));
    while store.sweep().await.unwrap() > 0 {}
    does(store, vec![reserve(span, "c", 10, 10)]).await;
    does(store, vec![give_back("a")]).await;
    assert_eq!(used(store, span).await, 10);
}

pub async fn nothing_counts_beyond_the_most(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 2);
    assert_eq!(stands(store, vec![reserve(span, "a", u64::MAX, u64::MAX)]).await, [(0, ConflictCause::Used(0))]);
    assert_eq!(stands(store, vec![force(span, "a", MAX_UNITS + 1)]).await, [(0, ConflictCause::Used(0))]);
    does(store, vec![force(span, "a", MAX_UNITS)]).await;
    assert_eq!(stands(store, vec![force(span, "b", 1)]).await, [(0, ConflictCause::Used(MAX_UNITS))]);
    assert_eq!(stands(store, vec![reserve(span, "b", 1, u64::MAX)]).await, [(0, ConflictCause::Used(MAX_UNITS))]);
    assert_eq!(used(store, span).await, MAX_UNITS);
}

pub async fn windows_are_found(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 60);
    let all = async |limit| {
        let mut found = store.windows(ENVIRONMENT, limit, 100).await.unwrap();
        found.sort();
        found.into_iter().map(|window| (window.limit, window.key)).collect::<Vec<_>>()
    };
    assert!(all(None).await.is_empty());
    // Names that begin alike, and keys with what separates names.
    let windows = [("day", "a"), ("day", "[\"x\",\"y 2:da:z\"]"), ("day-2", "a"), ("da", "y:a"), ("other", "")];
    for (at, (limit, key)) in windows.into_iter().enumerate() {
        let window = WindowKey { limit: limit.to_owned(), key: key.to_owned() };
        for holder in ["one", "two"] {
            let holder = format!("{holder} {at}");
            does(store, vec![Step::Reserve { window: window.clone(), span, holder, units: 1, max: 10 }]).await;
            subject.clock.advance(secs(60));
        }
    }
    let expected = |of: Option<&str>| {
        let mut expected: Vec<_> = windows.iter().filter(|(limit, _)| of.is_none_or(|of| of == *limit)).collect();
        expected.sort();
        expected.into_iter().map(|(limit, key)| ((*limit).to_owned(), (*key).to_owned())).collect::<Vec<_>>()
    };
    for limit in [None, Some("day"), Some("da"), Some("other"), Some("none")] {
        assert_eq!(all(limit).await, expected(limit), "{limit:?}");
    }
    assert_eq!(store.windows(ENVIRONMENT, None, 2).await.unwrap().len(), 2);
    for limit in [None, Some("day"), Some("da"), Some("none")] {
        let (mut found, mut behind) = (Vec::new(), None);
        while let Some(window) = store.windows_behind(ENVIRONMENT, limit, behind, 1).await.unwrap().pop() {
            found.push((window.limit.clone(), window.key.clone()));
            behind = Some(window);
        }
        found.sort();
        assert_eq!(found, expected(limit), "page by page: {limit:?}");
    }
    let window = |(limit, key): (&str, &str)| WindowKey { limit: limit.to_owned(), key: key.to_owned() };
    let asked: Vec<WindowKey> = [windows[4], ("other", "none"), windows[0], windows[1]].map(window).into();
    assert_eq!(store.used_of(ENVIRONMENT, asked, span).await.unwrap(), [2, 0, 2, 2]);
    assert!(store.windows(Environment::Production, None, 100).await.unwrap().is_empty());
}
