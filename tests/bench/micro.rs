//! Single steps of the gate, inside this process.

use std::hint::black_box;

use anyhow::{Context as _, anyhow};
use http::Method;
use sluice::adapters::clock::Stopwatch;
use sluice::base::digest::Fingerprint;
use sluice::base::ids::OperationId;
use sluice::base::json::{self, Limits};
use sluice::catalog::{Catalog, SchemaFiles};

use crate::exchange::{Exchange, swap};
use crate::tokens;

/// Each step is done so often, so many times over; the fastest time counts, as noise only ever adds.
const REPEATS: u32 = 2_000;
/// The same for a step that takes long.
const FEW: u32 = 100;
const TIMES: usize = 15;

/// A step, and how long it takes.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
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
    let mut steps = vec![
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
    ];
    steps.extend(tokens::steps()?);
    Ok(steps)
}

pub(crate) fn step<T>(name: &str, work: impl FnMut() -> T) -> Step {
    timed(name, REPEATS, work)
}

pub(crate) fn few<T>(name: &str, work: impl FnMut() -> T) -> Step {
    timed(name, FEW, work)
}

fn timed<T>(name: &str, repeats: u32, mut work: impl FnMut() -> T) -> Step {
    let mut once = || {
        let since = Stopwatch::start();
        for _ in 0..repeats {
            black_box(work());
        }
        since.elapsed().checked_div(repeats).unwrap_or_default()
    };
    let fastest = (0..TIMES).map(|_| once()).min().unwrap_or_default();
    Step { name: name.to_owned(), nanos: u64::try_from(fastest.as_nanos()).unwrap_or(u64::MAX) }
}
