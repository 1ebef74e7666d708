use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::*;
use crate::adapters::clock::SystemClock;
use crate::audit::{GrowingTree, Salts, TileIndex, consistency_proof, leaf_hash};
use crate::base::ed25519;
use crate::ledger::NodeId;

/// A log with lines of one letter, which counts them.
struct TrialLog {
    pair: Ed25519KeyPair,
    origin: Origin,
}

fn signing(seed: u8) -> SigningKey {
    SigningKey::of_pem(ed25519::to_pem(&[seed; 32]).reveal().as_bytes()).unwrap()
}

impl TrialLog {
    fn new(seed: u8, node: &str) -> TrialLog {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        TrialLog { pair, origin: Origin::new(NodeId::parse(node).unwrap(), &Salts::of(&[0; 32])) }
    }

    fn public(&self) -> CheckpointKey {
        CheckpointKey::of_bytes(self.pair.public_key().as_ref()).unwrap()
    }

    /// Asks for a checkpoint of these lines, behind the first `old` of them.
    fn ask(&self, old: u64, lines: &str) -> String {
        let mut tree = GrowingTree::default();
        let mut tiles = BTreeMap::new();
        for line in lines.bytes() {
            tiles.extend(tree.push(leaf_hash(&[line])));
        }
        tiles.extend(tree.edge().into_iter().map(|(place, row)| (place, row.to_vec())));
        let read = |place: TileIndex, width: usize| Ok(tiles[&place][..width].to_vec());
        let proof = consistency_proof(&read, old.min(tree.size()), tree.size()).unwrap();
        let text = Checkpoint::text(&self.origin, &tree);
        let key = NoteKey::of_pair(&self.origin.to_string(), NoteKeyKind::Log, &self.pair).unwrap();
        let note = Note { signatures: vec![key.sign(&self.pair, &text, 0)], text };
        WitnessRequest { old, proof, note: note.to_string() }.to_text()
    }
}

fn open(folder: &Path, logs: &[&TrialLog]) -> Result<Witness, WitnessError> {
    let logs = logs.iter().map(|log| log.public()).collect();
    Witness::open("w.example", signing(9), logs, folder, Arc::new(SystemClock))
}

fn is_signed(answer: &WitnessAnswer) -> bool {
    matches!(answer, WitnessAnswer::Signed(_))
}

#[test]
fn only_a_log_that_grew_is_signed_also_after_a_restart() {
    let (home, log) = (tempfile::tempdir().unwrap(), TrialLog::new(1, "a"));
    let witness = open(home.path(), &[&log]).unwrap();
    assert!(is_signed(&witness.add(&log.ask(0, "abc"))));
    assert!(is_signed(&witness.add(&log.ask(3, "abc"))), "the same once more");
    assert_eq!(witness.add(&log.ask(0, "abcd")), WitnessAnswer::OtherSize(3));
    assert_eq!(witness.add(&log.ask(3, "xbcd")), WitnessAnswer::Inconsistent);
    assert_eq!(witness.add(&log.ask(3, "abx")), WitnessAnswer::Inconsistent);
    // Set back: the gate asks with what it has.
    assert_eq!(witness.add(&log.ask(2, "ab")), WitnessAnswer::OtherSize(3));
    assert!(matches!(witness.add(&log.ask(3, "ab")), WitnessAnswer::Unreadable(_)));
    assert!(matches!(open(home.path(), &[&log]), Err(WitnessError::Busy(_))));
    drop(witness);
    let witness = open(home.path(), &[&log]).unwrap();
    assert_eq!(witness.add(&log.ask(3, "xbcd")), WitnessAnswer::Inconsistent);
    assert!(is_signed(&witness.add(&log.ask(3, "abcd"))));
    let [signed] = witness.signed().try_into().unwrap();
    assert_eq!(signed.size, 4);
    assert!(matches!(signed.note.verdict(witness.key()), NoteVerdict::Signed { at: Some(_) }));
    assert!(log.public().signed(&signed));
}

#[test]
fn other_keys_other_texts_and_other_folders_are_refused() {
    let (home, log, other) = (tempfile::tempdir().unwrap(), TrialLog::new(1, "a"), TrialLog::new(2, "a"));
    let witness = open(home.path(), &[&log]).unwrap();
    assert_eq!(witness.add(&other.ask(0, "abc")), WitnessAnswer::UnknownLog);
    assert_eq!(witness.add(&log.ask(0, "abc").replace("sluice/a/", "other/a/")), WitnessAnswer::UnknownLog);
    assert_eq!(witness.add(&log.ask(0, "abc").replace("sluice/a/", "sluice/b/")), WitnessAnswer::UnknownLog);
    for text in ["", "old 0\n\n", "old 0\n\na\n1\n\n", &log.ask(0, "abc").replace("\n\n", "\n")] {
        assert!(matches!(witness.add(text), WitnessAnswer::Unreadable(_)), "{text}");
    }
    assert!(is_signed(&witness.add(&log.ask(0, "abc"))));
    drop(witness);
    let renamed = Witness::open("v.example", signing(9), vec![], home.path(), Arc::new(SystemClock));
    assert!(matches!(renamed, Err(WitnessError::Damaged(..))));
    let rekeyed = Witness::open("w.example", signing(8), vec![], home.path(), Arc::new(SystemClock));
    assert!(matches!(rekeyed, Err(WitnessError::Damaged(..))));
    assert!(matches!(
        Witness::open("w e", signing(9), vec![], home.path(), Arc::new(SystemClock)),
        Err(WitnessError::Name(_))
    ));
    let [file] = fs::read_dir(home.path())
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "checkpoint"))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\n3\n", "\n2\n")).unwrap();
    assert!(matches!(open(home.path(), &[&log]), Err(WitnessError::Damaged(..))));
}

/// A note with signatures in its log's name that nobody made would be too long to be read again.
#[test]
fn only_signatures_that_were_verified_are_remembered() {
    let (home, log) = (tempfile::tempdir().unwrap(), TrialLog::new(1, "a"));
    let witness = open(home.path(), &[&log]).unwrap();
    let asked = log.ask(0, "abc");
    let junk = format!("\u{2014} {} AAAAAAAA\n", log.origin);
    assert!(is_signed(&witness.add(&(asked.clone() + &junk.repeat(63)))));
    let own = asked.lines().last().unwrap().to_owned() + "\n";
    let again = asked.replacen("old 0", "old 3", 1);
    assert!(is_signed(&witness.add(&(again + &own.repeat(63)))));
    drop(witness);
    let [signed] = open(home.path(), &[&log]).unwrap().signed().try_into().unwrap();
    assert_eq!(signed.note.signatures.len(), 2);
}

#[test]
fn a_log_keeps_its_key_as_long_as_the_witness_knows_it() {
    let (home, log, other) = (tempfile::tempdir().unwrap(), TrialLog::new(1, "a"), TrialLog::new(2, "a"));
    let witness = open(home.path(), &[&log, &other]).unwrap();
    assert!(is_signed(&witness.add(&log.ask(0, "abc"))));
    assert_eq!(witness.add(&other.ask(3, "abc")), WitnessAnswer::Unsigned);
    assert_eq!(witness.add(&other.ask(3, "abcd")), WitnessAnswer::Unsigned);
    drop(witness);
    // Its key was changed, and its former one taken from the witness.
    let witness = open(home.path(), &[&other]).unwrap();
    assert!(is_signed(&witness.add(&other.ask(3, "abcd"))));
}
