//! A time of day that a test sets, for processes that it starts: their monotonic clocks stay as they are.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/false_clock.c");

#[derive(Clone, Debug)]
pub struct FalseClock(Arc<TempDir>);

impl FalseClock {
    /// One that is right.
    pub fn new() -> FalseClock {
        let clock = FalseClock(Arc::new(tempfile::tempdir().unwrap()));
        let library = clock.file("false_clock.so");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(SOURCE).status();
        assert!(made.expect("cc is missing").success());
        clock.leap(0);
        clock
    }

    /// Sets it ahead of the real time, or back.
    pub fn leap(&self, seconds: i64) {
        // A process never reads half of it.
        std::fs::write(self.file("new"), seconds.to_string()).unwrap();
        std::fs::rename(self.file("new"), self.file("time")).unwrap();
    }

    /// What a process needs in its environment.
    pub fn variables(&self) -> [(String, String); 2] {
        let variable = |name: &str, file: &str| (name.to_owned(), self.file(file).display().to_string());
        [variable("LD_PRELOAD", "false_clock.so"), variable("FALSE_CLOCK", "time")]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
