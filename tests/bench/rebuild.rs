//! How long the embedded store takes to be built from its journal, and how much memory that needs.
//!
//! The journal has claims as a gate writes them: two commits each, sealed, through the writer of the audit log. A gate
//! keeps a snapshot beside it once the journal has grown by more than the last one: a rebuild reads that, and what
//! follows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, anyhow, ensure};
use bytes::Bytes;
use sluice::adapters::audit::{AuditFiles, AuditSettings, RoomForJournal, free_bytes, keep_snapshot};
use sluice::adapters::clock::{Stopwatch, SystemClock};
use sluice::adapters::store::rebuild::{RebuildSource, rebuild};
use sluice::adapters::store::replica::Replica;
use sluice::adapters::store::sealed::{SealingKey, Seals};
use sluice::adapters::store::snapshot::SnapshotSource as _;
use sluice::audit::SnapshotLink;
use sluice::base::ids::Environment;
use sluice::base::secret::Secret;
use sluice::ledger::{
    Commit, Index, Keep, Kind, NodeId, Number, Outstanding, RecordKey, Step, StoreTime, WindowKey, WindowSpan,
};
use sluice::ports::AuditSink as _;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const ENVIRONMENT: Environment = Environment::Production;
/// How many claims are appended at a time.
const BATCH: u64 = 512;
/// How many commits lie between two lines about the progress.
const PROGRESS: u64 = 100_000;
/// When the first claim was made, in microseconds since 1970, and the time between two: a million in 30 days.
const BEGIN: i64 = 1_800_000_000_000_000;
const PACE: i64 = 2_592_000;
/// The lengths of texts that are as long when they are packed as the records of a swap: the claim with the call, and
/// with the answer.
const SENDING: usize = 430;
const DONE: usize = 620;

/// Writes the journal on the disk of `parent`, builds a store from it, and describes what that took.
pub(crate) fn report(
    parent: &Path,
    kept: Option<PathBuf>,
    (claims, in_snapshot): (u64, u64),
) -> anyhow::Result<String> {
    let home = TempDir::new_in(parent)?;
    let journal = kept.unwrap_or_else(|| home.path().join("journal"));
    let folder = home.path().join("store");
    let node = NodeId::parse("bench").context("not a name")?;
    let seals = Seals::new(vec![SealingKey::new("1", &Secret::new("42".repeat(32)))?]);
    if !journal.exists() {
        let watch = Stopwatch::start();
        let settings = AuditSettings { deadline: Duration::from_secs(60), ..AuditSettings::of(&journal, node.clone()) };
        let files = AuditFiles::open(settings, Arc::new(SystemClock))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        write_journal((&files, &runtime), (&node, &seals), 0, in_snapshot)?;
        if in_snapshot > 0 {
            // The next file names it.
            let link = write_snapshot(&home.path().join("before"), (&journal, &files), (&node, &seals))?;
            runtime.block_on(files.link(link))?;
        }
        write_journal((&files, &runtime), (&node, &seals), in_snapshot, claims)?;
        let (written, bytes) = (watch.elapsed(), size(&journal)?);
        eprintln!("wrote a journal of {claims} claims, {} MB, in {} s", bytes >> 20, written.as_secs());
    }
    let bytes = size(&journal)?;

    fs::create_dir(&folder)?;
    // From here on the peak is that of the rebuild.
    fs::write("/proc/self/clear_refs", "5").context("the peak of memory cannot be set back")?;
    let before = memory("VmRSS:")?;
    let (cpu, watch, mut told) = (cpu_time()?, Stopwatch::start(), 0);
    let rebuilt = rebuild(
        &folder,
        RebuildSource {
            journal: &journal,
            node: &node,
            seals: &seals,
            installation: None,
            is_copy: false,
            ahead: None,
        },
        &mut |commits| {
            if commits.saturating_sub(told) >= PROGRESS {
                told = commits;
                eprintln!("{commits} commits after {} s", watch.elapsed().as_secs());
            }
        },
    );
    let rebuilt = rebuilt.map_err(|fault| anyhow!("{fault}"))?;
    let (taken, cpu) = (watch.elapsed(), cpu_time()?.saturating_sub(cpu));
    let commits = claims.saturating_mul(2);
    let repeated = claims.saturating_sub(in_snapshot).saturating_mul(2);
    ensure!(rebuilt.is_whole() && rebuilt.commits == repeated, "{rebuilt:?}");
    ensure!(rebuilt.last.get(&ENVIRONMENT) == Some(&commits), "{rebuilt:?}");

    let millis = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX).max(1);
    let per_second = claims.saturating_mul(1_000).checked_div(millis).unwrap_or(0);
    let (peak, store) = (memory("VmHWM:")?, size(&folder)?);
    Ok(format!(
        "  claims  in snapshot  journal MB  store MB  seconds  CPU s  claims/s  peak MB  before MB\n\
         {claims:>8}{in_snapshot:>13}{:>12}{:>10}{:>9}{:>7}{per_second:>10}{:>9}{:>11}\n",
        bytes >> 20,
        store >> 20,
        format!("{}.{}", millis / 1_000, millis % 1_000 / 100),
        format!("{:.1}", cpu.as_secs_f64()),
        peak >> 10,
        before >> 10,
    ))
}

/// Writes a snapshot of the store that the journal makes, as a gate does when a file of the journal begins.
fn write_snapshot(
    building: &Path,
    (journal, files): (&Path, &AuditFiles),
    (node, seals): (&NodeId, &Seals),
) -> anyhow::Result<SnapshotLink> {
    fs::create_dir(building)?;
    let source = RebuildSource { journal, node, seals, installation: None, is_copy: false, ahead: None };
    rebuild(building, source, &mut |_| {}).map_err(|fault| anyhow!("{fault}"))?;
    let replica = Replica::open(building, seals.clone())?;
    let content = replica.content().map_err(|fault| anyhow!("{fault}"))?;
    let newest = Arc::clone(&files.begun().borrow());
    let free = || free_bytes(journal);
    let link = keep_snapshot(journal, &newest, RoomForJournal { bytes: 0, free: &free }, &mut |out| {
        content.write(node, newest.sequence, seals, out).map(drop).map_err(io::Error::other)
    })?;
    drop((content, replica));
    fs::remove_dir_all(building)?;
    Ok(link)
}

/// Writes the entries of claims behind those that are there.
fn write_journal(
    (files, runtime): (&AuditFiles, &Runtime),
    (node, seals): (&NodeId, &Seals),
    first: u64,
    claims: u64,
) -> anyhow::Result<()> {
    let cores = thread::available_parallelism()?.get() as u64;
    let mut first = first;
    while first < claims {
        let made = thread::scope(|scope| {
            let makers: Vec<_> = (0..cores)
                .map(|nth| {
                    let from = first.saturating_add(nth.saturating_mul(BATCH)).min(claims);
                    let to = from.saturating_add(BATCH).min(claims);
                    scope.spawn(move || {
                        (from..to).map(|nth| entries(node, seals, nth)).collect::<anyhow::Result<Vec<_>>>()
                    })
                })
                .collect();
            let made = makers.into_iter().map(|maker| maker.join().map_err(|_| anyhow!("a thread panicked"))?);
            made.collect::<anyhow::Result<Vec<_>>>()
        })?;
        for batch in made {
            runtime.block_on(files.append(batch.into_iter().flatten().collect()))?;
        }
        first = first.saturating_add(cores.saturating_mul(BATCH));
    }
    Ok(())
}

/// The two entries of a claim.
fn entries(node: &NodeId, seals: &Seals, nth: u64) -> anyhow::Result<[Outstanding; 2]> {
    let number = nth.saturating_mul(2).saturating_add(1);
    let at = StoreTime::of_micros(BEGIN.saturating_add(PACE.saturating_mul(i64::try_from(nth)?)));
    // In no order, as random requestIds are.
    let name = format!("request/{:016x}-{nth:012}", nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Ok([
        outstanding(node, seals, number, at, &name, claim(&name, nth))?,
        outstanding(node, seals, number.saturating_add(1), at, &name, settle(&name, nth, Number::new(number)))?,
    ])
}

fn outstanding(
    node: &NodeId,
    seals: &Seals,
    number: u64,
    at: StoreTime,
    name: &str,
    steps: Vec<Step>,
) -> anyhow::Result<Outstanding> {
    let entry = format!(
        r##"{{"claim":"{name}","decision":{{"by":["small-payments"],"effect":"allow","policy":"{hex}"}},"fingerprint":"{hex}","operands":{{"destination":{{"chain":"POLYGON","currency":"usdc","wallet":"#436faf37aa9d8e879ae6ff72"}},"key":"36a45a10","now":{now},"source":{{"amount":"25.50","chain":"POLYGON","currency":"usdt"}},"value":25500000}},"operation":"createSwap","owner":{{"issuer":"main","subject":"payroll"}},"requestId":"{name}","trace":"48057087-7105-4c33-9550-707c448f010b","what":"sending"}}"##,
        hex = "9c815fdb".repeat(8),
        now = at.as_micros(),
    );
    let commit = Commit { environment: ENVIRONMENT, node: node.clone(), steps, entry: entry.into_bytes().into() };
    let entry = seals.sealed_commit(commit).map_err(|fault| anyhow!("{fault}"))?.entry;
    Ok(Outstanding { environment: ENVIRONMENT, number: Number::new(number), at, node: node.clone(), entry })
}

fn claim(name: &str, nth: u64) -> Vec<Step> {
    let freeze =
        |name: &str| Step::Absent(RecordKey { environment: ENVIRONMENT, kind: Kind::Freeze, name: name.to_owned() });
    let mut steps = vec![
        Step::Create { key: key(name), value: noise(nth, SENDING), keep: Keep::Forever },
        Step::IndexAdd { index: Index::Sending, member: name.to_owned(), due: Duration::from_secs(92) },
        freeze("operation/createSwap"),
        freeze("all"),
        freeze("restored"),
        freeze("caller/main/payroll"),
    ];
    let reserve = |(window, bucket)| Step::Reserve {
        window,
        span: WindowSpan::Rolling { bucket: Duration::from_secs(bucket), count: 60 },
        holder: holder(nth),
        units: 25_500_000,
        max: 1 << 50,
    };
    steps.extend(windows(nth).map(reserve));
    steps
}

fn settle(name: &str, nth: u64, version: Number) -> Vec<Step> {
    let days = |days: u64| Duration::from_secs(days.saturating_mul(86_400));
    let keep = Keep::For { whole: days(35), spent: days(400) };
    let mut steps = vec![
        Step::IndexRemove { index: Index::Sending, member: name.to_owned() },
        Step::IndexRemove { index: Index::Unknown, member: name.to_owned() },
        Step::Replace { key: key(name), version, value: noise(!nth, DONE), keep },
        Step::IndexAdd { index: Index::Paid, member: payee(nth), due: Duration::ZERO },
    ];
    steps.extend(windows(nth).map(|(window, _)| Step::Settle { window, holder: holder(nth) }));
    steps
}

/// A text that cannot be packed into less than three quarters.
fn noise(seed: u64, length: usize) -> Bytes {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = seed;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        LETTERS.get(usize::try_from(state >> 58).unwrap_or(0)).copied().unwrap_or(b'A')
    };
    (0..length).map(letter).collect()
}

/// The windows of a payment with their buckets in seconds: of all, of its payee, and of its caller.
fn windows(nth: u64) -> [(WindowKey, u64); 3] {
    let window = |limit: &str, key: String| WindowKey { limit: limit.to_owned(), key };
    [
        (window("all-payments", "[\"production\"]".to_owned()), 1_440),
        (window("same-payment-twice", format!("[\"production\",\"{}\"]", payee(nth))), 60),
        (window("unapproved-per-caller", format!("[\"production\",\"main:caller-{}\"]", nth % 50)), 1_440),
    ]
}

/// One of 100,000 payees.
fn payee(nth: u64) -> String {
    format!("{:064x}", nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000)
}

fn holder(nth: u64) -> String {
    format!("{nth:032x}")
}

fn key(name: &str) -> RecordKey {
    RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name: name.to_owned() }
}

/// The bytes of the files in a folder.
fn size(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0_u64;
    for entry in fs::read_dir(folder)? {
        bytes = bytes.saturating_add(entry?.metadata()?.len());
    }
    Ok(bytes)
}

/// The CPU time of this process, in user and in system.
fn cpu_time() -> anyhow::Result<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

/// A figure of this process, in KiB.
fn memory(name: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("this machine does not tell it")?;
    line.trim().trim_end_matches(" kB").parse().context("not a number")
}
