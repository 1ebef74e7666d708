//! People of the console, and what their roles permit.

use crate::base::word_enum::word_enum;
use crate::people::session::Session;
use crate::stations::admit::Caller;
use crate::stations::claim::Owner;
use crate::stations::hold::Owners;

word_enum! {
    /// A role in a token of the console's issuer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Role {
        Viewer = "viewer",
        Approver = "approver",
        PolicyAdmin = "policy-admin",
        Operator = "operator",
    }
}

/// Returns the roles of the console, as tokens name them.
pub fn role_names() -> impl Iterator<Item = &'static str> {
    Role::ALL.into_iter().map(Role::as_str)
}

/// The role that an act needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing, not even a token.
    Nothing,
    /// Any role at all.
    AnyRole,
    Role(Role),
}

impl Needs {
    /// Returns the message for a person who lacks it.
    pub fn refusal_text(self) -> String {
        match self {
            Needs::Nothing | Needs::AnyRole => {
                let roles: Vec<String> = Role::ALL.iter().map(|role| format!("`{}`", role.as_str())).collect();
                format!("your token has none of the roles {}", roles.join(", "))
            }
            Needs::Role(role) => format!("this needs the role `{}`, which your token does not have", role.as_str()),
        }
    }
}

/// A person whose token or session is valid.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub who: Owner,
    roles: Vec<Role>,
}

impl Person {
    pub fn of(caller: &Caller) -> Person {
        let claimed = caller.roles();
        let roles = Role::ALL.into_iter().filter(|role| claimed.contains(role.as_str())).collect();
        Person { who: Owner::of(caller), roles }
    }

    /// Whether subjects are opaque is what the configuration says today.
    pub fn in_session(session: &Session, owners: &Owners) -> Person {
        let roles = Role::ALL.into_iter().filter(|role| session.roles.contains(role.as_str())).collect();
        Person { who: owners.as_today(&session.who), roles }
    }

    pub fn roles(&self) -> impl Iterator<Item = &'static str> {
        self.roles.iter().map(|role| role.as_str())
    }

    /// Returns the anonymous person of acts that need no token.
    pub fn nobody() -> Person {
        Person { who: Owner::named("", ""), roles: Vec::new() }
    }

    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    pub fn may(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::AnyRole => !self.roles.is_empty(),
            Needs::Role(role) => self.has(role),
        }
    }
}
