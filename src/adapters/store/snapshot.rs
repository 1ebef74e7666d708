//! A snapshot of a store beside a journal: a header, the lines of an export, and a seal on the digest of both.
//!
//! With it and the journal behind it, a store is built as from the whole journal. Sessions are not in it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::embedded::{Embedded, KeySpace, ReadTable, TransferError, take_in, write_out};
use super::layout::{self, Item};
use super::queries::{self, StoreView as _};
use super::sealed::Seals;
use crate::adapters::audit::SnapshotFile;
use crate::adapters::disk_trouble::is_trouble;
use crate::base::digest::hex;
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};
use crate::ledger::{NodeId, Number, StoreFault};

/// The version of this format.
const VERSION: u64 = 1;
/// No line at the end of a snapshot is longer.
const LONGEST_END: u64 = 4_096;

/// A store whose content can be written as it stands at one moment.
pub trait SnapshotSource: fmt::Debug + Send + Sync {
    fn content(&self) -> Result<StoreContent, StoreFault>;
}

/// All of a store at one moment.
pub struct StoreContent(pub(super) ReadTable);

impl fmt::Debug for StoreContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreContent")
    }
}

impl SnapshotSource for Embedded {
    fn content(&self) -> Result<StoreContent, StoreFault> {
        self.latest().map(StoreContent)
    }
}

/// The first line. It has what an export leaves out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotHeader {
    snapshot: u64,
    node: NodeId,
    sequence: u64,
    /// The number up to which commits are unknown.
    begin: BTreeMap<Environment, Number>,
    /// The first entry with sealed steps.
    sealed_from: BTreeMap<Environment, Number>,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotEnd {
    /// The digest of all before this line, sealed; none without a key.
    seal: Option<String>,
}

impl StoreContent {
    /// Returns the number of the latest commit.
    pub fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        queries::last(&KeySpace(&self.0), environment).map(Number::new)
    }

    /// Writes it as the snapshot of this name. Returns how many lines its export has.
    pub fn write(
        &self,
        node: &NodeId,
        sequence: u64,
        seals: &Seals,
        out: &mut dyn Write,
    ) -> Result<u64, TransferError> {
        let mut begin = BTreeMap::new();
        let mut sealed_from = BTreeMap::new();
        let map = KeySpace(&self.0);
        for environment in Environment::ALL {
            if let Some(Item::Begin(_, number)) = map.item(&layout::begin(environment)).map_err(TransferError::Store)? {
                begin.insert(environment, number);
            }
            if let Some(Item::SealedFrom(_, number)) =
                map.item(&layout::sealed_from(environment)).map_err(TransferError::Store)?
            {
                sealed_from.insert(environment, number);
            }
        }
        let header = SnapshotHeader { snapshot: VERSION, node: node.clone(), sequence, begin, sealed_from };
        let mut hashed = HashedOut { out, hash: Sha256::new() };
        writeln!(hashed, "{}", json::to_form(&header)).map_err(TransferError::File)?;
        let lines = write_out(&self.0, &mut hashed, &mut |_| {})?;
        let HashedOut { out, hash } = hashed;
        let seal = seals.seal_digest(&name(node, sequence), &hex(&hash.finalize())).map_err(TransferError::Store)?;
        writeln!(out, "{}", json::to_form(&SnapshotEnd { seal })).map_err(TransferError::File)?;
        Ok(lines)
    }
}

/// A snapshot that was made with one of the keys.
#[derive(Debug)]
pub(super) struct ProvenSnapshot {
    file: File,
    /// Where its last line begins.
    end: u64,
    header: SnapshotHeader,
}

impl ProvenSnapshot {
    pub fn open(snapshot: &SnapshotFile, seals: &Seals) -> Result<ProvenSnapshot, StoreFault> {
        // Other errors say that the file is not the one that was written, or that nobody may read it.
        let failed = |error: io::Error| match is_trouble(&error) {
            true => StoreFault::Away(error.to_string()),
            false => StoreFault::Broken(error.to_string()),
        };
        let broken = |why: &str| StoreFault::Broken(why.to_owned());
        let mut file = File::open(&snapshot.path).map_err(failed)?;
        let (end, last) = last_line(&mut file).map_err(failed)?;
        let SnapshotEnd { seal } =
            json::from_slice(&last, Limits::ANSWER).map_err(|_| broken("it does not end as a snapshot does"))?;
        let digest = digest(&mut file, end).map_err(failed)?;
        if !seals.proves_digest(&name(&snapshot.node, snapshot.sequence), &digest, seal.as_deref())? {
            return Err(broken("it was not made with the seal key of this gate"));
        }
        file.rewind().map_err(failed)?;
        let mut first = Vec::new();
        let mut lines = BufReader::new(&file).take(LONGEST_END);
        lines.read_until(b'\n', &mut first).map_err(failed)?;
        let header: SnapshotHeader =
            json::from_slice(&first, Limits::ANSWER).map_err(|_| broken("it does not begin as a snapshot does"))?;
        if header.snapshot != VERSION || header.node != snapshot.node || header.sequence != snapshot.sequence {
            return Err(broken("it is the snapshot of another journal, or of a later version of Sluice"));
        }
        Ok(ProvenSnapshot { file, end, header })
    }

    /// Passes on every item.
    pub fn items(mut self, put: &mut dyn FnMut(Item) -> Result<(), StoreFault>) -> Result<(), StoreFault> {
        self.file.rewind().map_err(|error| StoreFault::Away(error.to_string()))?;
        let mut lines = BufReader::with_capacity(1 << 20, self.file.take(self.end));
        lines.skip_until(b'\n').map_err(|error| StoreFault::Away(error.to_string()))?;
        let taken = take_in(&mut lines, &mut |_| {}, &mut |item| put(item).map_err(TransferError::Store));
        taken.map_err(|error| match error {
            TransferError::Store(fault) => fault,
            error => StoreFault::Broken(error.to_string()),
        })?;
        for (environment, number) in self.header.begin {
            put(Item::Begin(environment, number))?;
        }
        for (environment, number) in self.header.sealed_from {
            put(Item::SealedFrom(environment, number))?;
        }
        Ok(())
    }
}

/// What the seal is bound to.
fn name(node: &NodeId, sequence: u64) -> String {
    format!("{node}/{sequence}")
}

/// Returns where the last line begins, and the line without its end.
fn last_line(file: &mut File) -> io::Result<(u64, Vec<u8>)> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LONGEST_END);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LONGEST_END).read_to_end(&mut bytes)?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let begin = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
    let line = line.get(begin..).unwrap_or_default().to_vec();
    Ok((from.saturating_add(begin as u64), line))
}

fn digest(file: &mut File, end: u64) -> io::Result<String> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut reader = file.take(end);
    let mut bytes = vec![0; 1 << 20];
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(bytes.get(..count).unwrap_or_default()),
        }
    }
}

/// Passes bytes on, and hashes them.
struct HashedOut<'o> {
    out: &'o mut dyn Write,
    hash: Sha256,
}

impl Write for HashedOut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::replica::Replica;
    use super::super::sealed::SealingKey;
    use super::*;
    use crate::adapters::audit::Follower as _;
    use crate::base::secret::Secret;

    fn seals(secret: &str) -> Seals {
        Seals::new(vec![SealingKey::new("one", &Secret::new(secret.repeat(64))).unwrap()])
    }

    fn written(folder: &Path, sequence: u64, seals: &Seals) -> SnapshotFile {
        let node = NodeId::parse("a").unwrap();
        let replica = Replica::open(&folder.join("from"), seals.clone()).unwrap();
        replica.pass_over(Environment::Production, 7).unwrap();
        let path = folder.join("audit-a-00000005.snapshot");
        replica.content().unwrap().write(&node, sequence, seals, &mut File::create(&path).unwrap()).unwrap();
        SnapshotFile { node, sequence, path }
    }

    fn restored(folder: &Path, snapshot: &SnapshotFile, seals: Seals) -> Result<Number, String> {
        let replica = Replica::open(&folder.join("to"), seals).unwrap();
        if let Some(unfit) = replica.restore(snapshot)? {
            return Err(unfit);
        }
        assert_eq!(replica.begin(Environment::Production).unwrap(), Number::new(7));
        Ok(replica.last(Environment::Production).unwrap())
    }

    #[test]
    fn a_snapshot_is_taken_by_those_who_have_its_key() {
        let folder = tempfile::tempdir().unwrap();
        for (by, of) in [(seals("1"), seals("1")), (Seals::default(), Seals::default())] {
            let snapshot = written(folder.path(), 5, &by);
            assert_eq!(restored(folder.path(), &snapshot, of), Ok(Number::new(7)));
        }
    }

    #[test]
    fn what_the_key_did_not_seal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |snapshot: &SnapshotFile| restored(folder.path(), snapshot, seals("1")).unwrap_err();
        for by in [Seals::default(), seals("2")] {
            let why = refused(&written(folder.path(), 5, &by));
            assert!(why.contains("seal key") || why.contains("cannot be opened"), "{why}");
        }
        let snapshot = written(folder.path(), 5, &seals("1"));
        let other = SnapshotFile { sequence: 6, ..snapshot.clone() };
        assert!(refused(&other).contains("cannot be opened"), "{}", refused(&other));
        let text = fs::read_to_string(&snapshot.path).unwrap();
        fs::write(&snapshot.path, text.replacen(":7", ":8", 1)).unwrap();
        assert!(refused(&snapshot).contains("seal key"), "{}", refused(&snapshot));
        for cut in [0, 1, text.len() / 2, text.len() - 1] {
            fs::write(&snapshot.path, &text[..cut]).unwrap();
            assert!(restored(folder.path(), &snapshot, seals("1")).is_err() || cut == text.len() - 1, "{cut}");
        }
    }
}
