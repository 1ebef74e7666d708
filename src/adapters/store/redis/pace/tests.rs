use super::*;

fn seconds(seconds: i64) -> StoreTime {
    StoreTime::of_micros(seconds * 1_000_000)
}

/// A reading by a heartbeat of this many seconds after now.
fn reading(clock: i64, at: i64, epoch: u64, later: u64) -> ClockReading {
    let then = SystemClock.elapsed() + Duration::from_secs(later);
    let (clock, at) = (seconds(clock), seconds(at));
    ClockReading { clock, at, stored: at, correction: 0, epoch, within: (then, then) }
}

fn leap(pace: &StorePace) -> Option<i64> {
    pace.state().leap.map(|leap| (leap.as_micros() + 500_000).div_euclid(1_000_000))
}

/// A gate that goes on from second 1,000, and has compared the clock.
fn settled(clock: i64, of_day: i64) -> StorePace {
    let pace = StorePace::default();
    pace.begin(seconds(1_000), seconds(clock));
    pace.compare(reading(clock, 1_000, 0, 0));
    assert!(!pace.is_settled() && leap(&pace).is_none(), "whatever leaps is not its own to judge yet");
    pace.settle(seconds(of_day), true);
    pace.compare(reading(clock, 1_000, 0, 0));
    pace
}

#[test]
fn a_time_of_day_that_nobody_confirmed_brings_no_other_time() {
    for (clock, of_day, wanted) in [
        (1_000, 1_000, None),
        (173_800, 173_800, None),
        // One of the two is wrong.
        (173_800, 1_000, Some(172_800)),
        (173_800, 800_000, Some(172_800)),
        (1_000, 173_800, None),
    ] {
        let pace = StorePace::default();
        pace.begin(seconds(1_000), seconds(clock));
        pace.compare(reading(clock, 1_000, 0, 0));
        pace.settle(seconds(of_day), false);
        pace.compare(reading(clock, 1_000, 0, 0));
        assert_eq!(leap(&pace), wanted, "{clock} {of_day}");
    }
}

#[test]
fn a_start_goes_by_the_clock_of_the_redis_where_the_time_of_day_agrees() {
    for (clock, of_day, wanted) in [
        (1_000, 1_000, None),
        // The gates were down for two days.
        (173_800, 173_800, None),
        (173_800, 173_741, None),
        // The clock was set ahead, or back, while they were down.
        (173_800, 1_000, Some(172_800)),
        (173_800, 173_700, Some(100)),
        (1_000, 173_800, Some(-172_800)),
        // The time of the store is ahead of both.
        (500, 500, Some(-500)),
        // It went a little ahead at the start before: it goes no further.
        (990, 970, None),
        (1_050, 980, Some(70)),
    ] {
        assert_eq!(leap(&settled(clock, of_day)), wanted, "{clock} {of_day}");
    }
}

#[test]
fn a_start_shifts_the_clock_until_it_is_compared() {
    let pace = StorePace::default();
    assert_eq!(pace.expected(), None);
    pace.begin(seconds(1_000), seconds(173_800));
    assert_eq!(pace.expected().unwrap().shift, Some(-172_800_000_000));
    pace.compare(reading(173_800, 1_000, 0, 0));
    pace.settle(seconds(173_800), true);
    let expected = pace.expected().unwrap();
    assert_eq!(expected.shift, None);
    assert!(expected.at >= seconds(173_800) && expected.at < seconds(173_900), "{expected:?}");
}

#[test]
fn people_s_word_is_waited_for_in_the_journal_and_counts_no_further() {
    let pace = settled(1_000, 1_000);
    pace.compare(reading(9_000, 1_004, 0, 4));
    assert_eq!(leap(&pace), Some(7_996));
    pace.compare(reading(9_001, 1_005, 1, 5));
    assert!(pace.says_followed() && leap(&pace).is_none());
    // The journal says it.
    assert!(pace.meet(0));
    pace.compare(reading(9_002, 9_002, 1, 6));
    assert!(!pace.says_followed() && leap(&pace).is_none());
    // The journal does not say it.
    pace.compare(reading(90_000, 9_003, 2, 7));
    assert!(pace.says_followed() && leap(&pace).is_none());
    pace.compare(reading(90_011, 9_014, 2, 18));
    assert!(!pace.says_followed());
    assert_eq!(leap(&pace), Some(80_997));
}

#[test]
fn a_clock_is_met_only_with_the_correction_of_the_journal() {
    let pace = settled(1_000, 1_000);
    let corrected = |clock: i64, correction: i64, later| ClockReading { correction, ..reading(clock, 1_004, 0, later) };
    pace.compare(corrected(9_000, 7_996_000_000, 4));
    assert!(!pace.meet(0) && leap(&pace) == Some(7_996));
    // It would go on as expected without the correction.
    assert!(pace.correction().unwrap().abs() < 1_000_000);
    assert!(pace.meet(7_996_000_000) && leap(&pace).is_none());
    // A small one is no leap. The journal may need long.
    for (later, kept, wanted) in
        [(5, 6, false), (14, 7, false), (16, 7, true), (17, 7, false), (28, 6, false), (29, 7, true)]
    {
        pace.compare(corrected(8_996 + i64::try_from(later).unwrap(), 7_997_000_000, later));
        let is_found = pace.is_corrected_otherwise(7_996_000_000, Number::new(7), Number::new(kept));
        assert_eq!(is_found, wanted, "{later}");
        assert!(leap(&pace).is_none());
    }
    assert!(!pace.is_corrected_otherwise(7_997_000_000, Number::new(7), Number::new(7)));
}

#[test]
fn a_gate_compares_nothing_before_it_has_settled_and_while_people_s_word_is_awaited() {
    let pace = StorePace::default();
    assert_eq!(pace.compared(), None);
    pace.begin(seconds(1_000), seconds(1_000));
    pace.compare(reading(1_000, 1_000, 0, 0));
    assert_eq!(pace.compared(), None);
    pace.settle(seconds(1_000), true);
    pace.compare(reading(1_001, 1_001, 0, 1));
    assert_eq!(pace.compared(), Some(ComparedClock { clock: seconds(1_001), leap: None }));
    pace.compare(reading(90_000, 1_002, 1, 2));
    assert_eq!(pace.compared(), None);
}

#[test]
fn a_time_that_no_gate_told_is_never_gone_on_from() {
    let far = |clock: i64, at: i64, epoch, later| ClockReading {
        stored: seconds(9_000_000),
        ..reading(clock, at, epoch, later)
    };
    for (clock, at, wanted) in [
        (1_004, 1_066, 1_004),
        (1_004, 1_064, 1_004),
        // People have a clock followed that leapt.
        (9_000, 1_066, 9_000),
        // The clock is behind: the time goes on.
        (-9_000, 1_066, 1_004),
        (-9_000, 1_002, 1_002),
    ] {
        let pace = settled(1_000, 1_000);
        pace.compare(far(clock, at, 1, 4));
        assert!(pace.meet(0));
        let anchor = pace.state().anchor.unwrap();
        let went_on = anchor.expected(pace.state().last.unwrap().middle()).as_micros() / 1_000_000;
        assert_eq!(went_on, wanted, "{clock} {at}");
        assert_eq!(pace.told(), seconds(wanted), "{clock} {at}");
        // It is put right, although people's word was followed meanwhile.
        pace.compare(far(clock + 15, clock + 15, 1, 19));
        assert!(pace.has_foreign_time(), "{clock} {at}");
    }
    // What other gates told who followed people's word before is none.
    let pace = settled(1_000, 1_000);
    for later in [4, 19] {
        pace.compare(reading(9_000 + i64::try_from(later).unwrap(), 9_000, 1, later));
    }
    assert!(pace.has_foreign_time() && pace.meet(0) && !pace.has_foreign_time());
}

#[test]
fn a_comparison_that_begins_anew_goes_on_from_the_clock() {
    let pace = settled(1_000, 1_000);
    pace.compare(reading(4_700, 4_761, 0, 3_700));
    assert_eq!(leap(&pace), None);
    pace.compare(reading(4_701, 4_701, 0, 3_701));
    assert_eq!(leap(&pace), None);
}

#[test]
fn the_script_believes_as_much_as_a_gate() {
    let bound = format!("local AHEAD = {} * 1000000\n", ALIKE_AT_START.as_secs());
    assert!(include_str!("../script.lua").contains(&bound), "{bound}");
}

#[test]
fn a_time_that_no_gate_told_is_noticed_once_it_stays() {
    let pace = settled(1_000, 1_000);
    let ahead = |stored: i64, later: u64| ClockReading {
        stored: seconds(stored),
        ..reading(1_000 + i64::try_from(later).unwrap(), 1_000, 0, later)
    };
    for (stored, later, wanted) in [
        (1_050, 1, false),
        (9_000, 2, false),
        (9_000, 16, false),
        (9_000, 17, true),
        (1_018, 18, false),
        (9_000, 19, false),
    ] {
        pace.compare(ahead(stored, later));
        assert_eq!(pace.has_foreign_time(), wanted, "{stored} {later}");
    }
}
