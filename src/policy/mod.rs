//! The policies of an organization: from TOML files to compiled, typed rules.
//!
//! All files are one set; their order has no meaning. All errors are reported at once, with file, line, column and
//! remedy, and a set with errors is refused. `language` lists the fields of every table; `document` parses tables, and a
//! module for each kind reads them. The JSON Schema and the manual are made from `language` too.
//!
//! Pure: names are checked against arguments, and the time is an argument.

mod acquaintance;
mod analysis;
mod archived_rules;
mod boundless;
mod request;
mod causes;
mod condition;
mod contract_check;
mod dates;
mod descriptions;
mod document;
mod durations;
mod enrolment;
mod expiry;
mod explain;
mod field_form;
mod history;
mod interval;
mod invariant;
mod operands;
mod key_texts;
mod known_facts;
mod language;
mod limit;
mod limit_figures;
mod limit_key;
mod list_names;
mod literal;
mod manual;
mod meaning;
mod past_decisions;
mod quorum;
mod quota;
mod rate;
mod recovery_keys;
mod describe;
mod replay;
mod rule;
mod rule_index;
mod rules;
mod schema;
mod signing;
mod body_facts;
mod policy_test;
mod times;
mod value_kind;
mod when;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use acquaintance::{Acquaintance, fact_name, fact_parts};
pub use analysis::{
    ApprovalChange, ChangeKind, DefinitionChange, Difference, DimensionKind, Direction, Extent, ExtentDimension,
    LimitChange, LimitChangeKind, MemberChange, Mutant, MutantFate, NewcomerChange, OutcomeChange, PassMost,
    PassOperation, PassRow, PassTable, Payment, Proof,
};
pub use archived_rules::{ArchivedRules, UnreadableMeaning};
pub use body_facts::{KeptOperands, Stated};
pub use causes::{HoldCauses, causes_digest};
pub use condition::{Condition, SoughtValue, Ways};
pub use descriptions::Descriptions;
pub use enrolment::{AddedPasskey, only_enrolled, with_passkeys};
pub use explain::{Explanation, key_as_json, key_in_words};
pub use history::DecisionHistory;
pub use interval::Interval;
pub use invariant::{Invariant, InvariantClaim};
pub use key_texts::{EditedText, enrolled_people, without_member, without_passkeys};
pub use limit::{Limit, Max, Reservation};
pub use limit_figures::{LimitFigures, LimitRoom, OverWindow, counts_calls};
pub use list_names::ListNames;
pub use literal::Literal;
pub use manual::manual;
pub use meaning::{Changes, Meaning};
pub use operands::{Operands, operands};
pub use past_decisions::{RecordedDecision, ReplayEvent, ReplayRecord};
pub use policy_test::{NearMiss, TestRequest, Trial, Tried};
pub use quorum::{Progress, each_alone, each_person};
pub use quota::{Mark, Quota};
pub use rate::{Mode, Rate, RateBound, RateCall, RateKey};
pub use recovery_keys::{RecoveryKeys, recovery_key_digest};
pub use replay::{RecordedCall, Replay, Replayed, Undecided};
pub use request::{Facts, Field, PolicyRequest, Valuation, ValueFault, View};
pub use rule::{Effect, Rule};
pub use rules::{Cause, Reason, Rules, Verdict};
pub use schema::schema;
pub use signing::{Passkey, SignableAct, Signing, SigningChange, enrolment_challenge, is_origin_of};
pub use words::{Approval, Need};
pub use words::{Groups, Voices};

use crate::base::finding::{Finding, Severity};
use crate::base::ids::OperationId;
use crate::catalog::{Catalog, Class};
use document::{DocumentEntry, PolicyPlace};
use expiry::PolicyEnd;
use value_kind::ValueKind;
use when::Vocabulary;

/// The names that policies may use, and the features they may rely on.
#[derive(Clone, Copy, Debug)]
pub struct KnownNames<'k> {
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
    /// The rules and limits for operations that move money or change anything.
    pub rules: Rules,
    pub trials: Vec<Trial>,
    pub invariants: Vec<Invariant>,
    pub meaning: Meaning,
    /// The names in lists of destinations.
    pub list_names: ListNames,
    places: NameTable,
    /// The lists of dates, and the members of lists, that end.
    ends: Vec<PolicyEnd>,
}

impl Policies {
    /// Returns the digest of the set's meaning, including the catalogue; every decision carries it.
    pub fn version(&self) -> &str {
        self.meaning.version()
    }

    /// Returns the tests of the set that fail: a set takes force only if all pass.
    pub fn failures(&self, catalog: &Catalog) -> Vec<Finding> {
        let tried = self.trials.iter().filter_map(|trial| trial.run(&self.rules, catalog));
        tried.filter_map(|tried| tried.failure()).collect()
    }

    /// Returns the callers that rules name and let pay, as `ISSUER:SUBJECT`.
    pub fn paying_callers(&self, catalog: &Catalog) -> BTreeSet<&str> {
        self.paying_rules(catalog).flat_map(Rule::callers).collect()
    }

    /// Returns the roles whose callers rules let pay.
    pub fn paying_roles(&self, catalog: &Catalog) -> BTreeSet<&str> {
        self.paying_rules(catalog).flat_map(Rule::roles).collect()
    }

    fn paying_rules(&self, catalog: &Catalog) -> impl Iterator<Item = &Rule> {
        let pays = |id: &OperationId| catalog.operation(id).is_some_and(|operation| operation.class == Class::Money);
        let permits = move |rule: &&Rule| rule.effect != Effect::Deny && rule.when.operations.iter().any(pays);
        self.rules.rules.iter().filter(permits)
    }

    /// Returns the file of a rule or limit.
    fn file_of(&self, id: &str) -> &str {
        self.place_of("rule or limit", id).map_or("", |(file, _)| file)
    }

    fn place_of(&self, what: &'static str, name: &str) -> Option<(&str, PolicyPlace)> {
        self.places.places.get(&(what, name.to_owned())).map(|(file, place)| (file.as_str(), *place))
    }

    /// Returns the set with one small change, for each possible change.
    pub fn mutants(&self) -> Vec<Mutant> {
        analysis::mutants(self)
    }

    /// Returns warnings about a valid set: each is certain, and none is left out except those that take too long to
    /// prove.
    pub fn oddities(&self, known: &KnownNames<'_>) -> Vec<Finding> {
        let mut findings = analysis::oddities(self, known, analysis::FINDING_STEPS);
        findings.extend(analysis::untouched(self, known));
        findings.extend(times::cut_nights(self));
        in_order(findings)
    }
}

#[cfg(test)]
impl Policies {
    /// Returns a set that allows every request with a value.
    pub(crate) fn of_everything(catalog: &Catalog) -> Policies {
        let text = "[[rule]]\nid = \"everything\"\neffect = \"allow\"\nwhen = { op = \"*\" }\n";
        let known = KnownNames { catalog, issuers: &[], can_share: true };
        read_policies(&[("x.toml".to_owned(), text.to_owned())], &known).unwrap().policies
    }
}

/// A valid set, and its warnings.
#[derive(Clone, Debug)]
pub struct PolicyReading {
    pub policies: Policies,
    pub warnings: Vec<Finding>,
}

/// Reads and proves files, each a name and its text, or returns all errors.
///
/// ```
/// use sluice::catalog::{Catalog, SchemaFiles};
/// use sluice::policy::{KnownNames, read_policies};
///
/// let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
/// let known = KnownNames { catalog: &catalog, issuers: &["main"], can_share: false };
/// let rule = |op: &str| format!("[[rule]]\nid = \"reads\"\neffect = \"allow\"\nwhen = {{ op = [\"{op}\"] }}\n");
/// read_policies(&[("rules.toml".to_owned(), rule("listUsers"))], &known).unwrap();
/// let findings = read_policies(&[("rules.toml".to_owned(), rule("listUsrs"))], &known).unwrap_err();
/// assert!(findings[0].to_string().contains("listUsers"), "{}", findings[0]);
/// ```
pub fn read_policies(files: &[(String, String)], known: &KnownNames<'_>) -> Result<PolicyReading, Vec<Finding>> {
    let reading = read_unproved(files, known)?;
    proved(reading, known).map_err(in_order)
}

/// Reads files without proving their invariants.
fn read_unproved(files: &[(String, String)], known: &KnownNames<'_>) -> Result<PolicyReading, Vec<Finding>> {
    let (entries, findings) = entries(files);
    understood(entries, findings, known).map_err(in_order)
}

/// Refuses a set whose invariants are not proved.
fn proved(reading: PolicyReading, known: &KnownNames<'_>) -> Result<PolicyReading, Vec<Finding>> {
    let Policies { rules, invariants, .. } = &reading.policies;
    let mut findings = analysis::unreachable(&reading.policies);
    findings.extend(analysis::unproved(rules, invariants, known, analysis::PROVING_STEPS));
    if findings.is_empty() { Ok(reading) } else { Err(reading.warnings.into_iter().chain(findings).collect()) }
}

/// Compares a new set with the old one, and finds out whether it only tightens.
pub fn difference(old: &Policies, new: &Policies, known: &KnownNames<'_>) -> Difference {
    analysis::difference_with_extents(old, new, known, analysis::COMPARING_STEPS)
}

/// Returns the largest amounts that a set lets pass, by operation, caller, class of destinations and number of people.
pub fn pass_table(policies: &Policies, known: &KnownNames<'_>) -> PassTable {
    analysis::table(policies, known, analysis::TABLE_STEPS)
}

/// Sorts findings in the order of the files.
fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    let place = |finding: &Finding| {
        let (line, column) = finding.place.as_deref()?.split_once(':')?;
        Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?))
    };
    findings.sort_by(|a, b| a.file.cmp(&b.file).then_with(|| place(a).cmp(&place(b))));
    findings
}

/// Returns the tables of all files, those first that others may name.
fn entries(files: &[(String, String)]) -> (Vec<DocumentEntry<'_>>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut entries = Vec::new();
    for (file, text) in files {
        entries.extend(document::entries(file, text, language::table_of, &mut findings));
    }
    entries.sort_by_key(|entry| entry.kind);
    (entries, findings)
}

fn understood(
    entries: Vec<DocumentEntry<'_>>,
    mut findings: Vec<Finding>,
    known: &KnownNames<'_>,
) -> Result<PolicyReading, Vec<Finding>> {
    let (mut rates, mut trials, mut invariants) = (Vec::new(), Vec::new(), Vec::new());
    let mut words = Vocabulary::default();
    let (mut rules, mut limits, mut approvals) = (Vec::new(), Vec::new(), BTreeMap::new());
    let (mut names, mut are_limits_read) = (NameTable::default(), true);
    let (mut descriptions, mut signing) = (Descriptions::default(), None);
    let is_written = |kind| of_kind(&entries, kind).next().is_some();
    let (is_signing_written, is_recovery_written) = (is_written(ValueKind::Signing), is_written(ValueKind::Recovery));
    words.approvals = of_kind(&entries, ValueKind::Approval).map(|entry| entry.name.clone()).collect();
    for DocumentEntry { file, kind, name, mut table } in entries {
        let (place, found) = (table.place, &mut findings);
        descriptions.read(kind, &name, &mut table);
        if matches!(kind, ValueKind::Rule | ValueKind::Limit) {
            names.ids.extend(table.peek("id").map(str::to_owned));
        }
        match kind {
            ValueKind::Rate => {
                let read =
                    rate::read_rate(table, known, found).filter(|rate| names.add("rate", &rate.id, file, place, found));
                rates.extend(read);
            }
            ValueKind::Asset => words::asset(&name, table, &mut words, found),
            ValueKind::Value => words::value(table, &mut words, found),
            ValueKind::Group => words::group(&name, table, known, &mut words, found),
            ValueKind::List => words::list(file, &name, table, known, &mut words, found),
            ValueKind::Signing => signing = signing.or(signing::read_signing(table, found)),
            ValueKind::Passkey => {
                if !is_signing_written {
                    table.fault(
                        place,
                        "a passkey needs `[signing]`",
                        "write `[signing]` with the domain of the console",
                    );
                }
                signing::read_passkey(table, known, signing.as_mut(), found);
            }
            ValueKind::Recovery => {
                if !is_signing_written {
                    let remedy = "write `[signing]`, and a `[[passkey]]` for each person";
                    table.fault(place, "`[recovery]` needs `[signing]`", remedy);
                }
                let read = recovery_keys::read_recovery(table, found);
                if let Some(signing) = &mut signing {
                    signing.recovery = signing.recovery.take().or(read);
                }
            }
            ValueKind::RecoveryKey => {
                if !is_recovery_written {
                    table.fault(place, "a recovery key needs `[recovery]`", "write `[recovery]` with `needs`");
                }
                let recovery = signing.as_mut().and_then(|signing| signing.recovery.as_mut());
                recovery_keys::read_recovery_key(table, recovery, found);
            }
            ValueKind::Approval => {
                let read = words::approval(table, &words, is_signing_written, found);
                approvals.extend(read.map(|read| (Arc::<str>::from(name.as_str()), read)));
            }
            ValueKind::Rule => {
                let read = rule::read_rule(table, known, &words, found);
                rules.extend(read.filter(|rule| names.add("rule or limit", &rule.id, file, place, found)));
            }
            ValueKind::Limit => {
                let read = limit::read_limit(table, known, &words, found);
                are_limits_read &= read.is_some();
                let read = read.filter(|limit| names.add("rule or limit", &limit.id, file, place, found));
                limits.extend(read.map(|limit| (file, limit)));
            }
            ValueKind::Invariant => {
                let read = invariant::read_invariant(file, table, known, &words, found);
                let read = read.filter(|read| names.add("invariant", &read.id, file, place, found));
                invariants.extend(read);
            }
            ValueKind::Test => trials.extend(policy_test::read_test(file, table, known, &names.ids, found)),
        }
        if matches!(
            kind,
            ValueKind::Asset
                | ValueKind::Value
                | ValueKind::Group
                | ValueKind::List
                | ValueKind::Signing
                | ValueKind::Recovery
                | ValueKind::Approval
        ) {
            names.add(kind.as_str(), &name, file, place, &mut findings);
        }
    }
    // A limit with errors may be the one that encloses others.
    if are_limits_read {
        findings.extend(limits.iter().filter_map(|(file, limit)| open(file, limit, &limits, known)));
    }
    let limits = limits.into_iter().map(|(_, limit)| limit).collect();
    let list_names = ListNames::of(&words.lists);
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(findings);
    }
    let mut rules = Rules::new(rules, limits, approvals, words.groups, words.valuation);
    (rules.descriptions, rules.signing) = (descriptions, signing);
    let meaning = Meaning::of(&rates, &rules, &rules.groups, known.catalog);
    let (places, ends) = (names, words.ends);
    let policies = Policies { rates, rules, trials, invariants, meaning, list_names, places, ends };
    Ok(PolicyReading { policies, warnings: findings })
}

fn of_kind<'e, 'f>(entries: &'e [DocumentEntry<'f>], kind: ValueKind) -> impl Iterator<Item = &'e DocumentEntry<'f>> {
    entries.iter().filter(move |entry| entry.kind == kind)
}

/// The names that were defined, and where.
#[derive(Clone, Debug, Default)]
struct NameTable {
    places: BTreeMap<(&'static str, String), (String, PolicyPlace)>,
    /// The ids of rules and limits, those with errors included.
    ids: BTreeSet<String>,
}

impl NameTable {
    /// Adds a name; a duplicate becomes a finding.
    fn add(
        &mut self,
        what: &'static str,
        id: &str,
        file: &str,
        place: PolicyPlace,
        findings: &mut Vec<Finding>,
    ) -> bool {
        let (line, column) = place;
        if let Some((first, (first_line, _))) = self.places.get(&(what, id.to_owned())) {
            findings.push(
                Finding::error(file, format!("another {what} is named `{id}`, in {first}:{first_line}"))
                    .at(format!("{line}:{column}"))
                    .remedy(format!("give each {what} its own name")),
            );
            return false;
        }
        self.places.insert((what, id.to_owned()), (file.to_owned(), place));
        true
    }
}

/// Returns a finding for a limit that a caller escapes by writing new values, unless another limit encloses it.
fn open(file: &str, limit: &Limit, limits: &[(&str, Limit)], known: &KnownNames<'_>) -> Option<Finding> {
    let is_enclosed = |operation: &&_| limits.iter().any(|(_, other)| other.encloses(operation));
    let escaping = limit.to_enclose(known).find(|operation| !is_enclosed(operation)).filter(|_| limit.is_open())?;
    let (line, column) = limit.place;
    let text = format!("callers choose all keys of `{}`, and no other limit bounds `{escaping}`", limit.id);
    let remedy = "add a key to `per` that callers do not choose, or a limit per `environment` or `caller`";
    Some(Finding::error(file, text).at(format!("{line}:{column}")).remedy(remedy))
}

#[cfg(test)]
mod tests;
