//! Whether a call that waited had its quorum in the moment in which it was committed to be sent: told anew from the audit
//! chains alone, by all choices of who speaks for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;
use sluice::ledger::{Number, Outstanding};
use sluice::policy::{KnownNames, Policies, read_policies};

use super::ports::AuditFile;
use super::world::CATALOG;

/// What one set of policies asks for.
pub struct Asks {
    pub ops: (&'static [&'static str], usize),
    pub finance: (&'static [&'static str], usize),
    denies: bool,
    /// Nobody is asked.
    allows: bool,
}

const BASE: Asks = Asks {
    ops: (&["ops-1", "ops-2", "service"], 1),
    finance: (&["finance-1", "ops-2"], 1),
    denies: false,
    allows: false,
};

/// From one to the other at any time: as it was, tighter, of other people, looser, denied, and allowed.
pub const ASKS: [Asks; 6] = [
    BASE,
    Asks { ops: (BASE.ops.0, 2), ..BASE },
    Asks { ops: (&["ops-2", "service", "dora"], 1), finance: (&["finance-1", "ops-1"], 1), ..BASE },
    Asks { finance: (BASE.finance.0, 0), ..BASE },
    Asks { denies: true, ..BASE },
    Asks { allows: true, ..BASE },
];

pub static SETS: LazyLock<Vec<Policies>> = LazyLock::new(|| ASKS.iter().map(policies).collect());

fn policies(asks: &Asks) -> Policies {
    let people = |names: &[&str]| names.iter().map(|name| format!("people:{name}")).collect::<Vec<_>>();
    let needs = [("ops", asks.ops.1), ("finance", asks.finance.1)];
    let needs: Vec<String> =
        needs.iter().filter(|(_, n)| *n > 0).map(|(of, n)| format!("{{ of = {of:?}, n = {n} }}")).collect();
    let denies = "[[rule]]\nid = \"none\"\neffect = \"deny\"\nwhen = { op = \"createSwap\" }\n";
    let text = format!(
        "[[rule]]\nid = \"everything\"\neffect = \"hold\"\napproval = \"dual\"\nwhen = {{ op = \"*\" }}\n{}\
         [approval.dual]\nall = [{}]\nexpires = \"10m\"\n\
         [group.ops]\nmembers = {:?}\n[group.finance]\nmembers = {:?}\n",
        if asks.denies { denies } else { "" },
        needs.join(", "),
        people(asks.ops.0),
        people(asks.finance.0),
    );
    let allows = "[[rule]]\nid = \"everything\"\neffect = \"allow\"\nwhen = { op = \"*\" }\n";
    let text = if asks.allows { allows.to_owned() } else { text };
    let known = KnownNames { catalog: &CATALOG, issuers: &["main", "people"], can_share: false };
    match read_policies(&[("model.toml".to_owned(), text)], &known) {
        Ok(read) => read.policies,
        Err(findings) => panic!("{findings:?}"),
    }
}

/// Who stands in for whom, from when until when.
type Standing = BTreeMap<(String, String), (i64, i64)>;

/// Every time that a call of this requestId was committed to be sent: what was wrong with it.
pub fn without_quorum(files: &[AuditFile], request_id: &str) -> Vec<String> {
    let mut entries: BTreeMap<Number, Outstanding> = BTreeMap::new();
    for file in files {
        entries.extend(file.lock().unwrap().iter().map(|(number, entry)| (*number, entry.clone())));
    }
    let (mut votes, mut standing, mut wrong) = (BTreeSet::new(), Standing::new(), Vec::new());
    for (number, Outstanding { at, entry, .. }) in entries {
        let entry: Value = serde_json::from_slice(&entry).unwrap();
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let micros = |pointer: &str| entry.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
        let pair = || (text("/member"), text("/person"));
        let is_its = text("/requestId") == request_id;
        match text("/what").as_str() {
            "stand-in" => drop(standing.insert(pair(), (micros("/fromMicros"), micros("/untilMicros")))),
            "stand-in-revoked" => drop(standing.remove(&pair())),
            "voted" if is_its => drop(votes.insert(text("/by/subject"))),
            "withdrawn" if is_its => drop(votes.remove(&text("/by/subject"))),
            "sending" if is_its => {
                let version = text("/decision/policy");
                let set = SETS.iter().position(|set| set.version() == version).expect("a set of the model");
                let needs_nobody = ASKS[set].allows;
                if ASKS[set].denies || !(needs_nobody || is_reached(&ASKS[set], &votes, &standing, at.as_micros())) {
                    wrong.push(format!("{number}: set {set}, votes {votes:?}, stand-ins {standing:?}"));
                }
            }
            _ => {}
        }
    }
    wrong
}

/// What was committed to be sent by another set than the one that was in force in that moment.
pub fn sent_by_a_former_set(files: &[AuditFile]) -> Vec<String> {
    let mut entries: BTreeMap<Number, Outstanding> = BTreeMap::new();
    for file in files {
        entries.extend(file.lock().unwrap().iter().map(|(number, entry)| (*number, entry.clone())));
    }
    let (mut in_force, mut wrong) = (String::new(), Vec::new());
    for (number, Outstanding { entry, .. }) in entries {
        let entry: Value = serde_json::from_slice(&entry).unwrap();
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text("/what").as_str() {
            "took-force" => in_force = text("/policy"),
            "sending" if text("/decision/policy") != in_force => wrong.push(format!("{number}: by a former set")),
            _ => {}
        }
    }
    wrong
}

/// Whether there is any choice of who speaks for whom that fills all seats.
fn is_reached(asks: &Asks, votes: &BTreeSet<String>, standing: &Standing, now: i64) -> bool {
    let name = |member: &str| member.trim_start_matches("people:").to_owned();
    let members = |voter: &String| -> Vec<String> {
        let stands = standing
            .iter()
            .filter(|((_, person), (from, until))| name(person) == *voter && *from <= now && now < *until);
        let others = stands.map(|((member, _), _)| name(member));
        [voter.clone()].into_iter().chain(others).filter(|member| member != "service").collect()
    };
    let voters: Vec<Vec<String>> = votes.iter().filter(|voter| *voter != "service").map(members).collect();
    let mut spoken = vec![BTreeSet::new()];
    for voter in &voters {
        let with = |so_far: &BTreeSet<String>| {
            voter
                .iter()
                .map(|member| so_far.iter().chain([member]).cloned().collect())
                .collect::<Vec<BTreeSet<String>>>()
        };
        let longer: Vec<BTreeSet<String>> = spoken.iter().flat_map(with).collect();
        spoken.extend(longer);
    }
    let fills = |members: &BTreeSet<String>| {
        let of = |group: &[&str]| members.iter().filter(|member| group.contains(&member.as_str())).count();
        let all = members.iter().filter(|member| {
            asks.ops.0.contains(&member.as_str()) || (asks.finance.1 > 0 && asks.finance.0.contains(&member.as_str()))
        });
        // Two groups: each has enough, and both together have enough.
        of(asks.ops.0) >= asks.ops.1
            && of(asks.finance.0) >= asks.finance.1
            && all.count() >= asks.ops.1 + asks.finance.1
    };
    spoken.iter().any(fills)
}
