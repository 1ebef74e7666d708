//! What settings are called in full.

/// What settings stand under: a section, and its name where there are several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::config) struct Heading {
    pub section: &'static str,
    /// Empty where the section is there once.
    pub name: String,
}

impl Heading {
    /// How a setting is called in full: `timeouts.body_ms`, `issuer.main.audience`.
    pub fn path(&self, setting: &str) -> String {
        let steps = [self.section, &self.name, setting];
        steps.into_iter().filter(|step| !step.is_empty()).collect::<Vec<_>>().join(".")
    }

    /// The environment variable that stands for a setting: `SLUICE_TIMEOUTS_BODY_MS`. None where names are free:
    /// `issuer.a-b` and `issuer.a` would meet in it.
    pub fn variable(&self, setting: &str) -> Option<String> {
        let name = || format!("SLUICE_{}", self.path(setting).replace('.', "_").to_uppercase());
        self.name.is_empty().then(name)
    }
}
