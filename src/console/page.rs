//! Which page of a list is asked for: one reading of the query for every list.

use super::asked::environment as served;
use super::told;
use crate::base::ids::Environment;
use crate::catalog::{Place, Violation};
use crate::gateway::Inside;

const USUAL: usize = 50;
const LONGEST: usize = 100;

/// `S` is what is listed, `A` where the page before ended.
#[derive(Debug)]
pub(super) struct Page<S, A> {
    pub environments: Vec<Environment>,
    pub state: S,
    pub limit: usize,
    /// Of the page before, the last.
    pub after: Option<(Environment, A)>,
}

impl<S: Copy, A> Page<S, A> {
    /// `states` are those that may be asked for, by their words, and `state` is meant if none is. `ended` reads where the
    /// page before ended, behind its environment; `further` takes the parameters of one list alone, if it knows them.
    pub(super) fn of(
        inside: &Inside,
        query: &[(String, String)],
        states: &[(&str, S)],
        mut state: S,
        ended: impl Fn(&str) -> Option<A>,
        mut further: impl FnMut(&str, &str) -> Result<bool, Violation>,
    ) -> Result<Page<S, A>, Violation> {
        let (mut environments, mut limit, mut after) = (inside.environments.clone(), USUAL, None);
        for (name, value) in query {
            let wrong = |keyword, expected: &str| Violation::new(name, keyword, expected).inside(Place::Query);
            match name.as_str() {
                "environment" => {
                    let environment = served(inside, value);
                    environments =
                        vec![environment.ok_or_else(|| wrong("enum", "an environment that is served here"))?];
                }
                "state" => {
                    let known = states.iter().find(|(word, _)| word == value).map(|(_, known)| *known);
                    let words: Vec<String> = states.iter().map(|(word, _)| format!("`{word}`")).collect();
                    state = known.ok_or_else(|| wrong("enum", &words.join(" or ")))?;
                }
                "limit" => {
                    let number = value.parse().ok().filter(|number| (1..=LONGEST).contains(number));
                    limit = number.ok_or_else(|| wrong("maximum", "a number from 1 to 100"))?;
                }
                "after" => {
                    let read = value.split_once(':').and_then(|(at, rest)| Some((served(inside, at)?, ended(rest)?)));
                    after = Some(read.ok_or_else(|| wrong("pattern", "`next` of the page before"))?);
                }
                other => {
                    if !further(other, value)? {
                        return Err(told::unknown_parameter(other));
                    }
                }
            }
        }
        Ok(Page { environments, state, limit, after })
    }
}
