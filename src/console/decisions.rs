//! Decisions over time: counted by this process as they are made, and before its start from the audit chain, once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::asked::{Asked, environment as served, violated};
use super::desk::Desk;
use super::{history, told};
use crate::adapters::audit::{Skip, read_backwards};
use crate::base::ids::Environment;
use crate::catalog::{Place, Violation};
use crate::policy::Effect;
use crate::stations::reply::{Code, Reply, said, unsaid};
use crate::telemetry::tally::{Counts, HOURS, beginning, hour};

const USUAL: i64 = 24;

/// What the chain told of the time before this process.
#[derive(Debug)]
pub(super) struct Before {
    counts: BTreeMap<(Environment, i64), Counts>,
    /// From then on it is counted.
    since: Timestamp,
}

pub(super) async fn count(desk: &Desk, asked: &Asked) -> Reply {
    let inside = &desk.inside;
    let (mut environments, mut hours) = (inside.environments.clone(), USUAL);
    for (name, value) in &asked.query {
        let wrong = |keyword, expected| violated(vec![Violation::new(name, keyword, expected).inside(Place::Query)]);
        match name.as_str() {
            "environment" => match served(inside, value) {
                Some(environment) => environments = vec![environment],
                None => return wrong("enum", "an environment that is served here"),
            },
            "hours" => match value.parse().ok().filter(|hours| (1..=HOURS).contains(hours)) {
                Some(wanted) => hours = wanted,
                None => return wrong("maximum", "a number from 1 to 168"),
            },
            other => return violated(vec![told::unknown_parameter(other)]),
        }
    }
    let before = match desk.before.get_or_try_init(|| read(desk)).await {
        Ok(before) => before,
        Err(reply) => return *reply,
    };
    let now = inside.books.clock.now();
    let first = hour(now).saturating_sub(hours).saturating_add(1);
    let bucket = |hour: i64| {
        let counts = environments.iter().fold(Counts::default(), |sum, environment| {
            let earlier = before.counts.get(&(*environment, hour)).copied().unwrap_or_default();
            sum.plus(earlier).plus(inside.metrics.tally().of(*environment, hour))
        });
        let Counts { allowed, held, denied } = counts;
        json!({ "at": beginning(hour).map(|at| at.to_string()), "allowed": allowed, "held": held, "denied": denied })
    };
    let buckets: Vec<Value> = (first..=hour(now)).map(bucket).collect();
    let since = beginning(first).map_or(before.since, |first| first.max(before.since));
    said(200, &json!({ "buckets": buckets, "since": since.to_string(), "of": inside.books.node.as_str() }))
}

/// Once: what this process does not remember, for it was before it.
async fn read(desk: &Desk) -> Result<Before, Box<Reply>> {
    let busy = |_| Box::new(unsaid(Code::Overloaded, "as many are looking back as may be.", None));
    let room = desk.readers.clone().try_acquire_owned().map_err(busy)?;
    let (folder, node) = (desk.inside.audit_folder.clone(), desk.inside.books.node.clone());
    let begun = desk.begun;
    let earliest = beginning(hour(begun).saturating_sub(HOURS)).unwrap_or(begun);
    let reading = tokio::task::spawn_blocking(move || {
        let _room = room;
        let (mut counts, mut since) = (BTreeMap::<_, Counts>::new(), begun);
        let place = read_backwards(&folder, &node, None, history::BUDGET, &|_| Skip::No, &mut |line, _| {
            let Some((environment, at, effect)) = decided(line) else { return ControlFlow::Continue(()) };
            if at < begun {
                counts.entry((environment, hour(at))).or_default().add(effect, 1);
                since = since.min(at);
            }
            if at < earliest { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // Where the chain was read to its beginning, or a week back, there is nothing else.
        place.map(|place| Before { counts, since: if place.is_none() { earliest } else { since } })
    });
    match reading.await {
        Ok(Ok(before)) => Ok(before),
        Ok(Err(error)) => {
            tracing::error!(%error, "the audit chain cannot be read back");
            Err(Box::new(history::unreadable()))
        }
        Err(error) => {
            tracing::error!(%error, "a task that read the audit chain did not end");
            Err(Box::new(history::unreadable()))
        }
    }
}

/// What a line tells of a decision: what people let go was decided when it began to wait.
fn decided(line: &[u8]) -> Option<(Environment, Timestamp, Effect)> {
    let text = std::str::from_utf8(line).ok()?;
    let words = [("\"what\":\"sending\"", Effect::Allow), ("\"what\":\"held\"", Effect::Hold)];
    let words = words.into_iter().chain([("\"what\":\"refused\"", Effect::Deny)]);
    let effect = words.into_iter().find(|(word, _)| text.contains(word)).map(|(_, effect)| effect)?;
    let (outstanding, entry) = history::entry(line)?;
    let is_release = effect == Effect::Allow && entry.get("hold").is_some();
    let at = Timestamp::from_microsecond(outstanding.at.as_micros()).ok()?;
    (!is_release).then_some((outstanding.environment, at, effect))
}
