//! The figures, for people and for programs.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::load::{Plan, Window};
use crate::micro::Step;

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) plan: Plan,
    pub(crate) cases: Vec<Case>,
    pub(crate) steps: Vec<Step>,
    pub(crate) remarks: Vec<String>,
}

/// One exchange, by way of both proxies.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<Round>,
}

#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) gate: Window,
    pub(crate) bare: Window,
}

/// The middle one and the extremes of what the rounds gave.
#[derive(Clone, Copy, Debug)]
struct Spread {
    median: u64,
    least: u64,
    most: u64,
}

impl Spread {
    fn of(values: impl Iterator<Item = u64>) -> Spread {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0);
        let last = sorted.len().saturating_sub(1);
        let median = at(last / 2).midpoint(at(last.div_ceil(2)));
        Spread { median, least: at(0), most: at(last) }
    }

    fn written(self, unit: fn(u64) -> String) -> String {
        format!("{} ({} to {})", unit(self.median), unit(self.least), unit(self.most))
    }

    fn to_json(self) -> Value {
        json!({ "median": self.median, "least": self.least, "most": self.most })
    }
}

impl Round {
    /// How often the CPU time of the bare proxy goes into the gate's, in thousandths.
    fn ratio_thousandths(&self) -> u64 {
        let thousandfold = self.gate.cpu_nanos_per_request().saturating_mul(1000);
        thousandfold.checked_div(self.bare.cpu_nanos_per_request()).unwrap_or(0)
    }
}

/// What one proxy took in the rounds of a case.
#[derive(Debug)]
struct Line {
    proxy: &'static str,
    requests: u64,
    cpu_nanos: Spread,
    requests_per_second: Spread,
    p50_nanos: Spread,
    p99_nanos: Spread,
}

impl Case {
    fn lines(&self) -> [Line; 2] {
        [self.line("bare", |round| &round.bare), self.line("gate", |round| &round.gate)]
    }

    fn line(&self, proxy: &'static str, window: fn(&Round) -> &Window) -> Line {
        let windows = || self.rounds.iter().map(window);
        Line {
            proxy,
            requests: windows().map(|w| w.requests).sum(),
            cpu_nanos: Spread::of(windows().map(Window::cpu_nanos_per_request)),
            requests_per_second: Spread::of(windows().map(Window::requests_per_second)),
            p50_nanos: Spread::of(windows().map(|w| nanos(w.p50))),
            p99_nanos: Spread::of(windows().map(|w| nanos(w.p99))),
        }
    }

    fn ratio_thousandths(&self) -> Spread {
        Spread::of(self.rounds.iter().map(Round::ratio_thousandths))
    }
}

impl Report {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "connections": self.plan.connections,
            "window_ms": u64::try_from(self.plan.window.as_millis()).unwrap_or(u64::MAX),
            "rounds": self.cases.first().map_or(0, |case| case.rounds.len()),
            "cases": self.cases.iter().map(case_to_json).collect::<Vec<_>>(),
            "steps": self.steps.iter().map(|s| json!({ "name": s.name, "nanos": s.nanos })).collect::<Vec<_>>(),
            "remarks": self.remarks,
        })
    }
}

fn case_to_json(case: &Case) -> Value {
    let lines = case.lines();
    let line = |line: &Line| {
        json!({
            "proxy": line.proxy,
            "requests": line.requests,
            "cpu_nanos_per_request": line.cpu_nanos.to_json(),
            "requests_per_second": line.requests_per_second.to_json(),
            "p50_nanos": line.p50_nanos.to_json(),
            "p99_nanos": line.p99_nanos.to_json(),
        })
    };
    json!({
        "name": case.name,
        "proxies": lines.iter().map(line).collect::<Vec<_>>(),
        "ratio_thousandths": case.ratio_thousandths().to_json(),
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = self.cases.first().map_or(0, |case| case.rounds.len());
        let (seconds, connections) = (self.plan.window.as_secs(), self.plan.connections);
        writeln!(f, "CPU time of the whole process for each request; {rounds} rounds of {seconds} s for each proxy,")?;
        writeln!(f, "{connections} connections; median of the rounds, with the least and the most.\n")?;
        let row = |f: &mut fmt::Formatter<'_>, cells: [&str; 7]| {
            let [case, proxy, requests, cpu, throughput, p50, p99] = cells;
            writeln!(f, "{case:<18}{proxy:<7}{requests:>9}  {cpu:<26}{throughput:>10}  {p50:>8}  {p99:>8}")
        };
        row(f, ["", "proxy", "requests", "CPU µs/request", "requests/s", "p50 µs", "p99 µs"])?;
        for case in &self.cases {
            for (at, line) in case.lines().iter().enumerate() {
                let cells = [
                    if at == 0 { case.name } else { "" },
                    line.proxy,
                    &line.requests.to_string(),
                    &line.cpu_nanos.written(micros),
                    &line.requests_per_second.median.to_string(),
                    &micros(line.p50_nanos.median),
                    &micros(line.p99_nanos.median),
                ];
                row(f, cells)?;
            }
            row(f, ["", "ratio", "", &case.ratio_thousandths().written(thousandths), "", "", ""])?;
        }
        writeln!(f, "\n{:<32}µs, the fastest of several runs", "single steps")?;
        for step in &self.steps {
            writeln!(f, "{:<32}{}", step.name, thousandths(step.nanos))?;
        }
        for remark in &self.remarks {
            writeln!(f, "\n{remark}")?;
        }
        Ok(())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds, as microseconds with one decimal.
fn micros(nanos: u64) -> String {
    let tenths = nanos.saturating_add(50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Thousandths, as a number with three decimals.
fn thousandths(count: u64) -> String {
    format!("{}.{:03}", count / 1000, count % 1000)
}
