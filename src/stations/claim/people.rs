//! What people say of a call in doubt, when no read can tell.
//!
//! That it was executed is said by one, who has the record. That it was not takes two people, neither of whom asked for
//! it: their word lets it be sent again.

use super::keeping::{Moved, Standpoint, Terms, entry, settle};
use super::state::{Answer, Event, Next, Owner, State};
use super::written::write;
use crate::commit::{Commit, Keep, NodeId, Step, StoreTime};
use crate::stations::record::What;

/// Why a person's word is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    NotInDoubt,
    /// Whoever asked for the payment does not say what became of it.
    Owner,
    /// Upstream may still do it, until then.
    TooEarly(StoreTime),
    /// It takes two people.
    SaidAlready,
}

/// One person says that nothing was executed. The second makes it so; the owner's word is none.
pub fn say_absent(
    here: Standpoint<'_>,
    person: &Owner,
    reason: &str,
    now: StoreTime,
    node: &NodeId,
    terms: &Terms,
) -> Result<(Commit, Option<Next>), NotTaken> {
    let State::Unknown { said_absent, attempt, doubted, .. } = &here.claim.state else {
        return Err(NotTaken::NotInDoubt);
    };
    if here.claim.is_asked_by(person) {
        return Err(NotTaken::Owner);
    }
    let quiet = doubted.unwrap_or(here.at).plus(terms.quiet);
    if now < quiet {
        return Err(NotTaken::TooEarly(quiet));
    }
    let who = person.to_string();
    match said_absent {
        Some(first) if is_same_person(first, person) => Err(NotTaken::SaidAlready),
        Some(first) => {
            let (mut commit, next) =
                settle(here, *attempt, Event::ShownAbsent, node, terms).map_err(|Moved| NotTaken::NotInDoubt)?;
            let people = serde_json::json!([first, who]);
            let entry = entry(What::Undone, here.key, here.claim, *attempt);
            commit.entry = entry.with("saidBy", people).with("reason", reason).to_bytes();
            Ok((commit, Some(next)))
        }
        None => {
            let mut claim = here.claim.clone();
            if let State::Unknown { said_absent, doubted, .. } = &mut claim.state {
                *said_absent = Some(who.clone());
                doubted.get_or_insert(here.at);
            }
            let entry = entry(What::SaidAbsent, here.key, here.claim, *attempt);
            let value = write(&claim);
            let steps =
                vec![Step::Replace { key: here.key.clone(), version: here.version, value, keep: Keep::Forever }];
            let entry = entry.with("saidBy", serde_json::json!([who])).with("reason", reason).to_bytes();
            Ok((Commit { environment: here.key.environment, node: node.clone(), steps, entry }, None))
        }
    }
}

/// One person shows the record of upstream.
pub fn say_executed(
    here: Standpoint<'_>,
    person: &Owner,
    reason: &str,
    answer: Answer,
    node: &NodeId,
    terms: &Terms,
) -> Result<Commit, NotTaken> {
    let State::Unknown { attempt, .. } = &here.claim.state else { return Err(NotTaken::NotInDoubt) };
    if here.claim.is_asked_by(person) {
        return Err(NotTaken::Owner);
    }
    let status = answer.status;
    let (mut commit, _) =
        settle(here, *attempt, Event::Found(answer), node, terms).map_err(|Moved| NotTaken::NotInDoubt)?;
    let entry = entry(What::Executed, here.key, here.claim, *attempt).with("status", status);
    let said_by = serde_json::json!([person.to_string()]);
    commit.entry = entry.with("saidBy", said_by).with("reason", reason).to_bytes();
    Ok(commit)
}

/// People are compared by subject, across issuers.
fn is_same_person(first: &str, person: &Owner) -> bool {
    first.split_once('/').is_some_and(|(_, subject)| subject == person.subject)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::super::booked::Booked;
    use super::super::state::{Claim, Doubt, SentForm};
    use super::*;
    use crate::base::digest::Fingerprint;
    use crate::base::ids::{Environment, OperationId, RequestId, TraceId};
    use crate::commit::{Kind, Number, RecordKey, StoreTime};

    fn person(issuer: &str, subject: &str) -> Owner {
        Owner { issuer: issuer.to_owned(), subject: subject.to_owned() }
    }

    fn in_doubt(said_absent: Option<&str>) -> Claim {
        Claim {
            owner: person("main", "payroll"),
            requester: Some("ann".to_owned()),
            operation: OperationId::new("createSwap"),
            fingerprint: Fingerprint::of(&[]),
            request_id: RequestId::parse("r-1"),
            trace: TraceId::parse("t-1").unwrap(),
            hold: None,
            booked: Booked::default(),
            state: State::Unknown {
                attempt: Number::new(7),
                since: StoreTime::of_micros(1),
                doubt: Doubt::Silent,
                doubted: None,
                sent: SentForm { target: "/v2/wallets/swaps".to_owned(), body: Bytes::from_static(b"{}") },
                looks: 0,
                said_absent: said_absent.map(str::to_owned),
            },
        }
    }

    fn said(said_absent: Option<&str>, person: &Owner) -> Result<Option<Next>, NotTaken> {
        said_at(said_absent, person, StoreTime::of_micros(1_000_002))
    }

    fn said_at(said_absent: Option<&str>, person: &Owner, now: StoreTime) -> Result<Option<Next>, NotTaken> {
        let claim = in_doubt(said_absent);
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
        let here = Standpoint { key: &key, version: Number::new(9), at: StoreTime::of_micros(2), claim: &claim };
        let keep = Keep::For { whole: Duration::from_secs(1), spent: Duration::from_secs(1) };
        let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
        let terms = Terms { begin_within, lease, first_look, quiet, keep };
        let node = NodeId::parse("gate").unwrap();
        say_absent(here, person, "looked", now, &node, &terms).map(|(_, next)| next)
    }

    #[test]
    fn it_takes_two_people_neither_of_whom_asked() {
        assert_eq!(said(None, &person("people", "ops-1")), Ok(None));
        assert_eq!(said(Some("people/ops-1"), &person("people", "ops-2")), Ok(Some(Next::Absent)));
        for same in [person("people", "ops-1"), person("others", "ops-1")] {
            assert_eq!(said(Some("people/ops-1"), &same), Err(NotTaken::SaidAlready), "{same}");
        }
        for owner in [person("main", "payroll"), person("people", "payroll"), person("people", "ann")] {
            assert_eq!(said(None, &owner), Err(NotTaken::Owner), "{owner}");
            assert_eq!(said(Some("people/ops-1"), &owner), Err(NotTaken::Owner), "{owner}");
        }
    }

    #[test]
    fn nobody_says_so_while_upstream_may_still_do_it() {
        let early = StoreTime::of_micros(1_000_001);
        for said_absent in [None, Some("people/ops-1")] {
            let said = said_at(said_absent, &person("people", "ops-2"), early);
            assert_eq!(said, Err(NotTaken::TooEarly(StoreTime::of_micros(1_000_002))));
        }
    }

    #[test]
    fn subjects_with_slashes_are_still_themselves() {
        assert_eq!(said(Some("people/a/b"), &person("people", "a/b")), Err(NotTaken::SaidAlready));
        assert_eq!(said(Some("people/a/b"), &person("people", "b")), Ok(Some(Next::Absent)));
    }
}
