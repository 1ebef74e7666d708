//! A resolver that does not answer for some names, for processes that a test starts.

use std::process::Command;

use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/slow_names.c");

#[derive(Debug)]
pub struct SlowNames(TempDir);

impl SlowNames {
    pub fn new() -> SlowNames {
        let names = SlowNames(tempfile::tempdir().unwrap());
        let library = names.0.path().join("slow_names.so");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(SOURCE).status();
        assert!(made.expect("cc is missing").success());
        names
    }

    /// The variable of a process for which names that end in `.slow` take half a minute.
    pub fn variable(&self) -> (String, String) {
        ("LD_PRELOAD".to_owned(), self.0.path().join("slow_names.so").display().to_string())
    }
}
