//! `[[rate]]`: how many calls may be made in how long, or at one time, by whom, and what counts together.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Known;
use super::document::{Place, Raw, Table};
use super::quota::Quota;
use crate::base::digest::Fingerprint;
use crate::base::finding::Finding;
use crate::base::ids::{Environment, OperationId};
use crate::catalog::{Class, Operation};

const MOST_CONCURRENT: u64 = 100_000;
/// The bucket of what is asked of holds, where each operation has its own; no operation is called so.
const OF_HOLDS: &[u8] = b"/holds";
pub(super) const CLASSES: [(&str, Class); 3] =
    [("@read", Class::Read), ("@change", Class::Change), ("@money", Class::Money)];
pub(super) const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
pub(super) const KEYS: [(&str, Key); 6] = [
    ("caller", Key::Caller),
    ("role", Key::Role),
    ("issuer", Key::Issuer),
    ("operation", Key::Operation),
    ("class", Key::Class),
    ("environment", Key::Environment),
];

/// One limit on calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    pub id: Arc<str>,
    /// The line and the column that it stands in.
    pub place: (usize, usize),
    pub(super) fits: Fits,
    pub(super) per: BTreeSet<Key>,
    pub bound: Bound,
    pub is_shared: bool,
    pub mode: Mode,
}

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Calls in a time.
    Quota(Quota),
    /// Calls at one time.
    Concurrent(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    /// Counted and logged, not in force.
    Shadow,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
        }
    }
}

/// What has a bucket of its own for each of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Caller,
    Role,
    Issuer,
    Operation,
    Class,
    Environment,
}

/// Which calls a rate is about; nothing where all fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fits {
    pub operations: BTreeSet<OperationId>,
    /// Every read is among them, and so is asking how a call stands that waits.
    pub reads: bool,
    pub environments: Option<Vec<Environment>>,
    pub issuers: Option<BTreeSet<String>>,
    pub roles: Option<BTreeSet<String>>,
    /// Issuer and subject.
    pub callers: Option<BTreeSet<(String, String)>>,
}

/// A call, as far as rates look at it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    pub environment: Environment,
    /// `None`: how a call stands that waits is asked for, or that it be cancelled.
    pub operation: Option<&'c Operation>,
    /// The name of the caller's issuer.
    pub issuer: &'c str,
    pub subject: &'c str,
    pub roles: &'c BTreeSet<String>,
}

impl Rate {
    /// The buckets that a call takes from; none if the rate is not about it.
    ///
    /// Per role, a caller takes from the bucket of each of its roles that fits; who has no role shares a bucket with
    /// all who have none, so that a role is never what makes a caller limited.
    pub fn buckets(&self, call: &Call<'_>) -> Vec<Fingerprint> {
        if !self.fits.call(call) {
            return Vec::new();
        }
        if !self.per.contains(&Key::Role) {
            return vec![self.bucket(call, None)];
        }
        let fitting =
            call.roles.iter().filter(|role| self.fits.roles.as_ref().is_none_or(|roles| roles.contains(*role)));
        let buckets: Vec<Fingerprint> = fitting.map(|role| self.bucket(call, Some(role))).collect();
        if buckets.is_empty() { vec![self.bucket(call, None)] } else { buckets }
    }

    fn bucket(&self, call: &Call<'_>, role: Option<&str>) -> Fingerprint {
        let mut parts: Vec<&[u8]> = vec![self.id.as_bytes()];
        for key in &self.per {
            match key {
                Key::Caller => parts.extend([call.issuer.as_bytes(), call.subject.as_bytes()]),
                Key::Role => match role {
                    Some(role) => parts.extend([&b"role"[..], role.as_bytes()]),
                    None => parts.push(b"no role"),
                },
                Key::Issuer => parts.push(call.issuer.as_bytes()),
                Key::Operation => {
                    parts.push(call.operation.map_or(OF_HOLDS, |operation| operation.id.as_str().as_bytes()))
                }
                Key::Class => {
                    parts.push(call.operation.map_or(Class::Read, |operation| operation.class).as_str().as_bytes())
                }
                Key::Environment => parts.push(call.environment.as_str().as_bytes()),
            }
        }
        Fingerprint::of(&parts)
    }

    pub fn is_enforced(&self) -> bool {
        self.mode == Mode::Enforce
    }
}

impl Fits {
    fn call(&self, call: &Call<'_>) -> bool {
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

/// Reads one; what is wrong goes to the findings.
pub(super) fn read(mut table: Table<'_>, known: &Known<'_>, findings: &mut Vec<Finding>) -> Option<Rate> {
    let id = id(&mut table);
    let fits = fits(&mut table, known);
    let per = per(&mut table);
    let bound = bound(&mut table);
    let is_shared = table.truth("shared") == Some(true);
    let bound = bound.and_then(|bound| if is_shared { shared(&mut table, bound, known) } else { Some(bound) });
    let mode = table.choice("mode", &MODES).unwrap_or(Mode::Enforce);
    let place = table.place;
    let is_good = table.end(findings);
    let read = Rate { id: id?, place, fits: fits?, per, bound: bound?, is_shared, mode };
    is_good.then_some(read)
}

pub(super) fn id(table: &mut Table<'_>) -> Option<Arc<str>> {
    let (place, id) = table.required("id", "write for example `id = \"per-caller\"`", Table::text)?;
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if id.len() > 32 || !id.bytes().all(allowed) {
        table.fault(
            place,
            format!("`id` cannot be `{}`", id.escape_debug()),
            "an id is up to 32 of `a-z`, `0-9` and `-`",
        );
        return None;
    }
    Some(id.into())
}

fn fits(table: &mut Table<'_>, known: &Known<'_>) -> Option<Fits> {
    let remedy = "write `ops = [\"*\"]` for all, classes as `\"@money\"`, or operations by their ids";
    let ops = table.required("ops", remedy, |table, name| table.texts(name, false));
    let operations = ops.map(|ops| operations(table, &ops, known));
    let words = Environment::ALL.map(|environment| (environment.as_str(), environment));
    let environments = table.texts("environment", false).map(|texts| {
        texts.iter().filter_map(|(place, text)| table.choice_of("environment", *place, text, &words)).collect()
    });
    let issuers = table.texts("issuer", false).map(|texts| {
        for (place, text) in &texts {
            known_issuer(table, *place, text, known);
        }
        texts.into_iter().map(|(_, text)| text).collect()
    });
    let roles = table.texts("role", false).map(|texts| texts.into_iter().map(|(_, text)| text).collect());
    let callers = table.texts("caller", false).map(|texts| callers(table, texts, known));
    let operations = operations?;
    let mut all = known.catalog.operations().iter().filter(|operation| !operation.is_write());
    let reads = all.all(|operation| operations.contains(&operation.id));
    Some(Fits { operations, reads, environments, issuers, roles, callers })
}

pub(super) fn operations(table: &mut Table<'_>, ops: &[(Place, String)], known: &Known<'_>) -> BTreeSet<OperationId> {
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
    table: &mut Table<'_>,
    texts: Vec<(Place, String)>,
    known: &Known<'_>,
) -> BTreeSet<(String, String)> {
    let mut callers = BTreeSet::new();
    for (place, text) in texts {
        match text.split_once(':') {
            Some((issuer, subject)) if !subject.is_empty() => {
                known_issuer(table, place, issuer, known);
                callers.insert((issuer.to_owned(), subject.to_owned()));
            }
            _ => table.fault(
                place,
                format!("`{}` names no caller", text.escape_debug()),
                "write the name of its issuer and its subject, with `:` between: `main:payroll`",
            ),
        }
    }
    callers
}

pub(super) fn known_issuer(table: &mut Table<'_>, place: Place, name: &str, known: &Known<'_>) {
    if !known.issuers.contains(&name) {
        table.unknown_name(place, "an issuer", name, known.issuers.iter().copied());
    }
}

fn per(table: &mut Table<'_>) -> BTreeSet<Key> {
    let texts = table.texts("per", true).unwrap_or_default();
    texts.iter().filter_map(|(place, text)| table.choice_of("per", *place, text, &KEYS)).collect()
}

fn bound(table: &mut Table<'_>) -> Option<Bound> {
    let (quota, concurrent) = (table.take("quota"), table.take("concurrent"));
    let place = table.place;
    let remedy = "write `quota = \"100/s burst 200\"` for calls in a time, or `concurrent = 32` for calls at one time";
    match (quota, concurrent) {
        (None, None) => table.fault(place, "there is neither `quota` nor `concurrent`", remedy),
        (Some(_), Some(found)) => table.fault(found.place, "`concurrent` does not go with `quota`", remedy),
        (None, Some(found)) => match found.raw {
            Raw::Number(Some(most)) if (1..=MOST_CONCURRENT).contains(&most) => {
                return Some(Bound::Concurrent(most));
            }
            Raw::Number(_) => {
                table.fault(found.place, "`concurrent` is out of range", format!("write 1 to {MOST_CONCURRENT}"));
            }
            other => {
                let fault = format!("`concurrent`: {}", other.instead_of("a whole number"));
                table.fault(found.place, fault, remedy);
            }
        },
        (Some(found), None) => match &found.raw {
            Raw::Text(text) => match Quota::parse(text) {
                Ok(quota) => return Some(Bound::Quota(quota)),
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

/// What is bounded, when nodes share it.
fn shared(table: &mut Table<'_>, bound: Bound, known: &Known<'_>) -> Option<Bound> {
    let place = table.place;
    if !known.can_share {
        let remedy = "write `[redis]` with `url` in the configuration, or leave `shared` out: each node counts then";
        table.fault(place, "`shared` needs a Redis that all nodes know, and none is configured", remedy);
    }
    let shared = match bound {
        Bound::Concurrent(_) => Err(("calls at one time are counted by each node for itself", "leave `shared` out")),
        Bound::Quota(quota) => quota
            .for_sharing()
            .map(Bound::Quota)
            .ok_or(("nodes can share at most 10000 calls a second", "write a smaller `quota`")),
    };
    shared.map_err(|(fault, remedy)| table.fault(place, fault, remedy)).ok()
}
