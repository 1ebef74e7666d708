//! Single steps of the gate, inside this process.

use std::collections::BTreeSet;
use std::hint::black_box;

use anyhow::{Context as _, anyhow};
use http::Method;
use sluice::adapters::clock::Stopwatch;
use sluice::adapters::rate::Local;
use sluice::base::digest::Fingerprint;
use sluice::base::ids::{Environment, OperationId};
use sluice::base::json::{self, Limits};
use sluice::catalog::{Catalog, SchemaFiles};
use sluice::policy::{Bound, Call, Known, Rate, read};
use sluice::ports::{RateLimiter as _, Take};

use crate::exchange::{Exchange, swap};

/// Each step is done so often, so many times over; the fastest time counts, as noise only ever adds.
const REPEATS: u32 = 2_000;
const TIMES: usize = 15;

/// A step, and how long it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) nanos: u64,
}

pub(crate) fn steps() -> anyhow::Result<Vec<Step>> {
    let catalog =
        Catalog::build(&SchemaFiles::built_in(), &[]).map_err(|f| anyhow!("the contract is broken: {f:?}"))?;
    let operation = catalog.operation(&OperationId::new("createSwap")).context("there is no createSwap")?;
    let contract = operation.body.as_ref().context("createSwap has no body")?;
    let success = &operation.success().context("createSwap has no success")?.contract;
    let text = swap().as_bytes();
    let body = json::parse(text, Limits::REQUEST)?;
    let bytes = json::to_bytes(&body);
    let answer = Exchange::create_swap()?.answer;
    let answered = json::parse(&answer, Limits::ANSWER)?;
    let rates = rates(&catalog)?;
    let limiter = Local::new(rates.len());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let roles = BTreeSet::new();
    let environment = Environment::Production;
    let call = Call { environment, operation, issuer: "main", subject: "payroll", roles: &roles };
    let take = || {
        let takes: Vec<Take<'_>> = takes(&rates, black_box(&call));
        runtime.block_on(limiter.take(&takes))
    };
    Ok(vec![
        step("swap: strict JSON", || json::parse(text, Limits::REQUEST).is_ok()),
        step("swap: schema", || contract.accepts(&body)),
        step("swap: canonical bytes", || json::to_bytes(&body)),
        step("swap: fingerprint", || {
            Fingerprint::of(&[b"createSwap", b"POST", b"/v2/wallets/swaps", b"", black_box(&bytes)])
        }),
        step("swap's answer: strict JSON", || json::parse(&answer, Limits::ANSWER).is_ok()),
        step("swap's answer: schema", || success.accepts(&answered)),
        step("find a literal path", || catalog.find(&Method::POST, black_box("/v2/wallets/swaps")).is_ok()),
        step("find a path with parameters", || {
            catalog.find(&Method::GET, black_box("/v2/users/1cfd565f/accounts/89cea253")).is_ok()
        }),
        step("two rates: buckets", || takes(&rates, black_box(&call)).len()),
        step("two rates: buckets and room", take),
    ])
}

/// The quotas that ship, wide enough to let everything pass.
fn rates(catalog: &Catalog) -> anyhow::Result<Vec<Rate>> {
    let rate = |id: &str, ops: &str| {
        format!(
            "[[rate]]\nid = \"{id}\"\nops = [\"{ops}\"]\nper = [\"caller\", \"environment\"]\nquota = \"1000000/s\"\n"
        )
    };
    let text = rate("per-caller", "*") + &rate("money-per-caller", "@money");
    let known = Known { catalog, issuers: &["main"], can_share: false };
    let policies = read(&[("bench.toml".to_owned(), text)], &known);
    Ok(policies.map_err(|f| anyhow!("the rates are broken: {f:?}"))?.rates)
}

fn takes<'r>(rates: &'r [Rate], call: &Call<'_>) -> Vec<Take<'r>> {
    let of = |(at, rate): (usize, &'r Rate)| {
        let quota = match rate.bound {
            Bound::Quota(quota) => Some(quota),
            Bound::Concurrent(_) => None,
        };
        let buckets = rate.buckets(call).into_iter();
        buckets.filter_map(move |bucket| Some(Take { rate, at, quota: quota?, bucket })).collect::<Vec<_>>()
    };
    rates.iter().enumerate().flat_map(of).collect()
}

fn step<T>(name: &'static str, mut work: impl FnMut() -> T) -> Step {
    let mut once = || {
        let since = Stopwatch::start();
        for _ in 0..REPEATS {
            black_box(work());
        }
        since.elapsed().checked_div(REPEATS).unwrap_or_default()
    };
    let fastest = (0..TIMES).map(|_| once()).min().unwrap_or_default();
    Step { name, nanos: u64::try_from(fastest.as_nanos()).unwrap_or(u64::MAX) }
}
