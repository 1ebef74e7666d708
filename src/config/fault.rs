//! What is wrong with what was written, and where it stands.

use crate::base::finding::Finding;

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// By nobody: it is the default.
    Default,
    File {
        line: usize,
        column: usize,
    },
    /// In this environment variable.
    Variable(String),
}

impl Place {
    pub fn locate(&self, file: &str, finding: Finding) -> Finding {
        match self {
            Place::Default => Finding { file: file.to_owned(), ..finding },
            Place::File { line, column } => Finding { file: file.to_owned(), ..finding }.at(format!("{line}:{column}")),
            Place::Variable(name) => Finding { file: "environment".to_owned(), ..finding }.at(name.clone()),
        }
    }
}

/// What is wrong with one thing that was written.
#[derive(Debug)]
pub(super) struct Fault {
    pub text: String,
    pub remedy: Option<String>,
    /// Where it is not at the value's own place.
    pub place: Option<Place>,
}

impl Fault {
    pub fn new(text: impl Into<String>) -> Fault {
        Fault { text: text.into(), remedy: None, place: None }
    }

    pub fn remedy(self, remedy: impl Into<String>) -> Fault {
        Fault { remedy: Some(remedy.into()), ..self }
    }

    pub fn at(self, place: &Place) -> Fault {
        Fault { place: Some(place.clone()), ..self }
    }

    pub fn error(self, file: &str, value_place: &Place) -> Finding {
        let finding = Finding { remedy: self.remedy, ..Finding::error(file, self.text) };
        self.place.as_ref().unwrap_or(value_place).locate(file, finding)
    }
}
