//! Decisions over time: this process counts them as they are made, and reads earlier ones from the audit log once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::policies::shows_none;
use super::request::{ActRequest, environment as served, unreadable, violated};
use super::server::{ConsoleServer, DecisionCache};
use super::{history, render};
use crate::adapters::audit::{Skip, read_backwards};
use crate::base::ids::Environment;
use crate::catalog::{BodyPlace, Violation};
use crate::policy::Effect;
use crate::stations::claim::Owner;
use crate::stations::reply::{Reply, ok_json};
use crate::telemetry::tally::{DecisionCounts, HOURS, beginning, hour};

/// How many hours are returned if the query names no number.
const DEFAULT_HOURS: i64 = 24;

pub(super) async fn count(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let (mut environments, mut hours) = (inside.environments.clone(), DEFAULT_HOURS);
    for (name, value) in &asked.query {
        let wrong =
            |keyword, expected| violated(vec![Violation::new(name, keyword, expected).inside(BodyPlace::Query)]);
        match name.as_str() {
            "environment" => match served(inside, value) {
                Some(environment) => environments = vec![environment],
                None => return wrong("enum", "an environment that this gate serves"),
            },
            "hours" => match value.parse().ok().filter(|hours| (1..=HOURS).contains(hours)) {
                Some(wanted) => hours = wanted,
                None => return wrong("maximum", "a number from 1 to 168"),
            },
            other => return violated(vec![render::unknown_parameter(other)]),
        }
    }
    let roles: Vec<&str> = asked.person.roles().collect();
    environments.retain(|environment| inside.visibility.shows(&roles, *environment, None));
    if environments.is_empty() {
        return shows_none();
    }
    let before = match server.before.get_or_try_init(|| read_earlier_counts(server, &asked.person.who)).await {
        Ok(before) => before,
        Err(reply) => return *reply,
    };
    let now = inside.node.clock.now();
    let first = hour(now).saturating_sub(hours).saturating_add(1);
    let bucket = |hour: i64| {
        let counts = environments.iter().fold(DecisionCounts::default(), |sum, environment| {
            let earlier = before.counts.get(&(*environment, hour)).copied().unwrap_or_default();
            sum.plus(earlier).plus(inside.metrics.tally().of(*environment, hour))
        });
        let DecisionCounts { allowed, held, denied } = counts;
        json!({ "at": beginning(hour).map(|at| at.to_string()), "allowed": allowed, "held": held, "denied": denied })
    };
    let buckets: Vec<Value> = (first..=hour(now)).map(bucket).collect();
    let since = beginning(first).map_or(before.since, |first| first.max(before.since));
    ok_json(200, &json!({ "buckets": buckets, "since": since.to_string(), "of": inside.node.id.as_str() }))
}

/// Counts the decisions before this process started, from the audit log.
async fn read_earlier_counts(server: &ConsoleServer, person: &Owner) -> Result<DecisionCache, Box<Reply>> {
    let room = server.readers.turn(person).await?;
    let (folder, node) = (server.inside.audit_folder.clone(), server.inside.node.id.clone());
    let begun = server.begun;
    let earliest = beginning(hour(begun).saturating_sub(HOURS)).unwrap_or(begun);
    let reading = tokio::task::spawn_blocking(move || {
        let _room = room;
        let (mut counts, mut since) = (BTreeMap::<_, DecisionCounts>::new(), begun);
        let place = read_backwards(&folder, &node, None, history::BUDGET, &|_| Skip::No, &mut |line, _| {
            let Some((environment, at, effect)) = decision_of_line(line) else { return ControlFlow::Continue(()) };
            if at < begun {
                counts.entry((environment, hour(at))).or_default().add(effect, 1);
                since = since.min(at);
            }
            if at < earliest { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // If the log was read to its beginning, or a week back, the counts cover the whole week.
        place.map(|place| DecisionCache { counts, since: if place.is_none() { earliest } else { since } })
    });
    match reading.await {
        Ok(Ok(before)) => Ok(before),
        Ok(Err(error)) => {
            tracing::error!(%error, "cannot read the audit log");
            Err(Box::new(unreadable()))
        }
        Err(error) => {
            tracing::error!(%error, "a task that read the audit log failed");
            Err(Box::new(unreadable()))
        }
    }
}

/// Returns the decision of an audit line. The release of a hold is none: the call was decided when it was held.
fn decision_of_line(line: &[u8]) -> Option<(Environment, Timestamp, Effect)> {
    let text = std::str::from_utf8(line).ok()?;
    let words = [("\"what\":\"sending\"", Effect::Allow), ("\"what\":\"held\"", Effect::Hold)];
    let words = words.into_iter().chain([("\"what\":\"refused\"", Effect::Deny)]);
    let effect = words.into_iter().find(|(word, _)| text.contains(word)).map(|(_, effect)| effect)?;
    let (outstanding, entry) = history::entry(line)?;
    let is_release = effect == Effect::Allow && entry.get("hold").is_some();
    let at = Timestamp::from_microsecond(outstanding.at.as_micros()).ok()?;
    (!is_release).then_some((outstanding.environment, at, effect))
}
