//! A disk whose syncs are counted, for processes that a test starts.

use std::process::Command;

use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/slow_disk.c");

#[derive(Debug)]
pub struct CountedDisk(TempDir);

impl CountedDisk {
    pub fn new() -> CountedDisk {
        let disk = CountedDisk(tempfile::tempdir().unwrap());
        let library = disk.0.path().join("counted_disk.so");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(SOURCE).status();
        assert!(made.expect("cc is missing").success());
        disk
    }

    /// The variables of a process whose syncs are counted.
    pub fn variables(&self) -> [(String, String); 2] {
        let variable = |name: &str, file: &str| (name.to_owned(), self.0.path().join(file).display().to_string());
        [variable("LD_PRELOAD", "counted_disk.so"), variable("COUNTED_SYNCS", "syncs")]
    }

    /// The paths of all that was synced so far, once for each time.
    pub fn syncs(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.path().join("syncs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
