//! `sluice audit`: what was decided and done, read from the files alone.
//!
//! Works while a gate writes them, and on another machine.

pub(super) mod entries;
mod export;
pub(super) mod files;
mod key;
mod show;
mod tail;
mod verify;

use clap::{Args, Subcommand};

use super::Ending;

/// Read, follow and verify the audit chain
///
/// Everything here works on files alone: of one gate or of many, while they are written or years later.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Verify(verify::Arguments),
    Show(show::Arguments),
    Tail(tail::Arguments),
    Export(export::Arguments),
    Key(key::Arguments),
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<Ending> {
    match arguments.what {
        What::Verify(arguments) => verify::run(&arguments),
        What::Show(arguments) => show::run(&arguments),
        What::Tail(arguments) => tail::run(&arguments),
        What::Export(arguments) => export::run(&arguments),
        What::Key(arguments) => key::run(&arguments),
    }
}
