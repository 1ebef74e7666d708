//! The `sluice` program: parses the command line, runs the command and returns its exit code.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use sluice::cli;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::exit_code(cli::run(cli::Cli::of_arguments()))
}
