//! `sluice policy mutate`: small changes to a set that its own tests do not notice.

use std::io::{IsTerminal as _, Write as _, stderr};

use serde_json::{Value, json};

use super::{On, told};
use crate::cli::check::Output;
use crate::cli::{Ending, print};
use crate::policy::{Fate, Mutant, Policies};

pub(super) fn run(on: &On) -> anyhow::Result<Ending> {
    let (names, reading) = match on.read(None) {
        Ok(read) => read,
        Err(findings) => return told(on, &findings),
    };
    let policies = reading.policies;
    let is_passed =
        |trial: &crate::policy::Trial| trial.run(&policies.rules, &names.catalog).is_some_and(|tried| tried.is_passed);
    anyhow::ensure!(policies.trials.iter().all(is_passed), "a test fails as it is: see `sluice policy test`");
    let fates = names.with(|known| {
        let mutants = policies.mutants();
        let count = mutants.len();
        let fate = |(at, mutant): (usize, Mutant)| {
            progress(at, count);
            let fate = mutant.fate(&policies, known);
            (mutant, fate)
        };
        let fates: Vec<(Mutant, Fate)> = mutants.into_iter().enumerate().map(fate).collect();
        progress(count, count);
        fates
    });
    print(&match on.setting.output {
        Output::Lines => in_words(on, &fates),
        Output::Json => format!("{}\n", as_json(on, &fates, &policies)),
    })?;
    let is_missed = |(_, fate): &(Mutant, Fate)| matches!(fate, Fate::Missed(_));
    Ok(if fates.iter().any(is_missed) { Ending::Faulty } else { Ending::Done })
}

/// One line that is written over, where a person looks on.
fn progress(done: usize, count: usize) {
    let mut stderr = stderr();
    if stderr.is_terminal() && (done.is_multiple_of(10) || done == count) {
        let end = if done == count { "\n" } else { "" };
        // Who cannot be told how far it is can do without.
        write!(stderr, "\r{done} of {count} mutants{end}").ok();
    }
}

fn place(on: &On, mutant: &Mutant) -> String {
    let (line, column) = mutant.place;
    format!("{}:{line}:{column}", on.folder.join(&mutant.file).display())
}

fn in_words(on: &On, fates: &[(Mutant, Fate)]) -> String {
    let mut text = String::new();
    for (mutant, fate) in fates {
        let line = |what: &str| format!("{what}: {}: {}\n", place(on, mutant), mutant.what);
        match fate {
            Fate::Noticed => {}
            Fate::Equivalent => text.push_str(&line("equivalent")),
            Fate::InWindows => text.push_str(&line("beyond tests")),
            Fate::Missed(example) => {
                text.push_str(&line("not noticed"));
                if let Some(example) = example {
                    text.push_str(&format!("  a test that would: given = {{ {example} }}\n"));
                }
            }
        }
    }
    let count = |is_it: fn(&Fate) -> bool| fates.iter().filter(|(_, fate)| is_it(fate)).count();
    format!(
        "{text}{} noticed, {} not noticed, {} proved equivalent, {} beyond tests (only how windows fill is otherwise)\n",
        count(|fate| *fate == Fate::Noticed),
        count(|fate| matches!(fate, Fate::Missed(_))),
        count(|fate| *fate == Fate::Equivalent),
        count(|fate| *fate == Fate::InWindows),
    )
}

fn as_json(on: &On, fates: &[(Mutant, Fate)], policies: &Policies) -> Value {
    let mutant = |(mutant, fate): &(Mutant, Fate)| {
        let (fate, example) = match fate {
            Fate::Noticed => ("noticed", None),
            Fate::Equivalent => ("equivalent", None),
            Fate::InWindows => ("beyondTests", None),
            Fate::Missed(example) => ("notNoticed", example.as_ref().map(ToString::to_string)),
        };
        json!({"place": place(on, mutant), "what": mutant.what, "fate": fate, "example": example})
    };
    json!({"tests": policies.trials.len(), "mutants": fates.iter().map(mutant).collect::<Vec<_>>()})
}
