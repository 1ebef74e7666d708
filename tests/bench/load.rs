//! Asks, and measures what that costs the one who answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use sluice::adapters::clock::Stopwatch;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use crate::child::Child;
use crate::exchange::Exchange;
use crate::wire::Wire;

/// How long a proxy may take to answer what is under way when the window ends.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) requests: u64,
    pub(crate) cpu_nanos: u64,
    pub(crate) length: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Window {
    pub(crate) fn cpu_nanos_per_request(&self) -> u64 {
        self.cpu_nanos.checked_div(self.requests).unwrap_or(0)
    }

    pub(crate) fn requests_per_second(&self) -> u64 {
        let micros = u64::try_from(self.length.as_micros()).unwrap_or(u64::MAX);
        self.requests.saturating_mul(1_000_000).checked_div(micros).unwrap_or(0)
    }
}

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// What the connections share.
#[derive(Debug, Default)]
struct Course {
    phase: AtomicU8,
    asked: AtomicU64,
}

/// Keeps the connections busy, and measures for the time of the window.
pub(crate) async fn run(child: &Child, exchange: &Arc<Exchange>, plan: Plan) -> anyhow::Result<Window> {
    let course = Arc::new(Course::default());
    let mut connections = JoinSet::new();
    for _ in 0..plan.connections {
        let wire = Wire::new(TcpStream::connect(child.address).await?)?;
        connections.spawn(one(wire, exchange.clone(), course.clone()));
    }
    tokio::spawn(stay_awake(course.clone()));
    sleep(plan.warm_up).await;

    let (before, since) = (child.cpu_nanos()?, Stopwatch::start());
    course.phase.store(MEASURING, Ordering::Relaxed);
    sleep(plan.window).await;
    course.phase.store(OVER, Ordering::Relaxed);
    let (after, length) = (child.cpu_nanos()?, since.elapsed());

    let mut times = Vec::new();
    while let Some(ended) = timeout(LAST_ANSWERS, connections.join_next()).await.context("an answer did not come")? {
        times.extend(ended??);
    }
    ensure!(!times.is_empty(), "no answer came within the window");
    times.sort_unstable();
    Ok(Window {
        requests: u64::try_from(times.len())?,
        cpu_nanos: after.saturating_sub(before),
        length,
        p50: percentile(&times, 50),
        p99: percentile(&times, 99),
    })
}

/// One connection: how long each answer took that came within the window.
async fn one(mut wire: Wire, exchange: Arc<Exchange>, course: Arc<Course>) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    loop {
        let request = exchange.request(course.asked.fetch_add(1, Ordering::Relaxed));
        let since = Stopwatch::start();
        wire.write(&request).await?;
        let answer = wire.read().await?.context("the connection ended before the answer")?;
        let took = since.elapsed();
        if !answer.head.starts_with(b"HTTP/1.1 200 ") || answer.body != exchange.answer {
            bail!("a wrong answer:\n{}{}", answer.head.escape_ascii(), answer.body.escape_ascii());
        }
        match course.phase.load(Ordering::Relaxed) {
            WARMING_UP => {}
            MEASURING => times.push(took),
            _ => return Ok(times),
        }
    }
}

/// Keeps this thread from sleeping, so that no proxy pays for waking it.
async fn stay_awake(course: Arc<Course>) {
    while course.phase.load(Ordering::Relaxed) != OVER {
        yield_now().await;
    }
}

fn percentile(sorted: &[Duration], hundredths: usize) -> Duration {
    let at = sorted.len().saturating_mul(hundredths) / 100;
    sorted.get(at).or(sorted.last()).copied().unwrap_or_default()
}
