//! The full names of settings.

/// The section of a setting, and the section's name if there can be several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::config) struct Heading {
    pub section: &'static str,
    /// Empty if the section exists once.
    pub name: String,
}

impl Heading {
    /// Returns the full name of a setting: `timeouts.body_ms`, `issuer.main.audience`.
    pub fn path(&self, setting: &str) -> String {
        let steps = [self.section, &self.name, setting];
        steps.into_iter().filter(|step| !step.is_empty()).collect::<Vec<_>>().join(".")
    }

    /// Returns the environment variable of a setting: `SLUICE_TIMEOUTS_BODY_MS`. `None` in sections with free names:
    /// `issuer.a-b` and `issuer.a` would share one.
    pub fn variable(&self, setting: &str) -> Option<String> {
        let name = || format!("SLUICE_{}", self.path(setting).replace('.', "_").to_uppercase());
        self.name.is_empty().then(name)
    }
}
