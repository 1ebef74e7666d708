//! `sluice doctor`: checks the store and the gates that share it, and reports each problem with its remedy.

mod console_listener;
mod embedded_store;
mod following;
mod hold_room;
mod lacking;
mod money;
mod refusals;
mod replicas;
mod report;
mod running;
mod seal_keys;
mod surroundings;
mod witnesses;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use tokio::runtime::Runtime;

use self::lacking::LackingEntries;
use self::money::check_money;
use self::report::{DoctorReport, NodeState};
use self::seal_keys::{sealed, seals};
use super::output::OutputFormat;
use super::{ExitReason, Sources, print, read_config};
use crate::adapters::clock::SystemClock;
use crate::adapters::redis::{FenceStop, NotReady, ShardConnections};
use crate::adapters::store::redis::{HeartbeatReply, HeartbeatVerdict, LAPSE, Member, RedisStore};
use crate::adapters::store::sealed::Sealed;
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::config::{Config, RedisConfig, StoreKind};
use crate::ledger::{StoreFault, StoreTime, WriteRefusal};
use crate::node::node_facts::{NodeFacts, journals_begin};
use crate::ports::Clock as _;
use crate::telemetry::Metrics;

/// How long to wait for a Redis.
const REDIS_WAIT: Duration = Duration::from_secs(5);
/// The remedy where no gate runs.
const START_ONE: &str = "start one: `sluice serve`";
/// The remedy where writes reach too few replicas.
const START_REPLICAS: &str = "start the replicas of the Redis, and check the network between them and the primary; with `fsynced`, check \
                              the disk of the Redis";
/// The remedy where nobody names the primary.
const START_SENTINELS: &str = "start the missing Sentinels or nodes of the cluster, and check the network between them, the gates and the Redis, and that \
     they accept the user and the password of the gates";
/// How many entries a live gate's journal may lack at a moment.
const MAX_BEHIND: u64 = 1_000;
/// A larger clock difference is reported: token expiry and the days of limits depend on clocks.
const MAX_CLOCK_DIFFERENCE_MICROS: i64 = 1_000_000;

/// Check the store, whether money is open, and the gates that share the store
///
/// Reads the configuration, connects to its store and to upstream, and asks the gate that runs on this machine over its
/// probes, and its console; changes nothing. Every problem has a remedy.
///
/// Exits with 0 if all is well, 7 if there are problems while money moves, 8 if money is closed in an environment, 9 if
/// something is unknown, and 1 if the command itself failed.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    sources: Sources,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(arguments: &DoctorArgs) -> anyhow::Result<ExitReason> {
    let config = read_config(&arguments.sources.config_file()).map_err(|findings| {
        anyhow!("the configuration cannot be used; `sluice check` shows more:\n{}", errors_of(&findings).join("\n"))
    })?;
    let (config, runtime) = (config.config, Runtime::new()?);
    let environments = config.environments.iter().map(|of| of.environment).collect();
    let mut report = DoctorReport::of(environments);
    let policies = policies_of(&arguments.sources, &mut report);
    let policies = policies.as_deref();
    if config.store.allow_plain {
        report.find(
            "`store.allow_plain` is set: whoever writes the store can plant records",
            "set `store.seal_key`; remove `allow_plain` when the store from before the key is taken over, as the guide `rotate.md` says",
        );
    }
    match (config.store.kind, &config.redis) {
        (StoreKind::Redis, Some(of)) => runtime.block_on(check_redis(&config, of, policies, &mut report))?,
        (StoreKind::Redis, None) => report.find("no Redis is configured", "set `redis.url`"),
        (StoreKind::Embedded, _) => runtime.block_on(embedded_store::check(&config, policies, &mut report))?,
    }
    runtime.block_on(surroundings::check_upstreams(&config, &mut report));
    surroundings::tell_time_zones(&mut report);
    print(&arguments.output.text(|| report.lines(), || report.json(), Some("checks")))?;
    Ok(report.ending())
}

/// Returns the version of the configured policies. Where they or the contract have errors, a running gate goes on with its
/// former ones: so this is a problem, and not the end of the command.
fn policies_of(sources: &Sources, report: &mut DoctorReport) -> Option<String> {
    let findings = match sources.load() {
        Ok(loaded) => return Some(loaded.policies.policies.version().to_owned()),
        Err(findings) => errors_of(&findings),
    };
    let first = findings.first().and_then(|finding| finding.lines().next()).unwrap_or_default();
    let remedy = "`sluice check` shows all errors: correct them, or bring the former files back";
    report.problem("policies", None, &format!("cannot be used: {first}"), remedy);
    None
}

fn errors_of(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|one| one.is_error()).map(ToString::to_string).collect()
}

async fn check_redis(
    config: &Config,
    of: &RedisConfig,
    policies: Option<&str>,
    report: &mut DoctorReport,
) -> anyhow::Result<()> {
    report.kind = "redis";
    let redis = ShardConnections::new(of, &Metrics::new()?)?;
    tokio::spawn(redis.clone().keep_connected());
    if let Err(why) = redis.ready_within(REDIS_WAIT).await {
        report.store = "cannot be used".to_owned();
        let remedy = match why {
            NotReady::Away => {
                "money and changes get 503 until the Redis is reachable and usable; check its process, its disk and the network"
            }
            // The text says what to change.
            NotReady::Closing | NotReady::Unfit(_) => {
                "money and changes get 503 until that is changed; a gate that runs connects again by itself"
            }
        };
        report.find(&why.to_string(), remedy);
        return Ok(());
    }
    let says = redis.of(Environment::Production).info(["redis_version", "aof_enabled", "connected_slaves"]).await;
    let [version, keeps, replicas] = says.unwrap_or_default();
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let keeps = match keeps.as_deref() {
        Some("1") => "on disk",
        Some(_) => "NOT on disk",
        None => "as it does not tell",
    };
    report.store =
        format!("Redis {}, reachable, persisted {keeps}, replicas {}", or_unknown(version), or_unknown(replicas));
    let refusal = redis.refusal();
    if let Some(refusal) = refusal {
        report.store = format!("{}; it REFUSES WRITES", report.store);
        report.find(
            &format!("the store refuses writes: {}; money and changes get 503, reads go on", refusal.explanation()),
            refusal.remedy(),
        );
    }
    if redis.fence().open_at(Environment::Production, SystemClock.elapsed()) == Err(FenceStop::Unnamed) {
        report.find(&format!("{}: gates do not pay", FenceStop::Unnamed.text()), START_SENTINELS);
    }
    seal_keys::are_right(config, report)?;
    let store = RedisStore::new(redis.clone()).with_seals(seals(config)?);
    let sealed = sealed(Arc::new(RedisStore::new(redis.clone())), config)?;
    for environment in report.environments.clone() {
        let is_served = config.environments.iter().any(|one| one.environment == environment);
        if environment == Environment::Production
            && is_served
            && store.create(environment, None).await.is_ok_and(|found| found.is_none())
        {
            report.money(environment, false);
            report.find(
                "the store of production is empty, and nobody created it",
                "create it once with `sluice store create`; if gates of this installation have paid before, start one of those that \
                 still have their `audit.folder`",
            );
        }
        let checked = check_nodes(&store, &sealed, environment, refusal, report).await;
        report_fault(checked, environment, report);
        let checked = hold_room::check(&sealed, environment, &config.limits, report).await;
        report_fault(checked, environment, report);
        if refusal.is_some() {
            report.money(environment, false);
        }
    }
    // The other gates are asked through the store; only one of this configuration has its probes and disks here.
    // One whose disk is in trouble since its start tells the others nothing yet.
    if report.is_live(config.store.node.as_str()) || running::is_there(config).await {
        running::check(config, policies, report).await;
        console_listener::check(config, report).await;
        surroundings::check_disks(config, report);
    }
    // A gate notices replicas that have just gone a moment later.
    for environment in report.environments.clone() {
        replicas::check(&redis, environment, report).await;
    }
    Ok(())
}

fn report_fault(checked: Result<(), StoreFault>, environment: Environment, report: &mut DoctorReport) {
    if let Err(fault) = checked {
        report.find(&format!("{environment}: {fault}"), "money and changes get 503 until this is resolved");
    }
}

async fn check_nodes(
    store: &RedisStore,
    sealed: &Sealed,
    environment: Environment,
    refusal: Option<WriteRefusal>,
    report: &mut DoctorReport,
) -> Result<(), StoreFault> {
    let heard = store.roll(environment).await?;
    let waited_for = check_money(sealed, environment, report).await?;
    if heard.verdict == HeartbeatVerdict::Lost {
        report.money(environment, false);
        report.find(
            &format!(
                "{environment}: a gate found that the store has lost data; money is closed until all gates have registered again"
            ),
            "wait a few seconds; if it stays closed, check that the gates run and reach this Redis",
        );
    }
    let lacking = LackingEntries::read(store, environment, &heard).await?;
    let mut live = LiveGates::default();
    let mut unlisted = Vec::new();
    // Whether a gate runs, as far as is known.
    let mut runs = false;
    for member in &heard.members {
        let lacks = lacking.of(member.kept);
        let facts = NodeFacts::read(&member.told);
        unlisted.extend(facts.iter().flat_map(|facts| facts.unlisted.iter().cloned()));
        let text = |of: fn(&NodeFacts) -> &String| {
            facts.as_ref().map_or_else(|| "unknown".to_owned(), |facts| of(facts).clone())
        };
        let (software, policies) = (text(|facts| &facts.software), text(|facts| &facts.policies));
        let clock_off = facts.as_ref().map(|facts| facts.clock_micros.saturating_sub(member.beat.as_micros()));
        let state = match node_state(&heard, member) {
            // A store that refuses writes refuses heartbeats.
            NodeState::Missing if refusal.is_some() => NodeState::Unknown,
            state => state,
        };
        runs |= matches!(state, NodeState::Live | NodeState::Unknown);
        if state == NodeState::Live {
            // A gate of another version may state its facts in another format: it is not compared.
            if let Some(facts) = &facts {
                let node = member.node.as_str();
                live.software.entry(facts.software.clone()).or_default().push(node.to_owned());
                live.policies.entry(facts.policies.clone()).or_default().push(node.to_owned());
                live.contract.entry(facts.contract.clone()).or_default().push(node.to_owned());
            }
            if let Some(off) = clock_off.filter(|off| off.abs() > MAX_CLOCK_DIFFERENCE_MICROS) {
                report.find(
                    &format!(
                        "{environment}: the clock of `{}` differs by {} ms from that of the Redis",
                        member.node,
                        off / 1_000
                    ),
                    "synchronize the clock of its machine (NTP)",
                );
            }
        }
        if state == NodeState::Missing {
            report.find(
                &format!(
                    "{environment}: `{}` has sent no heartbeat for {}",
                    member.node,
                    report::in_units(age(heard.at, member.beat))
                ),
                "start it again if it should run; other gates take over its work",
            );
        }
        if state == NodeState::Live && lacks >= MAX_BEHIND {
            report.find(
                &format!("{environment}: the journal of `{}` lacks the newest {lacks} entries", member.node),
                "its disk may be full or slow: check its `audit.folder` and its log",
            );
        }
        let is_waited_for = waited_for.contains(&member.node);
        let age = age(heard.at, member.beat);
        report.node(
            environment,
            member.node.as_str(),
            state,
            age,
            (&software, &policies),
            clock_off,
            lacks,
            is_waited_for,
        );
    }
    check_journals(store, &heard, environment, report).await?;
    live.compare(environment, report);
    refusals::report(unlisted, report);
    if !runs {
        report.money(environment, false);
        report.find(&format!("{environment}: no gate runs on this store: no call is answered"), START_ONE);
    }
    Ok(())
}

/// Lists journals that were lost, and says which numbers no journal of a running gate has.
async fn check_journals(
    store: &RedisStore,
    heard: &HeartbeatReply,
    environment: Environment,
    report: &mut DoctorReport,
) -> Result<(), StoreFault> {
    for lost in store.former_journals(environment).await?.iter().filter(|former| !former.is_retired) {
        report.lost_journal(environment, &lost.sender.to_string(), lost.up_to.as_u64());
    }
    let begins = journals_begin(heard);
    if begins.as_u64() > 0 {
        report.advise(
            &format!(
                "{environment}: no journal of a running gate has the entries up to number {begins}: if the store loses its memory, \
                 money stays closed until a person opens it"
            ),
            "start the gates that have earlier journals, with their `audit.folder`; if these folders are lost, back the store up \
             regularly (`sluice store backup`)",
        );
    }
    Ok(())
}

/// The versions, policies and contracts of live gates, each with the gates that have it.
#[derive(Debug, Default)]
struct LiveGates {
    software: BTreeMap<String, Vec<String>>,
    policies: BTreeMap<String, Vec<String>>,
    contract: BTreeMap<String, Vec<String>>,
}

impl LiveGates {
    /// Reports gates that differ.
    fn compare(&self, environment: Environment, report: &mut DoctorReport) {
        let checks = [
            ("run different versions", &self.software, "this is normal during an upgrade; finish it"),
            (
                "decide by different policies",
                &self.policies,
                "give them the same policy folder; if a new version waits for two approvals, `sluice policy candidate` shows it",
            ),
            ("have different contracts", &self.contract, "give them the same `catalog.schemas`"),
        ];
        for (problem, by, remedy) in checks {
            if by.len() > 1 {
                let versions = by.iter().map(|(version, nodes)| format!("{} ({})", short(version), nodes.join(", ")));
                let versions: Vec<String> = versions.collect();
                report.find(&format!("{environment}: gates {problem}: {}", versions.join("; ")), remedy);
            }
        }
    }
}

/// Shortens a digest.
fn short(version: &str) -> &str {
    version.get(..12).unwrap_or(version)
}

fn node_state(heard: &HeartbeatReply, member: &Member) -> NodeState {
    match member.beat.as_micros() {
        0 if member.is_retired => NodeState::Retired,
        0 => NodeState::Stopped,
        _ if heard.at.since(member.beat) < LAPSE => NodeState::Live,
        _ => NodeState::Missing,
    }
}

fn age(now: StoreTime, then: StoreTime) -> Duration {
    now.since(then)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_that_differ_are_named_with_what_they_have() {
        let mut live = LiveGates::default();
        for (version, node) in [("0.2.0", "left"), ("0.2.1", "right"), ("0.2.0", "third")] {
            live.software.entry(version.to_owned()).or_default().push(node.to_owned());
            live.policies.entry("one digest".to_owned()).or_default().push(node.to_owned());
        }
        let mut report = DoctorReport::of(vec![Environment::Production]);
        report.money(Environment::Production, true);
        live.compare(Environment::Production, &mut report);
        let lines = report.lines();
        let problem = "PROBLEM: production: gates run different versions: 0.2.0 (left, third); 0.2.1 (right)\n  \
                       remedy: this is normal during an upgrade; finish it\n";
        assert!(lines.contains(problem) && lines.matches("PROBLEM").count() == 1, "{lines}");
        assert_eq!(report.ending(), ExitReason::Unwell);
    }
}
