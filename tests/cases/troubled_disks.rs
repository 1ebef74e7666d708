//! A start on disks that are full, read-only or failing: reads are served, money waits, nothing on the disk is taken for
//! damaged or begun anew, and the gate goes on by itself once the disk works.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::claims::{swap, told};
use super::nodes::{await_log, says, setup as on_redis};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::troubled_disk::{DiskRefusal, TroubledDisk};
use crate::support::{Call, Gate, Redis, Setup, Upstream, get};

const AGAIN: &str = "200 - executed again";
const PAID: &str = "200 - executed";
const REFUSED: &str = "503 STORE_UNAVAILABLE unknown";
const IN_TROUBLE: &str = "a disk is in trouble";
const WORKS: &str = "the disk can be used again";
const AUDIT: &str = "sluice-audit";
const STORE: &str = "sluice-data";
const STORE_FAILED: &str = "the store failed";

/// The calls that were paid before the gate was killed, and are known after it.
fn killed(setup: Setup, disk: &TroubledDisk) -> (Setup, Vec<Call>) {
    let setup = disk.variables().iter().fold(setup, |setup, (name, value)| setup.variable(name, value));
    let gate = setup.start().ready();
    let calls: Vec<Call> = (0..3).map(|_| swap()).collect();
    calls.iter().for_each(|call| assert_eq!(told(&call.send(gate.production())), PAID));
    (gate.kill(), calls)
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    found
}

fn reasons(gate: &Gate) -> String {
    gate.probe("/readyz/money").text()
}

fn count(gate: &Gate, words: &str) -> usize {
    gate.log.all().iter().filter(|line| line["message"].as_str().is_some_and(|text| text.contains(words))).count()
}

/// Reads are served, and nothing else.
fn waits(gate: &Gate, calls: &[Call], upstream: &Upstream, what: &str) {
    await_log(gate, IN_TROUBLE);
    assert_eq!(get("/v2/users").send(gate.production()).status, 200, "{what}");
    let sent = upstream.seen().len();
    assert_eq!(told(&swap().send(gate.production())), REFUSED, "{what}");
    assert_eq!(told(&calls[0].send(gate.production())), REFUSED, "{what}");
    assert_eq!(upstream.seen().len(), sent, "{what}");
    assert_eq!((gate.probe("/livez").status, gate.probe("/readyz").status), (200, 200), "{what}");
    wait_until("the reason to be told", || reasons(gate).contains("a disk of this gate is in trouble"));
    assert_eq!(gate.probe("/readyz/money").status, 503, "{what}");
    assert_eq!(gate.metric("sluice_store_up"), 0, "{what}");
}

/// Money moves again without a start, and all is known.
fn goes_on(gate: Gate, calls: &[Call], what: &str) -> Setup {
    await_log(&gate, WORKS);
    let gate = gate.ready();
    calls.iter().for_each(|call| assert_eq!(told(&call.send(gate.production())), AGAIN, "{what}"));
    assert_eq!(told(&swap().send(gate.production())), PAID, "{what}");
    let told = gate.log.all();
    let is_loud = |line: &&Value| line["level"] == "ERROR" && !line["message"].to_string().contains("built anew");
    assert_eq!(told.iter().filter(is_loud).count(), 1, "{what}: {told:?}");
    let (code, said) = verify(&gate);
    assert_eq!(code, 0, "{what}: {said}");
    gate.end()
}

fn verify(gate: &Gate) -> (i32, String) {
    let done = sluice(&["audit", "verify", gate.path(AUDIT).to_str().unwrap()]).output().unwrap();
    (done.status.code().unwrap(), String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Starts in the trouble, waits in it, and goes on behind it.
fn start_in_trouble(setup: Setup, calls: &[Call], disk: &TroubledDisk, of: (&str, DiskRefusal), upstream: &Upstream) {
    let (folder, how) = of;
    let what = format!("{folder} {how:?}");
    let before = files(&setup.path(folder));
    disk.refuses(&setup.path(folder), how);
    let gate = setup.start();
    waits(&gate, calls, upstream, &what);
    // The attempts of some seconds.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(count(&gate, IN_TROUBLE), 1, "{what}");
    let now = files(&gate.path(folder));
    let is_lost =
        |path: &PathBuf, bytes: &Vec<u8>| now.get(path) != Some(bytes) && !now.values().any(|one| one == bytes);
    let lost: Vec<&PathBuf> =
        before.iter().filter(|(path, bytes)| is_lost(path, bytes)).map(|(path, _)| path).collect();
    assert!(lost.is_empty(), "{what}: {lost:?}");
    disk.works();
    goes_on(gate, calls, &what);
}

#[test]
fn a_gate_with_an_embedded_store_waits_for_its_disks() {
    let (upstream, disk) = (Upstream::start(), TroubledDisk::new());
    let all = [
        (AUDIT, DiskRefusal::ReadOnly),
        (AUDIT, DiskRefusal::Fails),
        (STORE, DiskRefusal::ReadOnly),
        (STORE, DiskRefusal::Fails),
        (STORE, DiskRefusal::Full),
    ];
    for of in all {
        let (setup, calls) = killed(Setup::of(&upstream), &disk);
        start_in_trouble(setup, &calls, &disk, of, &upstream);
    }
}

#[test]
fn a_gate_with_a_redis_waits_for_its_disk() {
    let (upstream, disk) = (Upstream::start(), TroubledDisk::new());
    for how in [DiskRefusal::ReadOnly, DiskRefusal::Fails, DiskRefusal::Full] {
        let redis = Redis::start_kept();
        let (setup, calls) = killed(on_redis(&upstream, &redis.url(), "left"), &disk);
        start_in_trouble(setup, &calls, &disk, (AUDIT, how), &upstream);
    }
}

#[test]
fn a_lost_or_damaged_store_is_built_once_there_is_room_for_it() {
    let (upstream, disk) = (Upstream::start(), TroubledDisk::new());
    let remove = |file: &Path| fs::remove_file(file).unwrap();
    let damage = |file: &Path| fs::write(file, vec![7; 40_000]).unwrap();
    for harm in [&remove as &dyn Fn(&Path), &damage] {
        let (setup, calls) = killed(Setup::of(&upstream), &disk);
        harm(&setup.path("sluice-data/store.redb"));
        start_in_trouble(setup, &calls, &disk, (STORE, DiskRefusal::Full), &upstream);
    }
}

#[test]
fn nothing_is_begun_anew_while_a_disk_is_not_mounted() {
    let (upstream, disk) = (Upstream::start(), TroubledDisk::new());
    for folder in [AUDIT, STORE] {
        let (setup, calls) = killed(Setup::of(&upstream), &disk);
        disk.refuses(&setup.path(folder), DiskRefusal::ReadOnly);
        let gate = setup.start();
        waits(&gate, &calls, &upstream, folder);
        // Its disk is taken away, as for a repair: the folder on which it was mounted is empty, and takes writes.
        let (mounted, away) = (gate.path(folder), gate.path("away"));
        fs::rename(&mounted, &away).unwrap();
        fs::create_dir(&mounted).unwrap();
        disk.works();
        wait_until("the missing disk to be told", || reasons(&gate).contains("is its disk mounted?"));
        assert_eq!(files(&mounted).len(), 0);
        assert_eq!(told(&swap().send(gate.production())), REFUSED);
        fs::remove_dir(&mounted).unwrap();
        fs::rename(&away, &mounted).unwrap();
        await_log(&gate, WORKS);
        let gate = gate.ready();
        calls.iter().for_each(|call| assert_eq!(told(&call.send(gate.production())), AGAIN));
    }
}

/// The disk of a gate that runs is taken away. People are told what is missing, also where nobody pays; the log says so once,
/// and not each second; and nothing is made in its place, so that it can be put back.
#[test]
fn a_folder_that_is_missing_is_named_and_told_once() {
    let upstream = Upstream::start();
    for (is_there, is_shared) in [(false, false), (true, false), (false, true), (true, true)] {
        let redis = is_shared.then(Redis::start_kept);
        let setup =
            redis.as_ref().map_or_else(|| Setup::of(&upstream), |redis| on_redis(&upstream, &redis.url(), "gate"));
        let gate = setup.start().ready();
        let (folder, away) = (gate.path(AUDIT), gate.path("away"));
        let failed_before = count(&gate, STORE_FAILED);
        fs::rename(&folder, &away).unwrap();
        if is_there {
            // The folder on which it was mounted.
            fs::create_dir(&folder).unwrap();
        }
        let path = format!("`{}`", folder.display());
        let is_told = || [path.as_str(), "mount its disk"].iter().all(|part| reasons(&gate).contains(*part));
        wait_until("what is missing to be told", is_told);
        assert_eq!(swap().send(gate.production()).status, 503);
        let rules = gate.path("policies/everything.toml");
        fs::write(&rules, format!("{}\n# another text\n", fs::read_to_string(&rules).unwrap())).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(7));
        assert!(is_told(), "{}", reasons(&gate));
        let mut told = BTreeMap::<String, usize>::new();
        let is_loud =
            |line: &&Value| ["ERROR", "WARN"].iter().any(|level| line["level"] == *level) && line["why"].is_string();
        for line in gate.log.all().iter().filter(is_loud) {
            *told.entry(format!("{} {}", line["message"], line["why"])).or_default() += 1;
        }
        assert!(told.values().all(|count| *count == 1), "{told:?}");
        assert_eq!(count(&gate, STORE_FAILED), failed_before, "{:?}", gate.log.all());
        assert_eq!(folder.exists(), is_there, "nothing is made where the folder was");
        // Not even an empty folder is in the way.
        fs::rename(&away, &folder).unwrap();
        wait_until("money to move", || told_of(&gate) == PAID);
    }
}

/// The journal's folder is there, and a file beside the journal cannot be written: the store has nothing to do with it.
#[test]
fn a_file_beside_the_journal_that_cannot_be_written_is_told_once_as_one_of_the_folder() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = on_redis(&upstream, &redis.url(), "gate").start().ready();
    let [met, new] = ["store", "new"].map(|end| gate.path(AUDIT).join(format!("audit-gate-production.{end}")));
    let failed_before = count(&gate, STORE_FAILED);
    fs::create_dir(&new).unwrap();
    fs::remove_file(&met).unwrap();
    const TOLD: &str = "a file beside the journal cannot be written";
    let why =
        format!("the audit folder `{}`: the identity of the store cannot be kept there", gate.path(AUDIT).display());
    await_log(&gate, TOLD);
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(count(&gate, TOLD) == 1 && says(&gate, &why), "{:?}", gate.log.all());
    assert_eq!(count(&gate, STORE_FAILED), failed_before, "{:?}", gate.log.all());
    fs::remove_dir(&new).unwrap();
    wait_until("the identity to be kept again", || met.exists());
}

fn told_of(gate: &Gate) -> String {
    told(&swap().send(gate.production()))
}

#[test]
fn another_journal_in_the_folder_ends_the_gate() {
    let (upstream, disk) = (Upstream::start(), TroubledDisk::new());
    let (setup, calls) = killed(Setup::of(&upstream), &disk);
    disk.refuses(&setup.path(AUDIT), DiskRefusal::ReadOnly);
    let gate = setup.start();
    waits(&gate, &calls, &upstream, "another journal");
    let id = gate.path("sluice-audit/audit-gate.id");
    fs::write(id, "0".repeat(32)).unwrap();
    disk.works();
    assert_eq!(gate.wait_end().code(), Some(5));
    assert!(says(&gate, "the audit folder has another journal now"), "{:?}", gate.log.all());
}

#[test]
fn a_wrong_configuration_and_a_gate_that_never_ran_end_the_start() {
    let (upstream, disk) = (Upstream::start(), TroubledDisk::new());
    let (setup, _) = killed(Setup::of(&upstream), &disk);
    for folder in [AUDIT, STORE] {
        disk.refuses(&setup.path(folder), DiskRefusal::Denied);
        let mut command = sluice(&["serve", "--config", setup.path("sluice.toml").to_str().unwrap()]);
        let ended = command.envs(disk.variables()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("Permission denied") && said.contains(folder), "{said}");
    }
    disk.works();
    let new = Setup::of(&upstream).uncreated();
    fs::create_dir(new.path(AUDIT)).unwrap();
    disk.refuses(&new.path(AUDIT), DiskRefusal::ReadOnly);
    let mut command = sluice(&["serve", "--config", new.write().to_str().unwrap()]);
    let ended = command.envs(disk.variables()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
}

#[test]
fn policies_that_cannot_be_noted_stay_in_force_and_money_goes_on() {
    const UNNOTED: &str = "the policies in force cannot be noted beside the audit log yet";
    let (upstream, disk) = (Upstream::start(), TroubledDisk::new());
    let with_disk = |setup: Setup, (name, value): &(String, String)| setup.variable(name, value);
    let gate = disk.variables().iter().fold(Setup::of(&upstream), with_disk).start().ready();
    disk.refuses(&gate.path(AUDIT).join("policies"), DiskRefusal::Fails);
    // The first payment has the policies noted as those that are in force.
    assert_eq!(told(&swap().send(gate.production())), PAID);
    await_log(&gate, UNNOTED);
    assert_eq!(told(&swap().send(gate.production())), PAID);
    std::thread::park_timeout(std::time::Duration::from_secs(3));
    assert_eq!((gate.probe("/readyz/money").status, count(&gate, UNNOTED)), (200, 1));
    disk.works();
    assert_eq!(told(&swap().send(gate.production())), PAID);
}
