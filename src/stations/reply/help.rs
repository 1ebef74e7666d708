//! Help on error codes, at `/sluice/v1/errors/CODE`: the rows of the page on responses that name the code.
//!
//! The page is the one place of this text. Errors link to the help: in the header `Link`, and in `details.docs`.

use http::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::{Code, Reply, ok_json};

/// The path of all help; the code follows.
pub const HELP: &str = "/sluice/v1/errors/";
const PAGE: &str = include_str!("../../../deploy/docs/responses.md");

impl Code {
    /// Returns the path of the help on this code, at every listener that answers with it.
    pub(super) fn help_path(self) -> String {
        format!("{HELP}{}", self.as_str())
    }

    pub(super) fn help_link(self) -> Option<HeaderValue> {
        HeaderValue::from_str(&format!("<{}>; rel=\"help\"", self.help_path())).ok()
    }
}

/// Returns the help on a code; `None` if there is no such code.
pub fn help(code: &str) -> Option<Reply> {
    let code = Code::parse(code)?;
    Some(ok_json(200, &json!({ "code": code.as_str(), "answers": answers(code) })))
}

/// Returns the rows of the page that name a code in their first cell, with the heading above them.
fn answers(code: Code) -> Vec<Value> {
    let name = format!("`{}`", code.as_str());
    let (mut heading, mut names, mut found) = ("", Vec::new(), Vec::new());
    for line in PAGE.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            (heading, names) = (text, Vec::new());
        }
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) else { continue };
        let cells: Vec<&str> = row.split(" | ").collect();
        if names.is_empty() {
            names = cells.into_iter().map(member).collect();
        } else if cells.first().is_some_and(|cell| cell.contains(&name)) {
            let told = names.iter().zip(cells).filter(|(_, cell)| *cell != "–");
            let told = told.map(|(name, cell)| ((*name).to_owned(), Value::from(without_markup(cell))));
            let about = ("about".to_owned(), Value::from(heading));
            found.push(Value::Object(told.chain([about]).collect::<Map<_, _>>()));
        }
    }
    found
}

/// Returns the name of a column.
fn member(head: &str) -> &'static str {
    match head {
        "status and code" => "answer",
        "`Sluice-Outcome`" => "outcome",
        "what to do" => "whatToDo",
        _ => "meaning",
    }
}

/// Returns a cell without its markup; a link leaves its text.
fn without_markup(cell: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(cell.len()), cell);
    while let Some((before, shown, after)) = first_link(rest) {
        text.push_str(before);
        text.push_str(shown);
        rest = after;
    }
    text.push_str(rest);
    text.replace("**", "").replace('`', "")
}

/// Returns the text before the first link, of it and after it.
fn first_link(text: &str) -> Option<(&str, &str, &str)> {
    let (before, link) = text.split_once('[')?;
    let (shown, target) = link.split_once("](")?;
    let (_, after) = target.split_once(')')?;
    Some((before, shown, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_help_that_says_what_it_means_and_what_to_do() {
        for code in Code::ALL {
            let answers = answers(code);
            assert!(!answers.is_empty(), "responses.md says nothing of {}", code.as_str());
            for answer in answers {
                let members = answer.as_object().unwrap();
                assert!(members["answer"].as_str().unwrap().contains(code.as_str()), "{answer}");
                assert!(members.contains_key("meaning"), "{answer}");
                let text = answer.to_string();
                assert!(!text.contains('`') && !text.contains("](") && !text.contains("**"), "{text}");
            }
        }
        assert!(help("NO_SUCH_CODE").is_none() && help("").is_none());
    }

    #[test]
    fn help_is_the_row_of_the_page() {
        let found = answers(Code::LimitExceeded);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["about"], "Changes and money");
        assert_eq!(found[0]["answer"], "403 POLICY_DENIED, LIMIT_EXCEEDED");
        assert!(
            found[0]["outcome"]
                .as_str()
                .unwrap()
                .starts_with("not-executed, or unknown while the store is recovering or")
        );
        assert_eq!(found[0]["whatToDo"], "correct it, or wait until enough of the limit is left");
    }
}
