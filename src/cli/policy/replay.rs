//! `sluice policy replay`: repeats recorded decisions with a new folder of policies.

mod report;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::civil::Date;

use super::setting::{PolicySetting, SettingNames};
use crate::adapters::audit::{kept_operand_key, operand_key};
use crate::base::finding::Finding;
use crate::base::keyed::OperandKey;
use crate::cli::audit::entries::for_each_entry;
use crate::cli::audit::files::{Chosen, chosen, folder_of, reading};
use crate::cli::check;
use crate::cli::output::OutputFormat;
use crate::cli::progress::ProgressLine;
use crate::cli::{ExitReason, print};
use crate::config::Config;
use crate::policy::{DecisionHistory, Policies, PolicyReading, Replay, ReplayEvent, ReplayRecord, Replayed, Undecided};
use report::ReplayReport;

#[derive(Debug, Args)]
pub(super) struct PolicyReplayArgs {
    /// The folder with the new policies
    folder: PathBuf,
    /// Audit files of all nodes, or folders of audit files
    #[arg(required = true, value_name = "AUDIT_FILES")]
    audit: Vec<PathBuf>,
    /// The first day to report, in UTC; earlier requests still count in limits
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<Date>,
    /// The last day to report, in UTC
    #[arg(long, value_name = "YYYY-MM-DD")]
    to: Option<Date>,
    #[command(flatten)]
    setting: PolicySetting,
}

pub(super) fn run(arguments: &PolicyReplayArgs) -> anyhow::Result<ExitReason> {
    let output = arguments.setting.output;
    let read = || -> Result<_, Vec<Finding>> {
        let names = arguments.setting.names()?;
        let reading = names.read(&arguments.folder, None)?;
        Ok((names, reading))
    };
    let (names, PolicyReading { policies, .. }) = match read() {
        Ok(read) => read,
        Err(findings) => {
            print(&check::findings_as(&findings, output))?;
            return Ok(if findings.iter().any(Finding::is_error) { ExitReason::Faulty } else { ExitReason::Done });
        }
    };
    let files = chosen(&arguments.audit)?;
    let key = key(&arguments.setting, &files)?;
    let record = read_record(&files)?;
    let mut report = ReplayReport::of(policies.version(), &record);
    let mut replay = Replay::of(&policies.rules, &names.catalog, &key);
    let is_reported = |day: &str| {
        let day: Option<Date> = day.parse().ok();
        day.is_some_and(|day| arguments.from.is_none_or(|from| from <= day) && arguments.to.is_none_or(|to| day <= to))
    };
    let mut keys = (0_u64, 0_u64);
    let mut progress = ProgressLine::counting("entries decided again", 10_000);
    for (done, (environment, event)) in record.events().enumerate() {
        progress.show(done as u64);
        match event {
            ReplayEvent::Released(released) => replay.release(&released.recorded),
            ReplayEvent::GivenBack { attempt } => replay.give_back(environment, *attempt),
            ReplayEvent::Decided(decided) => {
                let replayed = replay.decide(&decided.recorded);
                let is_other = matches!(replayed, Replayed::Undecided(Undecided::OtherKey));
                keys = (keys.0.saturating_add(u64::from(is_other)), keys.1.saturating_add(1));
                if is_reported(&decided.day) {
                    report.add(decided, &replayed, |verdict| replay.value(&decided.recorded, verdict));
                }
            }
            ReplayEvent::Incomplete { day, .. } if is_reported(day) => report.add_incomplete(),
            ReplayEvent::Incomplete { .. } | ReplayEvent::Other => {}
        }
    }
    progress.end();
    if keys.1 > 0 && keys.0 == keys.1 {
        bail!(wrong_key(&key, &record));
    }
    print(&output.text(|| report.in_words(), || report.as_json(), Some("changes")))?;
    Ok(ExitReason::Done)
}

/// Decides the record by two sets, and compares the decisions of the last days.
pub(super) fn history(
    old: &Policies,
    new: &Policies,
    names: &SettingNames,
    setting: &PolicySetting,
    audit: &[PathBuf],
) -> anyhow::Result<DecisionHistory> {
    let files = chosen(audit)?;
    let key = key(setting, &files)?;
    let record = read_record(&files)?;
    let history = DecisionHistory::of(old, new, &names.catalog, &key, &record);
    if history.is_of_another_key() {
        bail!(wrong_key(&key, &record));
    }
    Ok(history)
}

/// Reads the entries of files; an entry that is in two of them counts once.
fn read_record(files: &[Chosen]) -> anyhow::Result<ReplayRecord> {
    let mut record = ReplayRecord::default();
    let unreadable = for_each_entry(files, reading(files), |shown| {
        record.add(&shown.outstanding, &shown.entry);
        Ok(())
    })?;
    record.add_unreadable(unreadable);
    Ok(record)
}

fn wrong_key(key: &OperandKey, record: &ReplayRecord) -> String {
    let found: Vec<String> = record.keys().into_iter().collect();
    format!(
        "this is the wrong key: its id is `{}`, but the names in these files were hashed with `{}`; name the \
         configuration of the gate that wrote them with `--config`",
        key.id(),
        found.join("`, `")
    )
}

/// Returns the key of personal names: the configured one, the one that the gate keeps, or a copy beside the files.
fn key(setting: &PolicySetting, files: &[Chosen]) -> anyhow::Result<OperandKey> {
    let configured =
        setting.gate().map_err(|findings| anyhow::anyhow!(check::findings_as(&findings, OutputFormat::Table)))?;
    if let Some(Config { audit, store, .. }) = configured {
        if audit.operand_key.is_some() {
            return Ok(operand_key(audit.operand_key.as_ref(), &store.folder)?);
        }
        if let Some(key) = kept_operand_key(&store.folder)? {
            return Ok(key);
        }
    }
    let mut found: Option<OperandKey> = None;
    for file in files {
        let Some((folder, _)) = folder_of(file) else { continue };
        match (kept_operand_key(folder)?, &found) {
            (Some(key), Some(other)) if key.id() != other.id() => {
                bail!(
                    "these nodes use different keys, so that they cannot be replayed together: set one `audit.operand_key` for all"
                )
            }
            (Some(key), _) => found = Some(key),
            (None, _) => {}
        }
    }
    found.context(
        "the key of personal names is in the folder of the gate's store: name the gate's configuration with `--config`",
    )
}
