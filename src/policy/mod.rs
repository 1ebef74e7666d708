//! What an organization writes in `policies/`: from TOML to compiled, typed rules.
//!
//! All files are one set; order means nothing. Everything that is wrong is told at once, with file, line, column and a
//! remedy, and a set with errors is none. `document` finds the tables, a module for each kind reads them.
//!
//! Pure: names are checked against what is handed in; what time it is comes in as an argument.

mod asked;
mod condition;
mod document;
mod explain;
mod interval;
mod limit;
mod meaning;
mod quorum;
mod quota;
mod rate;
mod rule;
mod rules;
mod schema;
mod trial;
mod when;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use asked::{Asked, Facts, Field, Valuation, ValueFault, View};
pub use condition::{Condition, Literal, Sought, Ways};
pub use explain::{Explanation, key_as_json, key_in_words};
pub use interval::Interval;
pub use limit::{Limit, Max, Reservation};
pub use meaning::{Changes, Meaning};
pub use quorum::{Groups, Progress};
pub use quota::{Mark, Quota};
pub use rate::{Bound, Call, Key, Mode, Rate};
pub use rule::{Effect, Rule};
pub use rules::{Cause, Reason, Rules, Verdict};
pub use schema::schema;
pub use trial::{Given, NearMiss, Trial, Tried};
pub use words::{Approval, Need};

use crate::base::finding::{Finding, Severity};
use crate::catalog::Catalog;
use document::{Entry, Kind, Place};
use when::Vocabulary;

/// What policies may name, and lean on.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    pub catalog: &'k Catalog,
    /// The names of the configured issuers.
    pub issuers: &'k [&'k str],
    /// Whether there is a store that nodes share.
    pub can_share: bool,
}

/// A set of policies.
#[derive(Clone, Debug)]
pub struct Policies {
    /// No two with the same id.
    pub rates: Vec<Rate>,
    /// What moves money, and what else changes anything.
    pub rules: Rules,
    pub trials: Vec<Trial>,
    pub meaning: Meaning,
}

impl Policies {
    /// The digest of what the set means, catalogue included: every decision is told with it.
    pub fn version(&self) -> &str {
        self.meaning.version()
    }

    /// The tests of the set that fail: it takes no force before they pass.
    pub fn failures(&self, catalog: &Catalog) -> Vec<Finding> {
        let tried = self.trials.iter().filter_map(|trial| trial.run(&self.rules, catalog));
        tried.filter_map(|tried| tried.failure()).collect()
    }
}

#[cfg(test)]
impl Policies {
    /// All is allowed that has a value.
    pub(crate) fn of_everything(catalog: &Catalog) -> Policies {
        let text = "[[rule]]\nid = \"everything\"\neffect = \"allow\"\nwhen = { op = \"*\" }\n";
        let known = Known { catalog, issuers: &[], can_share: true };
        read(&[("x.toml".to_owned(), text.to_owned())], &known).unwrap().policies
    }
}

/// What a set says that was read whole, and what is odd about it.
#[derive(Clone, Debug)]
pub struct Reading {
    pub policies: Policies,
    pub warnings: Vec<Finding>,
}

/// Reads files, each a name and its text, or tells everything that is wrong with them.
pub fn read(files: &[(String, String)], known: &Known<'_>) -> Result<Reading, Vec<Finding>> {
    let (entries, findings) = entries(files);
    understood(entries, findings, known).map_err(in_order)
}

/// As they stand in the files.
fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    let place = |finding: &Finding| {
        let (line, column) = finding.place.as_deref()?.split_once(':')?;
        Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?))
    };
    findings.sort_by(|a, b| a.file.cmp(&b.file).then_with(|| place(a).cmp(&place(b))));
    findings
}

/// The tables of all files, those first that others may name.
fn entries(files: &[(String, String)]) -> (Vec<Entry<'_>>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut entries = Vec::new();
    for (file, text) in files {
        entries.extend(document::entries(file, text, &mut findings));
    }
    entries.sort_by_key(|entry| entry.kind);
    (entries, findings)
}

fn understood(entries: Vec<Entry<'_>>, mut findings: Vec<Finding>, known: &Known<'_>) -> Result<Reading, Vec<Finding>> {
    let (mut rates, mut trials, mut words) = (Vec::new(), Vec::new(), Vocabulary::default());
    let (mut rules, mut limits, mut approvals) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut names = Names::default();
    words.approvals = of_kind(&entries, Kind::Approval).map(|entry| entry.name.clone()).collect();
    for Entry { file, kind, name, table } in entries {
        let (place, found) = (table.place, &mut findings);
        match kind {
            Kind::Rate => {
                let read =
                    rate::read(table, known, found).filter(|rate| names.add("rate", &rate.id, file, place, found));
                rates.extend(read);
            }
            Kind::Asset => words::asset(&name, table, &mut words, found),
            Kind::Value => words::value(table, &mut words, found),
            Kind::Group => words::group(&name, table, known, &mut words, found),
            Kind::List => words::list(&name, table, known, &mut words, found),
            Kind::Approval => {
                let read = words::approval(table, &words, found);
                approvals.extend(read.map(|read| (Arc::<str>::from(name.as_str()), read)));
            }
            Kind::Rule => {
                let read = rule::read(table, known, &words, found);
                rules.extend(read.filter(|rule| names.add("rule or limit", &rule.id, file, place, found)));
            }
            Kind::Limit => {
                let read = limit::read(table, known, &words, found);
                let read = read.filter(|limit| names.add("rule or limit", &limit.id, file, place, found));
                limits.extend(read.map(|limit| (file, limit)));
            }
            Kind::Invariant => {
                let (line, column) = place;
                let finding = Finding::error(file, "invariants are not proved yet, and an unproved one is none");
                findings.push(finding.at(format!("{line}:{column}")).remedy("write a `[[test]]` for its edges"));
            }
            Kind::Test => trials.extend(trial::read(file, table, known, &names.ids, found)),
        }
        if matches!(kind, Kind::Asset | Kind::Value | Kind::Group | Kind::List | Kind::Approval) {
            names.add(kind.as_str(), &name, file, place, &mut findings);
        }
    }
    findings.extend(limits.iter().filter_map(|(file, limit)| open(file, limit, &limits, known)));
    let limits = limits.into_iter().map(|(_, limit)| limit).collect();
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(findings);
    }
    let mut rules = Rules::new(rules, limits, approvals, words.valuation);
    rules.groups = words.groups;
    let meaning = Meaning::of(&rates, &rules, &rules.groups, known.catalog);
    Ok(Reading { policies: Policies { rates, rules, trials, meaning }, warnings: findings })
}

fn of_kind<'e, 'f>(entries: &'e [Entry<'f>], kind: Kind) -> impl Iterator<Item = &'e Entry<'f>> {
    entries.iter().filter(move |entry| entry.kind == kind)
}

/// Which names were given, and where.
#[derive(Debug, Default)]
struct Names {
    places: BTreeMap<(&'static str, String), (String, usize)>,
    /// Of rules and limits.
    ids: BTreeSet<String>,
}

impl Names {
    /// Whether the name is a new one; otherwise that becomes a finding.
    fn add(&mut self, what: &'static str, id: &str, file: &str, place: Place, findings: &mut Vec<Finding>) -> bool {
        let (line, column) = place;
        if let Some((first, first_line)) = self.places.get(&(what, id.to_owned())) {
            findings.push(
                Finding::error(file, format!("there is a {what} `{id}` already, in {first}:{first_line}"))
                    .at(format!("{line}:{column}"))
                    .remedy(format!("give each {what} a name of its own")),
            );
            return false;
        }
        self.places.insert((what, id.to_owned()), (file.to_owned(), line));
        if what == "rule or limit" {
            self.ids.insert(id.to_owned());
        }
        true
    }
}

/// A limit that a caller escapes by writing something else each time, and that no other one encloses.
fn open(file: &str, limit: &Limit, limits: &[(&str, Limit)], known: &Known<'_>) -> Option<Finding> {
    let is_enclosed = |operation: &&_| limits.iter().any(|(_, other)| other.encloses(operation));
    let escaping = limit.to_enclose(known).find(|operation| !is_enclosed(operation)).filter(|_| limit.is_open())?;
    let (line, column) = limit.place;
    let text = format!("callers choose all that `{}` counts by, and no other limit bounds `{escaping}`", limit.id);
    let remedy = "add a key that callers do not choose to `per`, or a limit per `environment` or `caller`";
    Some(Finding::error(file, text).at(format!("{line}:{column}")).remedy(remedy))
}

#[cfg(test)]
mod tests;
