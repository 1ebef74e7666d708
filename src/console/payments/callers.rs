//! The callers whose calls are in the list of payments.

use std::collections::BTreeSet;

use super::{is_visible, read_book};
use crate::base::ids::Environment;
use crate::console::person::Person;
use crate::console::server::ConsoleServer;
use crate::ledger::StoreTime;

/// The callers of an environment that one person may see, as `issuer/subject`.
#[derive(Debug)]
pub(in crate::console) struct KnownCallers {
    pub names: BTreeSet<String>,
    /// The time since which they are known; `None` where the list has every payment.
    pub since: Option<StoreTime>,
}

/// Returns the callers that the list of payments has; `None` where it cannot be read now.
pub(in crate::console) async fn known_callers(
    server: &ConsoleServer,
    person: &Person,
    environment: Environment,
) -> Option<KnownCallers> {
    let roles: Vec<String> = person.roles().map(str::to_owned).collect();
    let found = read_book(server, &person.who, move |inside, read| {
        let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
        let groups = read.book.groups().map(|(group, _)| group).filter(|group| group.environment == environment);
        let seen = groups.filter(|group| is_visible(&inside.visibility, &roles, environment, &group.terms));
        let names = seen.map(|group| format!("{}/{}", group.terms.issuer, group.terms.subject)).collect();
        KnownCallers { names, since: read.since() }
    });
    found.await.ok()
}
