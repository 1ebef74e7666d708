//! A rebuild against the same entries one by one: random histories, with what journals lose and what people change.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::layout::END;
use super::super::plan::{self, PlannedChange};
use super::super::queries::Pair;
use super::super::sealed::SealingKey;
use super::*;
use crate::adapters::audit::{JournalPart, audit_file, read_journal};
use crate::audit::{FileHeader, Hash, InOrder, LineText};
use crate::base::secret::Secret;
use crate::ledger::{Commit, Index, Keep, Kind, Outstanding, RecordKey, Step, StoreTime, WindowKey, WindowSpan};

const BEGIN: i64 = 1_800_000_000_000_000;
const MINUTE: i64 = 60_000_000;

#[derive(Clone, Debug)]
enum JournalAct {
    Commit {
        environment: Environment,
        steps: Vec<Step>,
        is_plain: bool,
    },
    Pass {
        minutes: i64,
    },
    /// Commits that no journal has; the next entry says so, or says that there were more.
    Lose {
        environment: Environment,
        count: u64,
        behind: u64,
    },
    NewFile,
}

/// What becomes of an entry on its way into the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Written,
    Lost,
    /// It is in the next file, and the header of that file counts it.
    Late,
    Twice,
    WithoutSteps,
    Garbled,
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn minutes() -> impl Strategy<Value = Duration> {
    (0..200_u64).prop_map(|minutes| Duration::from_secs(minutes * 60))
}

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![Just(Keep::Forever), (minutes(), minutes()).prop_map(|(whole, spent)| Keep::For { whole, spent })]
}

fn span() -> impl Strategy<Value = WindowSpan> {
    let fixed = |(from, length)| WindowSpan::Fixed {
        from: StoreTime::of_micros(BEGIN + from * MINUTE),
        to: StoreTime::of_micros(BEGIN + (from + length) * MINUTE),
    };
    prop_oneof![
        3 => (1..30_u64, 1..4_u32)
            .prop_map(|(bucket, count)| WindowSpan::Rolling { bucket: Duration::from_secs(bucket * 60), count }),
        1 => (0..60_i64, 1..600_i64).prop_map(fixed),
    ]
}

fn step(environment: Environment) -> impl Strategy<Value = Step> {
    let kinds = vec![Kind::Claim, Kind::Hold, Kind::Freeze];
    let key = move || {
        let kind = prop::sample::select(kinds.clone());
        (name(), kind).prop_map(move |(name, kind)| RecordKey { environment, kind, name })
    };
    let value = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let version = || (1..20_u64).prop_map(Number::new);
    let index = || prop::sample::select(vec![Index::Sending, Index::Held, Index::Ended]);
    let window = || (name(), name()).prop_map(|(limit, key)| WindowKey { limit, key });
    prop_oneof![
        1 => key().prop_map(Step::Absent),
        1 => (index(), name()).prop_map(|(index, member)| Step::Member { index, member }),
        5 => (key(), value(), keep()).prop_map(|(key, value, keep)| Step::Create { key, value, keep }),
        4 => (key(), version(), value(), keep())
            .prop_map(|(key, version, value, keep)| Step::Replace { key, version, value, keep }),
        1 => (key(), version()).prop_map(|(key, version)| Step::Delete { key, version }),
        3 => (index(), name(), minutes()).prop_map(|(index, member, due)| Step::IndexAdd { index, member, due }),
        2 => (index(), name(), minutes()).prop_map(|(index, member, ago)| Step::IndexEarliest { index, member, ago }),
        2 => (index(), name()).prop_map(|(index, member)| Step::IndexRemove { index, member }),
        6 => (window(), span(), name(), 0..9_u64, 5..40_u64)
            .prop_map(|(window, span, holder, units, max)| Step::Reserve { window, span, holder, units, max }),
        1 => (window(), span(), name(), 0..9_u64)
            .prop_map(|(window, span, holder, units)| Step::Force { window, span, holder, units }),
        1 => (window(), span(), 0..9_u64, 0..600_i64).prop_map(|(window, span, units, at)| {
            Step::Book { window, span, units, at: StoreTime::of_micros(BEGIN + at * MINUTE) }
        }),
        1 => (window(), span(), 0..9_u64, 0..600_i64).prop_map(|(window, span, units, at)| {
            Step::Unbook { window, span, units, at: StoreTime::of_micros(BEGIN + at * MINUTE) }
        }),
        2 => (window(), name()).prop_map(|(window, holder)| Step::Settle { window, holder }),
        2 => (window(), name()).prop_map(|(window, holder)| Step::GiveBack { window, holder }),
    ]
}

fn act() -> impl Strategy<Value = JournalAct> {
    let environment = || prop::sample::select(Environment::ALL.to_vec());
    let commit = environment().prop_flat_map(|environment| {
        (prop::collection::vec(step(environment), 0..4), prop::bool::weighted(0.05))
            .prop_map(move |(steps, is_plain)| JournalAct::Commit { environment, steps, is_plain })
    });
    prop_oneof![
        40 => commit,
        6 => (0..90_i64).prop_map(|minutes| JournalAct::Pass { minutes }),
        1 => (environment(), 1..4_u64, 0..4_u64)
            .prop_map(|(environment, count, behind)| JournalAct::Lose { environment, count, behind }),
        2 => Just(JournalAct::NewFile),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        60 => Just(Fate::Written),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Late),
        1 => Just(Fate::Twice),
        1 => Just(Fate::WithoutSteps),
        1 => Just(Fate::Garbled),
    ]
}

fn node() -> NodeId {
    NodeId::parse("a").unwrap()
}

fn sealing() -> Seals {
    Seals::new(vec![SealingKey::new("1", &Secret::new("42".repeat(32))).unwrap()])
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store that makes commits, and the journal that is written of them.
struct History {
    map: Map,
    now: i64,
    seals: Seals,
    lost: BTreeMap<Environment, (u64, u64)>,
    files: Vec<(Highest, Vec<Outstanding>)>,
    late: Vec<Outstanding>,
}

impl History {
    fn of(acts: Vec<(JournalAct, Fate)>, seals: Seals) -> History {
        let files = vec![(Highest::new(), Vec::new())];
        let mut history =
            History { map: Map::new(), now: BEGIN, seals, lost: BTreeMap::new(), files, late: Vec::new() };
        for (act, fate) in acts {
            match act {
                JournalAct::Commit { environment, steps, is_plain } => {
                    history.commit(environment, steps, is_plain, fate)
                }
                JournalAct::Pass { minutes } => history.now += minutes * MINUTE,
                JournalAct::Lose { environment, count, behind } => {
                    let last = queries::last(&history.map, environment).unwrap();
                    history.lost.insert(environment, (last.saturating_sub(behind), last + count));
                }
                JournalAct::NewFile => history.new_file(),
            }
        }
        history
    }

    fn commit(&mut self, environment: Environment, mut steps: Vec<Step>, is_plain: bool, fate: Fate) {
        let mut entry = "{\"what\":\"sending\"}".to_owned();
        if let Some((behind, above)) = self.lost.get(&environment) {
            entry = format!("{{\"above\":{above},\"begins\":0,\"upTo\":{behind}}}");
            steps.push(Step::Above(Number::new(*above)));
        }
        self.now += 1_000;
        let commit = Commit { environment, node: node(), steps, entry: entry.into() };
        let seals = if is_plain { &Seals::default() } else { &self.seals };
        let commit = seals.sealed_commit(commit).unwrap();
        let Ok(planned) = plan::plan(&self.map, StoreTime::of_micros(self.now), &commit) else { return };
        self.lost.remove(&environment);
        for change in planned.changes {
            match change {
                PlannedChange::Put(key, value) => drop(self.map.insert(key, value)),
                PlannedChange::Remove(key) => drop(self.map.remove(&key)),
            }
        }
        let (number, at) = (planned.committed.number(), planned.committed.at());
        let entry = Outstanding { environment, number, at, node: node(), entry: commit.entry };
        let with = |text: &str| Outstanding { entry: Bytes::from(text.to_owned()), ..entry.clone() };
        let (_, file) = self.files.last_mut().unwrap();
        match fate {
            Fate::Written => file.push(entry),
            Fate::Lost => {}
            Fate::Late => self.late.push(entry),
            Fate::Twice => file.extend([entry.clone(), entry]),
            Fate::WithoutSteps => file.push(with("{}")),
            Fate::Garbled => file.push(with("{\"steps\":\"AHNlYWxlZAE\"}")),
        }
    }

    fn new_file(&mut self) {
        let last = |environment| (environment, queries::last(&self.map, environment).unwrap());
        let highest = Environment::ALL.map(last).into_iter().filter(|(_, number)| *number > 0).collect();
        self.files.push((highest, std::mem::take(&mut self.late)));
    }

    fn write(&self, folder: &Path) {
        let mut hash = Hash::NOTHING;
        for (sequence, (highest, entries)) in (1..).zip(&self.files) {
            let at = StoreTime::of_micros(BEGIN);
            let mut bytes = Vec::new();
            let header =
                FileHeader { node: node(), sequence, at, highest: highest.clone(), snapshot: None, anew: [].into() };
            hash = LineText::of_header(&header).unwrap().put_behind(hash, &mut bytes);
            for entry in entries {
                hash = LineText::of_entry(entry).unwrap().put_behind(hash, &mut bytes);
            }
            fs::write(audit_file(folder, &node(), sequence), bytes).unwrap();
        }
    }
}

fn one_by_one(replica: &Replica, journal: &Path) -> Rebuilt {
    let (mut rebuilt, mut order) = (Rebuilt::default(), InOrder::default());
    let make = |rebuilt: &mut Rebuilt, entry: Outstanding| {
        let made = replica.apply(std::slice::from_ref(&entry), false).unwrap();
        rebuilt.take(&entry, made.into_iter().next().unwrap());
    };
    let flaw = read_journal(journal, &node(), &Highest::new(), &mut |part| {
        match part {
            JournalPart::Entry(entry) => order.add(entry).into_iter().for_each(|entry| make(&mut rebuilt, entry)),
            JournalPart::File(header) => {
                for (&environment, &number) in &header.highest {
                    let Some(waited) = order.go_on(environment, &header) else { continue };
                    waited.into_iter().for_each(|entry| make(&mut rebuilt, entry));
                    let first = replica.last(environment).unwrap().as_u64() + 1;
                    replica.pass_over(environment, number).unwrap();
                    if first <= number {
                        rebuilt.missing.push((environment, Number::new(first), Number::new(number)));
                    }
                }
            }
        }
        Ok(())
    });
    rebuilt.flaw = flaw.unwrap();
    order.rest().for_each(|entry| make(&mut rebuilt, entry));
    replica.apply(&[], true).unwrap();
    rebuilt
}

fn content(replica: &Replica) -> Vec<Pair> {
    replica.range(&[], &END, usize::MAX).unwrap()
}

/// Whether the file goes on behind the gap, or another one begins there.
#[test]
fn a_number_that_is_in_no_file_and_that_nobody_explains_is_missing() {
    let production = Environment::Production;
    let commit = |name: &str, fate| {
        let key = RecordKey { environment: production, kind: Kind::Claim, name: name.to_owned() };
        let create = Step::Create { key, value: Bytes::from_static(b"x"), keep: Keep::Forever };
        (JournalAct::Commit { environment: production, steps: vec![create], is_plain: false }, fate)
    };
    let new_file = || (JournalAct::NewFile, Fate::Written);
    let lose = || (JournalAct::Lose { environment: production, count: 2, behind: 0 }, Fate::Written);
    let (one, two, four) = (commit("a", Fate::Written), commit("b", Fate::Lost), commit("c", Fate::Written));
    let histories = [
        (vec![one.clone(), two.clone(), four.clone()], vec![(2, 2)], 2),
        (vec![one.clone(), two.clone(), four.clone(), new_file()], vec![(2, 2)], 2),
        (vec![one.clone(), two, new_file(), four.clone()], vec![(2, 2)], 2),
        (vec![one, lose(), four], vec![], 2),
    ];
    for (acts, missing, commits) in histories {
        let home = TempDir::new().unwrap();
        let [journal, store] = ["journal", "store"].map(|name| home.path().join(name));
        fs::create_dir(&journal).unwrap();
        let history = format!("{acts:?}");
        History::of(acts, sealing()).write(&journal);
        let replica = Replica::open(&store, sealing()).unwrap();
        let source = RebuildSource {
            journal: &journal,
            node: &node(),
            seals: &sealing(),
            installation: None,
            is_copy: false,
            ahead: None,
        };
        let rebuilt = fill(&replica, source, 0, &mut |_| {}).unwrap();
        let found: Vec<(u64, u64)> =
            rebuilt.missing.iter().map(|(_, first, last)| (first.as_u64(), last.as_u64())).collect();
        assert_eq!((found, rebuilt.commits), (missing.clone(), commits), "{history}");
        assert_eq!(rebuilt.is_whole(), missing.is_empty(), "{history}");
        assert_eq!(rebuilt.what_is_missing(production).is_some(), !missing.is_empty(), "{history}");
    }
}

/// A file is missing in the middle, or is one of another journal.
#[test]
fn files_that_do_not_follow_each_other_are_not_whole() {
    let environment = Environment::Production;
    let of = |name: &str| {
        let key = RecordKey { environment, kind: Kind::Claim, name: name.to_owned() };
        let create = Step::Create { key, value: Bytes::from_static(b"x"), keep: Keep::Forever };
        (JournalAct::Commit { environment, steps: vec![create], is_plain: false }, Fate::Written)
    };
    let files = |names: [&str; 3]| -> Vec<(JournalAct, Fate)> {
        names.iter().flat_map(|name| [of(name), (JournalAct::NewFile, Fate::Written)]).collect()
    };
    let home = TempDir::new().unwrap();
    let [whole, other, without] = ["whole", "other", "without"].map(|name| home.path().join(name));
    for (folder, names) in [(&whole, ["a", "b", "c"]), (&other, ["a", "z", "c"]), (&without, ["a", "b", "c"])] {
        fs::create_dir(folder).unwrap();
        History::of(files(names), Seals::default()).write(folder);
    }
    let flaw = |journal: &Path| {
        let replica = Replica::open(&journal.join("store"), Seals::default()).unwrap();
        let seals = Seals::default();
        let source =
            RebuildSource { journal, node: &node(), seals: &seals, installation: None, is_copy: false, ahead: None };
        let rebuilt = fill(&replica, source, 0, &mut |_| {}).unwrap();
        assert_eq!(rebuilt.is_whole(), rebuilt.flaw.is_none());
        rebuilt.flaw
    };
    assert_eq!(flaw(&whole), None);
    fs::remove_dir_all(whole.join("store")).unwrap();
    let third = |folder: &Path| audit_file(folder, &node(), 3);
    fs::copy(third(&other), third(&whole)).unwrap();
    assert!(flaw(&whole).unwrap().contains("00000003.jsonl`: it does not follow the file before it"));
    // Their numbers alone show nothing.
    fs::remove_file(audit_file(&without, &node(), 4)).unwrap();
    fs::rename(third(&without), audit_file(&without, &node(), 5)).unwrap();
    assert!(flaw(&without).unwrap().contains("00000005.jsonl`: it does not follow the file before it"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_rebuild_makes_what_the_entries_make_one_by_one(
        acts in prop::collection::vec((act(), fate()), 0..120),
        is_sealed: bool,
        gathered in prop::sample::select(vec![0_usize, 3_000, 1 << 20]),
    ) {
        let seals = if is_sealed { sealing() } else { Seals::default() };
        let home = TempDir::new().unwrap();
        let [journal, one, other] = ["journal", "one", "other"].map(|name| home.path().join(name));
        fs::create_dir(&journal).unwrap();
        History::of(acts, seals.clone()).write(&journal);
        let [one, other] = [one, other].map(|folder| Replica::open(&folder, seals.clone()).unwrap());
        let expected = one_by_one(&one, &journal);
        let source = RebuildSource { journal: &journal, node: &node(), seals: &seals, installation: None, is_copy: false, ahead: None };
        let mut told = 0;
        let rebuilt = fill(&other, source, gathered, &mut |commits| told = commits).unwrap();
        prop_assert_eq!(&rebuilt, &expected);
        prop_assert_eq!(told, rebuilt.commits);
        prop_assert!(content(&other) == content(&one));
    }
}
