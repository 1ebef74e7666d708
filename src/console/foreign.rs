//! The list of payments that upstream shows and no gate sent, or that are not as they were sent.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::page::PageParameters;
use super::render::moment;
use super::request::{ActRequest, store_failed, violated};
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::Party;
use crate::ledger::{Content, Index, IndexPart, StoreFault, StoreTime};
use crate::stations::follow::{ForeignRecord, decode_foreign, decode_progress, foreign_key, progress_key};
use crate::stations::reply::{Reply, ok_json};

/// How many names are fetched at once.
const BATCH: usize = 1_024;
/// Payments that were found within this time of each other are of one reading, which goes from the newest record back.
const READING_GAP_MICROS: i64 = 5_000_000;

/// The last payment of the previous page: when it was found, and the end of its name.
type LastFound = (i64, String);
/// A page of the list.
type ForeignPage = PageParameters<(), LastFound>;
/// When a payment was found, and its name in the store.
type FoundPayment = (StoreTime, String);

pub(super) async fn list(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let mut page = match ForeignPage::of(inside, &asked.query, &[], (), last, |_, _| Ok(false)) {
        Ok(page) => page,
        Err(violation) => return violated(vec![violation]),
    };
    let roles: Vec<&str> = asked.person.roles().collect();
    page.environments.retain(|environment| inside.visibility.shows(&roles, *environment, None));
    let answer = async {
        let mut lists = Vec::new();
        for environment in &page.environments {
            lists.extend(lists_of(inside, *environment).await?);
        }
        let (payments, next) = page.read(inside).await?;
        Ok(json!({ "payments": payments, "next": next, "lists": lists }))
    };
    match answer.await {
        Ok(answer) => ok_json(200, &answer),
        Err(fault) => store_failed(inside, &fault),
    }
}

fn last(text: &str) -> Option<LastFound> {
    let (found, name) = text.split_once(':')?;
    let is_digest = !name.is_empty() && name.bytes().all(|b| b.is_ascii_hexdigit());
    Some((found.parse().ok().filter(|_| is_digest)?, name.to_owned()))
}

/// Returns the end of a name, which identifies it: a query has no `/`.
fn digest_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Returns which of upstream's lists of payments a gate reads now: without that, nobody finds such payments.
async fn lists_of(inside: &ConsoleState, environment: Environment) -> Result<Vec<Value>, StoreFault> {
    let catalog = inside.catalog();
    let mut lists = Vec::new();
    for operation in catalog.operations().iter().filter(|one| one.enabled && one.follow.is_some()) {
        let (record, now) = inside.node.store.read(&progress_key(environment, &operation.id)).await?;
        let progress = match record.map(|record| record.content) {
            Some(Content::Whole(bytes)) => decode_progress(&bytes).ok(),
            _ => None,
        };
        lists.push(json!({
            "environment": environment.as_str(),
            "operation": operation.id.as_str(),
            "read": progress.as_ref().is_some_and(|progress| progress.until > now),
            "latest": progress.map(|progress| moment(StoreTime::of_micros(progress.head))),
        }));
    }
    Ok(lists)
}

impl ForeignPage {
    /// Returns the payments of the page and the position of the next one: those of the latest reading first, and of one
    /// reading those that upstream made last.
    async fn read(&self, inside: &ConsoleState) -> Result<(Vec<Value>, Option<String>), StoreFault> {
        let (mut payments, mut position) = (Vec::new(), None);
        for environment in &self.environments {
            let after = match &self.after {
                Some((at, _)) if environment < at => continue,
                Some((at, last)) if environment == at => Some(last),
                Some(_) | None => None,
            };
            let is_behind = |reading: &&Vec<FoundPayment>| {
                let earliest = reading.last().map(|(found, _)| found.as_micros());
                after.is_none_or(|(found, _)| earliest.is_some_and(|earliest| earliest <= *found))
            };
            let found = found(inside, *environment).await?;
            for reading in readings(found).iter().filter(is_behind) {
                let reading = newest_first(inside, *environment, reading).await?;
                // Where the last payment of the page is gone, its reading is told again.
                let told =
                    after.and_then(|(_, last)| reading.iter().position(|((_, name), _)| digest_of(name) == last));
                for ((found, name), payment) in reading.iter().skip(told.map_or(0, |at| at.saturating_add(1))) {
                    if payments.len() >= self.limit {
                        return Ok((payments, position));
                    }
                    payments.push(payment_json(*environment, *found, payment));
                    position = Some(format!("{environment}:{}:{}", found.as_micros(), digest_of(name)));
                }
            }
        }
        Ok((payments, None))
    }
}

/// Returns all payments of the list, those that were found last first.
async fn found(inside: &ConsoleState, environment: Environment) -> Result<Vec<FoundPayment>, StoreFault> {
    let mut all: Vec<FoundPayment> = Vec::new();
    loop {
        let part = IndexPart { backwards: true, behind: all.last().cloned(), count: BATCH };
        let part = inside.node.store.part(environment, Index::Foreign, part).await?;
        let is_last = part.len() < BATCH;
        all.extend(part);
        if is_last {
            return Ok(all);
        }
    }
}

/// Returns payments by the reading that found them.
fn readings(found: Vec<FoundPayment>) -> Vec<Vec<FoundPayment>> {
    let mut readings: Vec<Vec<FoundPayment>> = Vec::new();
    for one in found {
        let is_of = |last: &FoundPayment| last.0.as_micros().saturating_sub(one.0.as_micros()) <= READING_GAP_MICROS;
        match readings.last_mut().filter(|reading| reading.last().is_some_and(is_of)) {
            Some(reading) => reading.push(one),
            None => readings.push(vec![one]),
        }
    }
    readings
}

/// Reads the payments of one reading, and puts those first that upstream made last.
async fn newest_first(
    inside: &ConsoleState,
    environment: Environment,
    reading: &[FoundPayment],
) -> Result<Vec<(FoundPayment, ForeignRecord)>, StoreFault> {
    let mut payments = Vec::with_capacity(reading.len());
    for (found, name) in reading {
        let (record, _) = inside.node.store.read(&foreign_key(environment, name)).await?;
        let Some(Content::Whole(bytes)) = record.map(|record| record.content) else { continue };
        let payment = decode_foreign(&bytes).map_err(|why| StoreFault::Broken(why.to_string()))?;
        payments.push(((*found, name.clone()), payment));
    }
    payments.sort_by(|((_, one), first), ((_, other), second)| {
        (Reverse(first.created), one).cmp(&(Reverse(second.created), other))
    });
    Ok(payments)
}

fn payment_json(environment: Environment, found: StoreTime, payment: &ForeignRecord) -> Value {
    json!({
        "environment": environment.as_str(),
        "operation": payment.operation.as_str(),
        "record": payment.id,
        "requestId": payment.request_id,
        "problem": payment.problem.as_str(),
        "text": payment.problem.in_words(),
        "state": payment.state,
        "createdAt": moment(StoreTime::of_micros(payment.created)),
        "foundAt": moment(found),
        "source": party(&payment.moves.source),
        "destination": party(&payment.moves.destination),
    })
}

fn party(party: &Party) -> Value {
    json!({
        "amount": party.amount,
        "currency": party.currency,
        "chain": party.chain,
        "user": party.user,
        "wallet": party.wallet,
        "account": party.account,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_of_one_reading_are_together() {
        let at = |secs: i64, name: &str| (StoreTime::of_micros(secs * 1_000_000), name.to_owned());
        let found = vec![at(60, "f"), at(31, "e"), at(30, "d"), at(25, "c"), at(19, "b"), at(0, "a")];
        let names = |reading: &Vec<FoundPayment>| reading.iter().map(|(_, name)| name.as_str()).collect::<String>();
        assert_eq!(readings(found).iter().map(names).collect::<Vec<_>>(), ["f", "edc", "b", "a"]);
        assert_eq!(last("77:0a"), Some((77, digest_of("foreign/0a").to_owned())));
        for odd in ["", "77", "77:", ":0a", "x:0a", "77:foreign/0a", "77:0a:b"] {
            assert_eq!(last(odd), None, "{odd}");
        }
    }
}
