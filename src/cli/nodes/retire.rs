//! `sluice nodes retire`: takes the journal of a gate in that is gone for good.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;

use crate::adapters::audit::{audit_files, is_live, journal_id_file, met_store};
use crate::adapters::regular_file::read_regular_text;
use crate::audit::{Flaw, FlawKind, KnownNumbers, VerifyReport};
use crate::base::ids::Environment;
use crate::cli::audit::verified;
use crate::cli::complain;
use crate::cli::{ExitReason, Sources, configuration_error, print};
use crate::config::StoreKind;
use crate::ledger::Sender;
use crate::serve::retire::{RetireError, Retirement, retire};

/// Retire a gate that is gone for good, with its journal
///
/// Verifies the journal in FOLDER, takes the place of its gate once, brings what it has into the store and into the
/// journals of the running gates, and ends in order. Then neither a rebuild nor `doctor` waits for that gate; entries do
/// for one more hour, as for every gate that ended in order.
/// Run it on a machine with the configuration of a gate that shares the store. It goes on writing in FOLDER: name a copy
/// if the original is evidence.
///
/// A journal that was changed, or lacks files, lines or its end, is refused with the place. Numbers that it never had,
/// because it begins in the middle, are named and journalled. Without any journal, two people declare the gate gone
/// (`sluice nodes gone`).
///
/// Exits with 0 once other journals have all of it, and with 3 if the journal is refused.
#[derive(Debug, Args)]
pub(super) struct RetireArgs {
    #[command(flatten)]
    sources: Sources,
    /// The gate and its journal, as `sluice nodes list` shows them
    #[arg(value_name = "NODE/JOURNAL")]
    gate: String,
    /// The folder that has its journal: its `audit.folder`, or a copy
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// The public key that verifies its checkpoints; may be given several times
    #[arg(long = "public-key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl RetireArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitReason> {
        let loaded = self.sources.load().map_err(|findings| configuration_error(&findings))?;
        let sender = Sender::parse(&self.gate);
        let sender = sender.with_context(|| {
            format!("`{}` is not NODE/JOURNAL: `sluice nodes list` shows both", self.gate.escape_debug())
        })?;
        let mut config = loaded.config;
        if config.store.kind != StoreKind::Redis {
            bail!("only gates that share a Redis retire: no other gate uses an embedded store");
        }
        self.is_its_journal(&sender)?;
        let report = verified(std::slice::from_ref(&self.folder), &[], &self.keys, KnownNumbers::default())?;
        let flaws: Vec<&Flaw> = report.flaws.iter().filter(|flaw| !is_allowed(flaw)).collect();
        if !flaws.is_empty() || report.flaw_count > report.flaws.len() as u64 {
            flaws.iter().for_each(|flaw| complain(format_args!("{flaw}")));
            complain(format_args!("sluice: this journal is not what was written: nothing was taken in"));
            return Ok(ExitReason::Faulty);
        }
        let lacks = gaps(&report);
        for (environment, gaps) in &lacks {
            for (first, last) in gaps {
                complain(format_args!("this journal never had the numbers {first} to {last} of {environment}"));
            }
        }
        config.store.node = sender.node.clone();
        config.audit.folder.clone_from(&self.folder);
        // Its checkpoints were signed with another key.
        config.audit.checkpoint_key = None;
        let (policies, reason) = (loaded.policies, self.reason.clone());
        let reached = match retire(Retirement { config, policies, reason, lacks }) {
            Ok(reached) => reached,
            Err(error @ (RetireError::Cut | RetireError::NotWhole(_))) => {
                complain(format_args!("{}: {error}", self.end(&sender, &report)?));
                complain(format_args!("sluice: this journal was cut, or is an old copy: its gate did not retire"));
                return Ok(ExitReason::Faulty);
            }
            Err(error) => return Err(anyhow!(error)),
        };
        let reached: Vec<String> =
            reached.iter().map(|(environment, number)| format!("{environment} up to {number}")).collect();
        print(&format!(
            "Retired `{sender}`: other journals have all that its own has ({}). No rebuild waits for it any more; remove it from \
             `store.all_nodes`.\n",
            reached.join(", ")
        ))?;
        Ok(ExitReason::Done)
    }

    /// Checks that the folder has the journal that is meant, and all that makes it one.
    fn is_its_journal(&self, sender: &Sender) -> anyhow::Result<()> {
        let folder = &self.folder;
        let unreadable = || format!("`{}` cannot be read", folder.display());
        let files = audit_files(folder).with_context(unreadable)?;
        if files.iter().all(|file| file.node != sender.node) {
            bail!("`{}` has no journal of `{}`", folder.display(), sender.node);
        }
        let id = journal_id_file(folder, &sender.node);
        let found = read_regular_text(&id);
        let found = found.with_context(|| format!("`{}` cannot be read: copy the whole folder", id.display()))?;
        if found.trim() != sender.journal.as_str() {
            let found = found.trim().escape_debug().to_string();
            bail!("`{}` names the journal {found}, not {}", id.display(), sender.journal.as_str());
        }
        if Environment::ALL.iter().all(|environment| met_store(folder, &sender.node, *environment).is_none()) {
            bail!(
                "`{}` has no file `audit-{}-ENVIRONMENT.store`: copy the whole folder",
                folder.display(),
                sender.node
            );
        }
        if is_live(folder, &sender.node) {
            bail!("a process writes the journal in `{}`: end it first", folder.display());
        }
        Ok(())
    }

    /// Names the end of the journal.
    fn end(&self, sender: &Sender, report: &VerifyReport) -> anyhow::Result<String> {
        let mut files = audit_files(&self.folder)?.into_iter().filter(|file| file.node == sender.node);
        let last = files.next_back().map_or_else(String::new, |file| file.path.display().to_string());
        let highest: Vec<String> =
            report.highest.iter().map(|(environment, number)| format!("{environment} {number}")).collect();
        Ok(format!("{last}, which ends with {}", highest.join(", ")))
    }
}

/// Whether a journal may have this flaw: numbers before its beginning, and a line that its process did not finish.
fn is_allowed(flaw: &Flaw) -> bool {
    matches!(flaw.what, FlawKind::Gap { .. } | FlawKind::Unfinished)
}

fn gaps(report: &VerifyReport) -> BTreeMap<Environment, Vec<(u64, u64)>> {
    let mut gaps: BTreeMap<Environment, Vec<(u64, u64)>> = BTreeMap::new();
    for flaw in &report.flaws {
        if let FlawKind::Gap { environment, first, last } = &flaw.what {
            gaps.entry(*environment).or_default().push((*first, *last));
        }
    }
    gaps
}
