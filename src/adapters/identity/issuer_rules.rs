//! The rules of an issuer's tokens, from its configuration.

use std::time::Duration;

use crate::config::{HoldsMode, IssuerConfig, SubjectForm};
use crate::stations::admit::IssuerRules;

pub(super) fn rules_of(issuer: &IssuerConfig) -> IssuerRules {
    let secs = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    IssuerRules {
        name: issuer.name.as_str().into(),
        issuer: issuer.issuer.clone(),
        audiences: issuer.audiences.clone(),
        people_audiences: issuer.people_audiences.clone(),
        environments: issuer.environments.clone(),
        algorithms: issuer.algorithms.clone(),
        leeway_secs: secs(issuer.leeway),
        longest_lifetime_secs: secs(issuer.longest_lifetime),
        required: issuer.required.clone(),
        roles: issuer.roles.clone(),
        requester: issuer.requester.clone(),
        refuses_holds: issuer.holds == HoldsMode::Refuse,
        opaque: issuer.subjects == SubjectForm::Opaque,
    }
}
