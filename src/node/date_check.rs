//! The comparison of this machine's clock with the dates of upstream and issuers, at a start.
//!
//! Nobody knows at a start whether the clock is right, so money waits for one date that agrees. If a date differs and none
//! agrees, or those who answer tell no date, the money of this gate closes until people open it. That of the other gates
//! does not: they have clocks of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::clock_watch::DateTrust;
use super::{ClockWatch, Node};
use crate::adapters::heard_dates::{DateVerdict, HeardDates};
use crate::base::ids::Environment;
use crate::ledger::StoreFault;
use crate::stations::claim::{self, Freeze};

/// How long the gate waits for a date before it says, or judges, that it has heard none.
const TOLD_WITHIN: Duration = Duration::from_secs(30);
/// How long a date that differs waits for another one that agrees.
const AGREES_WITHIN: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Compares the clock with the dates that are heard, and lets money move, or closes it.
pub async fn check_date(node: Arc<Node>, dates: Arc<HeardDates>, environments: Vec<Environment>) {
    let doubt = doubt(&node.clocks, &dates).await;
    node.clocks.is_told(if doubt.is_some() { DateTrust::Differs } else { DateTrust::Agrees });
    if let Some(why) = doubt {
        tracing::error!(
            why,
            "this gate sends no money: set the clock of its machine right, start the gate again, then `sluice unfreeze \
             --gate-clock {} --environment ENVIRONMENT --reason TEXT`",
            node.id
        );
        for environment in environments {
            while let Err(fault) = node.close_gate(environment, &why).await {
                node.told_of(&fault);
                sleep(RETRY_INTERVAL).await;
            }
        }
    } else {
        node.clocks.all_settled().await;
    }
    node.clocks.is_compared();
}

/// Returns why the clock is doubted; `None` if a date agrees.
async fn doubt(clocks: &ClockWatch, dates: &HeardDates) -> Option<String> {
    let mut is_told = false;
    loop {
        match timeout(TOLD_WITHIN, dates.verdict()).await {
            Ok(DateVerdict::Agrees) => return None,
            Ok(DateVerdict::Differs(different)) => {
                let agreed = timeout(AGREES_WITHIN, dates.agreed()).await;
                return agreed.is_err().then(|| different.text());
            }
            Err(_) if dates.is_told_none() && !clocks.uncompared().is_empty() => {
                let why = "upstream and issuers answer without a date, so that nobody knows whether the clock of this machine is right";
                return Some(why.to_owned());
            }
            Err(_) if is_told => {}
            Err(_) => tracing::warn!(
                "neither upstream nor an issuer has told a date since the start, so that nobody knows whether the clock of this \
                 machine is right; money waits for one where `ask_date` is true"
            ),
        }
        is_told = true;
    }
}

impl Node {
    /// Closes the money of this gate, unless it is closed already.
    pub(super) async fn close_gate(&self, environment: Environment, why: &str) -> Result<(), StoreFault> {
        if self.store.read(&Freeze::GateClock(self.id.clone()).key(environment)).await?.0.is_some() {
            return Ok(());
        }
        self.commit(claim::gate_clock_doubted(environment, why, &self.id)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::HeaderMap;
    use http::header::DATE;
    use tokio::time::Instant;

    use super::*;
    use crate::adapters::clock::SystemClock;
    use crate::ports::Clock as _;

    /// Hears a date that is wrong by so many seconds; `None` is an answer without one.
    fn hear(dates: &HeardDates, seconds: Option<i64>) {
        let mut headers = HeaderMap::new();
        if let Some(seconds) = seconds {
            let date = SystemClock.now() + jiff::SignedDuration::from_secs(seconds);
            headers.insert(DATE, date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string().parse().unwrap());
        }
        dates.hear("upstream", &headers);
    }

    fn waiting() -> ClockWatch {
        ClockWatch::comparing(BTreeSet::from([Environment::Production]))
    }

    #[tokio::test(start_paused = true)]
    async fn one_date_that_agrees_counts_more_than_others_that_differ() {
        for (first, second, is_doubted) in [(0, 0, false), (0, 900, false), (900, 0, false), (-900, 900, true)] {
            let (dates, clocks) = (HeardDates::default(), waiting());
            hear(&dates, Some(first));
            let (doubt, ()) = tokio::join!(doubt(&clocks, &dates), async {
                sleep(Duration::from_secs(1)).await;
                hear(&dates, Some(second));
            });
            assert_eq!(doubt.is_some(), is_doubted, "{first} {second}: {doubt:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_without_a_date_close_money_where_it_waits_for_one_and_silence_waits_on() {
        let dates = HeardDates::default();
        hear(&dates, None);
        let began = Instant::now();
        let why = doubt(&waiting(), &dates).await.unwrap();
        assert!(why.contains("without a date") && began.elapsed() == TOLD_WITHIN, "{why}");
        let hour = Duration::from_secs(3_600);
        // Nothing waits for a date: the first one counts, whenever it comes.
        assert!(timeout(hour, doubt(&ClockWatch::default(), &dates)).await.is_err());
        // Nobody answered: whoever answers first opens money.
        let silent = HeardDates::default();
        assert!(timeout(hour, doubt(&waiting(), &silent)).await.is_err());
        hear(&silent, Some(0));
        assert_eq!(doubt(&waiting(), &silent).await, None);
    }
}
