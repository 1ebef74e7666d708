//! What people say of a call in doubt, when no read can tell.
//!
//! That it was executed is said by one, who has the record. That it was not takes two people, neither of whom asked for
//! it: their word lets it be sent again.

use super::keeping::{Moved, Standpoint, Terms, entry, settle};
use super::state::{Answer, Event, Next, Owner, State};
use super::written::write;
use crate::commit::{Commit, Keep, NodeId, Step};
use crate::stations::record::What;

/// Why a person's word is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    NotInDoubt,
    /// Whoever asked for the payment does not say that it was not made.
    Owner,
    /// It takes two people.
    SaidAlready,
}

/// One person says that nothing was executed. The second makes it so; the owner's word is none.
pub fn say_absent(
    here: Standpoint<'_>,
    person: &Owner,
    reason: &str,
    node: &NodeId,
    terms: &Terms,
) -> Result<(Commit, Option<Next>), NotTaken> {
    let State::Unknown { said_absent, attempt, .. } = &here.claim.state else { return Err(NotTaken::NotInDoubt) };
    if person.subject == here.claim.owner.subject {
        return Err(NotTaken::Owner);
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
            if let State::Unknown { said_absent, .. } = &mut claim.state {
                *said_absent = Some(who.clone());
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
            operation: OperationId::new("createSwap"),
            fingerprint: Fingerprint::of(&[]),
            request_id: RequestId::parse("r-1"),
            trace: TraceId::parse("t-1").unwrap(),
            state: State::Unknown {
                attempt: Number::new(7),
                since: StoreTime::of_micros(1),
                doubt: Doubt::Silent,
                sent: SentForm { target: "/v2/wallets/swaps".to_owned(), body: Bytes::from_static(b"{}") },
                looks: 0,
                said_absent: said_absent.map(str::to_owned),
            },
        }
    }

    fn said(said_absent: Option<&str>, person: &Owner) -> Result<Option<Next>, NotTaken> {
        let claim = in_doubt(said_absent);
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
        let here = Standpoint { key: &key, version: Number::new(9), at: StoreTime::of_micros(2), claim: &claim };
        let keep = Keep::For { whole: Duration::from_secs(1), spent: Duration::from_secs(1) };
        let [begin_within, lease, first_look] = [Duration::from_secs(1); 3];
        let terms = Terms { begin_within, lease, first_look, keep };
        let node = NodeId::parse("gate").unwrap();
        say_absent(here, person, "looked", &node, &terms).map(|(_, next)| next)
    }

    #[test]
    fn it_takes_two_people_neither_of_whom_asked() {
        assert_eq!(said(None, &person("people", "ops-1")), Ok(None));
        assert_eq!(said(Some("people/ops-1"), &person("people", "ops-2")), Ok(Some(Next::Absent)));
        for same in [person("people", "ops-1"), person("others", "ops-1")] {
            assert_eq!(said(Some("people/ops-1"), &same), Err(NotTaken::SaidAlready), "{same}");
        }
        for owner in [person("main", "payroll"), person("people", "payroll")] {
            assert_eq!(said(None, &owner), Err(NotTaken::Owner), "{owner}");
            assert_eq!(said(Some("people/ops-1"), &owner), Err(NotTaken::Owner), "{owner}");
        }
    }

    #[test]
    fn subjects_with_slashes_are_still_themselves() {
        assert_eq!(said(Some("people/a/b"), &person("people", "a/b")), Err(NotTaken::SaidAlready));
        assert_eq!(said(Some("people/a/b"), &person("people", "b")), Ok(Some(Next::Absent)));
    }
}
