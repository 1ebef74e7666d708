//! What an organization writes in `policies/`: from TOML to compiled, typed rules.
//!
//! All files are one set; order means nothing. Everything that is wrong is told at once, with file, line, column and a
//! remedy, and a set with errors is none. `document` finds the tables, a module for each kind reads them.
//!
//! Pure: names are checked against what is handed in; what time it is comes in as an argument.

mod document;
mod quota;
mod rate;

use std::collections::BTreeMap;

pub use quota::{Mark, Quota};
pub use rate::{Bound, Call, Key, Mode, Rate};

use crate::base::finding::{Finding, Severity};
use crate::catalog::Catalog;
use document::Kind;

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
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// No two with the same id.
    pub rates: Vec<Rate>,
}

/// Reads files, each a name and its text, or tells everything that is wrong with them.
pub fn read(files: &[(String, String)], known: &Known<'_>) -> Result<Policies, Vec<Finding>> {
    let mut findings = Vec::new();
    let mut policies = Policies::default();
    let mut ids = BTreeMap::new();
    for (file, text) in files {
        for entry in document::entries(file, text, &mut findings) {
            match entry.kind {
                Kind::Rate => {
                    let read = rate::read(entry.table, known, &mut findings);
                    let Some(read) = read else { continue };
                    match ids.insert(read.id.clone(), (file, read.place)) {
                        Some((first, (line, _))) => findings.push(twice(file, &read, first, line)),
                        None => policies.rates.push(read),
                    }
                }
            }
        }
    }
    if findings.iter().any(|finding| finding.severity == Severity::Error) { Err(findings) } else { Ok(policies) }
}

fn twice(file: &str, rate: &Rate, first: &str, line: usize) -> Finding {
    let (here, column) = rate.place;
    Finding::error(file, format!("there is a rate `{}` already, in {first}:{line}", rate.id))
        .at(format!("{here}:{column}"))
        .remedy("give each an `id` of its own")
}

#[cfg(test)]
mod tests;
