//! Faults of settings, and their places.

use crate::base::finding::Finding;

/// The place where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SettingPlace {
    /// The default: nobody wrote it.
    Default,
    File {
        line: usize,
        column: usize,
    },
    /// In this environment variable.
    Variable(String),
}

impl SettingPlace {
    pub fn locate(&self, file: &str, finding: Finding) -> Finding {
        match self {
            SettingPlace::Default => Finding { file: file.to_owned(), ..finding },
            SettingPlace::File { line, column } => {
                Finding { file: file.to_owned(), ..finding }.at(format!("{line}:{column}"))
            }
            SettingPlace::Variable(name) => Finding { file: "environment".to_owned(), ..finding }.at(name.clone()),
        }
    }
}

/// A fault of one setting.
#[derive(Debug)]
pub(super) struct SettingFault {
    pub text: String,
    pub remedy: Option<String>,
    /// The place of the fault, if it is not that of the value.
    pub place: Option<SettingPlace>,
}

impl SettingFault {
    pub fn new(text: impl Into<String>) -> SettingFault {
        SettingFault { text: text.into(), remedy: None, place: None }
    }

    pub fn remedy(self, remedy: impl Into<String>) -> SettingFault {
        SettingFault { remedy: Some(remedy.into()), ..self }
    }

    pub fn at(self, place: &SettingPlace) -> SettingFault {
        SettingFault { place: Some(place.clone()), ..self }
    }

    pub fn error(self, file: &str, value_place: &SettingPlace) -> Finding {
        let finding = Finding { remedy: self.remedy, ..Finding::error(file, self.text) };
        self.place.as_ref().unwrap_or(value_place).locate(file, finding)
    }
}
