//! A disk in trouble, for processes that a test starts: full, read-only or failing. It needs no rights on the machine.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/troubled_disk.c");

/// How a disk refuses what would change something on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRefusal {
    Full,
    ReadOnly,
    Fails,
    /// This is no trouble of a disk.
    Denied,
}

#[derive(Debug)]
pub struct TroubledDisk(TempDir);

impl TroubledDisk {
    pub fn new() -> TroubledDisk {
        let disk = TroubledDisk(tempfile::tempdir().unwrap());
        let library = disk.0.path().join("troubled_disk.so");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(SOURCE).status();
        assert!(made.expect("cc is missing").success());
        disk
    }

    /// The variables of a process whose disks may get into trouble.
    pub fn variables(&self) -> [(String, String); 2] {
        let variable = |name: &str, file: &str| (name.to_owned(), self.0.path().join(file).display().to_string());
        [variable("LD_PRELOAD", "troubled_disk.so"), variable("TROUBLED_DISK", "trouble")]
    }

    /// The disk of this folder refuses from now on.
    pub fn refuses(&self, folder: &Path, how: DiskRefusal) {
        let number = match how {
            DiskRefusal::Full => 28,
            DiskRefusal::ReadOnly => 30,
            DiskRefusal::Fails => 5,
            DiskRefusal::Denied => 13,
        };
        let folder = folder.canonicalize().unwrap();
        // A process never reads half of it.
        let (new, trouble) = (self.0.path().join("new"), self.0.path().join("trouble"));
        std::fs::write(&new, format!("{}\n{number}", folder.display())).unwrap();
        std::fs::rename(new, trouble).unwrap();
    }

    /// The disk works again.
    pub fn works(&self) {
        std::fs::remove_file(self.0.path().join("trouble")).unwrap();
    }
}
