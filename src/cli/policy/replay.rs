//! `sluice policy replay`: what a new folder of policies would have made of what was decided.

mod record;
mod report;

use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::civil::Date;

use super::setting::Setting;
use crate::adapters::audit::{kept_operand_key, operand_key};
use crate::base::finding::Finding;
use crate::base::keyed::OperandKey;
use crate::cli::audit::files::{Chosen, chosen, folder_of};
use crate::cli::check::{self, Output};
use crate::cli::{Ending, is_error, print};
use crate::policy::{Reading, Replay, Replayed, Undecided};
use record::{Event, Record};
use report::Report;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder with the policies as they shall be
    folder: PathBuf,
    /// The audit files, or folders of them, of all nodes
    #[arg(required = true, value_name = "AUDIT_FILES")]
    audit: Vec<PathBuf>,
    /// The first day that is told of, in UTC; what was before counts in limits all the same
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<Date>,
    /// The last day
    #[arg(long, value_name = "YYYY-MM-DD")]
    to: Option<Date>,
    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let output = arguments.setting.output;
    let read = || -> Result<_, Vec<Finding>> {
        let names = arguments.setting.names()?;
        let reading = names.read(&arguments.folder, None)?;
        Ok((names, reading))
    };
    let (names, Reading { policies, .. }) = match read() {
        Ok(read) => read,
        Err(findings) => {
            print(&check::told(&findings, output))?;
            return Ok(if findings.iter().any(is_error) { Ending::Faulty } else { Ending::Done });
        }
    };
    let files = chosen(&arguments.audit)?;
    let key = key(arguments, &files)?;
    let record = Record::read(&files, |count| progress("entries read", count))?;
    let mut report = Report::of(policies.version(), &record);
    let mut replay = Replay::of(&policies.rules, &names.catalog, &key);
    let is_told = |day: &str| {
        let day: Option<Date> = day.parse().ok();
        day.is_some_and(|day| arguments.from.is_none_or(|from| from <= day) && arguments.to.is_none_or(|to| day <= to))
    };
    let mut keys = (0_u64, 0_u64);
    for (done, (environment, event)) in record.events().enumerate() {
        progress("entries decided again", done as u64);
        match event {
            Event::Released(released) => replay.release(&released.recorded),
            Event::GivenBack { attempt } => replay.give_back(environment, *attempt),
            Event::Decided(decided) => {
                let replayed = replay.decide(&decided.recorded);
                let is_other = matches!(replayed, Replayed::Undecided(Undecided::OtherKey));
                keys = (keys.0.saturating_add(u64::from(is_other)), keys.1.saturating_add(1));
                if is_told(&decided.day) {
                    report.add(decided, &replayed, |verdict| replay.value(&decided.recorded, verdict));
                }
            }
            Event::Untold { day } if is_told(day) => report.add_untold(),
            Event::Untold { .. } | Event::Other => {}
        }
    }
    if keys.1 > 0 && keys.0 == keys.1 {
        let found: Vec<String> = record.keys().into_iter().collect();
        bail!(
            "this is a wrong key: its id is `{}`, and the names in these files stand under `{}`; name the configuration \
             of the gate that wrote them with `--config`",
            key.id(),
            found.join("`, `")
        );
    }
    print(&match output {
        Output::Lines => report.in_words(),
        Output::Json => format!("{}\n", report.as_json()),
    })?;
    Ok(Ending::Done)
}

/// The configured one, or what is kept beside the files.
fn key(arguments: &Arguments, files: &[Chosen]) -> anyhow::Result<OperandKey> {
    let configured =
        arguments.setting.audit().map_err(|findings| anyhow::anyhow!(check::told(&findings, Output::Lines)))?;
    if let Some(audit) = configured {
        if audit.operand_key.is_some() {
            return Ok(operand_key(audit.operand_key.as_ref(), &audit.folder)?);
        }
        if let Some(key) = kept_operand_key(&audit.folder)? {
            return Ok(key);
        }
    }
    let mut found: Option<OperandKey> = None;
    for file in files {
        let Some((folder, _)) = folder_of(file) else { continue };
        match (kept_operand_key(folder)?, &found) {
            (Some(key), Some(other)) if key.id() != other.id() => {
                bail!(
                    "these nodes have keys of their own, and cannot be replayed together: set one `audit.operand_key`"
                )
            }
            (Some(key), _) => found = Some(key),
            (None, _) => {}
        }
    }
    found.context("the key of personal names is not beside the files: name the gate's configuration with `--config`")
}

/// One line that is written over, where a person looks on.
fn progress(what: &str, done: u64) {
    let mut stderr = stderr();
    if done > 0 && done.is_multiple_of(10_000) && stderr.is_terminal() {
        // Who cannot be told how far it is can do without.
        write!(stderr, "\r\x1b[K{done} {what}\r").ok();
    }
}
