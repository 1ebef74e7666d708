//! Parse, run, exit code.
//!
//! 0: done. 1: it could not be done, standard error says why. 2: the command line is wrong. 3: `check` or `audit verify` found something.

use std::process::ExitCode;

use clap::Parser as _;
use sluice::cli;

fn main() -> ExitCode {
    cli::exit_code(cli::run(cli::Cli::parse()))
}
