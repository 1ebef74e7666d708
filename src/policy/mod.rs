//! What an organization writes in `policies/`: from TOML to compiled, typed rules.
//!
//! All files are one set; order means nothing. Everything that is wrong is told at once, with file, line, column and a
//! remedy, and a set with errors is none. `document` finds the tables, a module for each kind reads them.
//!
//! Pure: names are checked against what is handed in; what time it is comes in as an argument.

mod analysis;
mod asked;
mod condition;
mod document;
mod explain;
mod interval;
mod invariant;
mod kept;
mod limit;
mod meaning;
mod quorum;
mod quota;
mod rate;
mod recital;
mod replay;
mod rule;
mod rules;
mod schema;
mod trial;
mod when;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use analysis::{
    ApprovalChange, Change, ChangeKind, Difference, Direction, Fate, LimitChange, LimitChangeKind, Mutant, Payment,
    Proof,
};
pub use asked::{Asked, Facts, Field, Valuation, ValueFault, View};
pub use condition::{Condition, Literal, Sought, Ways};
pub use explain::{Explanation, key_as_json, key_in_words};
pub use interval::Interval;
pub use invariant::{Claim, Invariant};
pub use kept::{Kept, Operands, Stated, operands};
pub use limit::{Limit, Max, Reservation};
pub use meaning::{Changes, Meaning};
pub use quorum::{Groups, Progress, Voices, each_alone};
pub use quota::{Mark, Quota};
pub use rate::{Bound, Call, Key, Mode, Rate};
pub use replay::{Recorded, Replay, Replayed, Undecided};
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
    pub invariants: Vec<Invariant>,
    pub meaning: Meaning,
    places: Names,
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

    /// The file of a rule or limit.
    fn file_of(&self, id: &str) -> &str {
        self.place_of("rule or limit", id).map_or("", |(file, _)| file)
    }

    fn place_of(&self, what: &'static str, name: &str) -> Option<(&str, Place)> {
        self.places.places.get(&(what, name.to_owned())).map(|(file, place)| (file.as_str(), *place))
    }

    /// The set with one small change, in each way that there is.
    pub fn mutants(&self) -> Vec<Mutant> {
        analysis::mutants(self)
    }

    /// What is odd about the rules, though they can run so: nothing of it is a guess, and nothing is left out but what
    /// takes too long to be sure of.
    pub fn oddities(&self, known: &Known<'_>) -> Vec<Finding> {
        let mut findings = analysis::oddities(self, known, analysis::FINDING_STEPS);
        findings.extend(analysis::untouched(self, known));
        in_order(findings)
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
    let reading = read_unproved(files, known)?;
    proved(reading, known).map_err(in_order)
}

/// Reads files, and believes their invariants.
fn read_unproved(files: &[(String, String)], known: &Known<'_>) -> Result<Reading, Vec<Finding>> {
    let (entries, findings) = entries(files);
    understood(entries, findings, known).map_err(in_order)
}

/// Refuses what does not keep its own invariants, or may not.
fn proved(reading: Reading, known: &Known<'_>) -> Result<Reading, Vec<Finding>> {
    let Policies { rules, invariants, .. } = &reading.policies;
    let mut findings = analysis::unreachable(&reading.policies);
    findings.extend(analysis::unproved(rules, invariants, known, analysis::PROVING_STEPS));
    if findings.is_empty() { Ok(reading) } else { Err(reading.warnings.into_iter().chain(findings).collect()) }
}

/// What a new set does otherwise than the old one, and whether it only tightens.
pub fn difference(old: &Policies, new: &Policies, known: &Known<'_>) -> Difference {
    analysis::difference(old, new, known, analysis::COMPARING_STEPS)
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
    let (mut rates, mut trials, mut invariants) = (Vec::new(), Vec::new(), Vec::new());
    let mut words = Vocabulary::default();
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
                let read = invariant::read(file, table, known, &words, found);
                let read = read.filter(|read| names.add("invariant", &read.id, file, place, found));
                invariants.extend(read);
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
    let rules = Rules::new(rules, limits, approvals, words.groups, words.valuation);
    let meaning = Meaning::of(&rates, &rules, &rules.groups, known.catalog);
    let policies = Policies { rates, rules, trials, invariants, meaning, places: names };
    Ok(Reading { policies, warnings: findings })
}

fn of_kind<'e, 'f>(entries: &'e [Entry<'f>], kind: Kind) -> impl Iterator<Item = &'e Entry<'f>> {
    entries.iter().filter(move |entry| entry.kind == kind)
}

/// Which names were given, and where.
#[derive(Clone, Debug, Default)]
struct Names {
    places: BTreeMap<(&'static str, String), (String, Place)>,
    /// Of rules and limits.
    ids: BTreeSet<String>,
}

impl Names {
    /// Whether the name is a new one; otherwise that becomes a finding.
    fn add(&mut self, what: &'static str, id: &str, file: &str, place: Place, findings: &mut Vec<Finding>) -> bool {
        let (line, column) = place;
        if let Some((first, (first_line, _))) = self.places.get(&(what, id.to_owned())) {
            findings.push(
                Finding::error(file, format!("there is a {what} `{id}` already, in {first}:{first_line}"))
                    .at(format!("{line}:{column}"))
                    .remedy(format!("give each {what} a name of its own")),
            );
            return false;
        }
        self.places.insert((what, id.to_owned()), (file.to_owned(), place));
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
