//! Rates: what a call takes of each, before anything of its body is read.

use std::sync::Arc;

use http::HeaderMap;

use crate::adapters::rate::{Open, Slot};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, TraceId};
use crate::catalog::Operation;
use crate::policy::{Bound, Call, Mark, Rate};
use crate::ports::{RateLimiter, Take};
use crate::stations::admit::{Admitted, Caller};
use crate::stations::reply::{Exceeded, Rated, exceeded, rate_fields};
use crate::telemetry::{Metrics, RateCounters};

/// All rates, and what they count with.
#[derive(Debug)]
pub struct Rates {
    rates: Vec<(Rate, RateCounters)>,
    limiter: Arc<dyn RateLimiter>,
    open: Open,
}

/// What became of a call.
#[derive(Debug, Default)]
pub struct Limited {
    /// It goes no further.
    pub exceeded: Option<Exceeded>,
    /// What every answer to it says of rates.
    pub fields: HeaderMap,
    /// Held while the call is open; none if it goes no further.
    pub slots: Vec<Slot>,
}

/// A bucket of a rate on calls at one time.
struct Wish<'r> {
    rate: &'r Rate,
    at: usize,
    bucket: Fingerprint,
    most: u64,
}

impl Rates {
    pub fn new(rates: Vec<Rate>, limiter: Arc<dyn RateLimiter>, metrics: &Metrics) -> Rates {
        Rates { rates: counted(rates, metrics), limiter, open: Open::default() }
    }

    /// Other rates; what those of the same id have counted goes on, and so do the calls that are open.
    pub fn followed_by(&self, rates: Vec<Rate>, metrics: &Metrics) -> Rates {
        let place = |rate: &Rate| self.rates.iter().position(|(before, _)| before.id == rate.id);
        let places: Vec<Option<usize>> = rates.iter().map(place).collect();
        let limiter = self.limiter.followed_by(&places);
        Rates { rates: counted(rates, metrics), limiter, open: self.open.clone() }
    }

    /// Takes the call from every rate that is about it; from none if one refuses.
    pub async fn take(&self, admitted: &Admitted, trace: &TraceId) -> Limited {
        let (environment, operation) = (admitted.environment(), Some(admitted.operation()));
        self.take_of(&call(environment, operation.map(|operation| &**operation), admitted.caller()), trace).await
    }

    /// The same for what is asked of holds.
    pub async fn take_for_hold(&self, environment: Environment, caller: &Caller, trace: &TraceId) -> Limited {
        self.take_of(&call(environment, None, caller), trace).await
    }

    async fn take_of(&self, call: &Call<'_>, trace: &TraceId) -> Limited {
        let (wishes, takes) = self.buckets(call);
        if wishes.is_empty() && takes.is_empty() {
            return Limited::default();
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
        self.tell(&rated, exceeded.is_some(), trace);
        Limited { fields: rate_fields(&said), slots: if exceeded.is_some() { Vec::new() } else { slots }, exceeded }
    }

    fn buckets<'r>(&'r self, call: &Call<'_>) -> (Vec<Wish<'r>>, Vec<Take<'r>>) {
        let (mut wishes, mut takes) = (Vec::new(), Vec::new());
        for (at, (rate, _)) in self.rates.iter().enumerate() {
            for bucket in rate.buckets(call) {
                match rate.bound {
                    Bound::Quota(quota) => takes.push(Take { rate, at, quota, bucket }),
                    Bound::Concurrent(most) => wishes.push(Wish { rate, at, bucket, most }),
                }
            }
        }
        (wishes, takes)
    }

    fn tell(&self, rated: &[(usize, Rated<'_>)], is_refused: bool, trace: &TraceId) {
        for (at, Rated { rate, mark }) in rated {
            let Some((_, counters)) = self.rates.get(*at) else { continue };
            if !mark.has_room {
                counters.limited.inc();
                if !rate.is_enforced() {
                    tracing::info!(request_id = %trace, rate = &*rate.id, "in shadow: this call would be limited");
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

fn call<'c>(environment: Environment, operation: Option<&'c Operation>, caller: &'c Caller) -> Call<'c> {
    Call { environment, operation, issuer: caller.issuer(), subject: caller.subject(), roles: caller.roles() }
}

/// Each rate with what is counted of it.
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
