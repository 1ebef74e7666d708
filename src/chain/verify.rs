//! Whether the files of one or many nodes still say what was written, all of it, once.
//!
//! Files are read line by line and nothing of them is kept but the set of numbers, at a bit each, so that years can be
//! verified. They are read a second time only where numbers are missing, or stand in the files of several nodes: to say
//! where, and whether they say the same.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use super::checkpoint::{Checkpoint, PublicKey};
use super::flaw::{Flaw, Place, What};
use super::hash::Hash;
use super::line::{Body, Header, Highest, Line, LineFault, read_line};
use super::numbers::Numbers;
use super::read::{Lines, Raw};
use crate::base::ids::Environment;
use crate::commit::{NodeId, Outstanding, StoreTime};

/// More flaws are counted, not kept.
const KEPT: usize = 1000;
/// Progress is told after so many bytes.
const STRIDE: u64 = 4 * 1024 * 1024;

/// A file, however it is come by.
pub trait Source {
    fn name(&self) -> &str;

    /// Which file it is by its name.
    fn named(&self) -> Option<(&NodeId, u64)>;

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>>;
}

/// A line of a file of checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointLine {
    pub place: Place,
    pub read: Result<Checkpoint, LineFault>,
}

/// What files are held against.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub checkpoints: Vec<CheckpointLine>,
    /// Without one, signatures are not looked at.
    pub keys: Vec<PublicKey>,
    /// Nodes that write at this moment: their last line may be unfinished.
    pub live: BTreeSet<NodeId>,
    /// What stands behind a gap and is as late as this may have come before what belongs into the gap.
    pub unsettled: Option<StoreTime>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The first of them.
    pub flaws: Vec<Flaw>,
    pub flaw_count: u64,
    /// What could not be told, and what is as it should be but worth knowing.
    pub notes: Vec<String>,
    pub files: u64,
    pub entries: u64,
    pub bytes: u64,
    pub highest: Highest,
    /// Checkpoints that hold.
    pub checkpoints: u64,
}

/// Reads everything; fails only where a file cannot be read.
pub fn verify(sources: &[&dyn Source], known: &Known, progress: &mut dyn FnMut(u64)) -> io::Result<Report> {
    let mut verification = Verification::of(known, progress);
    verification.take_checkpoints();
    let mut nodes: BTreeMap<NodeId, BTreeMap<u64, &dyn Source>> = BTreeMap::new();
    for source in sources {
        let Some((node, sequence)) = verification.identify(*source)? else { continue };
        let files = nodes.entry(node.clone()).or_default();
        match files.entry(sequence) {
            Entry::Vacant(place) => {
                place.insert(*source);
            }
            Entry::Occupied(_) => verification.flaw(at_file(*source), What::Twice { node, sequence }),
        }
    }
    for node in verification.signed.keys() {
        nodes.entry(node.0.clone()).or_default();
    }
    for (node, files) in &nodes {
        verification.node(node, files)?;
    }
    let files: Vec<&dyn Source> = nodes.values().flat_map(BTreeMap::values).copied().collect();
    verification.numbers(&files)?;
    Ok(verification.report)
}

struct Verification<'v> {
    known: &'v Known,
    progress: &'v mut dyn FnMut(u64),
    report: Report,
    /// By file, then by how many lines it had.
    signed: BTreeMap<(NodeId, u64), BTreeMap<u64, &'v Checkpoint>>,
    all: BTreeMap<Environment, Numbers>,
    /// In the files of more than one node.
    shared: BTreeMap<Environment, Numbers>,
    told: u64,
}

/// One node, as its files are read in their order.
#[derive(Default)]
struct Reading {
    numbers: BTreeMap<Environment, Numbers>,
    highest: Highest,
    /// Of the last line; `None` where it could not be read.
    hash: Option<Hash>,
    /// Files before this one could not be read, or are not there.
    is_broken: bool,
}

impl<'v> Verification<'v> {
    fn of(known: &'v Known, progress: &'v mut dyn FnMut(u64)) -> Verification<'v> {
        Verification {
            known,
            progress,
            report: Report::default(),
            signed: BTreeMap::new(),
            all: BTreeMap::new(),
            shared: BTreeMap::new(),
            told: 0,
        }
    }

    fn flaw(&mut self, place: Place, what: What) {
        self.flaw_of(place, None, what);
    }

    fn flaw_of(&mut self, place: Place, number: Option<(Environment, u64)>, what: What) {
        self.report.flaw_count = self.report.flaw_count.saturating_add(1);
        if self.report.flaws.len() < KEPT {
            self.report.flaws.push(Flaw { what, place, number });
        }
    }

    fn note(&mut self, text: String) {
        self.report.notes.push(text);
    }

    fn take_checkpoints(&mut self) {
        let known = self.known;
        for line in &known.checkpoints {
            let checkpoint = match &line.read {
                Ok(checkpoint) => checkpoint,
                Err(fault) => {
                    self.flaw(line.place.clone(), What::CheckpointLine(fault.clone()));
                    continue;
                }
            };
            if !known.keys.is_empty() && !known.keys.iter().any(|key| key.signed(checkpoint)) {
                self.flaw(line.place.clone(), What::CheckpointSignature { key: checkpoint.key.clone() });
                continue;
            }
            let file = (checkpoint.statement.node.clone(), checkpoint.statement.sequence);
            let of_file = self.signed.entry(file).or_default();
            match of_file.insert(checkpoint.statement.lines, checkpoint) {
                Some(other) if other.statement.hash != checkpoint.statement.hash => {
                    self.flaw(line.place.clone(), What::Rewritten);
                }
                _ => {}
            }
        }
        if known.keys.is_empty() && !known.checkpoints.is_empty() {
            self.note("no public key was given: whether checkpoints are signed was not looked at".to_owned());
        }
    }

    /// Which file it is: what its header says, else what its name says.
    fn identify(&mut self, source: &dyn Source) -> io::Result<Option<(NodeId, u64)>> {
        let mut lines = Lines::of(source.open()?);
        let header = match lines.following()? {
            Some(raw) if raw.is_whole => match read_line(raw.bytes) {
                Ok(Line { body: Body::Header(header), .. }) => Some(header),
                _ => None,
            },
            _ => None,
        };
        let named = source.named().map(|(node, sequence)| (node.clone(), sequence));
        let Some(Header { node, sequence, .. }) = header else {
            if named.is_none() {
                self.flaw(Place { line: Some(1), offset: Some(0), ..at_file(source) }, What::NoHeader);
            }
            return Ok(named);
        };
        if named.is_some_and(|named| named != (node.clone(), sequence)) {
            let what = What::Misnamed { node: node.clone(), sequence };
            self.flaw(Place { line: Some(1), offset: Some(0), ..at_file(source) }, what);
        }
        Ok(Some((node, sequence)))
    }

    fn node(&mut self, node: &NodeId, files: &BTreeMap<u64, &dyn Source>) -> io::Result<()> {
        let mut reading = Reading { hash: Some(Hash::NOTHING), ..Reading::default() };
        let signed_last = self.signed.keys().filter(|(of, _)| of == node).map(|(_, sequence)| *sequence).max();
        let last = files.keys().copied().max();
        let mut expected: u64 = 1;
        for (sequence, source) in files {
            self.missing(node, expected, *sequence, &mut reading);
            expected = sequence.saturating_add(1);
            self.file(node, *sequence, *source, &mut reading, Some(*sequence) == last)?;
        }
        self.missing(node, expected, signed_last.map_or(0, |last| last.saturating_add(1)), &mut reading);
        if signed_last.is_none() {
            self.note(format!(
                "`{node}` has no checkpoint: whether lines or files at its end were cut off cannot be told"
            ));
        }
        Ok(())
    }

    fn missing(&mut self, node: &NodeId, first: u64, found: u64, reading: &mut Reading) {
        if first < found {
            reading.is_broken = true;
            let what = What::Missing { node: node.clone(), first, last: found.saturating_sub(1) };
            self.flaw(Place::default(), what);
        }
    }

    fn file(
        &mut self,
        node: &NodeId,
        sequence: u64,
        source: &dyn Source,
        reading: &mut Reading,
        is_last: bool,
    ) -> io::Result<()> {
        let signed = self.signed.get(&(node.clone(), sequence)).cloned().unwrap_or_default();
        let may_end_early = is_last && self.known.live.contains(node);
        let mut lines = Lines::of(source.open()?);
        let (mut count, mut end) = (0, 0);
        while let Some(raw) = lines.following()? {
            let place = at_line(source, raw);
            if !raw.is_whole {
                if !may_end_early {
                    reading.hash = None;
                    self.flaw(place, What::Unfinished);
                }
                continue;
            }
            count = raw.line;
            end = raw.end();
            match read_line(raw.bytes) {
                Ok(line) => self.line(raw.line, line, &place, reading),
                Err(fault) => {
                    reading.hash = None;
                    reading.is_broken = true;
                    self.flaw(place.clone(), What::Line(fault));
                }
            }
            if let Some(checkpoint) = signed.get(&raw.line) {
                if reading.hash == Some(checkpoint.statement.hash) {
                    self.report.checkpoints = self.report.checkpoints.saturating_add(1);
                } else {
                    self.flaw(place, What::Rewritten);
                }
            }
            self.tell(end);
        }
        if count == 0 && !may_end_early {
            reading.is_broken = true;
            self.flaw(at_file(source), What::NoHeader);
        }
        if let Some(lines) = signed.keys().next_back().filter(|lines| **lines > count) {
            let place = Place { line: Some(count), offset: Some(end), ..at_file(source) };
            self.flaw(place, What::CutOff { lines: count, signed: *lines });
        }
        self.report.files = self.report.files.saturating_add(1);
        self.report.bytes = self.report.bytes.saturating_add(end);
        self.told = 0;
        (self.progress)(self.report.bytes);
        Ok(())
    }

    fn line(&mut self, nth: u64, line: Line, place: &Place, reading: &mut Reading) {
        let follows = reading.hash.is_none_or(|hash| hash == line.previous);
        reading.hash = Some(line.hash);
        match line.body {
            Body::Header(_) if nth > 1 => self.flaw(place.clone(), What::HeaderInside),
            Body::Header(header) => {
                if !follows {
                    self.flaw(place.clone(), What::Severed);
                } else if !reading.is_broken && header.highest != reading.highest {
                    self.flaw(place.clone(), What::Highest);
                }
            }
            Body::Entry(entry) => {
                let number = Some((entry.environment, entry.number.as_u64()));
                if nth == 1 {
                    reading.is_broken = true;
                    self.flaw_of(place.clone(), number, What::NoHeader);
                } else if !follows {
                    reading.is_broken = true;
                    self.flaw_of(place.clone(), number, What::Detached);
                }
                self.entry(&entry, place, reading);
            }
        }
    }

    fn entry(&mut self, entry: &Outstanding, place: &Place, reading: &mut Reading) {
        let (environment, number) = (entry.environment, entry.number.as_u64());
        self.report.entries = self.report.entries.saturating_add(1);
        for highest in [&mut reading.highest, &mut self.report.highest] {
            let known = highest.entry(environment).or_default();
            *known = number.max(*known);
        }
        if !reading.numbers.entry(environment).or_default().insert(number) {
            self.flaw_of(place.clone(), Some((environment, number)), What::Again);
        } else if !self.all.entry(environment).or_default().insert(number) {
            self.shared.entry(environment).or_default().insert(number);
        }
    }

    /// What is missing, and what stands in several places.
    fn numbers(&mut self, files: &[&dyn Source]) -> io::Result<()> {
        let mut last = Highest::new();
        for checkpoint in self.signed.values().flat_map(BTreeMap::values) {
            for (environment, number) in &checkpoint.statement.highest {
                let known = last.entry(*environment).or_default();
                *known = (*number).max(*known);
            }
        }
        let mut gaps = Vec::new();
        for environment in Environment::ALL {
            let last = last.get(&environment).copied().unwrap_or(0);
            let numbers = self.all.entry(environment).or_default();
            gaps.extend(numbers.gaps(last).into_iter().map(|gap| (environment, gap)));
        }
        if gaps.is_empty() && self.shared.values().all(Numbers::is_empty) {
            return Ok(());
        }
        let mut behind: BTreeMap<(Environment, u64), Option<(Place, StoreTime)>> =
            gaps.iter().map(|(environment, gap)| ((*environment, gap.end().saturating_add(1)), None)).collect();
        self.again(files, &mut behind)?;
        for (environment, gap) in gaps {
            let (first, last) = gap.into_inner();
            let found = behind.get(&(environment, last.saturating_add(1))).cloned().flatten();
            let is_unsettled = match (&found, self.known.unsettled) {
                (Some((_, at)), Some(unsettled)) => *at >= unsettled,
                _ => false,
            };
            if is_unsettled {
                self.note(format!(
                    "numbers {first} to {last} of {environment} are not there yet; files are being written"
                ));
            } else {
                let place = found.map(|(place, _)| place).unwrap_or_default();
                self.flaw(place, What::Gap { environment, first, last });
            }
        }
        Ok(())
    }

    /// Reads once more: whether shared numbers say the same, and where what follows a gap stands.
    fn again(
        &mut self,
        files: &[&dyn Source],
        behind: &mut BTreeMap<(Environment, u64), Option<(Place, StoreTime)>>,
    ) -> io::Result<()> {
        let mut contents: BTreeMap<(Environment, u64), (Hash, String, u64)> = BTreeMap::new();
        for source in files {
            let mut lines = Lines::of(source.open()?);
            while let Some(raw) = lines.following()? {
                let Some(Ok(line)) = raw.is_whole.then(|| read_line(raw.bytes)) else { continue };
                let Body::Entry(entry) = &line.body else { continue };
                let key = (entry.environment, entry.number.as_u64());
                if let Some(found @ None) = behind.get_mut(&key) {
                    *found = Some((at_line(*source, raw), entry.at));
                }
                if !self.shared.get(&key.0).is_some_and(|shared| shared.contains(key.1)) {
                    continue;
                }
                let place = at_line(*source, raw);
                let (content, file, nth) =
                    contents.entry(key).or_insert_with(|| (line.content, source.name().to_owned(), raw.line));
                if *content != line.content {
                    let what = What::Otherwise { file: file.clone(), line: *nth };
                    self.flaw_of(place, Some(key), what);
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, end: u64) {
        if end.saturating_sub(self.told) >= STRIDE {
            self.told = end;
            (self.progress)(self.report.bytes.saturating_add(end));
        }
    }
}

fn at_file(source: &dyn Source) -> Place {
    Place { file: Some(source.name().to_owned()), ..Place::default() }
}

fn at_line(source: &dyn Source, raw: Raw<'_>) -> Place {
    Place { line: Some(raw.line), offset: Some(raw.offset), ..at_file(source) }
}
