//! Policies: what people write, and what a wrong text can do to a start.

use std::sync::LazyLock;

use sluice::catalog::{Catalog, SchemaFiles};
use sluice::policy::{KnownNames, read_policies};

use super::text;

static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::build(&SchemaFiles::built_in(), &[]).expect("the contract"));

/// Each set is read, or refused with places; and one set has one version.
pub fn policies(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let known = KnownNames { catalog: &CATALOG, issuers: &["main", "people"], can_share: true };
    let read = || read_policies(&[("x.toml".to_owned(), text.to_owned())], &known);
    match (read(), read()) {
        (Ok(one), Ok(other)) => assert_eq!(one.policies.version(), other.policies.version()),
        (Err(one), Err(other)) => {
            assert!(!one.is_empty(), "refused without a finding");
            assert_eq!(one.len(), other.len());
        }
        _ => panic!("one text is accepted and refused"),
    }
}
