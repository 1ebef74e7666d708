//! Rates of requests to the console, by person and by address, so that nobody floods the store or the audit log.
//!
//! An address has ten times a person's rate, because people can share one. Requests of people, requests that need
//! nobody and requests with credentials that are not believed count apart, so that none of them uses up another's rate;
//! and what a person's own rate refuses is not counted for the address. Acts that stop money have a rate of the person
//! alone: nothing that others do refuses them. The counts are this node's own. Memory is bounded: of too many people or
//! addresses, those that asked least are forgotten.

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
const FROM_ADDRESS: &str = "requests from this address";
/// The most people or addresses that are remembered.
const MAX_REMEMBERED: usize = 4_096;

/// All rates of the console.
#[derive(Debug)]
pub(super) struct ConsoleRates {
    since: Stopwatch,
    sign_ins_of_person: RateMarks<Owner>,
    sign_ins_from_address: RateMarks<IpAddr>,
    acts_of_person: RateMarks<Owner>,
    /// Acts that stop money.
    stops_of_person: RateMarks<Owner>,
    acts_from_address: RateMarks<IpAddr>,
    /// Acts that need nobody, and paths that are unknown.
    open_acts_from_address: RateMarks<IpAddr>,
    /// Credentials that are not believed.
    unbelieved_from_address: RateMarks<IpAddr>,
    /// Ends of sessions that the store does not show, of each address and of all.
    unseen_ends_from_address: RateMarks<IpAddr>,
    unseen_ends: RateMarks<()>,
    /// Ends of all sessions of a person, by that person and by operators.
    ends_of_own: RateMarks<Owner>,
    ends_by_operator: RateMarks<Owner>,
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
        let acts_of_address = || RateMarks::new(of_address(acts), burst(of_address(acts)));
        Ok(ConsoleRates {
            since: Stopwatch::start(),
            sign_ins_of_person: RateMarks::new(sign_ins, sign_ins)?,
            sign_ins_from_address: RateMarks::new(of_address(sign_ins), of_address(sign_ins))?,
            acts_of_person: RateMarks::new(acts, burst(acts))?,
            stops_of_person: RateMarks::new(acts, burst(acts))?,
            acts_from_address: acts_of_address()?,
            open_acts_from_address: acts_of_address()?,
            unbelieved_from_address: acts_of_address()?,
            unseen_ends_from_address: RateMarks::new(sign_ins, sign_ins)?,
            unseen_ends: RateMarks::new(of_address(sign_ins), of_address(sign_ins))?,
            ends_of_own: RateMarks::new(sign_ins, sign_ins)?,
            ends_by_operator: RateMarks::new(of_address(sign_ins), of_address(sign_ins))?,
        })
    }

    pub fn sign_in_of(&self, person: &Owner) -> Result<(), Box<Reply>> {
        self.sign_ins_of_person.take(person, self.now()).map_err(|wait| limited("sign-ins of this person", wait))
    }

    pub fn sign_in_from(&self, address: IpAddr) -> Result<(), Box<Reply>> {
        let taken = self.sign_ins_from_address.take(&address, self.now());
        taken.map_err(|wait| limited("sign-ins from this address", wait))
    }

    /// Takes one act of a person from this address.
    pub fn act_of(&self, person: &Owner, address: IpAddr) -> Result<(), Box<Reply>> {
        let now = self.now();
        self.acts_of_person.take(person, now).map_err(|wait| limited("requests of this person", wait))?;
        self.acts_from_address.take(&address, now).map_err(|wait| limited(FROM_ADDRESS, wait))
    }

    /// Takes one act of a person that stops money.
    pub fn stop_of(&self, person: &Owner) -> Result<(), Box<Reply>> {
        self.stops_of_person.take(person, self.now()).map_err(|wait| limited("requests of this person", wait))
    }

    /// Takes one act that needs nobody.
    pub fn open_act_from(&self, address: IpAddr) -> Result<(), Box<Reply>> {
        self.open_acts_from_address.take(&address, self.now()).map_err(|wait| limited(FROM_ADDRESS, wait))
    }

    /// Takes one use of credentials, before or after it is known that they are not believed.
    pub fn unbelieved_from(&self, address: IpAddr) -> Result<(), Box<Reply>> {
        self.unbelieved_from_address.take(&address, self.now()).map_err(|wait| limited(FROM_ADDRESS, wait))
    }

    /// Takes one end of a session that the store does not show.
    pub fn unseen_end_from(&self, address: IpAddr) -> Result<(), Box<Reply>> {
        let now = self.now();
        let ends = "sign-outs of sessions that are not in the store";
        self.unseen_ends_from_address.take(&address, now).map_err(|wait| limited(ends, wait))?;
        self.unseen_ends.take(&(), now).map_err(|wait| limited(ends, wait))
    }

    /// Takes one end of all sessions of a person. An operator ends those of many.
    pub fn end_of_all(&self, by: &Owner, is_own: bool) -> Result<(), Box<Reply>> {
        let rate = if is_own { &self.ends_of_own } else { &self.ends_by_operator };
        rate.take(by, self.now()).map_err(|wait| limited("ends of sessions by this person", wait))
    }

    /// Gives back a use of credentials that were believed after all.
    pub fn believed_from(&self, address: IpAddr) {
        self.unbelieved_from_address.give_back(&address);
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

    /// Gives back one call that was taken.
    fn give_back(&self, user: &K) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let interval = u64::try_from(self.quota.interval().as_nanos()).unwrap_or(u64::MAX);
        if let Some(mark) = marks.get_mut(user) {
            *mark = mark.saturating_sub(interval);
        }
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
    fn a_call_that_is_given_back_can_be_taken_again() {
        let rate = RateMarks::new(60, 3).unwrap();
        for _ in 0..100 {
            assert_eq!(rate.take(&"ann", SECOND), Ok(()));
            rate.give_back(&"ann");
        }
        for _ in 0..3 {
            assert_eq!(rate.take(&"ann", SECOND), Ok(()));
        }
        assert!(rate.take(&"ann", SECOND).is_err());
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
