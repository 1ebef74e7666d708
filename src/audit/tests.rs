use std::io::{self, BufRead};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::*;
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, Outstanding, StoreTime};

#[derive(Clone, Debug)]
struct MemoryFile {
    node: NodeId,
    sequence: u64,
    name: String,
    bytes: Vec<u8>,
}

impl FileSource for MemoryFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn named(&self) -> Option<(&NodeId, u64)> {
        Some((&self.node, self.sequence))
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.bytes.as_slice()))
    }
}

/// Entries of two nodes under merged numbers, in files of three entries each, with a checkpoint at the end of each file.
#[derive(Clone)]
struct Set {
    files: Vec<MemoryFile>,
    known: KnownNumbers,
    pair: Arc<Ed25519KeyPair>,
}

fn new_pair() -> Arc<Ed25519KeyPair> {
    let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Arc::new(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
}

fn node(name: &str) -> NodeId {
    NodeId::parse(name).unwrap()
}

fn entry(node: &NodeId, number: u64) -> Outstanding {
    Outstanding {
        environment: if number.is_multiple_of(5) { Environment::Sandbox } else { Environment::Production },
        number: Number::new(if number.is_multiple_of(5) { number / 5 } else { number - number / 5 }),
        at: StoreTime::of_micros(i64::try_from(number).unwrap() * 1_000_000),
        node: node.clone(),
        entry: Bytes::from(format!("{{\"what\":\"sending\",\"n\":{number},\"text\":\"ä\\u0000\"}}")),
    }
}

const PER_FILE: usize = 3;

fn write_files(node: &NodeId, entries: &[Outstanding]) -> Vec<MemoryFile> {
    let mut files = Vec::new();
    let (mut previous, mut highest) = (Hash::NOTHING, Highest::new());
    for (sequence, chunk) in (1..).zip(entries.chunks(PER_FILE)) {
        let mut bytes = Vec::new();
        let (of, snapshot) = (node.clone(), None);
        let header =
            FileHeader { node: of, sequence, at: chunk[0].at, highest: highest.clone(), snapshot, anew: [].into() };
        previous = LineText::of_header(&header).unwrap().put_behind(previous, &mut bytes);
        for entry in chunk {
            previous = LineText::of_entry(entry).unwrap().put_behind(previous, &mut bytes);
            let known = highest.entry(entry.environment).or_default();
            *known = entry.number.as_u64().max(*known);
        }
        files.push(MemoryFile { node: node.clone(), sequence, name: format!("{node}-{sequence}"), bytes });
    }
    files
}

impl Set {
    /// `a` has the odd numbers and `b` the even ones; one of `a` was taken over by `b` as well.
    fn new() -> Set {
        let (a, b) = (node("a"), node("b"));
        let of = |name: &NodeId, rest: u64| -> Vec<Outstanding> {
            (1..=20).filter(|n| n % 2 == rest).map(|n| entry(name, n)).collect()
        };
        let mut of_b = of(&b, 0);
        of_b.insert(4, entry(&a, 7));
        let files: Vec<MemoryFile> = write_files(&a, &of(&a, 1)).into_iter().chain(write_files(&b, &of_b)).collect();
        let pair = new_pair();
        let mut set = Set { files, known: KnownNumbers::default(), pair };
        set.known.keys.push(CheckpointKey::of_bytes(set.pair.public_key().as_ref()).unwrap());
        for file in set.files.clone() {
            set.sign(&file);
        }
        set
    }

    /// Signs all lines of a node up to the end of a file.
    fn sign(&mut self, last: &MemoryFile) {
        let salts = Salts::of(&[0; 32]);
        let mut tree = GrowingTree::default();
        for file in self.files.iter().filter(|file| file.node == last.node && file.sequence <= last.sequence) {
            for line in lines(&file.bytes) {
                let line = read_line(line.strip_suffix(b"\n").unwrap()).unwrap();
                tree.push(leaf_hash(&salts.leaf(tree.size(), line.hash)));
            }
        }
        let origin = Origin::new(last.node.clone(), &salts);
        let key = NoteKey::of_pair(&origin.to_string(), NoteKeyKind::Log, &self.pair).unwrap();
        let text = Checkpoint::text(&origin, &tree);
        let note = Note { signatures: vec![key.sign(&self.pair, &text, 0)], text };
        let checkpoint = Checkpoint { origin, size: tree.size(), root: tree.root(), note };
        let read = Ok(KeptCheckpoint { checkpoint, place: None });
        self.known.checkpoints.push(CheckpointLine { place: FlawPlace::default(), read, is_beside: true });
        let missing = |place: TileIndex, _| Err(io::Error::other(format!("{place:?} is missing")));
        self.known.trees.insert(last.node.clone(), KnownTree { salts, tiles: Arc::new(missing) });
    }

    fn report(&self) -> VerifyReport {
        let sources: Vec<&dyn FileSource> = self.files.iter().map(|file| file as &dyn FileSource).collect();
        verify(&sources, &self.known, &mut |_| {}).unwrap()
    }

    fn flaws(&self) -> Vec<Flaw> {
        let report = self.report();
        assert_eq!(report.flaw_count, report.flaws.len() as u64);
        report.flaws
    }

    fn has(&self, file: &str, line: u64) -> bool {
        self.flaws().iter().any(|flaw| flaw.place.file.as_deref() == Some(file) && flaw.place.line == Some(line))
    }
}

impl Set {
    /// Whether the next file does not follow: lines at the end of a file are gone.
    fn is_severed_behind(&self, file: &str) -> bool {
        let (node, sequence) = file.rsplit_once('-').unwrap();
        let next = format!("{node}-{}", sequence.parse::<u64>().unwrap() + 1);
        let is_it = |flaw: &Flaw| flaw.what == FlawKind::Severed && flaw.place.file.as_ref() == Some(&next);
        self.flaws().iter().any(is_it)
    }
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

/// The changes that can be made to files.
#[derive(Clone, Debug)]
enum Harm {
    Flip(Index, Index, u8),
    Truncate(Index, Index),
    Cut(Index, Index, Index),
    Swap(Index, Index, Index),
    RemoveLine(Index, Index),
    RepeatLine(Index, Index),
    MoveLine(Index, Index, Index),
    RemoveFile(Index),
    SwapFiles(Index, Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    let index = any::<Index>;
    prop_oneof![
        4 => (index(), index(), 0..8_u8).prop_map(|(f, b, bit)| Harm::Flip(f, b, bit)),
        4 => (index(), index()).prop_map(|(f, b)| Harm::Truncate(f, b)),
        2 => (index(), index(), index()).prop_map(|(f, b, e)| Harm::Cut(f, b, e)),
        2 => (index(), index(), index()).prop_map(|(f, a, b)| Harm::Swap(f, a, b)),
        2 => (index(), index()).prop_map(|(f, l)| Harm::RemoveLine(f, l)),
        2 => (index(), index()).prop_map(|(f, l)| Harm::RepeatLine(f, l)),
        2 => (index(), index(), index()).prop_map(|(f, l, to)| Harm::MoveLine(f, l, to)),
        1 => index().prop_map(Harm::RemoveFile),
        1 => (index(), index()).prop_map(|(f, g)| Harm::SwapFiles(f, g)),
    ]
}

/// Does it, and says where it must be found; `None` where nothing was changed.
fn harmed(set: &mut Set, harm: &Harm) -> Option<Option<(String, u64)>> {
    let count = set.files.len();
    let line_of = |bytes: &[u8], at: usize| 1 + bytes[..at].iter().filter(|b| **b == b'\n').count() as u64;
    let of_lines = |set: &mut Set, f: &Index, change: &dyn Fn(&mut Vec<Vec<u8>>) -> Option<u64>| {
        let file = &mut set.files[f.index(count)];
        let mut all = lines(&file.bytes);
        let line = change(&mut all)?;
        file.bytes = all.concat();
        Some((file.name.clone(), line))
    };
    match harm {
        Harm::Flip(f, b, bit) => {
            let file = &mut set.files[f.index(count)];
            let at = b.index(file.bytes.len());
            let line = line_of(&file.bytes, at);
            file.bytes[at] ^= 1 << bit;
            Some(Some((file.name.clone(), line)))
        }
        Harm::Truncate(f, b) => {
            let file = &mut set.files[f.index(count)];
            let at = b.index(file.bytes.len());
            let line = line_of(&file.bytes, at);
            let is_between = at > 0 && file.bytes[at - 1] == b'\n';
            file.bytes.truncate(at);
            // Between two lines it is the line before that is the last one now; of an empty file there is none.
            (at > 0)
                .then(|| (file.name.clone(), if is_between { line - 1 } else { line }))
                .map_or(Some(None), |p| Some(Some(p)))
        }
        Harm::Cut(f, b, e) => {
            let file = &mut set.files[f.index(count)];
            let (from, to) = (b.index(file.bytes.len()), e.index(file.bytes.len() + 1));
            if from >= to {
                return None;
            }
            file.bytes.drain(from..to);
            Some(None)
        }
        Harm::Swap(f, a, b) => {
            let found = of_lines(set, f, &|all| {
                let (one, other) = (a.index(all.len()), b.index(all.len()));
                all.swap(one, other);
                (one != other).then_some(one.min(other) as u64 + 1)
            });
            found.map(Some)
        }
        Harm::RemoveLine(f, l) => {
            let count = |file: &MemoryFile| lines(&file.bytes).len() as u64;
            let found = of_lines(set, f, &|all| {
                let at = l.index(all.len());
                all.remove(at);
                Some(at as u64 + 1)
            });
            let (name, line) = found?;
            let left = count(set.files.iter().find(|file| file.name == name).unwrap());
            Some((left > 0).then_some((name, line.min(left))))
        }
        Harm::RepeatLine(f, l) => {
            let found = of_lines(set, f, &|all| {
                let at = l.index(all.len());
                all.insert(at, all[at].clone());
                Some(at as u64 + 2)
            });
            found.map(Some)
        }
        Harm::MoveLine(f, l, to) => {
            let from = f.index(count);
            let target = to.index(count);
            if from == target {
                return None;
            }
            let mut all = lines(&set.files[from].bytes);
            let line = all.remove(l.index(all.len()));
            set.files[from].bytes = all.concat();
            set.files[target].bytes.extend(line);
            let name = set.files[target].name.clone();
            Some(Some((name, lines(&set.files[target].bytes).len() as u64)))
        }
        Harm::RemoveFile(f) => {
            set.files.remove(f.index(count));
            Some(None)
        }
        Harm::SwapFiles(f, g) => {
            let (one, other) = (f.index(count), g.index(count));
            let bytes = set.files[one].bytes.clone();
            set.files[one].bytes = std::mem::replace(&mut set.files[other].bytes, bytes);
            (one != other).then(|| Some((set.files[one].name.clone(), 1)))
        }
    }
}

#[test]
fn what_was_not_touched_is_whole() {
    let set = Set::new();
    let report = set.report();
    assert_eq!((report.flaws, report.notes.clone()), (Vec::new(), Vec::new()));
    assert_eq!((report.entries, report.files, report.checkpoints), (21, 8, 8));
    assert_eq!(report.highest, Highest::from([(Environment::Production, 16), (Environment::Sandbox, 4)]));
}

/// Made once, as it does not change.
static WHOLE: LazyLock<Set> = LazyLock::new(Set::new);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_harm_is_found_where_it_is(harm in harm()) {
        let mut set = WHOLE.clone();
        let Some(place) = harmed(&mut set, &harm) else { return Ok(()) };
        prop_assert!(!set.flaws().is_empty(), "nothing is found");
        if let Some((file, line)) = place {
            let is_named = set.has(&file, line) || set.is_severed_behind(&file);
            prop_assert!(is_named, "{file}, line {line} is not named: {:#?}", set.flaws());
        }
    }
}

#[test]
fn wherever_a_file_is_changed_or_ends_early_it_is_noticed() {
    let whole = Set::new();
    let length = whole.files[1].bytes.len();
    for at in (0..length).step_by(3) {
        let mut set = whole.clone();
        set.files[1].bytes[at] ^= 1 << (at % 8);
        assert!(!set.flaws().is_empty(), "byte {at}");
        let mut set = whole.clone();
        let last = set.files.len() - 1;
        set.files[last].bytes.truncate(at % whole.files[last].bytes.len());
        assert!(!set.flaws().is_empty(), "length {at}");
    }
}

#[test]
fn who_writes_everything_anew_is_found_by_a_checkpoint_alone() {
    let mut set = Set::new();
    let a = node("a");
    let mut entries: Vec<Outstanding> = (1..=20).filter(|n| n % 2 == 1).map(|n| entry(&a, n)).collect();
    entries[4].entry = Bytes::from_static(b"{\"what\":\"not-executed\"}");
    for (file, forged) in set.files.iter_mut().zip(write_files(&a, &entries)) {
        file.bytes = forged.bytes;
    }
    assert!(set.has("a-2", 4), "{:?}", set.flaws());
    assert!(set.flaws().iter().all(|flaw| flaw.what == FlawKind::OtherTree), "{:?}", set.flaws());
    let checkpoints = std::mem::take(&mut set.known.checkpoints);
    assert_eq!(set.flaws(), []);

    // With a key of their own they do no better.
    let other = Set { files: Vec::new(), known: KnownNumbers::default(), pair: new_pair() };
    let mut forged = other;
    for file in set.files.clone() {
        forged.files.push(file.clone());
        forged.sign(&file);
    }
    set.known.checkpoints = forged.known.checkpoints;
    assert!(set.flaws().iter().all(|flaw| matches!(flaw.what, FlawKind::CheckpointSignature { .. })));
    assert_eq!(set.flaws().len(), checkpoints.len());
}

#[test]
fn what_is_cut_off_at_a_line_is_found_by_a_checkpoint() {
    let mut set = Set::new();
    let last = set.files.iter().rposition(|file| file.node == node("a")).unwrap();
    let mut left = lines(&set.files[last].bytes);
    left.pop();
    set.files[last].bytes = left.concat();
    let found = set.flaws();
    assert!(found.iter().any(|flaw| matches!(flaw.what, FlawKind::CutOff { .. })), "{found:?}");

    set.files.remove(last);
    let found = set.flaws();
    assert!(found.iter().any(|flaw| matches!(&flaw.what, FlawKind::CutOff { lines: 12, signed: 14, .. })), "{found:?}");
}

#[test]
fn one_number_with_two_entries_and_one_that_is_missing_are_told_with_their_places() {
    let (a, b) = (node("a"), node("b"));
    let other = Outstanding { entry: Bytes::from_static(b"{}"), ..entry(&a, 1) };
    let files = write_files(&a, &[entry(&a, 1), entry(&a, 2)])
        .into_iter()
        .chain(write_files(&b, &[other, entry(&b, 4)]))
        .collect();
    let mut set = Set { files, known: KnownNumbers::default(), pair: new_pair() };
    let found = set.flaws();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].what, FlawKind::Otherwise { file: "a-1".to_owned(), line: 2 });
    assert_eq!((found[0].place.file.as_deref(), found[0].place.line), (Some("b-1"), Some(2)));
    assert_eq!(found[1].what, FlawKind::Gap { environment: Environment::Production, first: 3, last: 3 });
    assert_eq!((found[1].place.file.as_deref(), found[1].place.line), (Some("b-1"), Some(3)));
    assert!(set.report().notes.iter().any(|note| note.contains("`a` has no checkpoint")));

    // While files are written, what is young may still come.
    set.known.unsettled = Some(StoreTime::of_micros(4_000_000));
    set.files.pop();
    set.files.extend(write_files(&b, &[entry(&b, 4)]));
    assert_eq!(set.flaws(), []);
}

#[test]
fn numbers_behind_which_a_journal_goes_on_never_come() {
    let (b, mut bytes) = (node("b"), Vec::new());
    let header = |sequence, highest: Highest| {
        let (node, snapshot) = (b.clone(), None);
        FileHeader { node, sequence, at: StoreTime::of_micros(9_000_000), highest, snapshot, anew: [].into() }
    };
    let first = LineText::of_header(&header(1, Highest::new())).unwrap().put_behind(Hash::NOTHING, &mut bytes);
    let mut files = vec![MemoryFile { node: b.clone(), sequence: 1, name: "b-1".to_owned(), bytes }];
    let (mut bytes, behind) = (Vec::new(), Highest::from([(Environment::Production, 6)]));
    let previous = LineText::of_header(&header(2, behind)).unwrap().put_behind(first, &mut bytes);
    LineText::of_entry(&entry(&b, 8)).unwrap().put_behind(previous, &mut bytes);
    files.push(MemoryFile { node: b.clone(), sequence: 2, name: "b-2".to_owned(), bytes });
    let mut set = Set { files, known: KnownNumbers::default(), pair: new_pair() };
    set.known.live.insert(b.clone());
    set.known.unsettled = Some(StoreTime::of_micros(4_000_000));
    let gap = FlawKind::Gap { environment: Environment::Production, first: 1, last: 6 };
    assert_eq!(set.flaws().into_iter().map(|flaw| flaw.what).collect::<Vec<_>>(), [gap]);
    assert!(set.report().notes.iter().all(|note| !note.contains("not there yet")), "{:?}", set.report().notes);
}

#[test]
fn a_line_that_is_being_written_is_no_finding() {
    let mut set = Set::new();
    let last = set.files.iter().rposition(|file| file.node == node("a")).unwrap();
    set.files[last].bytes.extend_from_slice(b"{\"at\":\"20");
    assert!(matches!(set.flaws().as_slice(), [Flaw { what: FlawKind::Unfinished, .. }]));
    set.known.live.insert(node("a"));
    assert_eq!(set.flaws(), []);
}
