use std::sync::LazyLock;

use super::*;
use crate::base::finding::Finding;
use crate::catalog::{Catalog, SchemaFiles};
use crate::policy::{Effect, KnownNames, Policies, read_policies};

mod differences;
mod mutants;
mod newcomers;
mod oddities;
mod pathological;
mod proofs;
mod scale;
mod tables;
mod world;
mod world_fees;
mod zones;

/// The contract, whose swaps may have any further fields.
fn files() -> SchemaFiles {
    let mut files = SchemaFiles::built_in();
    let mut swap: serde_json::Value = serde_json::from_slice(files.read("swap.json").unwrap()).unwrap();
    swap["$defs"]["create"]["additionalProperties"] = true.into();
    files.insert("swap.json", swap.to_string().into_bytes());
    files
}

fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::build(&files(), &[]).unwrap());
    &CATALOG
}

fn known() -> KnownNames<'static> {
    KnownNames { catalog: catalog(), issuers: &["main", "console"], can_share: true }
}

const WORDS: &str = r#"
[group.ops]
members = ["console:ops-1", "console:ops-2", "console:ops-3"]
[group.finance]
members = ["console:finance-1", "console:finance-2"]
[approval.one]
of = "ops"
n = 1
expires = "1h"
[approval.dual]
all = [{ of = "ops", n = 2 }, { of = "finance", n = 1 }]
expires = "8h"
"#;

fn read_set(text: &str) -> Result<Policies, Vec<Finding>> {
    let files = [("set.toml".to_owned(), text.to_owned()), ("words.toml".to_owned(), WORDS.to_owned())];
    read_policies(&files, &known()).map(|reading| reading.policies)
}

fn set(text: &str) -> Policies {
    match read_set(text) {
        Ok(policies) => policies,
        Err(findings) => panic!("{text}\n{}", findings_text(&findings)),
    }
}

/// Reads a set without proving its invariants.
fn unread(text: &str) -> Policies {
    let files = [("set.toml".to_owned(), text.to_owned()), ("words.toml".to_owned(), WORDS.to_owned())];
    crate::policy::read_unproved(&files, &known()).unwrap().policies
}

fn findings_text(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn rule(id: &str, effect: &str, when: &str) -> String {
    let approval = if effect == "hold" { "approval = \"one\"\n" } else { "" };
    format!("[[rule]]\nid = \"{id}\"\neffect = \"{effect}\"\n{approval}when = {{ {when} }}\n")
}
