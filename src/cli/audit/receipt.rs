//! `sluice audit receipt` and `check-receipt`: prove that entries are in a journal, without the rest of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use serde_json::json;

use super::super::output::OutputFormat;
use super::super::{ExitReason, print, read_named_file};
use super::entries::{EntryFilter, ShownEntry};
use super::files::{Chosen, checkpoints, chosen, folder_of, manifests, reading};
use super::forms::{as_json, entry_line};
use super::proofs::{checkpoint_lines, read_checkpoint_key, read_witness_keys, shown_time, witnesses_needed};
use crate::adapters::audit::{TreeFolder, kept_salts, read_manifest};
use crate::audit::{
    Checkpoint, FileSource as _, FoundLine, KeptCheckpoint, LineBody, LineReader, Note, NoteVerdict, Origin,
    ProvedEntries, Salts, read_line,
};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number};

/// Make a receipt: a proof that entries are in the journal
///
/// The receipt has the entries, and proves with a signed checkpoint that the journal has them. Whoever keeps it can prove it later
/// with `sluice audit check-receipt`, even if the entries were deleted since. It tells nothing of other entries. The newest
/// checkpoint is taken that most witnesses signed.
#[derive(Debug, Args)]
pub(super) struct ReceiptArgs {
    /// Folders of audit files
    #[arg(required = true, value_name = "FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: EntryFilter,
    /// Checkpoints kept elsewhere; may be given several times
    #[arg(long, value_name = "FILE")]
    checkpoints: Vec<PathBuf>,
}

/// Check a receipt
///
/// Shows the entries if the journal has them: if the checkpoint is signed by the given key of the journal and by the given
/// witnesses, and the entries are under it. Exits with 0 if all is proved, with 3 otherwise.
#[derive(Debug, Args)]
pub(super) struct CheckReceiptArgs {
    /// The receipt
    #[arg(value_name = "FILE")]
    receipt: PathBuf,
    /// The public key that verifies checkpoints; may be given several times
    #[arg(long = "public-key", value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
    /// The key of a witness, as it prints it, or a file with it; may be given several times
    #[arg(long = "witness-key", value_name = "KEY|FILE")]
    witnesses: Vec<String>,
    /// How many of these witnesses must have signed; without a number, all of them
    #[arg(long, value_name = "NUMBER", requires = "witnesses", value_parser = clap::value_parser!(u8).range(1..=64))]
    witnessed: Option<u8>,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

/// A line that was found, and the number of its entry.
type NumberedLine = ((Environment, Number), FoundLine);

/// The files of a node, and their folders.
#[derive(Default)]
struct NodeFiles {
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<u64, Chosen>,
}

/// The entries that the journal of one node has.
struct FoundJournal {
    folder: PathBuf,
    origin: Origin,
    salts: Salts,
    lines: Vec<NumberedLine>,
}

pub(super) fn run(arguments: &ReceiptArgs) -> anyhow::Result<ExitReason> {
    let mut known = Vec::new();
    for path in checkpoints(&arguments.paths)?.iter().chain(&arguments.checkpoints) {
        known.extend(checkpoint_lines(path, false)?.into_iter().filter_map(|line| line.read.ok()));
    }
    // The files of a node may be in several folders, of which one has its salt and its tree.
    let mut nodes: BTreeMap<NodeId, NodeFiles> = BTreeMap::new();
    for file in chosen(&arguments.paths)? {
        if let (Some((folder, node)), Some((_, sequence))) = (folder_of(&file), file.named()) {
            let of_node = nodes.entry(node.clone()).or_default();
            of_node.folders.insert(folder.to_owned());
            of_node.files.insert(sequence, file.clone());
        }
    }
    let (mut journals, mut all) = (Vec::new(), BTreeSet::new());
    let files: Vec<Chosen> = nodes.values().flat_map(|node| node.files.values().cloned()).collect();
    let (mut progress, mut bytes) = (reading(&files), 0_u64);
    for (node, NodeFiles { folders, files }) in nodes {
        let files: Vec<Chosen> = files.into_values().collect();
        let salted = folders.into_iter().map(|folder| Ok(kept_salts(&folder, &node)?.map(|salts| (folder, salts))));
        let salted = salted.collect::<std::io::Result<Vec<_>>>()?.into_iter().flatten().next_back();
        let origin = salted.as_ref().map(|(_, salts)| Origin::new(node.clone(), salts));
        let of_log = || known.iter().filter(|kept| Some(&kept.checkpoint.origin) == origin.as_ref());
        let begins = of_log().find_map(|kept| Some(kept.place.as_ref()?.begins)).unwrap_or(1);
        let before = lines_before(&arguments.paths, &node, begins, &files)?;
        let first = FirstLine { file: begins, index: before };
        let lines = found_lines(&files, first, &arguments.filter, &mut |read| {
            bytes = bytes.saturating_add(read);
            progress.show(bytes);
        })?;
        all.extend(lines.iter().map(|(number, _)| *number));
        if let (Some((folder, salts)), Some(origin)) = (salted, origin.clone().filter(|_| of_log().next().is_some())) {
            journals.push(FoundJournal { folder, origin, salts, lines });
        }
    }
    progress.end();
    if journals.is_empty() {
        bail!("these folders have no checkpoints, which a receipt needs: set `audit.checkpoint_key`");
    }
    let Some(fullest) = journals.into_iter().max_by_key(|journal| journal.lines.len()).filter(|_| !all.is_empty())
    else {
        bail!("no matching entries");
    };
    if fullest.lines.len() < all.len() {
        bail!("no journal with checkpoints has all of these entries: name the folders of one node at a time");
    }
    print(&format!("{}\n", receipt(fullest, &known)?.to_text()))?;
    Ok(ExitReason::Done)
}

fn receipt(journal: FoundJournal, known: &[KeptCheckpoint]) -> anyhow::Result<ProvedEntries> {
    let FoundJournal { folder, origin, salts, lines } = journal;
    let last = lines.last().map_or(0, |(_, line)| line.index);
    let mut notes: BTreeMap<u64, Note> = BTreeMap::new();
    for checkpoint in known.iter().map(|kept| &kept.checkpoint).filter(|one| one.origin == origin && one.size > last) {
        let note = notes.entry(checkpoint.size).or_insert_with(|| checkpoint.note.clone());
        // Each witness lists it with a signature of its own.
        let new = checkpoint.note.signatures.iter().filter(|one| !note.signatures.contains(one)).cloned();
        let new: Vec<_> = new.filter(|_| note.text == checkpoint.note.text).collect();
        note.signatures.extend(new);
    }
    // Of several, the newest that most witnesses signed. One may have signed a size twice.
    let signers =
        |note: &Note| note.signatures.iter().map(|one| (one.name.clone(), one.key_id)).collect::<BTreeSet<_>>().len();
    let Some((size, note)) = notes.into_iter().max_by_key(|(size, note)| (signers(note), *size)) else {
        bail!(
            "no checkpoint covers the newest of these entries yet: try again in a minute, or when the gate has ended"
        );
    };
    let tiles = TreeFolder::of(&folder, &origin.node);
    let lines = lines.into_iter().map(|(_, line)| line).collect();
    let proved = ProvedEntries::prove((size, &note), lines, &tiles, &salts);
    let proved = proved.context("the tree of the journal cannot be read")?;
    proved.ok_or_else(|| {
        anyhow!("the entries differ from what the tree of the journal has of them; see `sluice audit verify`")
    })
}

/// Returns how many lines of the tree are in archived files before the first one at hand.
fn lines_before(paths: &[PathBuf], node: &NodeId, begins: u64, files: &[Chosen]) -> anyhow::Result<u64> {
    let first = files.iter().filter_map(|file| Some(file.named()?.1)).min().unwrap_or_default();
    let mut lines = BTreeMap::new();
    for path in manifests(paths)? {
        let archived = read_manifest(&path).with_context(|| format!("`{}` cannot be read", path.display()))?;
        let before = archived.into_iter().filter(|file| file.node == *node && (begins..first).contains(&file.sequence));
        lines.extend(before.map(|file| (file.sequence, file.lines)));
    }
    if u64::try_from(lines.len()).unwrap_or(u64::MAX) < first.saturating_sub(begins) {
        bail!("files of `{node}` before file {first} are missing: name all folders with its files");
    }
    Ok(lines.values().fold(0, |sum, lines| sum.saturating_add(*lines)))
}

/// The file in which the tree of a journal begins, and the index of the first line at hand.
#[derive(Clone, Copy)]
struct FirstLine {
    file: u64,
    index: u64,
}

/// Finds the lines of entries, with their places in the tree. Tells how many bytes were read since it told the last time.
fn found_lines(
    files: &[Chosen],
    first: FirstLine,
    filter: &EntryFilter,
    tell: &mut dyn FnMut(u64),
) -> anyhow::Result<Vec<NumberedLine>> {
    let (mut index, mut found) = (first.index, Vec::new());
    for file in files.iter().filter(|file| file.named().is_some_and(|(_, sequence)| sequence >= first.file)) {
        let mut lines = LineReader::of(file.open()?);
        while let Some(raw) = lines.following()? {
            if !raw.is_whole {
                break;
            }
            tell(raw.end().saturating_sub(raw.offset));
            let damaged = || format!("line {} of `{}` is damaged; see `sluice audit verify`", raw.line, file.name());
            let line = read_line(raw.bytes).map_err(|fault| anyhow!("{fault}")).with_context(damaged)?;
            if let LineBody::Entry(outstanding) = line.body {
                let number = (outstanding.environment, outstanding.number);
                if filter.matches(&ShownEntry::of(outstanding)) {
                    let line = String::from_utf8(raw.bytes.to_vec()).with_context(damaged)?;
                    found.push((number, FoundLine { index, line }));
                }
            }
            index = index.saturating_add(1);
        }
    }
    Ok(found)
}

pub(super) fn check(arguments: &CheckReceiptArgs) -> anyhow::Result<ExitReason> {
    let path = &arguments.receipt;
    let text = read_named_file(path)?;
    let Ok(receipt) = ProvedEntries::read(&text) else {
        bail!("`{}` is not a receipt written by `sluice audit receipt`", path.display());
    };
    let keys = arguments.keys.iter().map(|path| read_checkpoint_key(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let witnesses = read_witness_keys(&arguments.witnesses)?;
    let needed = witnesses_needed(arguments.witnessed, &witnesses)?;
    let Some((checkpoint, entries)) = receipt.proved() else {
        return show_verdict(arguments, path, Err("its entries are not under its checkpoint: it was changed"));
    };
    let entries: Vec<ShownEntry> = entries.into_iter().map(ShownEntry::of).collect();
    if !keys.iter().any(|key| key.signed(&checkpoint)) {
        return show_verdict(arguments, path, Err("its checkpoint is not signed by a given key"));
    }
    let verdicts: Vec<NoteVerdict> = witnesses.iter().map(|key| checkpoint.note.verdict(key)).collect();
    let signed_at = |verdict: &NoteVerdict| match verdict {
        NoteVerdict::Signed { at } => *at,
        NoteVerdict::Absent | NoteVerdict::Wrong => None,
    };
    // A wrong signature under the name of a witness is no honest note.
    if verdicts.contains(&NoteVerdict::Wrong) {
        return show_verdict(arguments, path, Err("a signature of a given witness on its checkpoint is wrong"));
    }
    let times: Vec<u64> = verdicts.iter().filter_map(signed_at).collect();
    let too_few = match arguments.witnessed {
        None => "not every given witness signed its checkpoint",
        Some(_) => "fewer of the given witnesses signed its checkpoint than must",
    };
    let proved =
        if times.len() < needed { Err(too_few) } else { Ok((&checkpoint, times.as_slice(), entries.as_slice())) };
    show_verdict(arguments, path, proved)
}

/// The checkpoint of a receipt, when witnesses signed it, and the entries.
type ProvedReceipt<'r> = (&'r Checkpoint, &'r [u64], &'r [ShownEntry]);

fn show_verdict(
    arguments: &CheckReceiptArgs,
    path: &Path,
    proved: Result<ProvedReceipt<'_>, &str>,
) -> anyhow::Result<ExitReason> {
    let words = || match proved {
        Err(why) => format!("`{}` proves nothing: {why}\n", path.display()),
        Ok((checkpoint, times, entries)) => {
            let lines: String = entries.iter().map(|entry| format!("{}\n", entry_line(entry))).collect();
            let log = &checkpoint.origin;
            let signed: Vec<String> = times.iter().map(|at| shown_time(*at)).collect();
            let witnesses = match signed.as_slice() {
                [] => "no witness was asked for".to_owned(),
                times => format!("the witnesses signed it at {}", times.join(", ")),
            };
            let size = checkpoint.size;
            format!("{lines}proved: these entries are among the first {size} lines of the log `{log}`; {witnesses}\n")
        }
    };
    let found = || match proved {
        Err(why) => json!({"proved": false, "why": why}),
        Ok((checkpoint, times, entries)) => json!({
            "proved": true,
            "log": checkpoint.origin.to_string(),
            "lines": checkpoint.size,
            "witnessedAt": times.iter().map(|at| shown_time(*at)).collect::<Vec<_>>(),
            "entries": entries.iter().map(as_json).collect::<Vec<_>>(),
        }),
    };
    print(&arguments.output.text(words, found, Some("entries")))?;
    Ok(if proved.is_ok() { ExitReason::Done } else { ExitReason::Faulty })
}
