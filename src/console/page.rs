//! The paging parameters of a list, parsed in the same way for every list.

use super::render;
use super::request::environment as served;
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::{BodyPlace, Violation};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;

/// The page of a list that a query names. `S` selects what is listed, `A` is a position in the list.
#[derive(Debug)]
pub(super) struct PageParameters<S, A> {
    pub environments: Vec<Environment>,
    pub state: S,
    pub limit: usize,
    /// The last item of the previous page.
    pub after: Option<(Environment, A)>,
}

impl<S: Copy, A> PageParameters<S, A> {
    /// Parses a query. `states` are the permitted states by their words, and `state` is the default. `ended` parses
    /// the position after its environment; `further` handles parameters that only one list has, and returns whether
    /// it knows them.
    pub(super) fn of(
        inside: &ConsoleState,
        query: &[(String, String)],
        states: &[(&str, S)],
        mut state: S,
        ended: impl Fn(&str) -> Option<A>,
        mut further: impl FnMut(&str, &str) -> Result<bool, Violation>,
    ) -> Result<PageParameters<S, A>, Violation> {
        let (mut environments, mut limit, mut after) = (inside.environments.clone(), DEFAULT_LIMIT, None);
        for (name, value) in query {
            let wrong = |keyword, expected: &str| Violation::new(name, keyword, expected).inside(BodyPlace::Query);
            match name.as_str() {
                "environment" => {
                    let environment = served(inside, value);
                    environments =
                        vec![environment.ok_or_else(|| wrong("enum", "an environment that this gate serves"))?];
                }
                "state" if !states.is_empty() => {
                    let known = states.iter().find(|(word, _)| word == value).map(|(_, known)| *known);
                    let words: Vec<String> = states.iter().map(|(word, _)| format!("`{word}`")).collect();
                    state = known.ok_or_else(|| wrong("enum", &words.join(" or ")))?;
                }
                "limit" => {
                    let number = value.parse().ok().filter(|number| (1..=MAX_LIMIT).contains(number));
                    limit = number.ok_or_else(|| wrong("maximum", "a number from 1 to 100"))?;
                }
                "after" => {
                    let read = value.split_once(':').and_then(|(at, rest)| Some((served(inside, at)?, ended(rest)?)));
                    after = Some(read.ok_or_else(|| wrong("pattern", "`next` of the previous page"))?);
                }
                other => {
                    if !further(other, value)? {
                        return Err(render::unknown_parameter(other));
                    }
                }
            }
        }
        Ok(PageParameters { environments, state, limit, after })
    }
}
