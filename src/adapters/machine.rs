//! The resources that this process uses, as Linux reports them, zero where it does not; its core dumps, and its file descriptors.

use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use rustix::fs::{statfs, statvfs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::disk_trouble::lacks_descriptors;
use crate::telemetry::Usage;

/// The limits that forbid core dumps, the first that is allowed. Linux takes 1 as "no dump, not even for a program that
/// collects them"; 0 forbids files only, and a process may always lower its limit to it.
const NO_CORE_DUMPS: [u64; 2] = [1, 0];
/// The numbers of the file systems tmpfs and ramfs, and of those that show the kernel itself: proc, sysfs, cgroup and cgroup2.
const IN_MEMORY: [i64; 6] = [0x0102_1994, 0x8584_58f6, 0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270];

/// Forbids core dumps of this process and its children: they would contain keys, tokens and bank data.
pub fn forbid_core_dumps() -> io::Result<()> {
    let limit = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let mut forbidden = Ok(());
    for bytes in NO_CORE_DUMPS {
        forbidden = setrlimit(Resource::Core, limit(bytes));
        if forbidden.is_ok() {
            break;
        }
    }
    forbidden.map_err(io::Error::from)
}

/// How many file descriptors this process may have: now, and if it asks for more.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    pub current: u64,
    pub maximum: u64,
}

impl FileLimits {
    pub fn of_process() -> FileLimits {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        FileLimits { current: current.unwrap_or(u64::MAX), maximum: maximum.unwrap_or(u64::MAX) }
    }
}

/// Has this process get so many file descriptors, as far as it may; it never gives any up.
pub fn raise_file_limit(wanted: usize) -> io::Result<FileLimits> {
    let limits = FileLimits::of_process();
    let raised = limits.maximum.min(wanted as u64);
    if raised <= limits.current {
        return Ok(limits);
    }
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum })?;
    Ok(FileLimits { current: raised, ..limits })
}

/// Fails where this process, or the machine, has no file descriptor left.
pub fn has_descriptors() -> io::Result<()> {
    match fs::File::open("/") {
        Err(error) if lacks_descriptors(&error) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The space of the file system that has a folder.
#[derive(Clone, Copy, Debug)]
pub struct DiskSpace {
    /// The bytes that a process without special rights can still write.
    pub free_bytes: u64,
    pub all_bytes: u64,
}

/// Returns the space of the file system that has this folder.
pub fn disk_space(folder: &Path) -> io::Result<DiskSpace> {
    let found = statvfs(folder)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(DiskSpace { free_bytes: bytes(found.f_bavail), all_bytes: bytes(found.f_blocks) })
}

/// Whether what is written to this folder is lost when the machine ends.
pub fn lies_in_memory(folder: &Path) -> io::Result<bool> {
    // Systems have numbers of different widths.
    fn number(of: impl Into<i64>) -> i64 {
        of.into()
    }
    Ok(IN_MEMORY.contains(&number(statfs(folder)?.f_type)))
}

/// Returns a word that is another one after each start of the machine; `None` where it is not known.
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Returns the current usage.
pub fn usage() -> Usage {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    // Reading the folder itself opens a file descriptor.
    let files = fs::read_dir("/proc/self/fd").map_or(0, |open| open.count().saturating_sub(1));
    let kilobytes = |name| number::<u64>(&status, name).unwrap_or(0).saturating_mul(1024);
    Usage {
        cpu: Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)),
        memory_bytes: kilobytes("VmRSS:"),
        virtual_bytes: kilobytes("VmSize:"),
        threads: number(&status, "Threads:").unwrap_or(0),
        files: u64::try_from(files).unwrap_or(u64::MAX),
        most_files: number(&limits, "Max open files").unwrap_or(0),
    }
}

/// Parses the number after a name at the beginning of a line.
fn number<T: FromStr>(text: &str, name: &str) -> Option<T> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_something() {
        let one = usage();
        let _held = fs::File::open("/proc/self/status").unwrap();
        assert!(one.memory_bytes > 1024 && one.virtual_bytes > one.memory_bytes);
        assert!(one.threads >= 1 && one.files >= 3 && one.most_files > one.files);
        assert!(usage().cpu >= one.cpu);
        assert_eq!(number::<u64>("a: 1\nVmRSS:\t  17 kB\n", "VmRSS:"), Some(17));
        assert_eq!(number::<u64>("a: 1\n", "b"), None);
    }
}
