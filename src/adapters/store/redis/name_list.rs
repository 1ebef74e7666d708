//! Names one behind the other in one text, each once.

use std::fmt::{self, Write as _};

/// Names, each with a place from 1 on.
#[derive(Debug, Default)]
pub(super) struct NameList {
    text: String,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl NameList {
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| self.text.get(begin..*end).unwrap_or_default())
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all names.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the place of a name, which is added if it is not there.
    pub fn place(&mut self, name: fmt::Arguments<'_>) -> usize {
        let before = self.text.len();
        // Writing to a text does not fail.
        self.text.write_fmt(name).unwrap_or_default();
        let name = self.text.get(before..).unwrap_or_default();
        let known = self.all().position(|known| known == name);
        match known {
            Some(at) => {
                self.text.truncate(before);
                at.saturating_add(1)
            }
            None => {
                self.ends.push(self.text.len());
                self.ends.len()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_there_once() {
        let mut names = NameList::default();
        let places = ["a", "bc", "a", "", "b", "bc", ""].map(|name| names.place(format_args!("{name}")));
        assert_eq!(places, [1, 2, 1, 3, 4, 2, 3]);
        assert_eq!(names.all().collect::<Vec<_>>(), ["a", "bc", "", "b"]);
        assert_eq!((names.count(), names.bytes()), (4, 4));
    }
}
