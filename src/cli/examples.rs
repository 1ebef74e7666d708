//! Examples of every command, as its `--help` and its man page show them.

use clap::{Command, CommandFactory as _};

use super::Cli;

/// The examples of each command, by its path.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("approvals list", &["sluice approvals list --mine", "sluice approvals list --state ended --output csv"]),
    ("approvals show", &["sluice approvals show 0f3c7a21d5e84b6f9a1c2d3e4f506172"]),
    (
        "approvals approve",
        &[
            "sluice approvals approve 0f3c7a21d5e84b6f9a1c2d3e4f506172 --comment 'invoice 4711'",
            "sluice approvals approve 0f3c7a21d5e84b6f9a1c2d3e4f506172 --yes",
        ],
    ),
    (
        "approvals sign",
        &[
            "sluice approvals sign 0f3c7a21d5e84b6f9a1c2d3e4f506172 --page https://sign.example.com",
            "sluice approvals sign 0f3c7a21d5e84b6f9a1c2d3e4f506172 7c5d2b9e8f1a4c03b6d7e8f901122334 --page http://localhost:8484",
        ],
    ),
    ("approvals signing-page", &["sluice approvals signing-page --folder /srv/sign.example.com"]),
    ("approvals reject", &["sluice approvals reject 0f3c7a21d5e84b6f9a1c2d3e4f506172 --reason 'unknown destination'"]),
    ("approvals withdraw", &["sluice approvals withdraw 0f3c7a21d5e84b6f9a1c2d3e4f506172"]),
    ("approvals watch", &["sluice approvals watch"]),
    (
        "approvals stand-in name",
        &["sluice approvals stand-in name bob --environment production --until 2026-07-14T18:00:00Z --reason holidays"],
    ),
    ("approvals stand-in list", &["sluice approvals stand-in list"]),
    ("approvals stand-in revoke", &["sluice approvals stand-in revoke bob --environment production --reason back"]),
    (
        "audit verify",
        &[
            "sluice audit verify sluice-audit",
            "sluice audit verify gate-1/audit gate-2/audit --checkpoints checkpoints.jsonl --public-key audit.pub",
            "sluice audit verify sluice-audit --people --root 4cf1f2…",
        ],
    ),
    (
        "audit show",
        &[
            "sluice audit show sluice-audit --request-id invoice-4711",
            "sluice audit show sluice-audit --by anna --day 2026-07-01",
        ],
    ),
    ("audit tail", &["sluice audit tail sluice-audit"]),
    (
        "audit export",
        &[
            "sluice audit export sluice-audit --day 2026-07-01 > entries.csv",
            "sluice audit export sluice-audit --output json --digest entries.digest > entries.jsonl",
        ],
    ),
    (
        "audit check-export",
        &[
            "sluice audit check-export entries.jsonl --digest entries.digest",
            "sluice audit check-export entries.jsonl --digest entries.digest --output json",
        ],
    ),
    ("audit key", &["sluice audit key audit.key"]),
    (
        "audit receipt",
        &["sluice audit receipt sluice-audit --request-id 1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed > receipt.json"],
    ),
    (
        "audit check-receipt",
        &["sluice audit check-receipt receipt.json --public-key gate.pem.pub --witness-key witness.key"],
    ),
    ("audit archive", &["sluice audit archive sluice-audit --to /backup/sluice-audit"]),
    ("config show", &["sluice config show", "sluice config show --written --output csv"]),
    ("config schema", &["sluice config schema > sluice.schema.json"]),
    (
        "conformance",
        &[
            "sluice conformance --environment sandbox --output json",
            "sluice conformance --environment sandbox --watch-secs 600 --request-id 5d0e5b1e-6a3c-4f60-8d8e-0d7b0a8a2f10",
        ],
    ),
    ("demo", &["sluice demo"]),
    ("doctor", &["sluice doctor", "sluice doctor --config gate-1/sluice.toml --output json"]),
    (
        "freeze",
        &[
            "sluice freeze --environment production --reason 'wrong amounts since 09:00'",
            "sluice freeze --environment production --caller main/payroll --reason 'lost key'",
        ],
    ),
    ("freezes", &["sluice freezes", "sluice freezes --output json"]),
    ("unfreeze", &["sluice unfreeze --environment production --reason 'the cause is found'"]),
    (
        "init",
        &[
            "sluice init",
            "sluice init --production-upstream https://api.example.com --sandbox-upstream https://sandbox.example.com --issuer \
             https://issuer.example.com --jwks-url https://issuer.example.com/keys",
            "sluice init --reference",
        ],
    ),
    ("metrics", &["sluice metrics"]),
    ("check", &["sluice check", "sluice check --production", "sluice check --output csv"]),
    ("openapi", &["sluice openapi"]),
    ("operations", &["sluice operations", "sluice operations --output csv"]),
    ("policy check", &["sluice policy check policies"]),
    ("policy table", &["sluice policy table policies"]),
    ("policy test", &["sluice policy test policies"]),
    ("policy diff", &["sluice policy diff policies policies-new --only-tighter"]),
    ("policy mutate", &["sluice policy mutate policies"]),
    ("policy replay", &["sluice policy replay policies-new sluice-audit"]),
    ("policy usage", &["sluice policy usage --limit daily"]),
    ("policy candidate", &["sluice policy candidate"]),
    ("policy agree", &["sluice policy agree 042dbcf84f11f9ed --reason 'the new limit of treasury'"]),
    ("policy fields", &["sluice policy fields"]),
    ("policy schema", &["sluice policy schema"]),
    ("policy explain", &["sluice policy explain policies --given 'op = \"createSwap\", amount = \"5 usdc\"'"]),
    ("passkeys list", &["sluice passkeys list policies"]),
    ("passkeys enrol", &["sluice passkeys enrol policies --table anna.toml --to policies-new"]),
    (
        "passkeys rotate",
        &["sluice passkeys rotate policies --person console:anna --name phone --table anna.toml --to policies-new"],
    ),
    ("passkeys revoke", &["sluice passkeys revoke policies --person console:anna --name phone --to policies-new"]),
    ("passkeys leave", &["sluice passkeys leave policies --person console:anna --to policies-new"]),
    (
        "payments list",
        &[
            "sluice payments list --status paid --from 2026-11-20 --until 2026-11-20",
            "sluice payments list --to payouts --sort value --output csv",
        ],
    ),
    ("payments show", &["sluice payments show invoice-4711 --environment production"]),
    ("payments foreign", &["sluice payments foreign --environment production"]),
    (
        "payments statement",
        &[
            "sluice payments statement --day 2026-11-20",
            "sluice payments statement --day 2026-11-20 --zone Europe/Berlin --operation createOfframp --output csv",
        ],
    ),
    (
        "payments export",
        &[
            "sluice payments export --from 2026-11-01 --until 2026-11-30 --format csv",
            "sluice payments export --statement 2026-11-20 --output json",
        ],
    ),
    ("payments verify", &["sluice payments verify payments-20261201080000-production-77.jsonl --audit sluice-audit"]),
    ("recovery new", &["sluice recovery new safe-1.key --id safe-1 > safe-1.toml"]),
    (
        "recovery sign",
        &["sluice recovery sign anna.toml --in-force sluice-audit/policies/4cf1f2… --key safe-1.key --until \
             2026-12-01T12:00:00Z --to safe-1.json"],
    ),
    ("recovery hand-in", &["sluice recovery hand-in safe-1.json safe-2.json --reason 'three phones were lost'"]),
    ("requests list", &["sluice requests list", "sluice requests list --state sending --output csv"]),
    ("requests show", &["sluice requests show invoice-4711 --environment production"]),
    (
        "requests resolve",
        &[
            "sluice requests resolve invoice-4711 --environment production --outcome executed --record record.json --reason \
             'found in the dashboard'",
            "sluice requests resolve invoice-4711 --environment production --outcome absent --reason 'the provider says so'",
        ],
    ),
    ("nodes list", &["sluice nodes list"]),
    (
        "nodes retire",
        &[
            "sluice nodes retire gate-2/3d0e0f5c7a1b49d28e6f0a9b8c7d6e5f --folder /backup/gate-2 --reason 'its machine burnt'",
            "sluice nodes retire gate-2/3d0e0f5c7a1b49d28e6f0a9b8c7d6e5f --folder /backup/gate-2 --public-key checkpoint.pem.pub \
             --reason 'its machine burnt'",
        ],
    ),
    (
        "nodes gone",
        &[
            "sluice nodes gone gate-2/3d0e0f5c7a1b49d28e6f0a9b8c7d6e5f --environment production --reason 'its disk is destroyed'",
        ],
    ),
    ("serve", &["sluice serve", "sluice serve --config gate-1/sluice.toml"]),
    ("sessions end", &["sluice sessions end anna --reason 'a lost phone'"]),
    ("simulate", &["sluice simulate", "sluice simulate --triggers"]),
    ("store create", &["sluice store create"]),
    ("store export", &["sluice store export --folder sluice-data --to export.jsonl"]),
    ("store import", &["sluice store import --folder new-data --input export.jsonl"]),
    ("store backup", &["sluice store backup --folder sluice-data --to backup.redb"]),
    ("token keys", &["sluice token keys"]),
    ("token make", &["sluice token make --subject ops-1 --role approver"]),
    ("webhook test", &["sluice webhook test approvals", "sluice webhook test approvals --output json"]),
    (
        "witness",
        &[
            "sluice witness --name witness.example.com --key witness.pem --log-key gate.pem.pub --listen 0.0.0.0:9470",
            "sluice witness --name witness.example.com --key witness.pem --show-key > witness.key",
        ],
    ),
    ("completions", &["sluice completions bash > /etc/bash_completion.d/sluice"]),
    ("man", &["sluice man --folder /usr/local/share/man/man1"]),
];

/// The most examples of a group of commands.
const MAX_OF_GROUP: usize = 4;

/// Returns the command line with the examples of every command, and of every group the first ones of its commands.
pub(super) fn command_line() -> Command {
    let of_commands = EXAMPLES.iter().map(|(path, examples)| ((*path).to_owned(), examples.to_vec()));
    let of_groups = groups(&Cli::command(), "").into_iter().map(|group| {
        let inside = |path: &str| path.strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with(' '));
        let of = EXAMPLES.iter().filter(|(path, _)| inside(path)).filter_map(|(_, examples)| examples.first().copied());
        let first = of.take(MAX_OF_GROUP).collect();
        (group, first)
    });
    of_commands.chain(of_groups).fold(Cli::command(), |command, (path, examples): (String, Vec<&str>)| {
        let lines: String = examples.iter().map(|example| format!("\n  {example}")).collect();
        let words: Vec<&str> = path.split(' ').collect();
        with_help(command, &words, &format!("Examples:{lines}"))
    })
}

/// Returns the paths of the commands that have commands of their own.
fn groups(command: &Command, path: &str) -> Vec<String> {
    let inner = command.get_subcommands().filter(|inner| inner.has_subcommands());
    let of = |inner: &Command| {
        let path = format!("{path} {}", inner.get_name()).trim_start().to_owned();
        let mut found = groups(inner, &path);
        found.push(path);
        found
    };
    inner.flat_map(of).collect()
}

fn with_help(command: Command, path: &[&str], text: &str) -> Command {
    match path.split_first() {
        None => command.after_help(text.to_owned()),
        Some((name, rest)) => command.mut_subcommand(name, |inner| with_help(inner, rest, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the paths of the commands without subcommands.
    fn leaves(command: &Command, path: &str) -> Vec<String> {
        let inner: Vec<&Command> = command.get_subcommands().filter(|inner| inner.get_name() != "help").collect();
        if inner.is_empty() {
            return vec![path.to_owned()];
        }
        let path_of = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
        inner.into_iter().flat_map(|inner| leaves(inner, &path_of(inner.get_name()))).collect()
    }

    /// Splits a line as a shell does, without what it redirects.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        for c in line.split(" > ").next().unwrap().chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_group_has_examples_of_its_commands() {
        let command = command_line();
        let groups = groups(&command, "");
        assert!(groups.contains(&"payments".to_owned()) && groups.contains(&"approvals stand-in".to_owned()));
        for group in groups {
            let of = group.split(' ').fold(&command, |command, name| command.find_subcommand(name).unwrap());
            let help = of.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("sluice {group} ")) && help.lines().count() <= MAX_OF_GROUP + 1, "{help}");
        }
    }

    /// Commands without rows or a verdict: they print a document, key or token, write a file, or run until they are ended.
    const WITHOUT_FORMATS: [&str; 25] = [
        "approvals signing-page",
        "audit key",
        "audit receipt",
        "audit tail",
        "completions",
        "config schema",
        "demo",
        "init",
        "man",
        "metrics",
        "nodes retire",
        "openapi",
        "policy fields",
        "policy schema",
        "recovery new",
        "recovery sign",
        "serve",
        "simulate",
        "store backup",
        "store create",
        "store export",
        "store import",
        "token keys",
        "token make",
        "witness",
    ];

    #[test]
    fn every_command_that_tells_something_prints_a_table_json_or_csv() {
        let command = command_line();
        for path in leaves(&command, "") {
            let of = path.split(' ').fold(&command, |command, name| command.find_subcommand(name).unwrap());
            let output = of.get_arguments().find(|argument| argument.get_long() == Some("output"));
            let words: Vec<String> = output.into_iter().flat_map(possible_words).collect();
            let is_without = WITHOUT_FORMATS.contains(&&*path);
            assert_eq!(words, if is_without { vec![] } else { vec!["table", "json", "csv"] }, "{path}");
        }
    }

    fn possible_words(argument: &clap::Arg) -> Vec<String> {
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
    }

    #[test]
    fn every_command_has_examples_that_are_valid() {
        let mut known: Vec<&str> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        let mut all = leaves(&Cli::command(), "");
        known.sort_unstable();
        all.sort_unstable();
        assert_eq!(known, all);
        for (path, examples) in EXAMPLES {
            for example in *examples {
                assert!(example.starts_with(&format!("sluice {path}")), "{example}");
                command_line()
                    .try_get_matches_from(words(example))
                    .unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
        command_line().debug_assert();
    }
}
