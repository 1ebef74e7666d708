//! `sluice doctor`: how the store and the gates are that share it, for whoever is woken by it.

mod told;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;
use tokio::runtime::Runtime;

use self::told::{Report, Way};
use super::check::Output;
use super::{Ending, Sources, is_error, print};
use crate::adapters::clock::SystemClock;
use crate::adapters::redis::Redis;
use crate::adapters::store::embedded::{Embedded, FILE, OpenError, Options};
use crate::adapters::store::redis::{Heard, LAPSE, Member, RedisStore, Verdict};
use crate::adapters::store::sealed::{Sealed, SealingKey};
use crate::base::ids::Environment;
use crate::commit::{Content, Index, NodeId, StoreFault, StoreTime};
use crate::config::{Config, RedisConfig, StoreKind};
use crate::ports::Store;
use crate::stations::claim::{self, Forgotten, Freeze};
use crate::telemetry::Metrics;

/// How long a Redis is waited for.
const REDIS_COMES: Duration = Duration::from_secs(5);
/// As many freezes, and entries of a node, are looked at.
const MOST: usize = 1_000;
/// Clocks that are further apart are worth a look: tokens and days go by them.
const CLOCKS_APART_MICROS: i64 = 1_000_000;

/// Say how the store is, whether money is open, and how the gates are that share it
///
/// Reads the configuration, connects to its store, and changes nothing. Ends with 0 if all is well, with 1 if it found
/// something; every finding says what to do.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Lines for people, or JSON for programs
    #[arg(long, value_enum, default_value = "lines")]
    output: Output,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let loaded = arguments.sources.load().map_err(|findings| {
        let lines: Vec<String> = findings.iter().filter(|one| is_error(one)).map(ToString::to_string).collect();
        anyhow!("the configuration cannot be used; `sluice check` tells more:\n{}", lines.join("\n"))
    })?;
    let (config, runtime) = (loaded.config, Runtime::new()?);
    let mut report = Report::default();
    match (config.store.kind, &config.redis) {
        (StoreKind::Redis, Some(of)) => runtime.block_on(look_at_redis(&config, of, &mut report))?,
        (StoreKind::Redis, None) => report.find("no Redis is configured", "write `redis.url`"),
        (StoreKind::Embedded, _) => runtime.block_on(look_at_embedded(&config, &mut report))?,
    }
    print(&match arguments.output {
        Output::Lines => report.lines(),
        Output::Json => format!("{:#}\n", report.json()),
    })?;
    Ok(if report.is_well() { Ending::Done } else { Ending::Unwell })
}

async fn look_at_redis(config: &Config, of: &RedisConfig, report: &mut Report) -> anyhow::Result<()> {
    report.kind = "redis";
    let redis = Arc::new(Redis::new(of, Metrics::new()?)?);
    tokio::spawn(redis.clone().keep_connected());
    if let Err(why) = redis.ready_within(REDIS_COMES).await {
        report.store = "cannot be used".to_owned();
        report.find(
            &why.to_string(),
            "money and changes get 503 until it is there and fit; look at its process, its disk and the network",
        );
        return Ok(());
    }
    let says = redis.says(["redis_version", "aof_enabled", "connected_slaves"]).await;
    let [version, keeps, replicas] = says.unwrap_or_default();
    let said = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let keeps = if keeps.as_deref() == Some("1") { "on disk" } else { "NOT on disk" };
    report.store = format!("Redis {}, reachable, kept {keeps}, replicas {}", said(version), said(replicas));
    let store = RedisStore::new(redis.clone());
    let sealed = sealed(Arc::new(RedisStore::new(redis)), config)?;
    for environment in Environment::ALL {
        let looked = look_at_nodes(&store, &sealed, environment, report).await;
        tell(looked, environment, report);
    }
    Ok(())
}

async fn look_at_embedded(config: &Config, report: &mut Report) -> anyhow::Result<()> {
    report.kind = "embedded";
    let folder = &config.store.folder;
    if !folder.join(FILE).exists() {
        report.store = format!("none in `{}` yet", folder.display());
        report.find(
            "there is no store yet",
            "the first start of the gate makes one; if this gate served before, the folder is the wrong one: do not start it",
        );
        return Ok(());
    }
    match Embedded::open(folder, Arc::new(SystemClock), Options::default()) {
        Ok(store) => {
            report.store = format!("`{}`, whole; no gate serves from it", folder.display());
            let sealed = sealed(Arc::new(store), config)?;
            for environment in Environment::ALL {
                let looked = look_at_money(&sealed, environment, report).await;
                tell(looked.map(|_| ()), environment, report);
            }
        }
        Err(OpenError::Locked(_)) => {
            report.store = format!(
                "`{}`, a gate serves from it; `sluice freezes` asks that gate what is frozen",
                folder.display()
            );
        }
        Err(error) => {
            report.store = "cannot be opened".to_owned();
            report
                .find(&error.to_string(), "put the right store back; an empty one in its place forgets what was paid");
        }
    }
    Ok(())
}

fn sealed(store: Arc<dyn Store>, config: &Config) -> anyhow::Result<Sealed> {
    let keys = config.store.seal_keys.iter().map(|(id, key)| SealingKey::new(id, key));
    let keys = keys.collect::<Result<Vec<_>, _>>().map_err(|error| anyhow!("`store.seal_key`: {error}"))?;
    Ok(Sealed::new(store, keys))
}

fn tell(looked: Result<(), StoreFault>, environment: Environment, report: &mut Report) {
    if let Err(fault) = looked {
        report.find(&format!("{environment}: {fault}"), "money and changes get 503 for as long as that is so");
    }
}

/// The nodes of which each still has to tell what it knows.
async fn look_at_money(
    store: &Sealed,
    environment: Environment,
    report: &mut Report,
) -> Result<Vec<NodeId>, StoreFault> {
    let now = store.time().await?;
    let mut waited_for = Vec::new();
    let mut is_open = true;
    for (since, name) in store.due(environment, Index::Frozen, None, MOST).await? {
        let Some(freeze) = Freeze::parse(&name) else { continue };
        // One that cannot be read freezes all the same.
        let record = store.read(&freeze.key(environment)).await.ok().and_then(|(record, _)| record);
        let content = record.map(|record| record.content);
        let bytes = match &content {
            Some(Content::Whole(bytes)) => bytes.as_ref(),
            Some(Content::Spent) | None => b"",
        };
        let told = claim::frozen(bytes);
        let reason = told.reason.unwrap_or_else(|| "unknown".to_owned());
        report.freeze(environment, &name, age(now, since), told.by, &reason);
        is_open &= !matches!(freeze, Freeze::Restored | Freeze::All);
        let (what, way) = match freeze {
            Freeze::Restored => {
                let forgotten = Forgotten::read(bytes);
                let way = restored(&forgotten);
                waited_for = forgotten.nodes.into_keys().collect();
                ("money is closed: the store may have forgotten payments".to_owned(), way)
            }
            Freeze::All => ("money is frozen".to_owned(), "`sluice unfreeze` opens it".to_owned()),
            Freeze::Operation(_) | Freeze::Caller(_) => {
                (format!("`{name}` is frozen"), "`sluice unfreeze` opens it".to_owned())
            }
        };
        report.find(&format!("{environment}: {what} ({reason})"), &way);
    }
    report.money(environment, is_open);
    Ok(waited_for)
}

fn restored(forgotten: &Forgotten) -> String {
    const OPEN: &str = "or, when you know what was paid that it does not know: `sluice unfreeze --restored`; what no gate has \
                        given back may then be paid again";
    let names: Vec<&str> = forgotten.nodes.keys().map(NodeId::as_str).collect();
    match (names.is_empty(), forgotten.by_person) {
        (true, _) => format!("a person opens it: {}", OPEN.trim_start_matches("or, ")),
        (false, true) => format!("waits for {} and then for a person; {OPEN}", names.join(", ")),
        (false, false) => format!(
            "it opens by itself when these gates have given back what their audit chains know: {}. Start those that do not \
             run; {OPEN}",
            names.join(", ")
        ),
    }
}

async fn look_at_nodes(
    store: &RedisStore,
    sealed: &Sealed,
    environment: Environment,
    report: &mut Report,
) -> Result<(), StoreFault> {
    let heard = store.roll(environment).await?;
    let waited_for = look_at_money(sealed, environment, report).await?;
    if heard.verdict == Verdict::Lost {
        report.money(environment, false);
        report.find(
            &format!(
                "{environment}: a gate found that the store has forgotten something; all is closed until they have met"
            ),
            "wait some seconds; if it stays so, see whether the gates run and reach this Redis",
        );
    }
    let mut of_all = OfAll::default();
    for member in &heard.members {
        let outbox = sealed.outbox(environment, &member.node, MOST).await?.len();
        let told: Value = serde_json::from_str(&member.told).unwrap_or_default();
        let text = |name| told.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let (software, policies) = (text("software"), text("policies"));
        let clock = told.get("clockMicros").and_then(Value::as_i64);
        let clock_off = clock.map(|clock| clock.saturating_sub(member.beat.as_micros()));
        let way = way(&heard, member);
        if way == Way::Live {
            let node = member.node.as_str();
            of_all.software.entry(software.clone()).or_default().push(node.to_owned());
            of_all.policies.entry(policies.clone()).or_default().push(node.to_owned());
            of_all.contract.entry(text("contract")).or_default().push(node.to_owned());
            if let Some(off) = clock_off.filter(|off| off.abs() > CLOCKS_APART_MICROS) {
                report.find(
                    &format!(
                        "{environment}: the clock of `{}` is {} ms off that of the Redis",
                        member.node,
                        off / 1_000
                    ),
                    "let its machine keep the time (NTP)",
                );
            }
        }
        if way == Way::Gone {
            report.find(
                &format!(
                    "{environment}: `{}` has not been heard of for {}",
                    member.node,
                    told::ago(age(heard.at, member.beat))
                ),
                "start it again if it should run; other gates take over what it was doing",
            );
        }
        if outbox >= MOST || (outbox > 0 && way != Way::Live) {
            report.find(
                &format!("{environment}: {outbox} audit entries of `{}` wait in the store", member.node),
                "they are brought to disk by it, or by another gate when it is gone; look at `audit.folder` of the gates",
            );
        }
        let is_waited_for = waited_for.contains(&member.node);
        let age = age(heard.at, member.beat);
        report.node(
            environment,
            member.node.as_str(),
            way,
            age,
            (&software, &policies),
            clock_off,
            outbox,
            is_waited_for,
        );
    }
    of_all.compare(environment, report);
    if !heard.members.iter().any(|member| way(&heard, member) == Way::Live) && !heard.generation.is_empty() {
        report.find(&format!("{environment}: no gate runs on this store"), "start one: `sluice serve`");
    }
    Ok(())
}

/// What gates that live say of themselves, and which of them do.
#[derive(Debug, Default)]
struct OfAll {
    software: BTreeMap<String, Vec<String>>,
    policies: BTreeMap<String, Vec<String>>,
    contract: BTreeMap<String, Vec<String>>,
}

impl OfAll {
    /// Gates that differ are named.
    fn compare(&self, environment: Environment, report: &mut Report) {
        let ways = [
            ("run different versions", &self.software, "well for the time of an upgrade; finish it"),
            (
                "decide by different policies",
                &self.policies,
                "give them the same folder of policies; where some wait for two people, `sluice policy candidate` shows it",
            ),
            ("have different contracts", &self.contract, "give them the same `catalog.schemas`"),
        ];
        for (what, by, way) in ways {
            if by.len() > 1 {
                let told = by.iter().map(|(version, nodes)| format!("{} ({})", short(version), nodes.join(", ")));
                let told: Vec<String> = told.collect();
                report.find(&format!("{environment}: gates {what}: {}", told.join("; ")), way);
            }
        }
    }
}

/// Digests are long.
fn short(version: &str) -> &str {
    version.get(..12).unwrap_or(version)
}

fn way(heard: &Heard, member: &Member) -> Way {
    match member.beat.as_micros() {
        0 => Way::Ended,
        _ if heard.at.since(member.beat) < LAPSE => Way::Live,
        _ => Way::Gone,
    }
}

fn age(now: StoreTime, then: StoreTime) -> Duration {
    now.since(then)
}
