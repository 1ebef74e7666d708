//! `sluice policy mutate`: makes small changes to policies, and lists those that their tests do not catch.

use serde_json::{Value, json};

use super::{On, print_findings};
use crate::cli::progress::ProgressLine;
use crate::cli::{ExitReason, print};
use crate::policy::{Mutant, MutantFate, Policies};

pub(super) fn run(on: &On) -> anyhow::Result<ExitReason> {
    let (names, reading) = match on.read(None) {
        Ok(read) => read,
        Err(findings) => return print_findings(on, &findings),
    };
    let policies = reading.policies;
    let is_passed =
        |trial: &crate::policy::Trial| trial.run(&policies.rules, &names.catalog).is_some_and(|tried| tried.is_passed);
    anyhow::ensure!(policies.trials.iter().all(is_passed), "a test fails without any change: see `sluice policy test`");
    let fates = names.with(|known| {
        let mutants = policies.mutants();
        let mut progress = ProgressLine::up_to(mutants.len() as u64, "mutants", 10);
        let fate = |(at, mutant): (usize, Mutant)| {
            progress.show(at as u64);
            let fate = mutant.fate(&policies, known);
            (mutant, fate)
        };
        let fates: Vec<(Mutant, MutantFate)> = mutants.into_iter().enumerate().map(fate).collect();
        progress.end();
        fates
    });
    let output = on.setting.output;
    print(&output.text(|| in_words(on, &fates), || as_json(on, &fates, &policies), Some("mutants")))?;
    let is_missed = |(_, fate): &(Mutant, MutantFate)| matches!(fate, MutantFate::Missed(_));
    Ok(if fates.iter().any(is_missed) { ExitReason::Faulty } else { ExitReason::Done })
}

fn place(on: &On, mutant: &Mutant) -> String {
    let (line, column) = mutant.place;
    format!("{}:{line}:{column}", on.folder.join(&mutant.file).display())
}

fn in_words(on: &On, fates: &[(Mutant, MutantFate)]) -> String {
    let mut text = String::new();
    for (mutant, fate) in fates {
        let line = |what: &str| format!("{what}: {}: {}\n", place(on, mutant), mutant.what);
        match fate {
            MutantFate::Noticed => {}
            MutantFate::Equivalent => text.push_str(&line("equivalent")),
            MutantFate::BeyondTests => text.push_str(&line("not testable")),
            MutantFate::Missed(example) => {
                text.push_str(&line("not caught"));
                if let Some(example) = example {
                    text.push_str(&format!("  a test that catches it: given = {{ {example} }}\n"));
                }
            }
        }
    }
    let count = |is_it: fn(&MutantFate) -> bool| fates.iter().filter(|(_, fate)| is_it(fate)).count();
    format!(
        "{text}{} caught, {} not caught, {} proved equivalent, {} not testable (they change only how windows fill, or who approves a destination)\n",
        count(|fate| *fate == MutantFate::Noticed),
        count(|fate| matches!(fate, MutantFate::Missed(_))),
        count(|fate| *fate == MutantFate::Equivalent),
        count(|fate| *fate == MutantFate::BeyondTests),
    )
}

fn as_json(on: &On, fates: &[(Mutant, MutantFate)], policies: &Policies) -> Value {
    let mutant = |(mutant, fate): &(Mutant, MutantFate)| {
        let (fate, example) = match fate {
            MutantFate::Noticed => ("noticed", None),
            MutantFate::Equivalent => ("equivalent", None),
            MutantFate::BeyondTests => ("beyondTests", None),
            MutantFate::Missed(example) => ("notNoticed", example.as_ref().map(ToString::to_string)),
        };
        json!({"place": place(on, mutant), "what": mutant.what, "fate": fate, "example": example})
    };
    json!({"tests": policies.trials.len(), "mutants": fates.iter().map(mutant).collect::<Vec<_>>()})
}
