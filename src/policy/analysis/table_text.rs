//! Formats the table of a set, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::find::usd;
use super::table::{PassMost, PassOperation, PassRow, PassTable};
use crate::base::money::MAX_MICRO_USD;

/// The widest column of words; longer words get a line of their own.
const MAX_WIDTH: usize = 48;

impl PassMost {
    /// Formats the figure; `has_amount` tells an unbounded amount from a call without one.
    fn in_words(self, has_amount: bool) -> String {
        let most = match self.most {
            None => "-".to_owned(),
            Some(_) if !has_amount => "passes".to_owned(),
            Some(most) if most >= u128::from(MAX_MICRO_USD) => "any amount".to_owned(),
            Some(most) => usd(most),
        };
        match (self.is_exact, self.most) {
            (true, _) => most,
            (false, None) => "not known".to_owned(),
            (false, Some(_)) => format!("at least {most}"),
        }
    }
}

impl PassTable {
    fn heads(&self) -> Vec<String> {
        let head = |people: &u64| match people {
            0 => "nobody".to_owned(),
            1 => "1 person".to_owned(),
            more => format!("{more} people"),
        };
        self.people.iter().map(head).collect()
    }

    pub fn as_json(&self) -> Value {
        let most = |most: &PassMost, has_amount: bool, people: &u64| {
            let bounded = most.most.filter(|most| *most < u128::from(MAX_MICRO_USD));
            json!({
                "people": people,
                "passes": most.most.is_some(),
                "microUsd": bounded.and_then(|most| u64::try_from(most).ok()),
                "exact": most.is_exact,
                "words": most.in_words(has_amount),
            })
        };
        let row = |row: &PassRow, has_amount: bool| {
            let all = row.most.iter().zip(&self.people).map(|(one, people)| most(one, has_amount, people));
            json!({
                "environment": row.environment,
                "caller": row.caller,
                "destination": row.destination,
                "most": all.collect::<Vec<_>>(),
            })
        };
        let operation = |one: &PassOperation| {
            let limits = one.limits.iter().map(|(id, words)| json!({"id": id, "words": words}));
            json!({
                "operation": one.operation,
                "rows": one.rows.iter().map(|each| row(each, one.has_amount)).collect::<Vec<_>>(),
                "limits": limits.collect::<Vec<_>>(),
            })
        };
        json!({
            "people": self.people,
            "operations": self.operations.iter().map(operation).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for PassTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.operations {
            writeln!(f, "{}", one.operation)?;
            let heads = self.heads();
            let mut lines = vec![[vec!["caller".to_owned(), "destination".to_owned()], heads].concat()];
            for row in &one.rows {
                let caller = match &row.environment {
                    Some(environment) => format!("{environment}, {}", row.caller),
                    None => row.caller.clone(),
                };
                let figures = row.most.iter().map(|most| most.in_words(one.has_amount));
                lines.push([caller, row.destination.clone()].into_iter().chain(figures).collect());
            }
            for line in columns(&lines) {
                writeln!(f, "  {line}")?;
            }
            if one.rows.is_empty() {
                writeln!(f, "  too many classes of callers to list")?;
            }
            for (id, words) in &one.limits {
                writeln!(f, "  limit `{id}`: {words}")?;
            }
        }
        let is_exact = |row: &PassRow| row.most.iter().all(|most| most.is_exact);
        if self.operations.iter().flat_map(|one| &one.rows).all(is_exact) {
            writeln!(f, "every figure is exact: proved")
        } else {
            writeln!(f, "figures with `at least` and `not known` are not proved: the search was not complete")
        }
    }
}

/// Pads every column to its widest text.
fn columns(lines: &[Vec<String>]) -> Vec<String> {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let texts = lines.iter().filter_map(|line| line.get(column));
        texts.map(|text| text.chars().count()).filter(|width| *width <= MAX_WIDTH).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let padded = |line: &Vec<String>| {
        let texts = line.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}"));
        texts.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(padded).collect()
}
