//! Rates of requests to the console, by person and by address, so that nobody floods the store or the audit log.
//!
//! An address has ten times a person's rate, because people can share one. The counts are this node's own. Memory is
//! bounded: of too many people or addresses, those that asked least are forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};

use crate::adapters::clock::Stopwatch;
use crate::config::ConsoleConfig;
use crate::policy::Quota;
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Reply, error_json};

/// How many times a person's rate one address has.
const PEOPLE_PER_ADDRESS: u64 = 10;
/// The most people or addresses that are remembered.
const MAX_REMEMBERED: usize = 4_096;

/// All rates of the console.
#[derive(Debug)]
pub(super) struct ConsoleRates {
    since: Stopwatch,
    sign_ins_of_person: RateMarks<Owner>,
    sign_ins_from_address: RateMarks<IpAddr>,
    acts_of_person: RateMarks<Owner>,
    acts_from_address: RateMarks<IpAddr>,
}

/// The marks of one rate. A full bucket has none.
#[derive(Debug)]
struct RateMarks<K> {
    quota: Quota,
    marks: Mutex<HashMap<K, u64>>,
}

impl ConsoleRates {
    pub fn new(config: &ConsoleConfig) -> Result<ConsoleRates, String> {
        let (sign_ins, acts) = (config.sign_ins_per_minute, config.acts_per_minute);
        let of_address = |calls: u64| calls.saturating_mul(PEOPLE_PER_ADDRESS);
        let burst = |calls: u64| (calls / 5).max(1);
        Ok(ConsoleRates {
            since: Stopwatch::start(),
            sign_ins_of_person: RateMarks::new(sign_ins, sign_ins)?,
            sign_ins_from_address: RateMarks::new(of_address(sign_ins), of_address(sign_ins))?,
            acts_of_person: RateMarks::new(acts, burst(acts))?,
            acts_from_address: RateMarks::new(of_address(acts), burst(of_address(acts)))?,
        })
    }

    pub fn sign_in_of(&self, person: &Owner) -> Result<(), Box<Reply>> {
        self.sign_ins_of_person.take(person, self.now()).map_err(|wait| limited("sign-ins of this person", wait))
    }

    pub fn sign_in_from(&self, address: IpAddr) -> Result<(), Box<Reply>> {
        let taken = self.sign_ins_from_address.take(&address, self.now());
        taken.map_err(|wait| limited("sign-ins from this address", wait))
    }

    pub fn act_of(&self, person: &Owner) -> Result<(), Box<Reply>> {
        self.acts_of_person.take(person, self.now()).map_err(|wait| limited("requests of this person", wait))
    }

    pub fn act_from(&self, address: IpAddr) -> Result<(), Box<Reply>> {
        let taken = self.acts_from_address.take(&address, self.now());
        taken.map_err(|wait| limited("requests from this address", wait))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl<K: Clone + Eq + Hash> RateMarks<K> {
    fn new(calls: u64, burst: u64) -> Result<RateMarks<K>, String> {
        Ok(RateMarks { quota: Quota::per_minute(calls, burst)?, marks: Mutex::default() })
    }

    /// Takes one call; returns the time to wait if there is no room for it.
    fn take(&self, user: &K, now: u64) -> Result<(), Duration> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.get(user).copied().unwrap_or(now);
        let Some(after) = self.quota.after(mark, now) else {
            let ahead = Duration::from_nanos(mark.saturating_sub(now));
            return Err(self.quota.read(false, ahead).more_in.unwrap_or(ahead));
        };
        if marks.len() >= MAX_REMEMBERED && !marks.contains_key(user) {
            forget(&mut marks, now);
        }
        marks.insert(user.clone(), after);
        Ok(())
    }
}

/// Forgets full buckets, then, if that is not enough, those that are nearest to full.
fn forget<K: Eq + Hash>(marks: &mut HashMap<K, u64>, now: u64) {
    marks.retain(|_, mark| *mark > now);
    if marks.len() < MAX_REMEMBERED {
        return;
    }
    let mut all: Vec<u64> = marks.values().copied().collect();
    let (_, middle, _) = all.select_nth_unstable(MAX_REMEMBERED / 2);
    let middle = *middle;
    marks.retain(|_, mark| *mark > middle);
}

fn limited(what: &str, wait: Duration) -> Box<Reply> {
    let secs = wait.as_secs().saturating_add(1);
    let message = format!("too many {what}; nothing was done. Try again in {secs} s.");
    let mut reply = error_json(Code::RateLimited, &message, None);
    reply.headers.insert(RETRY_AFTER, HeaderValue::from(secs));
    Box::new(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn each_has_a_bucket_that_refills() {
        let rate = RateMarks::new(60, 3).unwrap();
        for _ in 0..3 {
            assert_eq!(rate.take(&"ann", 5 * SECOND), Ok(()));
        }
        assert_eq!(rate.take(&"ann", 5 * SECOND), Err(Duration::from_secs(1)));
        assert_eq!(rate.take(&"bob", 5 * SECOND), Ok(()));
        assert_eq!(rate.take(&"ann", 6 * SECOND), Ok(()));
        assert!(rate.take(&"ann", 6 * SECOND).is_err());
    }

    #[test]
    fn many_users_take_bounded_memory_and_those_at_their_limit_stay() {
        let rate = RateMarks::new(60, 5).unwrap();
        for _ in 0..5 {
            rate.take(&usize::MAX, SECOND).unwrap();
        }
        for user in 0..3 * MAX_REMEMBERED {
            rate.take(&user, SECOND).unwrap();
            assert!(rate.marks.lock().unwrap().len() <= MAX_REMEMBERED);
        }
        assert!(rate.take(&usize::MAX, SECOND).is_err());
    }
}
