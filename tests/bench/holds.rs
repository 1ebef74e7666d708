//! What people wait for at the console: a page of what waits, one of it, a vote; with many open holds, and with few.
//!
//! The few are the baseline, on the same store by the same binary in the same run: the ratio says what the many cost.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use sluice::adapters::clock::Stopwatch;
use sluice::base::digest::Fingerprint;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::child::{Child, Pinning};
use crate::redis::Redis;
use crate::token::{ISSUER, SECRET, claims, signed, token};

const PEOPLE: &str = "https://people.test";
/// The baseline.
const FEW: usize = 10;
/// So many callers make the holds.
const CALLERS: usize = 16;
const RULES: &str = r#"
[[rule]]
id = "everything"
effect = "hold"
approval = "dual"
when = { op = "*" }
[[limit]]
id = "day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "100000000 USD"
over = "deny"
[approval.dual]
of = "ops"
n = 2
expires = "8h"
[group.ops]
members = ["people:ops-1", "people:ops-2", "people:ops-3"]
"#;

/// What is done at the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Page,
    Mine,
    Show,
    Vote,
}

const ACTS: [(&str, Act); 4] =
    [("page of 50", Act::Page), ("of mine", Act::Mine), ("show", Act::Show), ("vote", Act::Vote)];

pub(crate) fn report(program: &Path, many: usize, acts: usize) -> anyhow::Result<String> {
    // The first provider that is installed is the one that everybody gets.
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut table =
        format!("{:<10}{:>8}  {:<12}{:>9}{:>9}{:>11}\n", "store", "waiting", "act", "p50 µs", "p99 µs", "p50 ratio");
    for is_redis in [false, true] {
        let mut few = Vec::new();
        for count in [FEW, many] {
            let redis = if is_redis { Some(Redis::start("everysec")?) } else { None };
            let measured = runtime.block_on(measured(program, redis.as_ref(), count, acts))?;
            for (at, ((name, _), (p50, p99))) in ACTS.iter().zip(&measured).enumerate() {
                let store = if is_redis { "redis" } else { "embedded" };
                let before: (u128, u128) = few.get(at).copied().unwrap_or((*p50, *p99));
                let tenths = p50.saturating_mul(10).checked_div(before.0).unwrap_or(0);
                let ratio = format!("{}.{}", tenths / 10, tenths % 10);
                writeln!(table, "{store:<10}{count:>8}  {name:<12}{p50:>9}{p99:>9}{ratio:>11}")?;
            }
            few = measured;
        }
    }
    Ok(table)
}

/// p50 and p99 of each act.
async fn measured(
    program: &Path,
    redis: Option<&Redis>,
    count: usize,
    acts: usize,
) -> anyhow::Result<Vec<(u128, u128)>> {
    let console: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let gate = Child::configured(&Pinning::of_this_machine(), program, folder(console, redis)?)?;
    let client = Client::builder().no_proxy().build()?;
    let holds = Arc::new(made(&client, gate.address, count).await?);
    let mut figures = Vec::new();
    for (name, act) in ACTS {
        eprintln!("{count} holds, {}: {name}", if redis.is_some() { "redis" } else { "embedded" });
        let mut took = Vec::new();
        for at in 0..acts {
            let hold = holds.get(at.saturating_mul(7919) % holds.len()).context("no hold")?;
            took.push(done(&client, console, act, hold).await?.as_micros());
        }
        took.sort_unstable();
        let of = |percent: usize| took.get(took.len().saturating_mul(percent) / 100).copied().unwrap_or_default();
        figures.push((of(50), of(99)));
    }
    Ok(figures)
}

fn folder(console: SocketAddr, redis: Option<&Redis>) -> anyhow::Result<TempDir> {
    let folder = TempDir::new()?;
    std::fs::create_dir(folder.path().join("policies"))?;
    std::fs::write(folder.path().join("policies/holds.toml"), RULES)?;
    let issuer = |name: &str, issuer: &str, environments: &str| {
        format!(
            "[issuer.{name}]\nissuer = \"{issuer}\"\naudience = [\"sluice\"]\nenvironments = [{environments}]\n\
             algorithms = [\"HS256\"]\nshared_secret = \"{SECRET}\"\nroles = \"roles\"\n"
        )
    };
    let store = redis.map_or_else(String::new, |redis| {
        format!("[store]\nkind = \"redis\"\nnode = \"bench\"\n[redis]\nurl = \"{}\"\n", redis.url())
    });
    let written = format!(
        "policies = \"policies\"\n[sandbox]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:9\"\n\
         credential = \"of-nobody\"\n[probes]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"{console}\"\n\
         issuer = \"people\"\n[log]\nformat = \"json\"\n[server]\nthreads = 1\n{}{}{store}",
        issuer("bench", ISSUER, "\"sandbox\""),
        issuer("people", PEOPLE, ""),
    );
    std::fs::write(folder.path().join("sluice.toml"), written)?;
    Ok(folder)
}

/// Calls that wait: the names and fingerprints of their holds, and the digests of their causes.
async fn made(client: &Client, gate: SocketAddr, count: usize) -> anyhow::Result<Vec<[String; 3]>> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS.min(count) {
        let client = client.clone();
        callers.spawn(async move {
            let mut holds = Vec::new();
            for n in (caller..count).step_by(CALLERS.min(count)) {
                let body = json!({
                    "requestId": format!("bench-{n}"),
                    "source": { "chain": "POLYGON", "currency": "usdt", "amount": "10" },
                    "destination": {
                        "chain": "POLYGON", "currency": "usdc",
                        "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
                    },
                });
                let call = client.post(format!("http://{gate}/v2/wallets/swaps")).bearer_auth(token());
                let call = call.header("content-type", "application/json").body(body.to_string());
                let (status, answer) = answered(call).await?;
                ensure!(status == 202, "a call does not wait: {status} {answer}");
                let text = |name: &str| answer.pointer(&format!("/hold/{name}")).and_then(Value::as_str);
                let hold = text("id").zip(text("fingerprint")).context("a hold without a name")?;
                let reasons = answer.pointer("/hold/reasons").and_then(Value::as_array).into_iter().flatten();
                let texts = reasons.flat_map(|reason| [&reason["rule"], &reason["text"]]);
                let texts: Vec<&[u8]> = texts.map(|text| text.as_str().unwrap_or_default().as_bytes()).collect();
                let causes = Fingerprint::of(&texts).to_hex();
                holds.push([hold.0.to_owned(), hold.1.to_owned(), causes]);
            }
            anyhow::Ok(holds)
        });
    }
    let mut all = Vec::new();
    for holds in callers.join_all().await {
        all.extend(holds?);
    }
    Ok(all)
}

/// Does it once; a vote is taken back again.
async fn done(
    client: &Client,
    console: SocketAddr,
    act: Act,
    [id, fingerprint, causes]: &[String; 3],
) -> anyhow::Result<Duration> {
    let ask = |method: Method, path: &str| {
        let mut claims = claims();
        if let Some(members) = claims.as_object_mut() {
            members.extend([
                ("iss".to_owned(), json!(PEOPLE)),
                ("sub".to_owned(), json!("ops-1")),
                ("roles".to_owned(), json!(["approver"])),
            ]);
        }
        client.request(method, format!("http://{console}/sluice/v1/{path}")).bearer_auth(signed(&claims))
    };
    let word = |act: &str| {
        let said = match act {
            "approve" => json!({ "fingerprint": fingerprint, "causes": causes }),
            _ => json!({ "fingerprint": fingerprint }),
        };
        ask(Method::POST, &format!("holds/{id}/{act}"))
            .header("content-type", "application/json")
            .body(said.to_string())
    };
    let call = match act {
        Act::Page => ask(Method::GET, "holds?limit=50"),
        Act::Mine => ask(Method::GET, "holds?limit=50&mine=true"),
        Act::Show => ask(Method::GET, &format!("holds/{id}")),
        Act::Vote => word("approve"),
    };
    let watch = Stopwatch::start();
    let (status, answer) = answered(call).await?;
    let took = watch.elapsed();
    if status != 200 {
        bail!("{act:?}: {status} {answer}");
    }
    if act == Act::Vote {
        let (status, answer) = answered(word("withdraw")).await?;
        ensure!(status == 200, "a vote is not taken back: {status} {answer}");
    }
    Ok(took)
}

async fn answered(call: reqwest::RequestBuilder) -> anyhow::Result<(u16, Value)> {
    let answer = call.send().await?;
    let status = answer.status().as_u16();
    Ok((status, serde_json::from_slice(&answer.bytes().await?)?))
}
