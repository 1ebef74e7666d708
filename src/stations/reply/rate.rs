//! Rate limits in answers: `RateLimit` and `RateLimit-Policy` after draft-ietf-httpapi-ratelimit-headers-11, and when
//! to retry.
//!
//! `RateLimit-Policy` names every rate that the call counts for, `RateLimit` the tightest one: of the refusing rates
//! the one that takes longest, else the quota with the fewest calls left. Its `t` says when one more call is available.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::policy::{Mark, Rate, RateBound};

pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The headers of rates, with those of earlier drafts.
pub const RATE_FIELDS: [HeaderName; 4] = [
    RATE_LIMIT,
    RATE_LIMIT_POLICY,
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// The state of one bucket after a call.
#[derive(Clone, Copy, Debug)]
pub struct Rated<'r> {
    pub rate: &'r Rate,
    pub mark: Mark,
}

/// The rates that a call exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub rates: Vec<Arc<str>>,
    pub retry_after_secs: u64,
}

/// Returns the enforced rates that a call exceeds.
pub fn exceeded(rated: &[Rated<'_>]) -> Option<Exceeded> {
    let refusing: Vec<&Rated<'_>> = enforced(rated).filter(|rated| !rated.mark.has_room).collect();
    let longest = refusing.iter().map(|rated| secs(rated.mark.more_in)).max()?;
    let mut rates: Vec<Arc<str>> = refusing.iter().map(|rated| rated.rate.id.clone()).collect();
    rates.dedup();
    Some(Exceeded { rates, retry_after_secs: longest.max(1) })
}

/// The headers; empty where no enforced rate applies.
pub fn rate_fields(rated: &[Rated<'_>]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let Some(tightest) = tightest(rated) else { return fields };
    let mut policies: Vec<String> = enforced(rated).map(|rated| policy(rated.rate)).collect();
    policies.dedup();
    // Ids and numbers always fit into a header.
    fields.extend(HeaderValue::from_str(&limit(tightest)).ok().map(|value| (RATE_LIMIT, value)));
    fields.extend(HeaderValue::from_str(&policies.join(", ")).ok().map(|value| (RATE_LIMIT_POLICY, value)));
    fields
}

fn enforced<'a, 'r>(rated: &'a [Rated<'r>]) -> impl Iterator<Item = &'a Rated<'r>> {
    rated.iter().filter(|rated| rated.rate.is_enforced())
}

fn tightest<'a, 'r>(rated: &'a [Rated<'r>]) -> Option<&'a Rated<'r>> {
    let refusing = enforced(rated).filter(|rated| !rated.mark.has_room);
    let longest = refusing.max_by_key(|rated| rated.mark.more_in);
    // Counts of open calls change all the time, so they are stated only if there is no quota.
    let quotas = || enforced(rated).filter(|rated| rated.mark.more_in.is_some());
    let fewest = || quotas().min_by_key(|rated| (rated.mark.left, std::cmp::Reverse(rated.mark.more_in)));
    longest.or_else(fewest).or_else(|| enforced(rated).min_by_key(|rated| rated.mark.left))
}

fn limit(rated: &Rated<'_>) -> String {
    // A bucket that refuses has nothing for this call, whatever it has left.
    let left = if rated.mark.has_room { rated.mark.left } else { 0 };
    match rated.mark.more_in {
        Some(more_in) => format!("\"{}\";r={left};t={}", rated.rate.id, secs(Some(more_in))),
        None => format!("\"{}\";r={left}", rated.rate.id),
    }
}

fn policy(rate: &Rate) -> String {
    let id = &rate.id;
    match rate.bound {
        RateBound::Quota(quota) => {
            let (calls, secs, burst) = (quota.calls(), quota.period_secs(), quota.burst());
            format!("\"{id}\";q={calls};w={secs};sluice-burst={burst}")
        }
        RateBound::Concurrent(most) => format!("\"{id}\";q={most};qu=\"concurrent-requests\""),
    }
}

/// Whole seconds, rounded up, so that the wait is long enough.
fn secs(time: Option<Duration>) -> u64 {
    let time = time.unwrap_or_default();
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, SchemaFiles};
    use crate::policy::{KnownNames, read_policies};

    fn rates(lines: &[&str]) -> Vec<Rate> {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        let text = |(at, line): (usize, &&str)| format!("[[rate]]\nid = \"r{at}\"\nops = [\"*\"]\n{line}\n");
        let text: String = lines.iter().enumerate().map(text).collect();
        let known = KnownNames { catalog: &catalog, issuers: &[], can_share: false };
        read_policies(&[("x.toml".to_owned(), text)], &known).unwrap().policies.rates
    }

    fn told(rates: &[Rate], marks: &[(bool, u64, Option<u64>)]) -> (String, String, Option<Exceeded>) {
        let rated: Vec<Rated<'_>> = rates
            .iter()
            .zip(marks)
            .map(|(rate, (has_room, left, millis))| {
                let more_in = millis.map(Duration::from_millis);
                Rated { rate, mark: Mark { has_room: *has_room, left: *left, more_in, is_near: false } }
            })
            .collect();
        let fields = rate_fields(&rated);
        let text = |name| fields.get(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned());
        (text(RATE_LIMIT), text(RATE_LIMIT_POLICY), exceeded(&rated))
    }

    #[test]
    fn the_tightest_is_told_and_all_policies() {
        let rates = rates(&["quota = \"100/s burst 200\"", "quota = \"5/h\"", "concurrent = 8"]);
        let (limit, policy, exceeded) =
            told(&rates, &[(true, 190, Some(1)), (true, 4, Some(719_001)), (true, 7, None)]);
        assert_eq!(limit, "\"r1\";r=4;t=720");
        assert_eq!(
            policy,
            "\"r0\";q=100;w=1;sluice-burst=200, \"r1\";q=5;w=3600;sluice-burst=5, \"r2\";q=8;qu=\"concurrent-requests\""
        );
        assert_eq!(exceeded, None);
        assert_eq!(told(&rates, &[(true, 9, Some(1)), (true, 9, Some(2)), (true, 0, None)]).0, "\"r1\";r=9;t=1");
        assert_eq!(told(&rates[2..], &[(true, 7, None)]).0, "\"r2\";r=7");
        let (limit, _, exceeded) = told(&rates, &[(false, 0, Some(3)), (false, 0, Some(500_000)), (true, 0, None)]);
        assert_eq!(limit, "\"r1\";r=0;t=500");
        assert_eq!(exceeded.unwrap(), Exceeded { rates: vec!["r0".into(), "r1".into()], retry_after_secs: 500 });
        let (limit, _, exceeded) = told(&rates, &[(true, 3, Some(1)), (true, 3, Some(1)), (false, 0, None)]);
        assert_eq!((limit.as_str(), exceeded.unwrap().retry_after_secs), ("\"r2\";r=0", 1));
    }

    #[test]
    fn a_shadow_is_not_seen() {
        let rates = rates(&["quota = \"5/h\"\nmode = \"shadow\""]);
        assert_eq!(told(&rates, &[(false, 0, Some(1))]), (String::new(), String::new(), None));
    }
}
