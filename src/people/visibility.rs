//! Whose calls a person sees at the console: each role sees all calls, or only those that the configuration names for it.

use crate::base::ids::Environment;

/// The roles at the console that can be limited.
pub const ROLES: [&str; 4] = ["viewer", "approver", "policy-admin", "operator"];

/// What each role sees. A role that is not named sees everything; a person sees what any of their roles sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visibility(Vec<VisibleCalls>);

/// The calls of one environment, or of one caller there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct VisibleCalls {
    role: String,
    environment: Environment,
    /// Issuer and subject.
    caller: Option<(String, String)>,
}

impl Visibility {
    /// Parses `ROLE:ENVIRONMENT` and `ROLE:ENVIRONMENT:ISSUER:SUBJECT`; `None` where a text has another form.
    pub fn parse(texts: &[String]) -> Option<Visibility> {
        texts.iter().map(|text| VisibleCalls::parse(text)).collect::<Option<_>>().map(Visibility)
    }

    /// The issuers that it names.
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|calls| calls.caller.as_ref()).map(|(issuer, _)| issuer.as_str())
    }

    /// Whether a person with these roles sees a call. `caller`: its issuer and subject; an event without a caller is
    /// seen by those who see anything of its environment.
    pub fn shows(&self, roles: &[&str], environment: Environment, caller: Option<(&str, &str)>) -> bool {
        roles.iter().any(|role| {
            let mut of_role = self.0.iter().filter(|calls| calls.role == *role).peekable();
            of_role.peek().is_none() || of_role.any(|calls| calls.include(environment, caller))
        })
    }

    /// Whether a person with these roles sees all calls of an environment, so also what is said of them together.
    pub fn shows_all(&self, roles: &[&str], environment: Environment) -> bool {
        roles.iter().any(|role| {
            let mut of_role = self.0.iter().filter(|calls| calls.role == *role).peekable();
            let is_all = |calls: &VisibleCalls| calls.environment == environment && calls.caller.is_none();
            of_role.peek().is_none() || of_role.any(is_all)
        })
    }
}

impl VisibleCalls {
    fn parse(text: &str) -> Option<VisibleCalls> {
        let mut parts = text.splitn(4, ':');
        let role = parts.next().filter(|role| ROLES.contains(role))?.to_owned();
        let environment = Environment::parse(parts.next()?)?;
        let caller = match (parts.next(), parts.next()) {
            (None, _) => None,
            (Some(issuer), Some(subject)) if !issuer.is_empty() && !subject.is_empty() => {
                Some((issuer.to_owned(), subject.to_owned()))
            }
            _ => return None,
        };
        Some(VisibleCalls { role, environment, caller })
    }

    fn include(&self, environment: Environment, caller: Option<(&str, &str)>) -> bool {
        let own = self.caller.as_ref().map(|(issuer, subject)| (issuer.as_str(), subject.as_str()));
        self.environment == environment && own.zip(caller).is_none_or(|(own, caller)| own == caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visibility(texts: &[&str]) -> Option<Visibility> {
        Visibility::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_role_sees_what_is_named_for_it_and_an_unnamed_role_sees_all() {
        let known = visibility(&["viewer:sandbox", "viewer:production:main:pay", "approver:production"]).unwrap();
        let pay = Some(("main", "pay"));
        let cases = [
            (&["viewer"][..], Environment::Sandbox, Some(("main", "other")), true),
            (&["viewer"], Environment::Production, pay, true),
            (&["viewer"], Environment::Production, Some(("other", "pay")), false),
            (&["viewer"], Environment::Production, Some(("main", "other")), false),
            (&["viewer"], Environment::Production, None, true),
            (&["approver"], Environment::Sandbox, pay, false),
            (&["approver", "viewer"], Environment::Sandbox, pay, true),
            (&["operator"], Environment::Sandbox, Some(("x", "y")), true),
            (&[], Environment::Sandbox, pay, false),
        ];
        for (roles, environment, caller, is_shown) in cases {
            assert_eq!(known.shows(roles, environment, caller), is_shown, "{roles:?} {environment} {caller:?}");
        }
        assert!(Visibility::default().shows(&["viewer"], Environment::Production, pay));
        assert!(
            known.shows_all(&["viewer"], Environment::Sandbox) && known.shows_all(&["operator"], Environment::Sandbox)
        );
        assert!(!known.shows_all(&["viewer"], Environment::Production) && !known.shows_all(&[], Environment::Sandbox));
    }

    #[test]
    fn another_form_names_nobody() {
        for odd in [
            "",
            "viewer",
            "boss:sandbox",
            "viewer:test",
            "viewer:sandbox:main",
            "viewer:sandbox::pay",
            "viewer:sandbox:main:",
        ] {
            assert_eq!(visibility(&[odd]), None, "{odd}");
        }
        assert_eq!(visibility(&["viewer:sandbox:main:a:b"]).unwrap().issuers().collect::<Vec<_>>(), ["main"]);
    }
}
