//! No core dump of a gate is ever written: it would contain keys, tokens and bank data.

use std::fs;

use crate::support::{Setup, Upstream};

#[test]
fn a_gate_takes_no_core_dumps() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let limits = fs::read_to_string(format!("/proc/{}/limits", gate.process())).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<&str> = cores.split_whitespace().collect();
    // Linux gives the memory of a process whose limit is 1 to no program either.
    assert_eq!(words[4..6], ["1", "1"], "{cores}");
}

#[test]
fn the_key_of_personal_names_is_not_beside_the_audit_files() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    assert!(gate.path("sluice-data/operand.key").is_file());
    assert!(!gate.path("sluice-audit/operand.key").exists());
}
