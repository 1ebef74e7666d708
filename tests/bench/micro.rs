//! Single steps of the gate, inside this process.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use sluice::adapters::audit::{AuditFiles, AuditSettings, Checkpoints, SigningKey};
use sluice::adapters::clock::{Stopwatch, SystemClock};
use sluice::adapters::rate::Local;
use sluice::base::digest::Fingerprint;
use sluice::base::ids::{Environment, OperationId};
use sluice::base::json::{self, Limits};
use sluice::catalog::{Catalog, SchemaFiles};
use sluice::ledger::{NodeId, Number, Outstanding, StoreTime};
use sluice::policy::{KnownNames, Rate, RateBound, RateCall, read_policies};
use sluice::ports::AuditSink as _;
use sluice::ports::{RateLimiter as _, Take};

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
    let rates = rates(&catalog)?;
    let limiter = Local::new(rates.len());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let roles = BTreeSet::new();
    let environment = Environment::Production;
    let call = RateCall { environment, operation: Some(operation), issuer: "main", subject: "payroll", roles: &roles };
    let take = || {
        let takes: Vec<Take<'_>> = takes(&rates, black_box(&call));
        runtime.block_on(limiter.take(&takes))
    };
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
        step("two rates: buckets", || takes(&rates, black_box(&call)).len()),
        step("two rates: buckets and room", take),
    ];
    for (tasks, is_signed) in [(1, false), (64, false), (64, true)] {
        steps.extend(append(tasks, is_signed)?);
    }
    steps.extend(crate::rules::steps(&catalog)?);
    steps.extend(tokens::steps()?);
    steps.extend(crate::signed::steps()?);
    Ok(steps)
}

/// Entries of the audit chain, each waited for until it is on disk, by so many at once; with signed checkpoints of their tree
/// beside that, if asked for.
fn append(tasks: u64, is_signed: bool) -> anyhow::Result<[Step; 2]> {
    const EACH: u64 = 200;
    let folder = tempfile::tempdir()?;
    let node = NodeId::parse("bench").context("a name of a node")?;
    let checkpoints = if is_signed { Some(checkpoints()?) } else { None };
    let settings = AuditSettings { checkpoints, ..AuditSettings::of(folder.path(), node.clone()) };
    let audit = Arc::new(AuditFiles::open(settings, Arc::new(SystemClock))?);
    let entry = move |number: u64| {
        Outstanding {
        environment: Environment::Production,
        number: Number::new(number),
        at: StoreTime::default(),
        node: node.clone(),
        entry: Bytes::from_static(
            br#"{"what":"sending","claim":"7f9c24e8-3b12-4fef-91e0-8f5d3d5c6a11","operation":"createSwap","attempt":1}"#,
        ),
    }
    };
    let one = |task: u64| {
        let (audit, entry) = (Arc::clone(&audit), entry.clone());
        async move {
            let mut took = Vec::new();
            for nth in 0..EACH {
                // An entry waits for those before it: the tasks take turns.
                let number = nth.saturating_mul(tasks).saturating_add(task).saturating_add(1);
                let since = Stopwatch::start();
                audit.append(vec![entry(number)]).await?;
                took.push(since.elapsed());
            }
            anyhow::Ok(took)
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut all = runtime.block_on(async {
        let running: Vec<_> = (0..tasks).map(|task| tokio::spawn(one(task))).collect();
        let mut all = Vec::new();
        for task in running {
            all.extend(task.await??);
        }
        anyhow::Ok(all)
    })?;
    all.sort_unstable();
    let at = |percent: usize| {
        let took = all.get(all.len().saturating_mul(percent) / 100).copied().unwrap_or_default();
        u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
    };
    let beside = if is_signed { ", signed" } else { "" };
    let named = |percent: usize| {
        let name = format!("audit append on disk, {tasks} at a time{beside}: p{percent}");
        Step { name, nanos: at(percent) }
    };
    Ok([named(50), named(99)])
}

/// A checkpoint each second, as soon as a gate makes one.
fn checkpoints() -> anyhow::Result<Checkpoints> {
    let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| anyhow!("no key of Ed25519"))?;
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(made.as_ref()));
    let key = SigningKey::of_pem(pem.as_bytes()).context("the key cannot be read")?;
    Ok(Checkpoints { key, every_entries: 1_000, every: Duration::from_secs(1), to_log: false, is_witnessed: false })
}

/// The quotas that ship, wide enough to let everything pass.
fn rates(catalog: &Catalog) -> anyhow::Result<Vec<Rate>> {
    let rate = |id: &str, ops: &str| {
        format!(
            "[[rate]]\nid = \"{id}\"\nops = [\"{ops}\"]\nper = [\"caller\", \"environment\"]\nquota = \"1000000/s\"\n"
        )
    };
    let text = rate("per-caller", "*") + &rate("money-per-caller", "@money");
    let known = KnownNames { catalog, issuers: &["main"], can_share: false };
    let policies = read_policies(&[("bench.toml".to_owned(), text)], &known);
    Ok(policies.map_err(|f| anyhow!("the rates are broken: {f:?}"))?.policies.rates)
}

fn takes<'r>(rates: &'r [Rate], call: &RateCall<'_>) -> Vec<Take<'r>> {
    let of = |(at, rate): (usize, &'r Rate)| {
        let quota = match rate.bound {
            RateBound::Quota(quota) => Some(quota),
            RateBound::Concurrent(_) => None,
        };
        let buckets = rate.buckets(call).into_iter();
        buckets.filter_map(move |bucket| Some(Take { rate, at, quota: quota?, bucket })).collect::<Vec<_>>()
    };
    rates.iter().enumerate().flat_map(of).collect()
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
