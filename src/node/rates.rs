//! Rate limits: what a call takes of each, before its body is read.

use std::sync::Arc;

use http::HeaderMap;

use crate::adapters::rate::{OpenCall, OpenCalls};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, TraceId};
use crate::catalog::Operation;
use crate::policy::{Mark, Rate, RateBound, RateCall};
use crate::ports::{RateLimiter, Take};
use crate::stations::admit::{Admitted, Caller};
use crate::stations::reply::{Exceeded, Rated, exceeded, rate_fields};
use crate::telemetry::{Metrics, RateCounters};

/// The rates in force and their counters.
#[derive(Debug)]
pub struct Rates {
    rates: Vec<(Rate, RateCounters)>,
    limiter: Arc<dyn RateLimiter>,
    open: OpenCalls,
}

/// The result of the rate limits for one call.
#[derive(Debug, Default)]
pub struct RateOutcome {
    /// The limit that refuses the call.
    pub exceeded: Option<Exceeded>,
    /// The rate fields of every answer to it.
    pub fields: HeaderMap,
    /// Places in limits of concurrent calls, held while the call is open; none for a refused call.
    pub slots: Vec<OpenCall>,
}

/// A wanted place in a limit of concurrent calls.
struct PlaceRequest<'r> {
    rate: &'r Rate,
    at: usize,
    bucket: Fingerprint,
    most: u64,
}

impl Rates {
    pub fn new(rates: Vec<Rate>, limiter: Arc<dyn RateLimiter>, metrics: &Metrics) -> Rates {
        Rates { rates: counted(rates, metrics), limiter, open: OpenCalls::default() }
    }

    /// Returns other rates; those of the same id keep their counts and their open calls.
    pub fn followed_by(&self, rates: Vec<Rate>, metrics: &Metrics) -> Rates {
        let place = |rate: &Rate| self.rates.iter().position(|(before, _)| before.id == rate.id);
        let places: Vec<Option<usize>> = rates.iter().map(place).collect();
        let limiter = self.limiter.followed_by(&places);
        Rates { rates: counted(rates, metrics), limiter, open: self.open.clone() }
    }

    /// Returns each rate with its counts since this gate runs.
    pub fn counted(&self) -> impl Iterator<Item = (&Rate, &RateCounters)> {
        self.rates.iter().map(|(rate, counters)| (rate, counters))
    }

    /// Takes the call from every rate that applies, or from none if one refuses.
    pub async fn take(&self, admitted: &Admitted, trace: &TraceId) -> RateOutcome {
        let (environment, operation) = (admitted.environment(), Some(admitted.operation()));
        self.take_of(&call(environment, operation.map(|operation| &**operation), admitted.caller()), trace).await
    }

    /// Does the same for a caller's request about its holds.
    pub async fn take_for_hold(&self, environment: Environment, caller: &Caller, trace: &TraceId) -> RateOutcome {
        self.take_of(&call(environment, None, caller), trace).await
    }

    async fn take_of(&self, call: &RateCall<'_>, trace: &TraceId) -> RateOutcome {
        let (wishes, takes) = self.buckets(call);
        if wishes.is_empty() && takes.is_empty() {
            return RateOutcome::default();
        }
        let wanted: Vec<_> = wishes.iter().map(|w| (w.bucket, w.most, w.rate.is_enforced())).collect();
        let (found, slots) = self.open.enter(&wanted);
        let is_entered = !slots.is_empty() || wishes.is_empty();
        let open = wishes.iter().zip(found).map(|(wish, (others, has_room))| {
            (wish.at, Rated { rate: wish.rate, mark: open_mark(wish.most, others, has_room, is_entered) })
        });
        let mut rated: Vec<(usize, Rated<'_>)> = open.collect();
        if is_entered && !takes.is_empty() {
            let marks = self.limiter.take(&takes).await;
            let marks = takes.iter().zip(marks);
            rated.extend(marks.filter_map(|(take, mark)| Some((take.at, Rated { rate: take.rate, mark: mark? }))));
        }
        rated.sort_by_key(|(at, _)| *at);
        let said: Vec<Rated<'_>> = rated.iter().map(|(_, rated)| *rated).collect();
        let exceeded = exceeded(&said);
        self.count(&rated, exceeded.is_some(), trace);
        RateOutcome { fields: rate_fields(&said), slots: if exceeded.is_some() { Vec::new() } else { slots }, exceeded }
    }

    fn buckets<'r>(&'r self, call: &RateCall<'_>) -> (Vec<PlaceRequest<'r>>, Vec<Take<'r>>) {
        let (mut wishes, mut takes) = (Vec::new(), Vec::new());
        for (at, (rate, _)) in self.rates.iter().enumerate() {
            for bucket in rate.buckets(call) {
                match rate.bound {
                    RateBound::Quota(quota) => takes.push(Take { rate, at, quota, bucket }),
                    RateBound::Concurrent(most) => wishes.push(PlaceRequest { rate, at, bucket, most }),
                }
            }
        }
        (wishes, takes)
    }

    fn count(&self, rated: &[(usize, Rated<'_>)], is_refused: bool, trace: &TraceId) {
        for (at, Rated { rate, mark }) in rated {
            let Some((_, counters)) = self.rates.get(*at) else { continue };
            if !mark.has_room {
                counters.limited.inc();
                if !rate.is_enforced() {
                    tracing::info!(request_id = %trace, rate = &*rate.id, "shadow mode: this call would be rate limited");
                }
            } else if !is_refused {
                counters.allowed.inc();
                if mark.is_near {
                    counters.near.inc();
                }
            }
        }
    }
}

fn call<'c>(environment: Environment, operation: Option<&'c Operation>, caller: &'c Caller) -> RateCall<'c> {
    RateCall { environment, operation, issuer: caller.issuer(), subject: caller.subject(), roles: caller.roles() }
}

/// Pairs each rate with its counters.
fn counted(rates: Vec<Rate>, metrics: &Metrics) -> Vec<(Rate, RateCounters)> {
    let counted = |rate: Rate| {
        let counters = metrics.of_rate(&rate.id, rate.mode.as_str());
        (rate, counters)
    };
    rates.into_iter().map(counted).collect()
}

fn open_mark(most: u64, others: u64, has_room: bool, is_entered: bool) -> Mark {
    let used = others.saturating_add(u64::from(is_entered));
    let is_near = used.saturating_mul(5) > most.saturating_mul(4);
    Mark { has_room, left: most.saturating_sub(used), more_in: None, is_near }
}
