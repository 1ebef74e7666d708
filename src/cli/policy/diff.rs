//! `sluice policy diff`: what a new folder of policies does otherwise than an old one.

use std::path::PathBuf;

use clap::Args;

use super::setting::Setting;
use crate::base::finding::Finding;
use crate::cli::check::{self, Output};
use crate::cli::{Ending, is_error, print};
use crate::policy::{Difference, difference};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder with the policies as they are
    old: PathBuf,
    /// The folder with the policies as they shall be
    new: PathBuf,
    /// End with 3 unless it is proved that nothing passes more easily
    #[arg(long)]
    only_tighter: bool,
    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let found = match compared(arguments) {
        Ok(found) => found,
        Err(findings) => {
            print(&check::told(&findings, arguments.setting.output))?;
            return Ok(if findings.iter().any(is_error) { Ending::Faulty } else { Ending::Done });
        }
    };
    print(&match arguments.setting.output {
        Output::Lines => found.to_string(),
        Output::Json => format!("{}\n", found.as_json()),
    })?;
    Ok(if arguments.only_tighter && found.loosens() { Ending::Faulty } else { Ending::Done })
}

fn compared(arguments: &Arguments) -> Result<Difference, Vec<Finding>> {
    let names = arguments.setting.names()?;
    let old = names.read(&arguments.old, None)?.policies;
    let new = names.read(&arguments.new, None)?.policies;
    Ok(names.with(|known| difference(&old, &new, known)))
}
