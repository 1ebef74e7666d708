//! Recorded decisions, made again by other rules: the real gate records, the command reads its files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use super::{WALLET, allow, limit, ruled};
use crate::cases::claims::audit::entries;
use crate::support::gate::sluice;
use crate::support::{Act, Call, Gate, Redis, Setup, Upstream, canary, post};

const OTHER: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
const A: &str = r#"{"code":400,"error":"X","errorDetails":"y"}"#;
const KEY: &str = "a key that both nodes have";

/// What upstream does.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Executes,
    Refuses,
    Hides,
}
use Does::{Executes, Hides, Refuses};

/// Requests of a day: name, whole dollars, where to, and what upstream would do.
const DAY: [(&str, u64, &str, Does); 9] = [
    ("r-1", 60, WALLET, Executes),
    ("r-2", 90, OTHER, Executes),
    ("r-3", 40, WALLET, Refuses),
    ("r-4", 101, OTHER, Executes),
    ("r-5", 20, WALLET, Hides),
    ("r-6", 60, WALLET, Executes),
    ("r-7", 30, WALLET, Executes),
    ("r-8", 15, OTHER, Executes),
    ("r-9", 5, WALLET, Executes),
];

fn set(most: u64, per_day: u64) -> String {
    allow(&format!("op = \"createSwap\", amount = \"(0, {most}] USD\""))
        + &limit("day", &format!("window = \"rolling 24h\"\nmax = \"{per_day} USD\"\nover = \"deny\""))
}

fn swap(name: &str, amount: u64, wallet: &str) -> Call {
    post("/v2/wallets/swaps").json(format!(
        r#"{{"requestId":"{name}","source":{{"chain":"POLYGON","currency":"usdt","amount":"{amount}"}},"destination":{{"chain":"POLYGON","currency":"usdc","walletAddress":"{wallet}"}}}}"#
    ))
}

/// Those that pass, by a count of their own.
fn passing(most: u64, per_day: u64) -> BTreeMap<&'static str, bool> {
    let mut spent = 0;
    let decided = DAY.map(|(name, amount, _, does)| {
        let passes = amount <= most && spent + amount <= per_day;
        if passes && does != Refuses {
            spent += amount;
        }
        (name, passes)
    });
    decided.into()
}

fn live(upstream: &Upstream, gates: &[&Gate]) {
    let passing = passing(100, 250);
    for (at, (name, amount, wallet, does)) in DAY.into_iter().enumerate() {
        let passes = passing[name];
        if passes {
            upstream.next(match does {
                Executes => Act::done(201),
                Refuses => Act::json(400, A),
                Hides => Act::json(500, A),
            });
        }
        let answer = swap(name, amount, wallet).send(gates[at % gates.len()].production());
        assert_eq!(answer.status != 403, passes, "{name}: {answer}");
    }
}

fn recorded(upstream: &Upstream) -> Setup {
    let gate = ruled(upstream, &set(100, 250)).start();
    live(upstream, &[&gate]);
    gate.end()
}

/// The end of the command, its report and what it says besides.
pub(in crate::cases) fn replay(setup: &Setup, candidate: &str, audit: &[&Path], more: &[&str]) -> (i32, Value, String) {
    let folder = setup.path("candidate");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("rules.toml"), candidate).unwrap();
    for folder in audit {
        // A copy of the gate's key: whoever has only the files cannot join personal names.
        fs::copy(setup.path("sluice-data/operand.key"), folder.join("operand.key")).ok();
    }
    let mut arguments = vec!["policy", "replay", folder.to_str().unwrap()];
    arguments.extend(audit.iter().map(|path| path.to_str().unwrap()));
    arguments.extend(["--output", "json"]);
    arguments.extend(more);
    let output = sluice(&arguments).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), report, said)
}

/// What changed, by the request: what it was, and what it is now.
pub(in crate::cases) fn changed(report: &Value) -> Vec<(String, u64, u64)> {
    let text = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    let change = |change: &Value| {
        let by: Vec<&str> = change["by"].as_array().unwrap().iter().map(|by| by.as_str().unwrap()).collect();
        let what = format!("{} {} by {}", text(change, "was"), text(change, "now"), by.join("+"));
        (what, change["count"].as_u64().unwrap(), change["microUsd"].as_u64().unwrap())
    };
    report["changes"].as_array().unwrap().iter().map(change).collect()
}

#[test]
fn the_same_set_changes_nothing_and_names_stand_under_a_key_alone() {
    let upstream = Upstream::start();
    let setup = recorded(&upstream);
    let folder = setup.path("sluice-audit");
    let (code, report, said) = replay(&setup, &set(100, 250), &[&folder], &[]);
    assert_eq!((code, report["same"].as_u64()), (0, Some(DAY.len() as u64)), "{said}");
    assert_eq!((changed(&report), report["undecided"].as_array().map(Vec::len)), (Vec::new(), Some(0)), "{said}");
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(0), "{said}");

    assert_eq!(fs::metadata(folder.join("operand.key")).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(folder.join("operand.key")).unwrap();
    for line in entries(&folder) {
        let text = line.to_string();
        canary::assert_silent("the audit chain", &text);
        for wallet in [WALLET, OTHER, key.as_str()] {
            assert!(!text.to_lowercase().contains(&wallet[2..].to_lowercase()), "{text}");
        }
        let is_decision = ["sending", "refused", "held"].iter().any(|what| line["entry"]["what"] == *what);
        assert_eq!(line["entry"]["operands"].is_object(), is_decision, "{text}");
    }
    // The commit that puts a set in force carries the set and the contract.
    let long = entries(&folder).into_iter().filter(|line| line.to_string().len() >= 6_000).count();
    assert!(long <= 1, "{long} entries are long");
}

#[test]
fn a_tighter_limit_denies_exactly_what_is_over_it() {
    let upstream = Upstream::start();
    let setup = recorded(&upstream);
    let folder = setup.path("sluice-audit");
    for (most, per_day) in [(100, 150), (100, 100), (50, 250), (200, 250), (200, 1_000)] {
        let (before, after) = (passing(100, 250), passing(most, per_day));
        let (mut denied, mut allowed) = ((0, 0), (0, 0));
        for (name, amount, ..) in DAY {
            let sum = match (before[name], after[name]) {
                (true, false) => &mut denied,
                (false, true) => &mut allowed,
                _ => continue,
            };
            *sum = (sum.0 + 1, sum.1 + amount * 1_000_000);
        }
        let (code, report, said) = replay(&setup, &set(most, per_day), &[&folder], &[]);
        let sum = |now: &str| {
            let of_it = report["changes"].as_array().unwrap().iter().filter(|change| change["now"] == now);
            let number = |change: &Value, name: &str| change[name].as_u64().unwrap();
            of_it.fold((0, 0), |(count, usd), c| (count + number(c, "count"), usd + number(c, "microUsd")))
        };
        assert_eq!((code, sum("deny"), sum("allow")), (0, denied, allowed), "{most} {per_day}: {said}");
    }
    assert!(passing(100, 150).values().filter(|passes| **passes).count() > 1);
}

#[test]
fn lists_are_met_under_the_key_and_what_is_not_kept_is_said_so() {
    let upstream = Upstream::start();
    let setup = recorded(&upstream);
    let folder = setup.path("sluice-audit");
    let lower = OTHER.to_lowercase();
    let listed = set(100, 250)
        + &format!(
            "[list.bad]\nwallet = [\"{lower}\"]\n[[rule]]\nid = \"not-there\"\neffect = \"deny\"\nwhen = {{ op = \"createSwap\", wallet = \"@bad\" }}\n"
        );
    let (_, report, said) = replay(&setup, &listed, &[&folder], &[]);
    let found = changed(&report);
    let before = passing(100, 250);
    let there = DAY.iter().filter(|(name, _, wallet, _)| *wallet == OTHER && before[name]);
    let sum = there.fold((0, 0), |(count, usd), (_, amount, ..)| (count + 1, usd + amount * 1_000_000));
    assert!(found.contains(&("allow deny by not-there".to_owned(), sum.0, sum.1)), "{said}");

    let new = set(100, 250)
        + "[[rule]]\nid = \"known\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", destination = { new = true } }\n";
    let (code, report, said) = replay(&setup, &new, &[&folder], &[]);
    let undecided = report["undecided"][0]["count"].as_u64();
    // No rule asked then, and this one asks of every request.
    assert_eq!((code, undecided), (0, Some(DAY.len() as u64)), "{said}");
    assert!(said.contains("undecided requests count in no limit"), "{said}");

    let (_, report, said) = replay(&setup, &set(1, 250), &[&folder], &["--to", "2000-01-01"]);
    assert_eq!((report["same"].as_u64(), changed(&report)), (Some(0), Vec::new()), "{said}");
}

#[test]
fn a_wrong_key_says_so() {
    let upstream = Upstream::start();
    let setup = recorded(&upstream).set("audit", "operand_key", "another key than that one");
    let (folder, config) = (setup.path("sluice-audit"), setup.write());
    let (code, report, said) = replay(&setup, &set(100, 250), &[&folder], &["--config", config.to_str().unwrap()]);
    assert_eq!((code, report), (1, Value::Null), "{said}");
    assert!(said.contains("wrong key"), "{said}");
}

#[test]
fn two_nodes_are_one_record_and_an_entry_in_two_files_counts_once() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = ["left", "right"].map(|node| {
        let setup = ruled(&upstream, &set(100, 250)).set("store", "kind", "redis").set("store", "node", node);
        setup.set("redis", "url", &redis.url()).set("audit", "operand_key", KEY).start().ready()
    });
    live(&upstream, &[&gates[0], &gates[1]]);
    let [left, right] = gates.map(Gate::end);
    let copies = left.path("copies");
    fs::create_dir(&copies).unwrap();
    for file in fs::read_dir(left.path("sluice-audit")).unwrap().map(Result::unwrap) {
        if file.file_name().to_string_lossy().ends_with(".jsonl") {
            fs::copy(file.path(), copies.join(file.file_name())).unwrap();
        }
    }
    let (config, folders) = (left.write(), [left.path("sluice-audit"), right.path("sluice-audit"), copies]);
    let folders = folders.each_ref().map(|folder| folder.as_path());
    let config = ["--config", config.to_str().unwrap()];
    let (code, report, said) = replay(&left, &set(100, 250), &folders, &config);
    assert_eq!((code, report["same"].as_u64()), (0, Some(DAY.len() as u64)), "{said}");
    assert_eq!((changed(&report), report["notes"].as_array().map(Vec::len)), (Vec::new(), Some(0)), "{said}");

    // Each gate's journal has the entries of all.
    let (_, report, said) = replay(&left, &set(100, 250), &folders[..1], &config);
    assert_eq!(report["same"].as_u64(), Some(DAY.len() as u64), "{said}");
}

/// People who agree to a change see what it would have meant.
#[test]
fn a_difference_says_what_it_would_have_changed() {
    let upstream = Upstream::start();
    let setup = recorded(&upstream);
    let folder = setup.path("sluice-audit");
    fs::copy(setup.path("sluice-data/operand.key"), folder.join("operand.key")).ok();
    let set_in = |name: &str, text: &str| {
        fs::create_dir_all(setup.path(name)).unwrap();
        fs::write(setup.path(name).join("rules.toml"), text).unwrap();
        setup.path(name).to_str().unwrap().to_owned()
    };
    let diff = |new: &str, more: &[&str]| {
        let (old, new) = (set_in("old", &set(100, 250)), set_in("new", new));
        let words = [&["policy", "diff", &old, &new, "--audit", folder.to_str().unwrap()], more].concat();
        let output = sluice(&words).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let (before, after) = (passing(100, 250), passing(50, 250));
    let denied = || DAY.iter().filter(|(name, ..)| before[name] && !after[name]);
    let sum: u64 = denied().map(|(_, amount, ..)| amount).sum();
    let (name, largest, ..) = denied().max_by_key(|(_, amount, ..)| amount).unwrap();
    let text = diff(&set(50, 250), &[]);
    let line = format!(
        "  production, now denied, allowed before: {}, {sum} USD; the largest: {largest} USD, `{name}` of main:",
        denied().count()
    );
    let found: Vec<&str> = text.lines().filter(|found| found.starts_with(&line)).collect();
    assert!(found.len() == 3 && text.contains("the 7 days to ") && text.contains("the 90 days to "), "{line}\n{text}");
    assert!(text.contains(&format!(": {} recorded decisions\n", DAY.len())), "{text}");
    assert!(diff(&set(100, 250), &[]).contains("none would have been decided differently"));
    // What no rule asked then cannot be told now, and is not guessed.
    let new = set(100, 250)
        + "[[rule]]\nid = \"known\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", destination = { new = true } }\n";
    let report: Value = serde_json::from_str(&diff(&new, &["--output", "json"])).unwrap();
    let week = &report["history"]["windows"][0];
    assert_eq!((week["days"].as_u64(), week["changes"].as_array().map(Vec::len)), (Some(7), Some(0)), "{report:#}");
    assert_eq!(week["cannotSay"][0]["count"].as_u64(), Some(DAY.len() as u64), "{report:#}");
}
