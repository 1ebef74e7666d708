//! The `sluice` program: parses the command line, runs the command and returns its exit code.

use std::process::ExitCode;

use sluice::cli;

fn main() -> ExitCode {
    cli::exit_code(cli::run(cli::Cli::of_arguments()))
}
