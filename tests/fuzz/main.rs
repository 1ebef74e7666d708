//! Coverage-guided fuzzing of the parsers that read what strangers write.
//!
//! Each target feeds bytes to a parser and checks a property; a panic is a failure. Inputs that reach new edges of the
//! control flow are kept and changed further. `tests/run parsers` builds and runs this; a failing input is written to a
//! file, whose content belongs into `seeds` with its fix.

mod counters;
mod engine;
mod targets;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use engine::{Engine, Outcome};
use targets::TARGETS;

const HELP: &str = "usage: fuzz [--secs N] [--seed N] [--folder FOLDER] [TARGET...]
       fuzz show-heads    reads streams as lines of hex digits, and says what the guard reads in each";

const SHOW_HEADS: &str = "show-heads";

struct Arguments {
    secs: u64,
    seed: u64,
    folder: PathBuf,
    targets: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("fuzz: {why}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match arguments.targets.as_slice() {
        [one] if one == SHOW_HEADS => return show(targets::heads::shown),
        _ => {}
    }
    if counters::count() == 0 {
        eprintln!("fuzz: this build has no counters; `tests/run parsers` makes one that has");
        return ExitCode::from(2);
    }
    let chosen =
        TARGETS.iter().filter(|(name, _)| arguments.targets.is_empty() || arguments.targets.iter().any(|t| t == name));
    let mut failed = false;
    for (name, target) in chosen {
        let seeds = seeds(name);
        let count = seeds.len();
        let mut engine = Engine::new(*target, seeds, arguments.seed);
        match engine.run(Duration::from_secs(arguments.secs)) {
            Outcome::Passed { runs, kept, edges } => {
                println!("{name}: {runs} inputs, {count} seeds, {kept} kept, {edges} edges");
            }
            Outcome::Failed { input, why } => {
                let file = arguments.folder.join(format!("fuzz-{name}"));
                fs::write(&file, &input).expect("the failing input can be written");
                eprintln!("{name}: FAILED: {why}\n  input: {} ({:?})", file.display(), String::from_utf8_lossy(&input));
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn arguments() -> Result<Arguments, String> {
    let folder = std::env::temp_dir();
    let mut arguments = Arguments { secs: 2, seed: 1, folder, targets: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--secs" => arguments.secs = value()?.parse().map_err(|_| "`--secs` needs a number".to_owned())?,
            "--seed" => arguments.seed = value()?.parse().map_err(|_| "`--seed` needs a number".to_owned())?,
            "--folder" => arguments.folder = value()?.into(),
            SHOW_HEADS => arguments.targets.push(word),
            name if TARGETS.iter().any(|(known, _)| *known == name) => arguments.targets.push(word),
            _ => return Err(format!("unknown target `{word}`")),
        }
    }
    Ok(arguments)
}

/// The seeds of a target: what is in its folder, in the order of the names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("a seed can be read")).collect();
    seeds.extend(targets::seeds(target));
    seeds
}

/// Answers each line of hex digits with a line.
fn show(shown: fn(&[u8]) -> String) -> ExitCode {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("lines of text");
    for line in text.lines() {
        let digits: Vec<u8> = line.bytes().map(|b| char::from(b).to_digit(16).expect("a hex digit") as u8).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        println!("{}", shown(&bytes));
    }
    ExitCode::SUCCESS
}
