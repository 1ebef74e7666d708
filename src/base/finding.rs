//! Findings of checks: of configuration, schemas and policies.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The gate cannot run like this.
    Error,
    /// The gate can run like this, but others could read or change what they must not. A warning, unless the check is for
    /// production.
    Insecure,
    /// The gate can run like this, but hardly as intended.
    Warning,
}

/// What to do about a text that is no TOML.
pub const TOML_REMEDY: &str =
    "write a section as `[name]`, a setting as `name = value`, and a text in quotes; https://toml.io has the syntax";

/// One finding: the place, the fault and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub file: String,
    /// A line of the file, a JSON pointer in it, or `None` for the whole file.
    pub place: Option<String>,
    pub text: String,
    pub remedy: Option<String>,
    /// A request that shows the fault, in the form of `[[test]]`.
    pub example: Option<Box<str>>,
}

impl Finding {
    pub fn error(file: &str, text: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Error,
            file: file.to_owned(),
            place: None,
            text: text.into(),
            remedy: None,
            example: None,
        }
    }

    pub fn warning(file: &str, text: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(file, text) }
    }

    pub fn insecure(file: &str, text: impl Into<String>) -> Finding {
        Finding { severity: Severity::Insecure, ..Finding::error(file, text) }
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub fn at(self, place: impl Into<String>) -> Finding {
        Finding { place: Some(place.into()), ..self }
    }

    pub fn example(self, example: impl Into<String>) -> Finding {
        Finding { example: Some(example.into().into()), ..self }
    }

    pub fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Insecure | Severity::Warning => "warning",
        };
        match &self.place {
            Some(place) => write!(f, "{severity}: {}:{place}: {}", self.file, self.text)?,
            None => write!(f, "{severity}: {}: {}", self.file, self.text)?,
        }
        if let Some(example) = &self.example {
            write!(f, "\n  example: {example}")?;
        }
        match &self.remedy {
            Some(remedy) => write!(f, "\n  remedy: {remedy}"),
            None => Ok(()),
        }
    }
}

/// Returns the nearest known name, if one is near enough to have been meant.
pub fn nearest<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let near = known.into_iter().map(|name| (strsim::damerau_levenshtein(written, name), name)).min();
    near.filter(|(distance, name)| *distance <= name.len().div_ceil(3).max(1)).map(|(_, name)| name)
}

/// Returns some known names, the nearest first, whatever the case of their letters.
pub fn nearest_few<'n>(written: &str, known: impl IntoIterator<Item = &'n str>, count: usize) -> Vec<&'n str> {
    let written = written.to_lowercase();
    let far = |name: &&str| strsim::damerau_levenshtein(&written, &name.to_lowercase());
    let mut names: Vec<&str> = known.into_iter().collect();
    names.sort_by_cached_key(|name| (far(name), name.to_owned()));
    names.truncate(count);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["listen", "upstream", "body_limit_bytes"];
        assert_eq!(nearest("lisetn", known), Some("listen"));
        assert_eq!(nearest("limit", known), None);
        assert_eq!(nearest("body_limit_byte", known), Some("body_limit_bytes"));
        assert_eq!(nearest("quux", known), None);
        assert_eq!(nearest_few("UPSTREAN", known, 2), ["upstream", "listen"]);
    }
}
