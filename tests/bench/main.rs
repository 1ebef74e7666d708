//! What the gate costs: the CPU time of its process for each request, beside a proxy of pingora that only forwards.
//!
//! ```sh
//! cargo bench                                  # everything, in about a minute and a half after building
//! cargo bench -- --quick                       # rough figures in a quarter of a minute
//! cargo bench -- --seconds 10 --rounds 9 --json figures.json
//! cargo bench -- --compare figures.json        # fails where a ratio is more than a tenth above the one there
//! cargo bench -- store --folder DIR            # commits on the embedded store, on the disk of that folder
//! cargo bench -- redis                         # commits in a Redis, and swaps by a gate that has its store there
//! cargo bench -- rebuild                       # the embedded store of 1,000,000 claims from its journal, 11 GB on disk
//! cargo bench -- holds                         # looking at calls that wait and judging them, many beside few
//! ```
//!
//! The release binary of the same build serves with one thread on core 0, its log on as in production; so does the
//! bare proxy, which is this program started again. The load keeps some connections busy, one request after the
//! other on each, and compares every answer byte by byte: an error ends the run. Gate and bare proxy take turns, so
//! that what else the machine does meets both alike.
//!
//! Load and upstream share one thread on core 1 that never sleeps: to wake a sleeping core costs the one who wakes
//! it, on virtual machines several µs, and the more often the longer a proxy takes for each request. That would be
//! a figure of the machine, not of the gate.
//!
//! | file | what |
//! |---|---|
//! | `exchange` | what is asked and answered |
//! | `load` | asks, and measures |
//! | `bare` | the other proxy |
//! | `upstream` | answers both |
//! | `child` | starts, pins and ends programs, and reads their CPU time |
//! | `micro` | single steps of the gate inside this process |
//! | `tokens` | of these, believing tokens |
//! | `signed` | of these, signed votes, and the tree of the journal |
//! | `store` | commits on the embedded store |
//! | `redis` | commits in a Redis |
//! | `rebuild` | the embedded store from its journal |
//! | `holds` | what people wait for at the console |
//! | `report` | the table, and the same as JSON |
//! | `compared` | whether the ratios are worse than those of an earlier run |
//!
//! It is a report: nothing here passes or fails by a figure, except where `--compare` asks for it. Pinning needs `taskset` of util-linux and two cores;
//! the report says so where they are missing.

#[path = "../support/token.rs"]
mod token;
mod bare;
mod child;
mod compared;
mod exchange;
mod holds;
mod load;
mod micro;
mod rebuild;
mod redis;
mod report;
mod rules;
mod signed;
mod store;
mod tokens;
mod upstream;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

use child::{Child, Pinning};
use exchange::Exchange;
use load::Plan;
use redis::Redis;
use report::{Case, Report, Round};

/// The allocator of the gate.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What the gate costs beside a bare proxy.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long each proxy is measured in each round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// How often the proxies take turns
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many connections the load keeps busy
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Rough figures: two rounds of one second
    #[arg(long)]
    quick: bool,
    /// Measure this binary of the gate instead of the one of this build
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_sluice"), hide_default_value = true)]
    gate: PathBuf,
    /// Write the figures to a file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail where a ratio is more than a tenth above that of an earlier run, which `--json` wrote
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// What `cargo bench` adds
    #[arg(long, hide = true, global = true)]
    bench: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What else this program does, and what it is when it starts itself again.
#[derive(Debug, Subcommand)]
enum Role {
    #[command(hide = true)]
    Bare { upstream: SocketAddr },
    /// What a claim and its settlement take on the embedded store
    Store {
        /// A folder on the disk to measure
        #[arg(long, value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// What a claim and its settlement take in a Redis over loopback, and a swap by a gate that has its store there
    Redis,
    /// What it takes to build the embedded store from its journal
    Rebuild {
        /// How many claims the journal has
        #[arg(long, default_value_t = 1_000_000)]
        claims: u64,
        /// A folder on the disk to measure
        #[arg(long, value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Keep the journal in this folder, and use the one that an earlier run left there
        #[arg(long, value_name = "DIR")]
        journal: Option<PathBuf>,
        /// How many claims are in the newest snapshot beside the journal; 0 for a journal without any. Without this, as
        /// few as a gate ever has there: it writes one when the journal has grown by half of the last one
        #[arg(long, value_name = "CLAIMS")]
        snapshot: Option<u64>,
    },
    /// What a page, one hold and a vote take at the console, where many calls wait and where few do
    Holds {
        /// How many wait
        #[arg(long, default_value_t = 10_000)]
        many: usize,
        /// How often each act is done
        #[arg(long, default_value_t = 500)]
        acts: usize,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.role {
        Some(Role::Bare { upstream }) => bare::serve(upstream),
        Some(Role::Store { folder }) => {
            print!("{}", store::report(&folder, Duration::from_secs(arguments.seconds.max(1)))?);
            Ok(())
        }
        Some(Role::Redis) => {
            print!("{}", redis::report(Duration::from_secs(arguments.seconds.max(1)))?);
            let redis = Redis::start("everysec")?;
            let store = format!("[store]\nkind = \"redis\"\nnode = \"bench\"\n[redis]\nurl = \"{}\"\n", redis.url());
            println!("\nthe store in a Redis, appendfsync everysec\n");
            bench(&arguments, &store, vec![Exchange::create_swap()?])
        }
        Some(Role::Rebuild { claims, folder, journal, snapshot }) => {
            let snapshot = snapshot.unwrap_or(claims.saturating_mul(852) / 1_000);
            print!("{}", rebuild::report(&folder, journal, (claims, snapshot))?);
            Ok(())
        }
        Some(Role::Holds { many, acts }) => {
            print!("{}", holds::report(&arguments.gate, many, acts)?);
            Ok(())
        }
        None => bench(&arguments, "", Exchange::all()?.into()),
    }
}

/// The gate has these sections besides.
fn bench(arguments: &Arguments, sections: &str, exchanges: Vec<Exchange>) -> anyhow::Result<()> {
    let (rounds, seconds) = if arguments.quick { (2, 1) } else { (arguments.rounds.max(1), arguments.seconds.max(1)) };
    let plan = Plan {
        connections: arguments.connections.max(1),
        warm_up: Duration::from_millis(500),
        window: Duration::from_secs(seconds),
    };
    let pinning = Pinning::of_this_machine();
    pinning.pin_this_process();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let upstream = runtime.block_on(upstream::listen())?;
    let bare = Child::bare(&pinning, upstream)?;
    let gate = Child::gate(&pinning, &arguments.gate, upstream, sections)?;
    let mut cases = Vec::new();
    for exchange in exchanges.into_iter().map(Arc::new) {
        let mut case = Case { name: exchange.name, rounds: Vec::new() };
        for round in 0..rounds {
            eprintln!("{}: round {} of {rounds}", exchange.name, round.saturating_add(1));
            let measure = |child: &Child| {
                let window = runtime.block_on(load::run(child, &exchange, plan));
                window.with_context(|| format!("{} by way of the {}", exchange.name, child.name))
            };
            // The first of a round is not always the same.
            case.rounds.push(if round % 2 == 0 {
                let gate = measure(&gate)?;
                Round { gate, bare: measure(&bare)? }
            } else {
                let bare = measure(&bare)?;
                Round { gate: measure(&gate)?, bare }
            });
        }
        cases.push(case);
    }
    drop((gate, bare));

    let report = Report { plan, cases, steps: micro::steps()?, remarks: pinning.remarks() };
    print!("{report}");
    if let Some(file) = &arguments.json {
        std::fs::write(file, format!("{:#}\n", report.to_json()))
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    // The figures of an earlier run have the embedded store.
    match arguments.compare.as_ref().filter(|_| arguments.role.is_none()) {
        Some(file) => compared::compare(&report.to_json(), file),
        None => Ok(()),
    }
}
