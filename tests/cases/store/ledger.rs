//! Windows against a ledger that writes everything down and adds it up each time.

use std::sync::Arc;

use proptest::prelude::*;
use sluice::adapters::store::embedded::{Embedded, Options};
use sluice::adapters::store::memory::MemoryStore;
use sluice::ledger::{CommitError, ConflictCause, StoreTime, WindowSpan};
use sluice::ports::Store;
use tempfile::TempDir;

use super::asked::*;
use super::property::OfDay;
use super::{BEGIN, Hand};

const BUCKET: i64 = 10;
const COUNT: i64 = 3;

#[derive(Clone, Debug)]
enum Act {
    Reserve {
        units: u64,
        max: u64,
    },
    Force {
        units: u64,
    },
    /// A late proof: it counts in the time of the send, this long ago.
    Book {
        units: u64,
        ago: i64,
    },
    Settle(usize),
    GiveBack(usize),
    /// The clock moves, back as well.
    Move(i64),
    /// The process ends and begins anew.
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (1..9_u64, 5..30_u64).prop_map(|(units, max)| Act::Reserve { units, max }),
        1 => (1..9_u64).prop_map(|units| Act::Force { units }),
        1 => (1..9_u64, 0..60_i64).prop_map(|(units, ago)| Act::Book { units, ago }),
        3 => (0..20_usize).prop_map(Act::Settle),
        4 => (0..20_usize).prop_map(Act::GiveBack),
        6 => (-15..25_i64).prop_map(Act::Move),
        1 => Just(Act::Crash),
    ]
}

#[derive(Debug)]
struct Line {
    at: i64,
    units: u64,
    /// What is settled counts for good.
    is_settled: bool,
    is_given_back: bool,
}

#[derive(Debug, Default)]
struct Ledger(Vec<Line>);

impl Ledger {
    /// A payment counts for the whole length of the window at least, and to the end of its bucket at most.
    fn used(&self, now: i64) -> u64 {
        let counts = |line: &&Line| {
            let counts = now.div_euclid(BUCKET) - line.at.div_euclid(BUCKET) <= COUNT;
            assert!(counts || now - line.at >= BUCKET * COUNT, "a payment counted for less than its window");
            assert!(!counts || now - line.at < BUCKET * (COUNT + 1), "a payment counted for longer than its bucket");
            counts && !line.is_given_back
        };
        self.0.iter().filter(counts).map(|line| line.units).sum()
    }
}

async fn run<S: Store>(acts: Vec<Act>, clock: &Hand, open: impl Fn(Option<S>) -> S) {
    let span = WindowSpan::Rolling { bucket: micros(BUCKET as u64), count: COUNT as u32 };
    let mut store = open(None);
    let (mut ledger, mut told) = (Ledger::default(), BEGIN);
    for act in acts {
        let holder = format!("holder-{}", ledger.0.len());
        match act {
            Act::Reserve { units, max } => match store.commit(commit(vec![reserve(span, &holder, units, max)])).await {
                Ok(committed) => {
                    let at = committed.at().as_micros();
                    let used = ledger.used(at);
                    assert!(used + units <= max, "{used} and {units} are over {max}");
                    ledger.0.push(Line { at, units, is_settled: false, is_given_back: false });
                }
                Err(CommitError::Rejected { at, conflicts }) => {
                    let used = ledger.used(at.as_micros());
                    assert!(used + units > max, "{used} and {units} are not over {max}");
                    assert!(matches!(conflicts[0].found, ConflictCause::Used(found) if found == used));
                }
                Err(fault) => panic!("{fault:?}"),
            },
            Act::Force { units } => {
                let at = store.commit(commit(vec![force(span, &holder, units)])).await.unwrap().at().as_micros();
                ledger.0.push(Line { at, units, is_settled: false, is_given_back: false });
            }
            Act::Book { units, ago } => {
                let at = store.time().await.unwrap().as_micros() - ago;
                store.commit(commit(vec![book(span, units, StoreTime::of_micros(at))])).await.unwrap();
                ledger.0.push(Line { at, units, is_settled: true, is_given_back: false });
            }
            Act::Settle(line) | Act::GiveBack(line) => {
                let holder = format!("holder-{line}");
                let gives_back = matches!(act, Act::GiveBack(_));
                let step = if gives_back { give_back(&holder) } else { settle(&holder) };
                store.commit(commit(vec![step])).await.unwrap();
                if let Some(line) = ledger.0.get_mut(line) {
                    line.is_settled |= !gives_back && !line.is_given_back;
                    line.is_given_back |= gives_back && !line.is_settled;
                }
            }
            Act::Move(by) => {
                told += by;
                clock.set(told);
            }
            Act::Crash => store = open(Some(store)),
        }
        let (now, used) = (store.time().await.unwrap(), store.used(ENVIRONMENT, &day(), span).await.unwrap());
        assert_eq!(used, ledger.used(now.as_micros()), "{ledger:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_window_holds_what_a_ledger_adds_up(acts in prop::collection::vec(act(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = Hand::at(BEGIN);
        let of_day = Arc::new(OfDay(clock.clone()));
        let memory = |before: Option<MemoryStore>| before.unwrap_or_else(|| MemoryStore::new(of_day.clone()));
        runtime.block_on(run(acts, &clock, memory));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn so_does_a_window_that_outlives_its_process(acts in prop::collection::vec(act(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (clock, folder) = (Hand::at(BEGIN), TempDir::new().unwrap());
        let of_day = Arc::new(OfDay(clock.clone()));
        let embedded = |before: Option<Embedded>| {
            drop(before);
            Embedded::open(folder.path(), of_day.clone(), Options::default()).unwrap()
        };
        runtime.block_on(run(acts, &clock, embedded));
    }
}
