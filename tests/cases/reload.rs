//! Policies that change while the gate runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::clock::wait_until;
use crate::support::gate::{EVERYTHING, Gate, sluice};
use crate::support::shape::{operation, valid};
use crate::support::{Answer, Call, Setup, Upstream, post};

const NOTHING: &str = "[[rule]]\nid = \"nothing\"\neffect = \"deny\"\nwhen = { op = \"@money\" }\n";
const BROKEN: &str = "[[rule]]\nid = \"broken\"\neffect = \"alow\"\nwhen = { op = \"*\" }\n";

fn swap(request_id: &str, amount: &str) -> Call {
    let body = json!({
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdt", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    });
    post("/v2/wallets/swaps").json(body.to_string())
}

fn send(gate: &Gate, request_id: &str, amount: &str) -> Answer {
    swap(request_id, amount).send(gate.production())
}

/// The file with the rules of a running gate, or of its setup.
fn rules(gate: &Gate) -> PathBuf {
    gate.path("policies/everything.toml")
}

fn write(gate: &Gate, text: &str) {
    std::fs::write(rules(gate), text).unwrap();
}

/// Lines of the log with this message.
fn told(gate: &Gate, message: &str) -> Vec<Value> {
    gate.log.all().into_iter().filter(|line| line["message"] == message).collect()
}

/// The line of the next set that takes force, or that takes none, after so many.
fn next(gate: &Gate, message: &str, after: usize) -> Value {
    gate.log.wait(message, |lines| lines.iter().filter(|line| line["message"] == message).nth(after).cloned())
}

const TOOK_FORCE: &str = "policies came into force";
const STAYED: &str = "the new configuration or policies have errors; those in use stay";
const THE_SAME: &str = "policies were reloaded: no change in meaning";

fn version(gate: &Gate) -> String {
    told(gate, TOOK_FORCE).last().unwrap()["version"].as_str().unwrap().to_owned()
}

#[test]
fn what_changes_takes_force_and_is_told_and_archived() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    assert_eq!(send(&gate, "r-1", "5").status, 200);
    let first = version(&gate);
    assert_eq!(gate.metric(&format!("sluice_policy_info{{version=\"{first}\"}}")), 1);

    write(&gate, &format!("{EVERYTHING}{NOTHING}"));
    let line = next(&gate, TOOK_FORCE, 1);
    let second = line["version"].as_str().unwrap();
    assert_eq!(
        (line["changes"].as_str(), line["before"].as_str()),
        (Some("added: rule nothing"), Some(first.as_str()))
    );
    let denied = send(&gate, "r-2", "5");
    assert_eq!((denied.status, denied.code()), (403, "POLICY_DENIED".to_owned()), "{denied}");

    // What was paid under the rules of then is answered as it was.
    let again = send(&gate, "r-1", "5");
    assert_eq!((again.status, again.header("sluice-replayed").as_deref()), (200, Some("true")), "{again}");
    assert_eq!(upstream.seen().len(), 1);

    let metrics = gate.probe("/metrics").text();
    let told: Vec<&str> = metrics.lines().filter(|line| line.starts_with("sluice_policy_info{")).collect();
    assert_eq!(told, [format!("sluice_policy_info{{version=\"{second}\"}} 1")]);
    assert_eq!(gate.metric("sluice_policy_reads_total{outcome=\"changed\"}"), 1);
    assert_eq!(gate.metric("sluice_policy_changes_total{change=\"added\"}"), 1);
    let archived = |version: &str| gate.path(&format!("sluice-audit/policies/{version}/everything.toml"));
    assert_eq!(std::fs::read_to_string(archived(&first)).unwrap(), EVERYTHING);
    assert_eq!(std::fs::read_to_string(archived(second)).unwrap(), format!("{EVERYTHING}{NOTHING}"));
    let meaning = gate.path(&format!("sluice-audit/policies/{second}/meaning.json"));
    let meaning: Value = serde_json::from_str(&std::fs::read_to_string(meaning).unwrap()).unwrap();
    assert_eq!(meaning["rule nothing"]["ops"].as_array().unwrap().len(), 4, "{meaning}");

    // Another way of writing the same.
    write(&gate, &format!("# in other words\n{NOTHING}{EVERYTHING}"));
    assert_eq!(next(&gate, THE_SAME, 0)["version"], second);
    assert_eq!(told_versions(&gate), [first.as_str(), second]);
}

fn told_versions(gate: &Gate) -> Vec<String> {
    told(gate, TOOK_FORCE).iter().map(|line| line["version"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_set_with_an_error_never_takes_force() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let first = version(&gate);
    write(&gate, BROKEN);
    gate.signal("HUP");
    assert_eq!(next(&gate, STAYED, 0)["version"].as_str(), Some(first.as_str()));
    let why = told(&gate, "policies").iter().map(|line| line["finding"].to_string()).collect::<String>();
    assert!(why.contains("did you mean `allow`?") && why.contains("everything.toml:3:"), "{why}");
    assert_eq!(send(&gate, "r-1", "5").status, 200);
    let ready = gate.probe("/readyz");
    assert_eq!(ready.status, 200);
    assert_eq!(ready.text(), format!("ready\npolicies changed and have errors (1); version {first} stays in force\n"));
    assert_eq!(gate.metric("sluice_policy_faulty"), 1);
    assert_eq!(gate.metric("sluice_policy_reads_total{outcome=\"refused\"}"), 1);

    // Nor does one whose own test fails.
    let test = "[[test]]\ngiven = { op = \"createSwap\", amount = \"5 usdc\" }\nexpect = \"allow\"\n";
    write(&gate, &format!("{EVERYTHING}{NOTHING}{test}"));
    next(&gate, STAYED, 1);
    let why = told(&gate, "policies").last().unwrap()["finding"].to_string();
    assert!(why.contains("`allow` is expected, and it is `deny` (rule nothing: denied by rule)"), "{why}");
    assert_eq!(send(&gate, "r-2", "5").status, 200);

    write(&gate, &format!("{EVERYTHING}{NOTHING}"));
    next(&gate, TOOK_FORCE, 1);
    assert_eq!((gate.probe("/readyz").text(), gate.metric("sluice_policy_faulty")), ("ready\n".to_owned(), 0));
    assert_eq!(send(&gate, "r-3", "5").status, 403);

    // What stops a reload stops a start.
    write(&gate, BROKEN);
    let gate = Gate::spawn(gate.kill());
    assert_eq!(gate.wait_end().code(), Some(3));
    assert!(gate.stderr().contains("did you mean `allow`?"), "{}", gate.stderr());
}

/// Another file changes, and is read again each time.
#[test]
fn each_error_is_told_once_until_it_is_another() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    write(&gate, BROKEN);
    next(&gate, STAYED, 0);
    let findings = || told(&gate, "policies").iter().filter(|line| line["level"] == "ERROR").count();
    assert_eq!(findings(), 1);
    let refused = || gate.metric("sluice_policy_reads_total{outcome=\"refused\"}");
    for read in 2..4 {
        std::fs::write(gate.path("policies/z.toml"), "# nothing\n".repeat(read)).unwrap();
        wait_until("it to be read again", || refused() == read as u64);
    }
    assert_eq!((findings(), told(&gate, STAYED).len()), (1, 1));
    assert_eq!((gate.metric("sluice_policy_faulty"), gate.metric("sluice_reload_faulty")), (1, 1));
    // One more, beside it.
    std::fs::write(gate.path("policies/z.toml"), "x = 1\n").unwrap();
    next(&gate, STAYED, 1);
    assert_eq!(findings(), 2);
    // Whoever asks for a reload sees all of it.
    gate.signal("HUP");
    next(&gate, STAYED, 2);
    assert_eq!(findings(), 4);
    // Once it was mended, it is another one.
    std::fs::remove_file(gate.path("policies/z.toml")).unwrap();
    write(&gate, EVERYTHING);
    next(&gate, THE_SAME, 0);
    write(&gate, BROKEN);
    next(&gate, STAYED, 3);
    assert_eq!(findings(), 5);
}

/// Touches a file twenty times a second until it is dropped.
struct Touched {
    is_over: Arc<AtomicBool>,
    touching: Option<JoinHandle<()>>,
}

impl Touched {
    fn start(path: PathBuf) -> Touched {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let touching = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let file = std::fs::File::options().append(true).open(&path).unwrap();
                let before = file.metadata().unwrap().modified().unwrap();
                file.set_modified(before + Duration::from_millis(50)).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Touched { is_over, touching: Some(touching) }
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.touching.take().map(JoinHandle::join);
    }
}

/// Lines about files that do not stand still.
fn restless(gate: &Gate) -> Vec<String> {
    let lines = gate.log.all().into_iter().map(|line| line.to_string());
    lines.filter(|line| line.contains("files of the configuration or of the policies change all the time")).collect()
}

#[test]
fn a_file_that_is_touched_all_the_time_stops_no_reload() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).file("policies/z.toml", "# nothing\n").start();
    assert_eq!(send(&gate, "r-1", "5").status, 200);
    // The file itself becomes stricter, and then another one.
    let _touched = Touched::start(rules(&gate));
    write(&gate, &format!("{EVERYTHING}{NOTHING}"));
    next(&gate, TOOK_FORCE, 1);
    assert_eq!(send(&gate, "r-2", "5").status, 403);
    let other = NOTHING.replace("nothing", "nothing-either");
    std::fs::write(gate.path("policies/z.toml"), other).unwrap();
    next(&gate, TOOK_FORCE, 2);
    assert!(told(&gate, THE_SAME).is_empty() && restless(&gate).is_empty(), "{:?}", gate.log.all());
}

/// Its last lines may be those that limit what the first ones allow.
#[test]
fn policies_that_are_being_written_are_in_force_only_once_they_are_whole() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).file("policies/z.toml", NOTHING).start();
    assert_eq!(send(&gate, "r-1", "5").status, 403);
    let (path, mut text) = (gate.path("policies/z.toml"), String::new());
    wait_until("it to be named", || {
        text.push_str("# a line\n");
        std::fs::write(&path, &text).unwrap();
        !restless(&gate).is_empty()
    });
    assert!(restless(&gate)[0].contains("z.toml"), "{:?}", gate.log.all());
    for n in 0..20 {
        text.push_str("# a line\n");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(send(&gate, &format!("r-2-{n}"), "5").status, 403);
    }
    std::fs::write(&path, text + NOTHING).unwrap();
    next(&gate, THE_SAME, 0);
    assert_eq!((send(&gate, "r-3", "5").status, told(&gate, TOOK_FORCE).len()), (403, 1));
    std::fs::write(&path, "# nothing\n").unwrap();
    next(&gate, TOOK_FORCE, 1);
    assert_eq!(send(&gate, "r-4", "5").status, 200);
}

#[test]
fn a_folder_that_vanishes_changes_nothing() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    std::fs::rename(gate.path("policies"), gate.path("elsewhere")).unwrap();
    next(&gate, STAYED, 0);
    assert_eq!(send(&gate, "r-1", "5").status, 200);
    assert!(gate.probe("/readyz").text().contains("stays in force"));
    // An empty folder allows nothing; nobody means that.
    std::fs::create_dir(gate.path("policies")).unwrap();
    next(&gate, STAYED, 1);
    assert_eq!(send(&gate, "r-2", "5").status, 200);
    std::fs::remove_dir(gate.path("policies")).unwrap();
    std::fs::rename(gate.path("elsewhere"), gate.path("policies")).unwrap();
    next(&gate, THE_SAME, 0);
    assert_eq!((gate.probe("/readyz").text(), told_versions(&gate).len()), ("ready\n".to_owned(), 1));
}

#[test]
fn what_cannot_be_archived_takes_no_force() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.toml"), NOTHING).unwrap();
    let words = ["policy", "check", "--output", "json", folder.path().to_str().unwrap()];
    let told: Value = serde_json::from_slice(&sluice(&words).output().unwrap().stdout).unwrap();
    let version = told["version"].as_str().unwrap();
    std::fs::write(gate.path("sluice-audit/policies").join(format!("{version}.unfinished")), "in the way").unwrap();
    write(&gate, NOTHING);
    next(&gate, STAYED, 0);
    assert_eq!(send(&gate, "r-1", "5").status, 200);
    let gate = Gate::spawn(gate.kill());
    assert_eq!(gate.wait_end().code(), Some(1));
    assert!(gate.stderr().contains("the policies cannot be archived"), "{}", gate.stderr());
}

#[test]
fn what_was_spent_and_counted_lives_on() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    let limit = |max: &str| {
        format!(
            "{EVERYTHING}[[limit]]\nid = \"day\"\nops = \"createSwap\"\nwindow = \"rolling 24h\"\nmax = \"{max}\"\nover = \"deny\"\n\
             [[rate]]\nid = \"few\"\nops = [\"listUsers\"]\nper = [\"caller\"]\nquota = \"2/day\"\n"
        )
    };
    let gate = setup.file("policies/everything.toml", &limit("10 USD")).start();
    let list = || valid(operation("listUsers")).send(gate.production()).status;
    assert_eq!([list(), list(), list()], [200, 200, 429]);
    assert_eq!([send(&gate, "r-1", "6").status, send(&gate, "r-2", "5").status], [200, 403]);

    // One rate before the other, so that no place is what it was.
    let other = "[[rate]]\nid = \"another\"\nops = [\"@money\"]\nquota = \"1000/s\"\n";
    write(&gate, &format!("{other}{}", limit("12 USD")));
    gate.signal("HUP");
    assert_eq!(next(&gate, TOOK_FORCE, 1)["changes"], "added: rate another; changed: limit day");
    assert_eq!(list(), 429);
    let over = send(&gate, "r-3", "7");
    assert_eq!((over.status, over.code()), (403, "LIMIT_EXCEEDED".to_owned()), "{over}");
    assert_eq!(send(&gate, "r-4", "6").status, 200);
    assert_eq!(send(&gate, "r-5", "0.01").status, 403);
}

#[test]
fn under_load_each_call_is_decided_by_one_set() {
    let upstream = Upstream::start();
    let gate = Arc::new(Setup::of(&upstream).start());
    let done = Arc::new(AtomicBool::new(false));
    let callers = (0..3).map(|caller| {
        let (gate, done) = (gate.clone(), done.clone());
        std::thread::spawn(move || {
            let mut seen = [0, 0];
            for at in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let answer = send(&gate, &format!("r-{caller}-{at}"), "5");
                match (answer.status, answer.code().as_str()) {
                    (200, _) => seen[0] += 1,
                    (403, "POLICY_DENIED") => seen[1] += 1,
                    _ => panic!("{answer}"),
                }
            }
            seen
        })
    });
    let callers: Vec<_> = callers.collect();
    for round in 0..6 {
        let text = if round % 2 == 0 { format!("{EVERYTHING}{NOTHING}") } else { EVERYTHING.to_owned() };
        write(&gate, &text);
        gate.signal("HUP");
        next(&gate, TOOK_FORCE, round + 1);
    }
    done.store(true, Ordering::Relaxed);
    let seen: Vec<[usize; 2]> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    let (allowed, denied): (usize, usize) = seen.iter().fold((0, 0), |(a, d), [b, e]| (a + b, d + e));
    assert!(allowed > 0 && denied > 0, "{seen:?}");
    assert_eq!(upstream.seen().len(), allowed);
}

/// USD that were paid are not calls, and calls are not micro-USD.
#[test]
fn a_limit_in_another_unit_starts_empty() {
    let upstream = Upstream::start();
    let limited = |max: &str| {
        format!(
            "{EVERYTHING}[[limit]]\nid = \"day\"\nops = [\"createSwap\"]\nwindow = \"rolling 24h\"\nmax = \"{max}\"\nover = \"deny\"\n"
        )
    };
    let gate = Setup::of(&upstream).file("policies/everything.toml", &limited("100 USD")).start();
    assert_eq!((send(&gate, "r-1", "60").status, send(&gate, "r-2", "41").status), (200, 403));
    write(&gate, &limited("2 calls"));
    next(&gate, TOOK_FORCE, 1);
    let paid = ["r-3", "r-4", "r-5"].map(|id| send(&gate, id, "1000").status);
    assert_eq!(paid, [200, 200, 403]);
    // A changed maximum keeps what counted in its unit.
    write(&gate, &limited("3 calls"));
    next(&gate, TOOK_FORCE, 2);
    assert_eq!((send(&gate, "r-6", "1000").status, send(&gate, "r-7", "1000").status), (200, 403));
    write(&gate, &limited("100 USD"));
    next(&gate, TOOK_FORCE, 3);
    assert_eq!((send(&gate, "r-8", "40.01").status, send(&gate, "r-9", "40").status), (403, 200));
}
