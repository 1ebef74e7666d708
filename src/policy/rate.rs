//! `[[rate]]`: how many calls may be made in a period, or at one time, by whom, and what counts together.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::KnownNames;
use super::document::{DocumentTable, PolicyPlace, RawItem};
use super::quota::Quota;
use crate::base::digest::Fingerprint;
use crate::base::finding::Finding;
use crate::base::ids::{Environment, OperationId};
use crate::base::word_enum::word_enum;
use crate::catalog::{Class, Operation};

pub(super) const MAX_CONCURRENT: u64 = 100_000;
/// The bucket of requests about holds, for rates with a bucket for each operation; no operation has this name.
const OF_HOLDS: &[u8] = b"/holds";
pub(super) const CLASSES: [(&str, Class); 3] =
    [("@read", Class::Read), ("@change", Class::Change), ("@money", Class::Money)];

/// One limit on the number of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    pub id: Arc<str>,
    /// The line and the column of the table.
    pub place: (usize, usize),
    pub(super) fits: Fits,
    pub(super) per: BTreeSet<RateKey>,
    pub bound: RateBound,
    pub is_shared: bool,
    pub mode: Mode,
}

/// The bound of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateBound {
    /// Calls in a period.
    Quota(Quota),
    /// Calls at one time.
    Concurrent(u64),
}

word_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mode {
        Enforce = "enforce",
        /// Counted and logged, but not enforced.
        Shadow = "shadow",
    }
}

word_enum! {
    /// A property with a bucket for each of its values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RateKey {
        Caller = "caller",
        Role = "role",
        Issuer = "issuer",
        Operation = "operation",
        Class = "class",
        Environment = "environment",
    }
}

/// The calls that a rate matches; `None` in a field matches all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fits {
    pub operations: BTreeSet<OperationId>,
    /// Whether every read matches, including requests for the state of a hold.
    pub reads: bool,
    pub environments: Option<Vec<Environment>>,
    pub issuers: Option<BTreeSet<String>>,
    pub roles: Option<BTreeSet<String>>,
    /// Issuer and subject.
    pub callers: Option<BTreeSet<(String, String)>>,
}

/// A call, as far as rates need it.
#[derive(Clone, Copy, Debug)]
pub struct RateCall<'c> {
    pub environment: Environment,
    /// `None`: how a call stands that waits is asked for, or that it be cancelled.
    pub operation: Option<&'c Operation>,
    /// The name of the caller's issuer.
    pub issuer: &'c str,
    pub subject: &'c str,
    pub roles: &'c BTreeSet<String>,
}

impl Rate {
    /// Returns the buckets that a call takes from; none if the rate does not match it.
    ///
    /// Per role, a caller takes from the bucket of each matching role; callers without a role share one bucket, so that
    /// having a role never makes a caller more limited.
    pub fn buckets(&self, call: &RateCall<'_>) -> Vec<Fingerprint> {
        if !self.fits.call(call) {
            return Vec::new();
        }
        if !self.per.contains(&RateKey::Role) {
            return vec![self.bucket(call, None)];
        }
        let fitting =
            call.roles.iter().filter(|role| self.fits.roles.as_ref().is_none_or(|roles| roles.contains(*role)));
        let buckets: Vec<Fingerprint> = fitting.map(|role| self.bucket(call, Some(role))).collect();
        if buckets.is_empty() { vec![self.bucket(call, None)] } else { buckets }
    }

    fn bucket(&self, call: &RateCall<'_>, role: Option<&str>) -> Fingerprint {
        let mut parts: Vec<&[u8]> = vec![self.id.as_bytes()];
        for key in &self.per {
            match key {
                RateKey::Caller => parts.extend([call.issuer.as_bytes(), call.subject.as_bytes()]),
                RateKey::Role => match role {
                    Some(role) => parts.extend([&b"role"[..], role.as_bytes()]),
                    None => parts.push(b"no role"),
                },
                RateKey::Issuer => parts.push(call.issuer.as_bytes()),
                RateKey::Operation => {
                    parts.push(call.operation.map_or(OF_HOLDS, |operation| operation.id.as_str().as_bytes()))
                }
                RateKey::Class => {
                    parts.push(call.operation.map_or(Class::Read, |operation| operation.class).as_str().as_bytes())
                }
                RateKey::Environment => parts.push(call.environment.as_str().as_bytes()),
            }
        }
        Fingerprint::of(&parts)
    }

    pub fn is_enforced(&self) -> bool {
        self.mode == Mode::Enforce
    }
}

impl Fits {
    fn call(&self, call: &RateCall<'_>) -> bool {
        call.operation.map_or(self.reads, |operation| self.operations.contains(&operation.id))
            && self.environments.as_ref().is_none_or(|all| all.contains(&call.environment))
            && self.issuers.as_ref().is_none_or(|all| all.contains(call.issuer))
            && self.roles.as_ref().is_none_or(|all| !all.is_disjoint(call.roles))
            && self
                .callers
                .as_ref()
                .is_none_or(|all| all.iter().any(|(issuer, subject)| issuer == call.issuer && subject == call.subject))
    }
}

/// Reads a rate; errors go to the findings.
pub(super) fn read_rate(
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Rate> {
    let id = id(&mut table);
    let fits = fits(&mut table, known);
    let per = per(&mut table);
    let bound = bound(&mut table);
    let is_shared = table.truth("shared") == Some(true);
    let bound = bound.and_then(|bound| if is_shared { shared(&mut table, bound, known) } else { Some(bound) });
    let mode = table.choice("mode", &Mode::WORDS).unwrap_or(Mode::Enforce);
    let place = table.place;
    let is_good = table.end(findings);
    let read = Rate { id: id?, place, fits: fits?, per, bound: bound?, is_shared, mode };
    is_good.then_some(read)
}

pub(super) fn id(table: &mut DocumentTable<'_>) -> Option<Arc<str>> {
    let (place, id) = table.required("id", DocumentTable::text)?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if id.len() > 32 || !id.bytes().all(allowed) {
        table.fault(place, format!("`id` cannot be `{}`", id.escape_debug()), "use up to 32 of `a-z`, `0-9` and `-`");
        return None;
    }
    Some(id.into())
}

fn fits(table: &mut DocumentTable<'_>, known: &KnownNames<'_>) -> Option<Fits> {
    let ops = table.required("ops", |table, name| table.texts(name, false));
    let operations = ops.map(|ops| operations(table, &ops, known));
    let environments = table.texts("environment", false).map(|texts| {
        texts
            .iter()
            .filter_map(|(place, text)| table.choice_of("environment", *place, text, &Environment::WORDS))
            .collect()
    });
    let issuers = table.texts("issuer", false).map(|texts| {
        for (place, text) in &texts {
            known_issuer(table, *place, text, known);
        }
        texts.into_iter().map(|(_, text)| text).collect()
    });
    let roles = table.texts("role", false).map(|texts| {
        texts.iter().for_each(|(place, text)| no_pattern(table, *place, text));
        texts.into_iter().map(|(_, text)| text).collect()
    });
    let callers = table.texts("caller", false).map(|texts| callers(table, texts, known));
    let operations = operations?;
    let mut all = known.catalog.operations().iter().filter(|operation| !operation.is_write());
    let reads = all.all(|operation| operations.contains(&operation.id));
    Some(Fits { operations, reads, environments, issuers, roles, callers })
}

pub(super) fn operations(
    table: &mut DocumentTable<'_>,
    ops: &[(PolicyPlace, String)],
    known: &KnownNames<'_>,
) -> BTreeSet<OperationId> {
    let all = known.catalog.operations();
    let mut found = BTreeSet::new();
    for (place, text) in ops {
        let class = CLASSES.iter().find(|(name, _)| name == text).map(|(_, class)| *class);
        let fitting = all.iter().filter(|o| text == "*" || class == Some(o.class) || o.id.as_str() == text);
        let named: Vec<OperationId> = fitting.map(|operation| operation.id.clone()).collect();
        if named.is_empty() {
            let classes = ["*"].into_iter().chain(CLASSES.iter().map(|(name, _)| *name));
            let names = classes.chain(all.iter().map(|operation| operation.id.as_str()));
            table.unknown_name(*place, "an operation", text, names);
        }
        found.extend(named);
    }
    found
}

pub(super) fn callers(
    table: &mut DocumentTable<'_>,
    texts: Vec<(PolicyPlace, String)>,
    known: &KnownNames<'_>,
) -> BTreeSet<(String, String)> {
    let mut callers = BTreeSet::new();
    for (place, text) in texts {
        match text.split_once(':') {
            Some((issuer, subject)) if !subject.is_empty() => {
                known_issuer(table, place, issuer, known);
                no_pattern(table, place, subject);
                callers.insert((issuer.to_owned(), subject.to_owned()));
            }
            _ => table.fault(
                place,
                format!("`{}` is not a caller", text.escape_debug()),
                "write the name of its issuer and its subject, with `:` between: `main:payroll`",
            ),
        }
    }
    callers
}

/// Refuses a name with `*`: names are compared letter by letter, and such a condition would match nobody.
pub(super) fn no_pattern(table: &mut DocumentTable<'_>, place: PolicyPlace, name: &str) {
    if name.contains('*') {
        let fault = format!("`{}` would match only that name itself: `*` is no pattern here", name.escape_debug());
        table.fault(place, fault, "write each name in full; a condition that anybody meets is left out");
    }
}

pub(super) fn known_issuer(table: &mut DocumentTable<'_>, place: PolicyPlace, name: &str, known: &KnownNames<'_>) {
    if !known.issuers.contains(&name) {
        table.unknown_name(place, "an issuer", name, known.issuers.iter().copied());
    }
}

fn per(table: &mut DocumentTable<'_>) -> BTreeSet<RateKey> {
    let texts = table.texts("per", true).unwrap_or_default();
    texts.iter().filter_map(|(place, text)| table.choice_of("per", *place, text, &RateKey::WORDS)).collect()
}

fn bound(table: &mut DocumentTable<'_>) -> Option<RateBound> {
    let (quota, concurrent) = (table.take("quota"), table.take("concurrent"));
    let place = table.place;
    let remedy = "write `quota = \"100/s burst 200\"` for calls in a time, or `concurrent = 32` for calls at one time";
    match (quota, concurrent) {
        (None, None) if ["quota", "concurrent"].iter().any(|name| table.has_misspelt(name)) => {}
        (None, None) => table.fault(place, "one of `quota` and `concurrent` is required", remedy),
        (Some(_), Some(found)) => table.fault(found.place, "`concurrent` cannot be combined with `quota`", remedy),
        (None, Some(found)) => match found.raw {
            RawItem::Number(Some(most)) if (1..=MAX_CONCURRENT).contains(&most) => {
                return Some(RateBound::Concurrent(most));
            }
            RawItem::Number(_) => {
                table.fault(found.place, "`concurrent` is out of range", format!("write 1 to {MAX_CONCURRENT}"));
            }
            other => {
                let fault = format!("`concurrent`: {}", other.instead_of("a whole number"));
                table.fault(found.place, fault, remedy);
            }
        },
        (Some(found), None) => match &found.raw {
            RawItem::Text(text) => match Quota::parse(text) {
                Ok(quota) => return Some(RateBound::Quota(quota)),
                Err(why) => {
                    let fault = format!("`quota` cannot be `{}`: {why}", text.escape_debug());
                    table.fault(found.place, fault, "write calls per `s`, `m`, `h` or `day`, as `100/s burst 200`");
                }
            },
            other => {
                let fault = format!("`quota`: {}", other.instead_of("a text"));
                table.fault(found.place, fault, remedy);
            }
        },
    }
    None
}

/// Checks a bound that nodes share.
fn shared(table: &mut DocumentTable<'_>, bound: RateBound, known: &KnownNames<'_>) -> Option<RateBound> {
    let place = table.place;
    if !known.can_share {
        let remedy =
            "set `url` in `[redis]` of the configuration, or remove `shared`: each node then counts on its own";
        table.fault(place, "`shared` needs a Redis that all nodes share, but none is configured", remedy);
    }
    let shared = match bound {
        RateBound::Concurrent(_) => Err(("calls at one time are counted by each node on its own", "remove `shared`")),
        RateBound::Quota(quota) => quota
            .for_sharing()
            .map(RateBound::Quota)
            .ok_or(("nodes can share at most 10000 calls a second", "write a smaller `quota`")),
    };
    shared.map_err(|(fault, remedy)| table.fault(place, fault, remedy)).ok()
}
