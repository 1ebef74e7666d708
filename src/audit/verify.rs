//! Verifies that the files of one or many nodes still say what was written, all of it, once.
//!
//! It reads files line by line and keeps only the set of numbers, at one bit each, so that years can be verified. It
//! reads them a second time only where numbers are missing or occur in several nodes' files, to say where, and whether
//! they agree.

mod checkpoints;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use self::checkpoints::SignedSize;
use super::checkpoint::Origin;
use super::flaw::{Flaw, FlawKind, FlawPlace};
use super::hash::Hash;
use super::line::{AuditLine, FileHeader, Highest, LineBody, read_line};
use super::note::NoteKey;
use super::numbers::Numbers;
use super::read::{LineReader, RawLine};
use super::read_tree::ReadTree;
use super::steps::{UnusedNumbers, unused_before};
use super::verified::{FileSource, KnownNumbers, VerifyReport};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Outstanding, StoreTime};

/// The most flaws that are kept; more are only counted.
const KEPT: usize = 1000;
/// Progress is reported after this many bytes.
const STRIDE: u64 = 4 * 1024 * 1024;

/// Reads everything; fails only where a file cannot be read.
pub fn verify(
    sources: &[&dyn FileSource],
    known: &KnownNumbers,
    progress: &mut dyn FnMut(u64),
) -> io::Result<VerifyReport> {
    let mut verification = Verification::of(known, progress);
    verification.take_checkpoints();
    for name in &known.changed_snapshots {
        verification.flaw(FlawPlace { file: Some(name.clone()), ..FlawPlace::default() }, FlawKind::SnapshotChanged);
    }
    let mut nodes: BTreeMap<NodeId, BTreeMap<u64, &dyn FileSource>> = BTreeMap::new();
    for source in sources {
        let Some((node, sequence)) = verification.identify(*source)? else { continue };
        let files = nodes.entry(node.clone()).or_default();
        match files.entry(sequence) {
            Entry::Vacant(place) => {
                place.insert(*source);
            }
            Entry::Occupied(_) => verification.flaw(at_file(*source), FlawKind::Twice { node, sequence }),
        }
    }
    for (node, files) in &nodes {
        let before = verification.report.checkpoints;
        verification.node(node, files)?;
        if verification.report.checkpoints == before {
            verification.report.unsigned.insert(node.clone());
        }
    }
    verification.other_logs();
    verification.report.keys_given = !known.keys.is_empty();
    let files: Vec<&dyn FileSource> = nodes.values().flat_map(BTreeMap::values).copied().collect();
    verification.numbers(&files)?;
    Ok(verification.report)
}

struct Verification<'v> {
    known: &'v KnownNumbers,
    progress: &'v mut dyn FnMut(u64),
    report: VerifyReport,
    /// The checkpoints of each log, by their numbers of lines.
    signed: BTreeMap<Origin, BTreeMap<u64, SignedSize>>,
    /// With which file each log begins, where that is known.
    begins: BTreeMap<Origin, u64>,
    /// The logs of the files.
    own_logs: BTreeSet<Origin>,
    /// Logs whose keys were not given.
    skipped_logs: BTreeSet<Origin>,
    all: BTreeMap<Environment, Numbers>,
    /// In the files of more than one node.
    shared: BTreeMap<Environment, Numbers>,
    /// Entries that explain numbers before them without an entry, up to the given one.
    unused: BTreeMap<(Environment, u64), UnusedNumbers>,
    /// The highest numbers in archived files.
    archived: Highest,
    /// The highest numbers behind which a journal goes on without their entries.
    gone_on_behind: Highest,
    told: u64,
}

/// One node, as its files are read in order.
#[derive(Default)]
struct FileReading {
    numbers: BTreeMap<Environment, Numbers>,
    highest: Highest,
    /// The hash of the last line; `None` where it could not be read.
    hash: Option<Hash>,
    /// Files before this one are missing or unreadable.
    is_broken: bool,
    /// `None` where nothing tells it.
    tree: Option<ReadTree>,
    /// How many lines each witness signed, and when.
    witnessed: BTreeMap<NoteKey, (u64, u64)>,
    /// The last line.
    end: FlawPlace,
}

impl<'v> Verification<'v> {
    fn of(known: &'v KnownNumbers, progress: &'v mut dyn FnMut(u64)) -> Verification<'v> {
        Verification {
            known,
            progress,
            report: VerifyReport::default(),
            signed: BTreeMap::new(),
            begins: BTreeMap::new(),
            own_logs: known.trees.iter().map(|(node, tree)| Origin::new(node.clone(), &tree.salts)).collect(),
            skipped_logs: BTreeSet::new(),
            all: BTreeMap::new(),
            shared: BTreeMap::new(),
            unused: BTreeMap::new(),
            archived: Highest::new(),
            gone_on_behind: Highest::new(),
            told: 0,
        }
    }

    fn flaw(&mut self, place: FlawPlace, what: FlawKind) {
        self.flaw_of(place, None, what);
    }

    fn flaw_of(&mut self, place: FlawPlace, number: Option<(Environment, u64)>, what: FlawKind) {
        self.report.flaw_count = self.report.flaw_count.saturating_add(1);
        if self.report.flaws.len() < KEPT {
            self.report.flaws.push(Flaw { what, place, number });
        }
    }

    fn note(&mut self, text: String) {
        self.report.notes.push(text);
    }

    /// Identifies a file by its header, else by its name.
    fn identify(&mut self, source: &dyn FileSource) -> io::Result<Option<(NodeId, u64)>> {
        let mut lines = LineReader::of(source.open()?);
        let header = match lines.following()? {
            Some(raw) if raw.is_whole => match read_line(raw.bytes) {
                Ok(AuditLine { body: LineBody::Header(header), .. }) => Some(header),
                _ => None,
            },
            _ => None,
        };
        let named = source.named().map(|(node, sequence)| (node.clone(), sequence));
        let Some(FileHeader { node, sequence, .. }) = header else {
            if named.is_none() {
                self.flaw(FlawPlace { line: Some(1), offset: Some(0), ..at_file(source) }, FlawKind::NoHeader);
            }
            return Ok(named);
        };
        if named.is_some_and(|named| named != (node.clone(), sequence)) {
            let what = FlawKind::Misnamed { node: node.clone(), sequence };
            self.flaw(FlawPlace { line: Some(1), offset: Some(0), ..at_file(source) }, what);
        }
        Ok(Some((node, sequence)))
    }

    fn node(&mut self, node: &NodeId, files: &BTreeMap<u64, &dyn FileSource>) -> io::Result<()> {
        let mut reading = FileReading { hash: Some(Hash::NOTHING), ..FileReading::default() };
        let last = files.keys().copied().max();
        let mut expected = self.archived(node, files, &mut reading);
        reading.tree = self.tree(node, expected, &mut reading)?;
        for (sequence, source) in files {
            self.missing(node, expected, *sequence, &mut reading);
            expected = sequence.saturating_add(1);
            self.file(node, *sequence, *source, &mut reading, Some(*sequence) == last)?;
        }
        self.ended(node, &reading);
        Ok(())
    }

    /// Goes on behind the files that are in an archive; returns which file comes next.
    fn archived(&mut self, node: &NodeId, files: &BTreeMap<u64, &dyn FileSource>, reading: &mut FileReading) -> u64 {
        let first = files.keys().next().copied().unwrap_or(u64::MAX);
        let known = self.known;
        let mut expected: u64 = 1;
        for file in known.archived.iter().filter(|file| file.node == *node && file.sequence < first) {
            if file.sequence != expected {
                continue;
            }
            expected = expected.saturating_add(1);
            reading.hash = Some(file.last);
            reading.highest.clone_from(&file.highest);
        }
        if expected > 1 {
            for (environment, number) in &reading.highest {
                let archived = self.archived.entry(*environment).or_default();
                *archived = (*number).max(*archived);
            }
            self.note(format!(
                "files 1 to {} of `{node}` are in an archive, as the manifest says: verify them there",
                expected.saturating_sub(1)
            ));
        }
        expected
    }

    fn missing(&mut self, node: &NodeId, first: u64, found: u64, reading: &mut FileReading) {
        if first < found {
            reading.is_broken = true;
            let what = FlawKind::Missing { node: node.clone(), first, last: found.saturating_sub(1) };
            self.flaw(FlawPlace::default(), what);
        }
    }

    fn file(
        &mut self,
        node: &NodeId,
        sequence: u64,
        source: &dyn FileSource,
        reading: &mut FileReading,
        is_last: bool,
    ) -> io::Result<()> {
        let may_end_early = is_last && self.known.live.contains(node);
        let mut lines = LineReader::of(source.open()?);
        let (mut count, mut end) = (0, 0);
        while let Some(raw) = lines.following()? {
            let place = at_line(source, raw);
            if !raw.is_whole {
                if !may_end_early {
                    reading.hash = None;
                    self.flaw(place, FlawKind::Unfinished);
                }
                continue;
            }
            count = raw.line;
            end = raw.end();
            match read_line(raw.bytes) {
                Ok(line) => {
                    let hash = line.hash;
                    self.line(raw.line, line, &place, reading);
                    self.add_to_tree((sequence, hash), &place, reading);
                }
                Err(fault) => {
                    reading.hash = None;
                    reading.is_broken = true;
                    reading.tree = None;
                    self.flaw(place.clone(), FlawKind::Line(fault));
                }
            }
            self.report_progress(end);
        }
        if count == 0 && !may_end_early {
            reading.is_broken = true;
            self.flaw(at_file(source), FlawKind::NoHeader);
        }
        reading.end = FlawPlace { line: Some(count), offset: Some(end), ..at_file(source) };
        self.report.files = self.report.files.saturating_add(1);
        self.report.bytes = self.report.bytes.saturating_add(end);
        self.told = 0;
        (self.progress)(self.report.bytes);
        Ok(())
    }

    fn line(&mut self, nth: u64, line: AuditLine, place: &FlawPlace, reading: &mut FileReading) {
        let follows = reading.hash.is_none_or(|hash| hash == line.previous);
        reading.hash = Some(line.hash);
        match line.body {
            LineBody::Header(_) if nth > 1 => self.flaw(place.clone(), FlawKind::HeaderInside),
            LineBody::Header(header) => {
                if !follows {
                    self.flaw(place.clone(), FlawKind::Severed);
                } else if !reading.is_broken {
                    self.continues(header, place, reading);
                }
            }
            LineBody::Entry(entry) => {
                let number = Some((entry.environment, entry.number.as_u64()));
                if nth == 1 {
                    reading.is_broken = true;
                    self.flaw_of(place.clone(), number, FlawKind::NoHeader);
                } else if !follows {
                    reading.is_broken = true;
                    self.flaw_of(place.clone(), number, FlawKind::Detached);
                }
                self.entry(&entry, place, reading);
            }
        }
    }

    /// Compares the highest numbers of a header with those of the files before. Higher ones say that the journal goes on
    /// behind entries that it could not have; whether the journals of other nodes have them is looked at in the end.
    fn continues(&mut self, header: FileHeader, place: &FlawPlace, reading: &mut FileReading) {
        let has = |environment: &Environment| header.highest.get(environment).copied().unwrap_or(0);
        if reading.highest.iter().any(|(environment, number)| has(environment) < *number) {
            self.flaw(place.clone(), FlawKind::Highest);
        }
        for (environment, number) in &header.highest {
            if *number > reading.highest.get(environment).copied().unwrap_or(0) {
                let behind = self.gone_on_behind.entry(*environment).or_default();
                *behind = (*behind).max(*number);
            }
        }
        reading.highest = header.highest;
    }

    fn entry(&mut self, entry: &Outstanding, place: &FlawPlace, reading: &mut FileReading) {
        let (environment, number) = (entry.environment, entry.number.as_u64());
        if let Some(unused) = unused_before(&entry.entry) {
            self.unused.insert((environment, number), unused);
        }
        self.report.entries = self.report.entries.saturating_add(1);
        for highest in [&mut reading.highest, &mut self.report.highest] {
            let known = highest.entry(environment).or_default();
            *known = number.max(*known);
        }
        if !reading.numbers.entry(environment).or_default().insert(number) {
            self.flaw_of(place.clone(), Some((environment, number)), FlawKind::Again);
        } else if !self.all.entry(environment).or_default().insert(number) {
            self.shared.entry(environment).or_default().insert(number);
        }
    }

    /// Checks for missing numbers and for numbers in several files.
    fn numbers(&mut self, files: &[&dyn FileSource]) -> io::Result<()> {
        let mut gaps = Vec::new();
        for environment in Environment::ALL {
            let numbers = self.all.entry(environment).or_default();
            let archived = self.archived.get(&environment).copied().unwrap_or(0);
            for gap in numbers.gaps() {
                let (first, last) = gap.into_inner();
                let first = first.max(archived.saturating_add(1));
                if first > last {
                    continue;
                }
                match self.unused.get(&(environment, last.saturating_add(1))) {
                    Some(unused) if unused.behind < first && unused.last >= last => self.report.notes.push(format!(
                        "numbers {first} to {last} of {environment} have no entry: the store lost these commits before they \
                         were on disk, so nothing was sent for them"
                    )),
                    _ => gaps.push((environment, first..=last)),
                }
            }
        }
        if gaps.is_empty() && self.shared.values().all(Numbers::is_empty) {
            return Ok(());
        }
        let mut behind: BTreeMap<(Environment, u64), Option<(FlawPlace, StoreTime)>> =
            gaps.iter().map(|(environment, gap)| ((*environment, gap.end().saturating_add(1)), None)).collect();
        self.again(files, &mut behind)?;
        for (environment, gap) in gaps {
            let (first, last) = gap.into_inner();
            let found = behind.get(&(environment, last.saturating_add(1))).cloned().flatten();
            // What a journal went on without never comes to it.
            let is_lost = self.gone_on_behind.get(&environment).is_some_and(|behind| first <= *behind);
            let is_unsettled = match (&found, self.known.unsettled) {
                (Some((_, at)), Some(unsettled)) => *at >= unsettled && !is_lost,
                _ => false,
            };
            if is_unsettled {
                self.note(format!(
                    "numbers {first} to {last} of {environment} are not there yet; files are being written"
                ));
            } else {
                let place = found.map(|(place, _)| place).unwrap_or_default();
                self.flaw(place, FlawKind::Gap { environment, first, last });
            }
        }
        Ok(())
    }

    /// Reads again: whether shared numbers agree, and where the entries after a gap are.
    fn again(
        &mut self,
        files: &[&dyn FileSource],
        behind: &mut BTreeMap<(Environment, u64), Option<(FlawPlace, StoreTime)>>,
    ) -> io::Result<()> {
        let mut contents: BTreeMap<(Environment, u64), (Hash, String, u64)> = BTreeMap::new();
        for source in files {
            let mut lines = LineReader::of(source.open()?);
            while let Some(raw) = lines.following()? {
                let Some(Ok(line)) = raw.is_whole.then(|| read_line(raw.bytes)) else { continue };
                let LineBody::Entry(entry) = &line.body else { continue };
                let key = (entry.environment, entry.number.as_u64());
                if let Some(found @ None) = behind.get_mut(&key) {
                    *found = Some((at_line(*source, raw), entry.at));
                }
                if !self.shared.get(&key.0).is_some_and(|shared| shared.contains(key.1)) {
                    continue;
                }
                let place = at_line(*source, raw);
                let (content, file, nth) =
                    contents.entry(key).or_insert_with(|| (line.content(), source.name().to_owned(), raw.line));
                if *content != line.content() {
                    let what = FlawKind::Otherwise { file: file.clone(), line: *nth };
                    self.flaw_of(place, Some(key), what);
                }
            }
        }
        Ok(())
    }

    fn report_progress(&mut self, end: u64) {
        if end.saturating_sub(self.told) >= STRIDE {
            self.told = end;
            (self.progress)(self.report.bytes.saturating_add(end));
        }
    }
}

fn at_file(source: &dyn FileSource) -> FlawPlace {
    FlawPlace { file: Some(source.name().to_owned()), ..FlawPlace::default() }
}

fn at_line(source: &dyn FileSource, raw: RawLine<'_>) -> FlawPlace {
    FlawPlace { line: Some(raw.line), offset: Some(raw.offset), ..at_file(source) }
}
