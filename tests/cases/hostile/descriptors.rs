//! File descriptors: nobody takes those that others and the gate itself need, and a lack of them says nothing of any file.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::connections::{connect_from, refused};
use super::{OPEN, wait_until};
use crate::cases::claims::{swap, told};
use crate::support::command::limited;
use crate::support::gate::EVERYTHING;
use crate::support::{Caller, Gate, Setup, Upstream, get};

const PAID: &str = "200 - executed";
const TOO_FEW: &str =
    "there are too few file descriptors for `limits.connections` and `limits.calls`; fewer are admitted";

fn says(gate: &Gate, words: &str) -> usize {
    let is_it = |line: &&serde_json::Value| line.to_string().contains(words);
    gate.log.all().iter().filter(is_it).count()
}

/// The gate may open so many files from now on, whatever it has open.
fn limit(gate: &Gate, files: u64) {
    let pid = Pid::from_raw(i32::try_from(gate.process()).unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
}

#[test]
fn idle_connections_of_one_address_leave_descriptors_for_all_others_and_for_the_gate() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).descriptors(200, 400).start().ready();
    assert_eq!(gate.metric("process_max_fds"), 400);
    assert_eq!(says(&gate, TOO_FEW), 1);
    assert_eq!(told(&swap().send(gate.production())), PAID);
    let idle: Vec<_> = (0..500).map(|_| connect_from([127, 0, 0, 2], gate.production())).collect();
    wait_until("most of them to be refused", || refused(&gate, "too_many_of_peer") > 300);
    wait_until("the others to stay", || gate.metric(OPEN) > 20);
    for _ in 0..20 {
        assert_eq!(told(&swap().send(gate.production())), PAID);
    }
    assert_eq!(gate.probe("/readyz/money").status, 200);
    assert_eq!(says(&gate, "Too many open files"), 0);
    drop(idle);
}

/// The engine panics where it gets none.
#[test]
fn a_gate_that_can_have_no_files_says_so() {
    let upstream = Upstream::start();
    let gate = Gate::spawn(Setup::of(&upstream).descriptors(24, 24));
    assert_eq!(gate.wait_end().code(), Some(1), "{}", gate.stderr());
    let said = gate.stderr();
    assert!(
        said.contains("this process may have 24 file descriptors, and a gate needs 40 at the very least"),
        "{said}"
    );
    assert!(said.contains("LimitNOFILE") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_gate_asks_for_the_descriptors_that_its_limits_need() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).limit("connections", 64).limit("connections_per_peer", 32).limit("calls", 64);
    let gate = setup.descriptors(100, 4_000).start();
    let needed = gate.metric("process_max_fds");
    assert!((1_000..4_000).contains(&needed), "{needed}");
    assert_eq!(says(&gate, TOO_FEW), 0);
    let file = gate.path("sluice.toml");
    let check = |hard| {
        let checked = limited((100, hard), &["check", "--config", file.to_str().unwrap()]).output().unwrap();
        String::from_utf8(checked.stdout).unwrap()
    };
    let few = check(needed - 1);
    let words = [
        format!("need {needed} file descriptors, and a process may have {} here", needed - 1),
        "LimitNOFILE".to_owned(),
    ];
    assert!(words.iter().all(|words| few.contains(words)), "{few}");
    assert!(!check(needed).contains("descriptors"));
}

#[test]
fn a_lack_of_descriptors_is_no_fault_of_policies_and_closes_no_money() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let mut caller = Caller::connect(gate.production());
    assert_eq!(caller.send(get("/v2/users").bytes()).answer().status, 200);
    limit(&gate, 8);
    // The first payment notes the policies in force, and no file can be opened for that.
    drop(caller.send(swap().bytes()).answer());
    let rules = gate.path("policies/everything.toml");
    std::fs::write(
        rules,
        format!("{EVERYTHING}\n[[rule]]\nid = \"more\"\neffect = \"allow\"\nwhen = {{ op = \"*\" }}\n"),
    )
    .unwrap();
    let in_trouble = "the files of the configuration or of the policies cannot be used at the moment";
    wait_until("the lack to be told", || says(&gate, in_trouble) > 0);
    std::thread::park_timeout(std::time::Duration::from_secs(3));
    limit(&gate, 1_000);
    wait_until("the change to take force", || says(&gate, "added: rule more") > 0);
    assert_eq!(told(&swap().send(gate.production())), PAID);
    assert_eq!(gate.probe("/readyz/money").status, 200);
    wait_until("the end of the lack to be told", || says(&gate, "can be used again") > 0);
    assert_eq!((says(&gate, in_trouble), says(&gate, "have errors")), (1, 0));
    assert_eq!(says(&gate, "the policies in force cannot be run here"), 0);
    assert_eq!(gate.metric(r#"sluice_policy_reads_total{outcome="refused"}"#), 0);
}
