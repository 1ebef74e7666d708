//! What a payment takes, in counts that no load of the machine changes. Speed is measured by `cargo bench`.

use crate::cases::receipts::signing;
use crate::cases::rules::swap_of;
use crate::support::clock::wait_until;
use crate::support::counted_disk::CountedDisk;
use crate::support::{Caller, Gate, Redis, Setup, Upstream};

/// Two limits that count each payment.
const LIMITS: &str = include_str!("../support/two_limits.toml");
/// The most commands of the Redis that a payment takes, both of its scripts included.
const MAX_COMMANDS: usize = 16;
/// The most bytes that a payment brings into the Redis.
const MAX_BYTES: usize = 3_000;

fn on_redis(upstream: &Upstream, redis: &Redis) -> Setup {
    let setup = Setup::of(upstream).set("store", "kind", "redis").set("store", "node", "left");
    setup.set("redis", "url", &redis.url()).set_raw("redis", "allow_unsafe", "true").set_raw(
        "redis",
        "timeout_ms",
        "5000",
    )
}

fn pays(gate: &Gate, caller: &mut Caller, name: &str) {
    let answer = swap_of(name, "10").over(caller);
    assert_eq!(answer.status, 200, "{answer} {}", gate.stderr());
}

/// The bytes of the words of a command, behind its time and its client. The Redis tells a byte that is no letter in four.
fn sent_bytes(line: &str) -> usize {
    let words = line.split_once("] ").map_or(line, |(_, words)| words);
    words.len() - 3 * words.matches("\\x").count()
}

/// However many limits it has.
#[test]
fn a_payment_takes_two_round_trips_and_few_commands_of_the_redis() {
    for limits in ["", LIMITS] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let rules = format!("{}{limits}", crate::support::gate::EVERYTHING);
        let gate = on_redis(&upstream, &redis).file("policies/everything.toml", &rules).start().ready();
        let mut caller = Caller::connect(gate.production());
        // Connections, scripts and the slots of windows are there from now on.
        (0..3).for_each(|nth| pays(&gate, &mut caller, &format!("w-{nth}")));
        let told = redis.monitor();
        (0..5).for_each(|nth| pays(&gate, &mut caller, &format!("p-{nth}")));
        let is_commit = |line: &str| line.contains("\"EVALSHA\"") && line.contains("\"commit\"");
        wait_until("the Redis to tell it", || told.all().iter().filter(|line| is_commit(line)).count() == 10);
        let (mut commands, mut bytes, mut is_within) = (0, 0, false);
        for line in told.all() {
            if !line.contains(" lua] ") {
                is_within = is_commit(&line);
                bytes += if is_within { sent_bytes(&line) } else { 0 };
            }
            commands += usize::from(is_within);
        }
        assert!(commands <= 5 * MAX_COMMANDS, "{commands} commands for five payments: {:#?}", told.all());
        assert!(bytes <= 5 * MAX_BYTES, "{bytes} bytes for five payments");
    }
}

/// The names of the journal's files that are synced for its tree: its tiles, its salt and its checkpoints.
fn is_of_tree(path: &str) -> bool {
    path.contains(".tree") || path.contains(".salt") || path.contains(".checkpoints")
}

/// The file of the entries, for which a payment waits. The folder and the store are synced by the clock besides.
fn is_of_entries(path: &str) -> bool {
    path.ends_with(".jsonl") && !is_of_tree(path)
}

/// The tree of the journal is kept beside the payments: none waits for a sync of it.
#[test]
fn a_signed_journal_adds_no_sync_to_a_payment() {
    const PAYMENTS: usize = 20;
    let syncs_of = |change: &dyn Fn(Setup) -> Setup| {
        let (upstream, disk) = (Upstream::start(), CountedDisk::new());
        let variables = disk.variables().into_iter();
        let setup = variables.fold(Setup::of(&upstream), |setup, (name, value)| setup.variable(&name, &value));
        let gate = change(setup).start().ready();
        let mut caller = Caller::connect(gate.production());
        (0..3).for_each(|nth| pays(&gate, &mut caller, &format!("w-{nth}")));
        let before = disk.syncs().len();
        assert!(before > 0, "nothing is counted");
        (0..PAYMENTS).for_each(|nth| pays(&gate, &mut caller, &format!("p-{nth}")));
        let during = disk.syncs().split_off(before);
        drop(gate);
        (during.iter().filter(|path| is_of_entries(path)).count(), disk.syncs())
    };
    let seldom = |setup| signing(setup).set_raw("audit", "checkpoint_seconds", "3600");
    let often = |setup| signing(setup);
    let (plain, all) = syncs_of(&|setup| setup);
    assert!(all.iter().all(|path| !is_of_tree(path)), "{all:#?}");
    let ((seldom, _), (often, all)) = (syncs_of(&seldom), syncs_of(&often));
    assert!(all.iter().any(|path| is_of_tree(path)), "{all:#?}");
    println!(
        "syncs of {PAYMENTS} payments: {plain} without a tree, {seldom} with one, {often} with a checkpoint each second"
    );
    // One more is for what the gate does besides.
    assert!(plain >= PAYMENTS && seldom <= plain + 2 && often <= plain + 2, "{plain}, {seldom}, {often}");
}
