//! A process that is killed with SIGKILL while it writes: this test program, started again.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::*;

const FOLDER: &str = "SLUICE_TEST_AUDIT_FOLDER";

/// Does nothing unless it is started by the test below; then it appends until it is killed.
#[test]
fn child() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let small = AuditSettings { rotate_bytes: 64 * 1024, ..settings(Path::new(&folder)) };
        let audit = Arc::new(AuditFiles::open(small, Arc::new(Hand::default())).unwrap());
        let tasks: Vec<_> = (0..8_u64)
            .map(|lane| {
                let audit = Arc::clone(&audit);
                tokio::spawn(async move {
                    // From the first on each time: what stands there already is not written again.
                    for number in (0..).map(|n| n * 8 + lane + 1) {
                        audit.append(vec![entry(number)]).await.unwrap();
                        println!("acknowledged {number}");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn what_a_killed_process_was_told_is_on_disk_stands_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..6_usize {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["adapters::audit::tests::killed::child", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = 0;
        for line in lines.map_while(Result::ok) {
            let Some(number) = line.split("acknowledged ").nth(1) else { continue };
            // A line that the kill cut off may name another number.
            if told > 150 + round * 300 {
                break;
            }
            acknowledged.insert(number.parse::<u64>().unwrap());
            told += 1;
            if told == 150 + round * 300 {
                child.kill().unwrap();
                break;
            }
        }
        child.wait().unwrap();
        assert!(told > 100, "the child ended by itself");
    }
    drop(open(folder.path()).unwrap());
    let standing: Vec<u64> = read_numbers(folder.path()).into_values().flatten().collect();
    let once: BTreeSet<u64> = standing.iter().copied().collect();
    assert_eq!(once.len(), standing.len());
    assert!(once.is_superset(&acknowledged));
}
