//! One form of a person's name, so that another spelling of it does not make a second person.

use icu_normalizer::DecomposingNormalizerBorrowed;

use super::visible::is_invisible;

/// Returns the form in which names of people are compared: Unicode's compatible form (NFKD) with the case folded in full,
/// without characters that nobody sees, and without space around it.
///
/// ```
/// use sluice::base::folded::folded;
///
/// assert_eq!(folded("STRASSE"), folded("stra\u{df}e"));
/// ```
pub fn folded(name: &str) -> String {
    let form = DecomposingNormalizerBorrowed::new_nfkd();
    let compatible = form.normalize(name);
    let seen: String = compatible.chars().filter(|c| !is_invisible(*c)).map(with_one_dash).collect();
    // Some letters have a compatible form only in the other case.
    let once = form.normalize(&in_one_case(&seen)).into_owned();
    form.normalize(in_one_case(&once).trim()).into_owned()
}

/// Hyphens and dashes look the same in a name.
const fn with_one_dash(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        other => other,
    }
}

/// Folds the case of each letter, whatever is beside it: by way of the upper case, which letters share whose lower cases
/// differ.
fn in_one_case(text: &str) -> String {
    let upper = text.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_that_look_the_same_are_the_same() {
        for name in ["ops\u{2011}1", "ops\u{2010}1", "OPS\u{2212}1", "ops\u{ff0d}1"] {
            assert_eq!(folded(name), "ops-1");
        }
    }
}
