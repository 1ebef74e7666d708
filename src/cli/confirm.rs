//! Asks a person at the terminal before something is done.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Context as _, bail};

use super::print;

/// Asks whether to go on, and fails where the person does not say so. `undone` says what was not done then.
pub(super) fn confirm(question: &str, undone: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!("there is no terminal to confirm at: {undone}; look at it, then repeat the command with `--yes`");
    }
    print(&format!("{question} [y/N] "))?;
    io::stdout().flush().context("cannot write to standard output")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("cannot read standard input")?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("cancelled: {undone}");
    }
    Ok(())
}
