//! Clocks that a test sets, for processes that it starts: a time of day that leaps, pauses of the machine, and all clocks at once.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/false_clock.c");

#[derive(Clone, Debug)]
pub struct FalseClock(Arc<TempDir>, Arc<Mutex<FalseTimes>>);

#[derive(Debug, Default)]
struct FalseTimes {
    ahead: i64,
    paused: u64,
    all_ahead: u64,
}

impl FalseClock {
    /// One that is right.
    pub fn new() -> FalseClock {
        let clock = FalseClock(Arc::new(tempfile::tempdir().unwrap()), Arc::default());
        let library = clock.file("false_clock.so");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(SOURCE).status();
        assert!(made.expect("cc is missing").success());
        clock.leap(0);
        clock
    }

    /// Sets it ahead of the real time, or back.
    pub fn leap(&self, seconds: i64) {
        self.set(|times| times.ahead = seconds);
    }

    /// Pauses the machine once more: its time goes on meanwhile, and nothing runs.
    pub fn pause(&self, seconds: u64) {
        self.set(|times| times.paused += seconds);
    }

    /// All its clocks leap ahead, also the one that measures durations.
    pub fn leap_unseen(&self, seconds: u64) {
        self.set(|times| times.all_ahead += seconds);
    }

    fn set(&self, change: impl FnOnce(&mut FalseTimes)) {
        let mut times = self.1.lock().unwrap();
        change(&mut times);
        // A process never reads half of it, so that all its clocks change at one moment.
        std::fs::write(self.file("new"), format!("{} {} {}", times.ahead, times.paused, times.all_ahead)).unwrap();
        std::fs::rename(self.file("new"), self.file("time")).unwrap();
    }

    /// What a process needs besides, to see pauses.
    pub fn pauses(&self) -> (String, String) {
        ("FALSE_PAUSES".to_owned(), "yes".to_owned())
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
