//! Rules and limits: what a decision costs, and what loading them costs, from ten rules to ten thousand.

use std::collections::BTreeSet;
use std::hint::black_box;

use anyhow::{Context as _, anyhow};
use serde_json::json;
use sluice::adapters::clock::Stopwatch;
use sluice::base::ids::{Environment, OperationId};
use sluice::catalog::Catalog;
use sluice::policy::{Asked, Facts, Known, Policies, read};

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
    let asked = Asked {
        environment: Environment::Production,
        operation,
        issuer: "main",
        subject: "payroll",
        requester: None,
        roles: &roles,
        path: "/v2/offramps",
        path_parameters: &[],
        body: &body,
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
    Ok(steps)
}

/// A rule for each account, as a payroll has them, and a limit over all.
fn load(catalog: &Catalog, count: usize) -> anyhow::Result<Policies> {
    let rule = |at: usize| {
        format!(
            "[[rule]]\nid = \"r{at}\"\neffect = \"allow\"\nwhen = {{ op = \"createOfframp\", role = \"payroll\", \
             destination.account = \"{}\", amount = \"(0, 5000] USD\" }}\n",
            account(at)
        )
    };
    let limit = "[[limit]]\nid = \"day\"\nops = \"createOfframp\"\nwindow = \"rolling 24h\"\nper = [\"caller\"]\n\
                 max = \"250000 USD\"\nover = \"deny\"\n";
    let text = (0..count).map(rule).chain([limit.to_owned()]).collect::<String>();
    let known = Known { catalog, issuers: &["main"], can_share: false };
    let reading = read(&[("bench.toml".to_owned(), text)], &known);
    Ok(reading.map_err(|f| anyhow!("the rules are broken: {f:?}"))?.policies)
}

fn account(at: usize) -> String {
    format!("9f1c0e8e-2f53-4a5e-9a52-{at:012}")
}
