//! `sluice completions` and `sluice man`: files for shells and for `man`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use super::examples::command_line;
use super::{ExitReason, print, print_exactly};

/// Print the completions of a shell
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write a man page for each command
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// An existing folder; the pages are `sluice.1`, `sluice-approvals.1` and so on
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn completions(arguments: &CompletionsArgs) -> anyhow::Result<ExitReason> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command_line(), "sluice", &mut text);
    print_exactly(&String::from_utf8(text).context("the completions are not text")?)?;
    Ok(ExitReason::Done)
}

pub(super) fn man(arguments: &ManArgs) -> anyhow::Result<ExitReason> {
    let mut command = command_line();
    command.build();
    let count = write_pages(&arguments.folder, &command)?;
    print(&format!("{count} pages written to `{}`\n", arguments.folder.display()))?;
    Ok(ExitReason::Done)
}

/// Writes the pages of a command and of its subcommands; returns how many.
fn write_pages(folder: &Path, command: &Command) -> anyhow::Result<usize> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(command.clone()).render(&mut page);
    written
        .and_then(|()| fs::write(&path, &page))
        .with_context(|| format!("`{}` cannot be written", path.display()))?;
    let mut inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    inner.try_fold(1, |count: usize, inner| Ok(count.saturating_add(write_pages(folder, inner)?)))
}
