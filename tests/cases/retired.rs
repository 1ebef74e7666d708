//! A gate that is gone for good retires with its journal: nothing waits for it then, and what it did is known.

use std::fs;
use std::path::{Path, PathBuf};

use sluice::adapters::audit::audit_files;
use sluice::base::ids::Environment;

use super::claims::{swap, told};
use super::doctor;
use super::fleet::closings;
use super::nodes::{CLOSED, EXECUTED, all_have_it, pair, setup, waiting};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Call, Gate, Redis, Setup, Upstream, copy_folder};

const AGAIN: &str = "200 - executed again";
const FROZEN: &str = "503 FROZEN unknown";

fn paid(gate: &Gate) -> Call {
    let call = swap();
    wait_until("money to move", || {
        let answer = told(&call.send(gate.production()));
        assert!([CLOSED, FROZEN, EXECUTED].contains(&answer.as_str()), "{answer}");
        answer == EXECUTED
    });
    call
}

fn is_again(call: &Call, gate: &Gate) {
    wait_until("what was paid to be known", || {
        let answer = told(&call.send(gate.production()));
        assert!([CLOSED, FROZEN, AGAIN].contains(&answer.as_str()), "{answer}");
        answer == AGAIN
    });
}

/// The gate that is gone, by its name and its journal.
fn gone(folder: &Path) -> String {
    format!("right/{}", fs::read_to_string(folder.join("audit-right.id")).unwrap().trim())
}

fn retire(gone: &str, beside: &Gate, folder: &Path) -> (i32, String) {
    let (config, folder) = (beside.path("sluice.toml"), folder.to_str().unwrap());
    let arguments = ["nodes", "retire", gone, "--config", config.to_str().unwrap(), "--folder", folder];
    let output = sluice(&[&arguments[..], &["--reason", "its machine burnt"]].concat()).output().unwrap();
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// Copies the journal of a gate, as it is shipped, and removes its own folder.
fn shipped(stopped: &Setup) -> PathBuf {
    let (folder, copy) = (stopped.path("sluice-audit"), stopped.path("shipped"));
    copy_folder(&folder, &copy);
    fs::remove_dir_all(copy.join("replica-right")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    copy
}

fn is_missed(asks: &Setup) {
    wait_until("it to be missed", || doctor::findings(&doctor::json(asks).1).contains("`right` has sent no heartbeat"));
}

fn states(asks: &Setup) -> Vec<String> {
    let (_, said) = doctor::json(asks);
    let nodes = said["environments"][0]["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["state"].as_str().unwrap().to_owned()).collect()
}

fn journal_of(gate: &Gate) -> String {
    let files = audit_files(&gate.path("sluice-audit")).unwrap().into_iter();
    files.map(|file| fs::read_to_string(file.path).unwrap()).collect()
}

#[test]
fn a_killed_gate_retires_with_a_copy_of_its_journal() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    let calls = [paid(&left), paid(&right)];
    all_have_it(&redis);
    let stopped = right.kill();
    let copy = shipped(&stopped);
    let gone = gone(&copy);
    let asks = setup(&upstream, &redis.url(), "asks");
    is_missed(&asks);
    paid(&left);
    assert!(waiting(&redis) > 0, "entries wait for it");
    let (code, text) = retire(&gone, &left, &copy);
    assert!(code == 0 && text.contains("other journals have all that its own has"), "{code}: {text}");
    assert_eq!(states(&asks), ["live", "retired"]);
    paid(&left);
    let entry = |line: &&str| line.contains("\"what\":\"retired\"") && line.contains("its machine burnt");
    wait_until("the audit log to say so", || journal_of(&left).lines().any(|line| entry(&line)));
    redis.ask(&["FLUSHALL"]);
    calls.iter().for_each(|call| is_again(call, &left));
    paid(&left);
    assert!(!left.log.all().iter().any(|line| line.to_string().contains("until a person opens it")));
}

/// It paid what no other journal has, and the Redis lost its memory.
#[test]
fn the_journal_of_a_gate_that_is_gone_opens_money() {
    for is_more_known in [false, true] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let [left, right] = pair(&upstream, &redis);
        let calls = [paid(&left), paid(&right)];
        all_have_it(&redis);
        left.signal("STOP");
        let last = paid(&right);
        // The answer is told before the journal of its gate has it.
        let executed = || journal_of(&right).matches("\"what\":\"executed\"").count();
        wait_until("its journal to have it", || executed() == calls.len() + 1);
        let stopped = right.kill();
        let copy = shipped(&stopped);
        let gone = gone(&copy);
        redis.ask(&["FLUSHALL"]);
        if is_more_known {
            // Others heard of a commit that the copy lacks.
            redis.ask(&["HSET", "sluice:{production}:m", "right", "999 open"]);
        }
        left.signal("CONT");
        wait_until("money to be closed", || told(&swap().send(left.production())) == FROZEN);
        // It serves no sandbox, and keeps a journal of it all the same.
        wait_until("all to be rebuilt", || closings(&left).len() == Environment::ALL.len());
        // Otherwise the next loss takes the closing with it, and what others know beside it.
        let in_journal = || journal_of(&left).matches("\"what\":\"rebuilt\"").count();
        wait_until("its journal to say so", || in_journal() == Environment::ALL.len());
        assert_eq!(told(&last.send_when_met(left.production())), FROZEN);
        let sent = upstream.seen().len();
        let (code, text) = retire(&gone, &left, &copy);
        if is_more_known {
            assert!(code == 3 && text.contains("`right` came with a copy of its audit folder"), "{code}: {text}");
            assert_eq!(told(&swap().send_when_met(left.production())), FROZEN);
            wait_until("what the copy has to be known", || told(&last.send(left.production())) == AGAIN);
            assert_eq!(upstream.seen().len(), sent);
            continue;
        }
        assert_eq!(code, 0, "{text}");
        is_again(&last, &left);
        calls.iter().for_each(|call| is_again(call, &left));
        assert_eq!(upstream.seen().len(), sent);
        // The next loss finds all of it in the journal of the gate that goes on.
        let later = paid(&left);
        let closed = closings(&left);
        redis.ask(&["FLUSHALL"]);
        is_again(&later, &left);
        calls.iter().chain([&last]).for_each(|call| is_again(call, &left));
        paid(&left);
        assert_eq!(closings(&left), closed);
        // So does one after a restart.
        let left = left.end().start().ready();
        redis.ask(&["FLUSHALL"]);
        calls.iter().chain([&last, &later]).for_each(|call| is_again(call, &left));
        paid(&left);
        assert_eq!(closings(&left), [""; 0]);
    }
}

/// The answer of its last payment was told, and the machine burnt before the journal had it: nobody knows the outcome,
/// and nothing is sent again.
#[test]
fn a_payment_whose_journal_lacks_the_outcome_is_unknown_after_a_retirement() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    left.signal("STOP");
    let calls: Vec<Call> = (0..8).map(|_| paid(&right)).collect();
    let stopped = right.kill();
    redis.ask(&["FLUSHALL"]);
    let copy = shipped(&stopped);
    // The journal ends with a call that was sent: its disk never had the rest.
    let file = audit_files(&copy).unwrap().pop().unwrap().path;
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let last = lines.iter().rposition(|line| line.contains("\"what\":\"sending\"")).unwrap();
    fs::write(&file, lines[..=last].concat()).unwrap();
    left.signal("CONT");
    wait_until("money to be closed", || told(&swap().send(left.production())) == FROZEN);
    let sent = upstream.seen().len();
    let (code, text) = retire(&gone(&copy), &left, &copy);
    assert_eq!(code, 0, "{text}");
    let (unknown, known) = calls.split_last().unwrap();
    known.iter().for_each(|call| is_again(call, &left));
    assert_eq!(told(&unknown.send(left.production())), "409 OUTCOME_UNKNOWN unknown");
    assert_eq!(upstream.seen().len(), sent);
}

/// Two gates that have paid; the journal of `right` begins in the middle.
fn with_a_new_folder(upstream: &Upstream, redis: &Redis) -> ([Gate; 2], Vec<Call>) {
    let [left, right] = pair(upstream, redis);
    let mut calls = vec![paid(&left), paid(&right)];
    all_have_it(redis);
    let stopped = right.end();
    fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
    redis.ask(&["DEL", "sluice:{production}:q"]);
    let right = stopped.start().ready();
    calls.extend([paid(&right), paid(&left)]);
    all_have_it(redis);
    ([left, right], calls)
}

/// `right` paid last, and its journal begins in the middle; `left` knows all but that payment.
struct Joining {
    upstream: Upstream,
    redis: Redis,
    left: Gate,
    right: Setup,
    calls: Vec<Call>,
}

/// The Redis is emptied, and rebuilt from the journal of `left` alone.
fn rebuilt_without_the_last() -> Joining {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let ([left, right], mut calls) = with_a_new_folder(&upstream, &redis);
    left.signal("STOP");
    calls.push(paid(&right));
    let executed = || journal_of(&right).matches("\"what\":\"executed\"").count();
    wait_until("its journal to have it", || executed() == 3);
    let right = right.kill();
    redis.ask(&["FLUSHALL"]);
    left.signal("CONT");
    wait_until("money to be closed", || told(&swap().send(left.production())) == FROZEN);
    Joining { upstream, redis, left, right, calls }
}

/// Its claims are told. A store that is rebuilt from it would forget what was before.
#[test]
fn a_journal_that_begins_in_the_middle_and_reaches_further_forgets_no_claim() {
    let Joining { upstream, redis, left, right, calls } = rebuilt_without_the_last();
    let (sent, copy) = (upstream.seen().len(), shipped(&right));
    let (code, text) = retire(&gone(&copy), &left, &copy);
    assert!(code == 3 && text.contains("came with a journal that begins behind number"), "{code}: {text}");
    calls.iter().for_each(|call| is_again(call, &left));
    assert_eq!(told(&swap().send_when_met(left.production())), FROZEN);
    // The next loss keeps it closed, and forgets none of it.
    wait_until("its journal to have it", || journal_of(&left).contains("\"what\":\"remembered\""));
    redis.ask(&["FLUSHALL"]);
    calls.iter().for_each(|call| is_again(call, &left));
    wait_until("money to be closed", || told(&swap().send(left.production())) == FROZEN);
    assert_eq!(upstream.seen().len(), sent);
}

/// The store is rebuilt from it alone, and lacks what was before, until the other journal comes.
#[test]
fn a_journal_that_begins_in_the_middle_and_comes_alone_gives_way_to_the_one_that_begins_before() {
    let Joining { upstream, redis, left, right, calls } = rebuilt_without_the_last();
    let (sent, left) = (upstream.seen().len(), left.kill());
    let right = right.start();
    wait_until("money to be closed", || told(&swap().send(right.production())) == FROZEN);
    calls.iter().for_each(|call| assert_ne!(told(&call.send(right.production())), EXECUTED));
    let left = left.start();
    for gate in [&left, &right] {
        calls.iter().for_each(|call| is_again(call, gate));
    }
    assert_eq!(told(&swap().send_when_met(left.production())), FROZEN);
    all_have_it(&redis);
    redis.ask(&["FLUSHALL"]);
    calls.iter().for_each(|call| is_again(call, &left));
    assert_eq!(upstream.seen().len(), sent);
}

/// All that its journal lacks is in the one that goes on, which reaches as far.
#[test]
fn a_journal_that_begins_in_the_middle_retires_and_names_what_it_lacks() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let ([left, right], calls) = with_a_new_folder(&upstream, &redis);
    let stopped = right.kill();
    let copy = shipped(&stopped);
    let asks = setup(&upstream, &redis.url(), "asks");
    is_missed(&asks);
    let (code, text) = retire(&gone(&copy), &left, &copy);
    assert!(code == 0 && text.contains("this journal never had the numbers 1 to "), "{code}: {text}");
    let lacks = |line: &&str| line.contains("\"what\":\"retired\"") && line.contains("\"lacks\":");
    wait_until("the entry to name it", || journal_of(&left).lines().any(|line| lacks(&line)));
    redis.ask(&["FLUSHALL"]);
    calls.iter().for_each(|call| is_again(call, &left));
    paid(&left);
}

/// Each is refused with the place, and changes nothing.
#[test]
fn a_journal_that_was_changed_or_cut_is_refused() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"]
        .map(|node| setup(&upstream, &redis.url(), node).set_raw("audit", "file_bytes", "4096").start().ready());
    (0..3).for_each(|_| drop((paid(&left), paid(&right))));
    all_have_it(&redis);
    let stopped = right.kill();
    let copy = shipped(&stopped);
    let gone = gone(&copy);
    let asks = setup(&upstream, &redis.url(), "asks");
    is_missed(&asks);
    let files: Vec<String> = audit_files(&copy).unwrap().into_iter().map(|file| name(&file.path)).collect();
    let (middle, last) = (files[files.len() / 2].clone(), files.last().unwrap().clone());
    let with_lines = |file: &str, change: &dyn Fn(Vec<&str>) -> Vec<String>| {
        let (folder, file) = (stopped.path("altered"), file.to_owned());
        fs::remove_dir_all(&folder).ok();
        copy_folder(&copy, &folder);
        let text = fs::read_to_string(folder.join(&file)).unwrap();
        fs::write(folder.join(&file), change(text.split_inclusive('\n').collect()).concat()).unwrap();
        folder
    };
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let refused = |folder: &Path, place: &str, why: &str| {
        let (code, text) = retire(&gone, &left, folder);
        assert!(code == 3 && text.contains(place) && text.contains(why), "{why}: {code}: {text}");
        assert_eq!(states(&asks), ["live", "missing"], "{why}");
    };
    let changed = with_lines(&middle, &|lines| {
        let mut lines = owned(&lines);
        lines[1] = lines[1].replacen("production", "sandbox", 1);
        lines
    });
    refused(&changed, &format!("{middle}, line 2"), "its hash does not match its content");
    let first = files[0].clone();
    let removed = with_lines(&first, &|lines| owned(&[&lines[..1], &lines[2..]].concat()));
    refused(&removed, "line ", "it does not ");
    let missing = with_lines(&middle, &|lines| owned(&lines));
    fs::remove_file(missing.join(&middle)).unwrap();
    refused(&missing, "", "is missing");
    let cut = with_lines(&last, &|lines| owned(&lines[..lines.len() - 1]));
    refused(&cut, &last, "had more entries than it has here");
    let (code, text) = retire(&format!("right/{}", "0".repeat(32)), &left, &copy);
    assert!(code == 1 && text.contains("names the journal"), "{text}");
    let (code, text) = retire(&gone, &left, &stopped.path("policies"));
    assert!(code == 1 && text.contains("has no journal of `right`"), "{text}");
    let (code, text) = retire(&gone, &left, &copy);
    assert_eq!(code, 0, "{text}");
    assert_eq!(states(&asks), ["live", "retired"]);
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Whoever runs is not gone.
#[test]
fn a_gate_that_runs_does_not_retire() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &redis);
    paid(&right);
    let copy = left.path("copy");
    copy_folder(&right.path("sluice-audit"), &copy);
    let gone = gone(&copy);
    let (code, text) = retire(&gone, &left, &copy);
    assert!(code == 1 && text.contains("it runs: it was heard"), "{code}: {text}");
    let (code, text) = retire(&gone, &left, &right.path("sluice-audit"));
    assert!(code == 1 && text.contains("a process writes the journal"), "{code}: {text}");
    paid(&right);
}
