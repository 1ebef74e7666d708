//! Who stands at the desk, and what their roles let them do.

use crate::stations::admit::Caller;
use crate::stations::claim::Owner;
use crate::stations::session::Session;

/// What a token of the console's issuer may say of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Viewer,
    Approver,
    PolicyAdmin,
    Operator,
}

impl Role {
    const ALL: [Role; 4] = [Role::Viewer, Role::Approver, Role::PolicyAdmin, Role::Operator];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Approver => "approver",
            Role::PolicyAdmin => "policy-admin",
            Role::Operator => "operator",
        }
    }
}

/// What an act asks of whoever does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Not even a token.
    Nothing,
    /// Any role at all.
    AnyRole,
    Role(Role),
}

impl Needs {
    /// What is told to who lacks it.
    pub fn told(self) -> String {
        match self {
            Needs::Nothing | Needs::AnyRole => {
                let roles: Vec<String> = Role::ALL.iter().map(|role| format!("`{}`", role.as_str())).collect();
                format!("your token says none of the roles {}", roles.join(", "))
            }
            Needs::Role(role) => format!("this takes the role `{}`, which your token does not say", role.as_str()),
        }
    }
}

/// A person whose token was believed.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub who: Owner,
    roles: Vec<Role>,
}

impl Person {
    pub fn of(caller: &Caller) -> Person {
        let said = caller.roles();
        let roles = Role::ALL.into_iter().filter(|role| said.contains(role.as_str())).collect();
        Person { who: Owner::of(caller), roles }
    }

    pub fn in_session(session: &Session) -> Person {
        let roles = Role::ALL.into_iter().filter(|role| session.roles.contains(role.as_str())).collect();
        Person { who: session.who.clone(), roles }
    }

    pub fn roles(&self) -> impl Iterator<Item = &'static str> {
        self.roles.iter().map(|role| role.as_str())
    }

    /// Whoever asks for what needs no token.
    pub fn nobody() -> Person {
        Person { who: Owner { issuer: String::new(), subject: String::new() }, roles: Vec::new() }
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
