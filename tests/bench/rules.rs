//! Rules and limits: what a decision costs, and what loading them costs, from ten rules to ten thousand.

use std::collections::BTreeSet;
use std::hint::black_box;

use anyhow::{Context as _, anyhow};
use serde_json::json;
use sluice::adapters::clock::Stopwatch;
use sluice::base::ids::{Environment, OperationId};
use sluice::catalog::Catalog;
use sluice::policy::{Facts, KnownNames, Policies, PolicyRequest, Stated, difference, pass_table, read_policies};

use crate::micro::{Step, step};

pub(crate) fn steps(catalog: &Catalog) -> anyhow::Result<Vec<Step>> {
    let operation = catalog.operation(&OperationId::new("createOfframp")).context("there is no createOfframp")?;
    let body = json!({
        "requestId": "bench",
        "source": {"amount": "120.50", "currency": "usdc", "chain": "BASE", "userId": account(1)},
        "destination": {"currency": "usd", "accountId": account(5)},
    });
    let movement = operation.movement(&body);
    let roles = BTreeSet::from(["payroll".to_owned()]);
    let asked = PolicyRequest {
        environment: Environment::Production,
        operation,
        issuer: "main",
        subject: "payroll",
        requester: None,
        roles: &roles,
        path: "/v2/offramps",
        path_parameters: &[],
        body: Stated::Whole(&body),
        movement: movement.as_ref(),
    };
    let facts = Facts::default();
    let mut steps = Vec::new();
    for count in [10, 100, 1_000, 10_000] {
        let since = Stopwatch::start();
        let policies = load(catalog, count)?;
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        steps.push(Step { name: format!("load {count} rules"), nanos });
        let decide = || policies.rules.decide(black_box(&asked), &facts);
        steps.push(step(&format!("decide by {count} rules"), decide));
    }
    steps.extend(analysis(catalog)?);
    steps.extend(many(catalog)?);
    Ok(steps)
}

/// What it costs to check, compare and show ten thousand rules, and a list of a hundred thousand wallets.
fn many(catalog: &Catalog) -> anyhow::Result<Vec<Step>> {
    const RULES: usize = 10_000;
    let known = KnownNames { catalog, issuers: &["main"], can_share: false };
    let own_amounts = |at: usize| {
        let wallet = wallet(at);
        format!(
            "[[rule]]\nid = \"r{at}\"\neffect = \"allow\"\nwhen = {{ op = \"createSwap\", destination.wallet = \"{wallet}\", \
             amount = \"(0, {}] USD\" }}\n",
            at.saturating_add(1)
        )
    };
    let wallets: Vec<String> = (0..100_000).map(|at| format!("\"{}\"", wallet(at))).collect();
    let listed = format!(
        "[list.payees]\nwallet = [{}]\n[[rule]]\nid = \"r0\"\neffect = \"allow\"\nwhen = {{ op = \"createSwap\", \
         destination.wallet = \"@payees\", amount = \"(0, 5000] USD\" }}\n",
        wallets.join(", ")
    );
    let sets = [
        ("10000 rules alike", text(RULES)),
        ("10000 rules of own amounts", (0..RULES).map(own_amounts).collect()),
        ("10000 rules crossing", (0..RULES).map(crossing).collect()),
        ("100000 wallets", listed),
    ];
    let mut steps = Vec::new();
    for (name, text) in sets {
        let mut timed = |what: &str, since: &Stopwatch| steps.push(timed(format!("{what} {name}"), since));
        let since = Stopwatch::start();
        let policies = read(&text, &known)?;
        timed("load", &since);
        let since = Stopwatch::start();
        black_box(policies.oddities(&known));
        timed("check", &since);
        let other = read(&text.replacen("effect = \"allow\"", "effect = \"deny\"", 1), &known)?;
        let since = Stopwatch::start();
        black_box(difference(&policies, &other, &known).loosens());
        timed("compare", &since);
        let since = Stopwatch::start();
        black_box(pass_table(&policies, &known).operations.len());
        timed("table of", &since);
    }
    Ok(steps)
}

/// What it costs to be sure of a thousand rules, that look alike and that cross each other.
fn analysis(catalog: &Catalog) -> anyhow::Result<Vec<Step>> {
    let known = KnownNames { catalog, issuers: &["main"], can_share: false };
    let invariant = "[[invariant]]\nid = \"large\"\nnever = { effect = \"allow\", op = \"@money\", amount = \
                     \"(5000, inf) USD\", without_amount = \"skip\" }\n";
    let alike = text(1_000) + invariant;
    let mut crossing: String = (0..1_000).map(crossing).collect();
    crossing.push_str(invariant);
    let mut steps = Vec::new();
    for (name, text) in [("alike", alike), ("crossing", crossing)] {
        let since = Stopwatch::start();
        let policies = read(&text, &known)?;
        steps.push(timed(format!("prove 1000 rules {name}"), &since));
        let since = Stopwatch::start();
        black_box(policies.oddities(&known));
        steps.push(timed(format!("analyse 1000 rules {name}"), &since));
        let tighter = read(&text.replacen("(0, 5000]", "(0, 4999]", 1), &known)?;
        let since = Stopwatch::start();
        black_box(difference(&policies, &tighter, &known).loosens());
        steps.push(timed(format!("compare 1000 rules {name}"), &since));
    }
    Ok(steps)
}

fn timed(name: String, since: &Stopwatch) -> Step {
    Step { name, nanos: u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX) }
}

/// Rules by amount, role, chain and environment that meet in many ways.
fn crossing(at: usize) -> String {
    let effect = if at.is_multiple_of(10) { "deny" } else { "allow" };
    let (least, role) = (at % 40 * 100, at % 7);
    let chain = ["BASE", "SOLANA", "TRON", "POLYGON", "ETHEREUM"].get(at % 5).copied().unwrap_or("BASE");
    format!(
        "[[rule]]\nid = \"r{at}\"\neffect = \"{effect}\"\nwhen = {{ op = \"@money\", role = \"role{role}\", source.chain = \
         \"{chain}\", amount = \"[{least}, 5000] USD\", without_amount = \"skip\" }}\n"
    )
}

/// A rule for each account, as a payroll has them, and a limit over all.
fn text(count: usize) -> String {
    let rule = |at: usize| {
        format!(
            "[[rule]]\nid = \"r{at}\"\neffect = \"allow\"\nwhen = {{ op = \"createOfframp\", role = \"payroll\", \
             destination.account = \"{}\", amount = \"(0, 5000] USD\" }}\n",
            account(at)
        )
    };
    let limit = "[[limit]]\nid = \"day\"\nops = \"createOfframp\"\nwindow = \"rolling 24h\"\nper = [\"caller\"]\n\
                 max = \"250000 USD\"\nover = \"deny\"\n";
    (0..count).map(rule).chain([limit.to_owned()]).collect()
}

fn load(catalog: &Catalog, count: usize) -> anyhow::Result<Policies> {
    read(&text(count), &KnownNames { catalog, issuers: &["main"], can_share: false })
}

fn read(text: &str, known: &KnownNames<'_>) -> anyhow::Result<Policies> {
    let reading = read_policies(&[("bench.toml".to_owned(), text.to_owned())], known);
    Ok(reading.map_err(|f| anyhow!("the rules are broken: {f:?}"))?.policies)
}

fn account(at: usize) -> String {
    format!("9f1c0e8e-2f53-4a5e-9a52-{at:012}")
}

fn wallet(at: usize) -> String {
    format!("0x{:040x}", at.saturating_add(1))
}
