//! What people say of outcomes that no read can settle.

use std::time::Duration;

use bytes::Bytes;

use super::super::bookings::Booking;
use super::super::first_word::WORD_LASTS;
use super::super::past_attempts::AttemptEnd;
use super::super::state::{Claim, DoubtCause, SentRequest};
use super::*;
use crate::base::ids::{Environment, OperationId, RequestId, TraceId};
use crate::ledger::{JournalId, Kind, Number, RecordKey, StoreTime};

/// The attempt was made at 2, and one second later it is quiet.
const QUIET: StoreTime = StoreTime::of_micros(1_000_002);

fn person(issuer: &str, subject: &str) -> Owner {
    Owner::named(issuer, subject)
}

fn named(text: &str) -> Owner {
    let (issuer, subject) = text.split_once('/').unwrap();
    person(issuer, subject)
}

fn said_early(text: &str) -> FirstWord {
    FirstWord { by: named(text), said: StoreTime::of_micros(5) }
}

fn sender(journal: &str) -> Sender {
    Sender { node: NodeId::parse("gate").unwrap(), journal: JournalId::parse(&journal.repeat(32)).unwrap() }
}

fn heard_gate(journal: &str, at: StoreTime, open_from: Option<u64>) -> SenderNews {
    let gate = HeardGate { sender: sender(journal), at, open_from: open_from.map(Number::new), has_left: false };
    SenderNews { gates: vec![gate], is_gone: false }
}

fn left(journal: &str, open_from: Option<u64>) -> SenderNews {
    let mut news = heard_gate(journal, StoreTime::of_micros(3), open_from);
    news.gates[0].has_left = true;
    news
}

fn in_doubt(said_absent: Option<&str>, said_abandoned: Option<&str>) -> Claim {
    Claim {
        owner: person("main", "payroll"),
        requester: Some("ann".to_owned()),
        operation: OperationId::new("createSwap"),
        fingerprint: Fingerprint::of(&[]),
        request_id: RequestId::parse("r-1"),
        trace: TraceId::parse("t-1").unwrap(),
        moves: None,
        hold: None,
        attempts: vec![PastAttempt {
            number: Number::new(7),
            sender: sender("a"),
            since: StoreTime::of_micros(2),
            booked: Booking::default(),
            end: AttemptEnd::Unknown,
        }],
        state: ClaimState::Unknown {
            doubt: DoubtCause::Silent,
            doubted: None,
            sent: SentRequest { target: "/v2/wallets/swaps".to_owned(), body: Bytes::from_static(b"{}") },
            looks: 0,
            said_absent: said_absent.map(said_early),
            said_abandoned: said_abandoned.map(said_early),
        },
    }
}

fn commits_word(
    claim: &Claim,
    word: JointWord,
    person: &Owner,
    now: StoreTime,
    news: &SenderNews,
) -> Result<(Commit, Option<NextState>), ResolveRefusal> {
    let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
    let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(3), value: claim };
    let keep = Keep::For { whole: Duration::from_secs(1), spent: Duration::from_secs(1) };
    let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
    let terms = Terms { begin_within, lease, first_look, quiet, keep };
    let node = NodeId::parse("gate").unwrap();
    say_jointly(here, word, (person, "looked"), (now, news), &node, &terms)
}

fn says_word(
    claim: &Claim,
    word: JointWord,
    person: &Owner,
    now: StoreTime,
    news: &SenderNews,
) -> Result<Option<NextState>, ResolveRefusal> {
    commits_word(claim, word, person, now, news).map(|(_, next)| next)
}

fn says_absent(said_absent: Option<&str>, person: &Owner) -> Result<Option<NextState>, ResolveRefusal> {
    says_word(&in_doubt(said_absent, None), JointWord::Absent, person, QUIET, &heard_gate("a", QUIET, None))
}

#[test]
fn it_takes_two_people_neither_of_whom_asked() {
    assert_eq!(says_absent(None, &person("people", "ops-1")), Ok(None));
    assert_eq!(says_absent(Some("people/ops-1"), &person("people", "ops-2")), Ok(Some(NextState::Absent)));
    for same in [person("people", "ops-1"), person("others", "ops-1")] {
        assert_eq!(says_absent(Some("people/ops-1"), &same), Err(ResolveRefusal::SaidAlready), "{same}");
    }
    for owner in [person("main", "payroll"), person("people", "PAYROLL"), person("people", "\u{ff41}nn")] {
        assert_eq!(says_absent(None, &owner), Err(ResolveRefusal::Owner), "{owner}");
        assert_eq!(says_absent(Some("people/ops-1"), &owner), Err(ResolveRefusal::Owner), "{owner}");
    }
}

#[test]
fn nobody_says_so_while_upstream_may_still_do_it() {
    let early = StoreTime::of_micros(QUIET.as_micros() - 1);
    for (absent, abandoned) in [(None, None), (Some("people/ops-1"), Some("people/ops-1"))] {
        for word in [JointWord::Absent, JointWord::Abandoned] {
            let claim = in_doubt(absent, abandoned);
            let said = says_word(&claim, word, &person("people", "ops-2"), early, &heard_gate("a", QUIET, None));
            assert_eq!(said, Err(ResolveRefusal::TooEarly(QUIET)));
        }
    }
}

#[test]
fn nobody_says_absent_while_the_gate_that_sent_it_may_hold_a_proof() {
    let (claim, ops) = (in_doubt(Some("people/ops-1"), None), person("people", "ops-2"));
    let say = |news: &SenderNews| says_word(&claim, JointWord::Absent, &ops, QUIET, news);
    let before = StoreTime::of_micros(QUIET.as_micros() - 1);
    for away in [
        SenderNews::default(),
        heard_gate("a", before, None),
        heard_gate("a", QUIET, Some(7)),
        heard_gate("a", QUIET, Some(3)),
        // A gate of the same name that lost its journal.
        heard_gate("b", QUIET, None),
        // It ended with an outcome that it could not store.
        left("a", Some(7)),
    ] {
        assert_eq!(say(&away), Err(ResolveRefusal::SenderAway(sender("a"))), "{away:?}");
    }
    for told in [
        heard_gate("a", QUIET, None),
        heard_gate("a", QUIET, Some(8)),
        left("a", None),
        SenderNews { is_gone: true, ..SenderNews::default() },
    ] {
        assert_eq!(say(&told), Ok(Some(NextState::Absent)), "{told:?}");
    }
}

#[test]
fn two_people_may_give_up_without_hearing_the_gate() {
    let ops = person("people", "ops-2");
    let give_up = |claim: &Claim| says_word(claim, JointWord::Abandoned, &ops, QUIET, &SenderNews::default());
    assert_eq!(give_up(&in_doubt(None, None)), Ok(None));
    // Who said absent did not say abandoned.
    assert_eq!(give_up(&in_doubt(Some("people/ops-1"), None)), Ok(None));
    assert_eq!(give_up(&in_doubt(None, Some("people/ops-1"))), Ok(Some(NextState::Abandoned)));
    assert_eq!(give_up(&in_doubt(None, Some("people/ops-2"))), Err(ResolveRefusal::SaidAlready));
}

/// A tombstone is the only thing that says that a call must never be sent.
#[test]
fn a_call_that_people_gave_up_is_kept_as_long_as_any_tombstone() {
    let [whole, spent, hundred_years] = [35, 400, 365 * 100].map(|days| Duration::from_hours(24 * days));
    let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
    let terms = Terms { begin_within, lease, first_look, quiet, keep: Keep::For { whole, spent } };
    let (node, claim) = (NodeId::parse("gate").unwrap(), in_doubt(None, Some("people/ops-1")));
    for (name, spent) in [("request/r-1", spent), ("call/5eed", spent), ("path/acceptOffer/w/o", hundred_years)] {
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: name.to_owned() };
        let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(3), value: &claim };
        let (by, heard) = (person("people", "ops-2"), SenderNews::default());
        let said =
            say_jointly(here, JointWord::Abandoned, (&by, "nobody knows"), (QUIET, &heard), &node, &terms).unwrap();
        let kept = said.0.steps.iter().find_map(|step| match step {
            Step::Replace { keep, .. } => Some(*keep),
            _ => None,
        });
        assert_eq!(kept, Some(Keep::For { whole, spent }), "{name}");
    }
}

#[test]
fn subjects_with_slashes_are_still_themselves() {
    assert_eq!(says_absent(Some("people/a/b"), &person("people", "a/b")), Err(ResolveRefusal::SaidAlready));
    assert_eq!(says_absent(Some("people/a/b"), &person("people", "b")), Ok(Some(NextState::Absent)));
}

#[test]
fn a_person_in_other_letters_is_no_second_person() {
    for same in ["OPS-1", "Ops-1", " ops-1 ", "\u{ff4f}ps-1"] {
        assert_eq!(
            says_absent(Some("people/ops-1"), &person("other", same)),
            Err(ResolveRefusal::SaidAlready),
            "{same}"
        );
    }
}

#[test]
fn a_word_waits_for_the_second_for_a_day() {
    let (claim, ops) = (in_doubt(Some("people/ops-1"), None), person("people", "ops-2"));
    let late = StoreTime::of_micros(5).plus(WORD_LASTS);
    for (now, next) in [(StoreTime::of_micros(late.as_micros() - 1), Some(NextState::Absent)), (late, None)] {
        let again = says_word(&claim, JointWord::Absent, &person("people", "ops-1"), now, &heard_gate("a", now, None));
        assert_eq!(again.is_ok(), next.is_none(), "it may be said again once it has ended");
        assert_eq!(says_word(&claim, JointWord::Absent, &ops, now, &heard_gate("a", now, None)), Ok(next));
    }
}

/// The claim after one more word.
fn after(claim: &Claim, word: JointWord, who: &str) -> Claim {
    let (commit, next) =
        commits_word(claim, word, &person("people", who), QUIET, &heard_gate("a", QUIET, None)).unwrap();
    assert_eq!(next, None);
    stored(commit.steps)
}

fn stored(steps: Vec<Step>) -> Claim {
    let Some(Step::Replace { value, .. }) = steps.into_iter().next() else { panic!("it is not replaced") };
    super::super::stored_form::decode_claim(&value).unwrap()
}

#[test]
fn a_person_has_one_word_the_latest() {
    let (first, second) = (in_doubt(None, None), person("people", "ops-2"));
    for (word, other) in [(JointWord::Absent, JointWord::Abandoned), (JointWord::Abandoned, JointWord::Absent)] {
        let claim = after(&after(&first, word, "ops-1"), other, "OPS-1");
        let say = |word| says_word(&claim, word, &second, QUIET, &heard_gate("a", QUIET, None)).unwrap();
        assert_eq!(say(word), None, "{word:?} was taken back");
        assert!(say(other).is_some(), "{other:?} stands");
        // Others keep theirs.
        let of_two = after(&after(&first, word, "ops-1"), other, "ops-3");
        let next = says_word(&of_two, word, &second, QUIET, &heard_gate("a", QUIET, None)).unwrap();
        assert!(next.is_some());
    }
}

#[test]
fn who_shows_that_it_was_executed_takes_back_what_was_said_before() {
    let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
    let shown = |claim: &Claim, who: &str| {
        let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(3), value: claim };
        without_words_of(here, &person("others", who)).map(|step| stored(vec![step]))
    };
    let both = in_doubt(Some("people/ops-1"), Some("people/ops-2"));
    for (who, left) in [
        ("ops-1", in_doubt(None, Some("people/ops-2"))),
        ("OPS-2", in_doubt(Some("people/ops-1"), None)),
        ("ops-3", both.clone()),
    ] {
        let now = shown(&both, who).unwrap();
        let (
            ClaimState::Unknown { said_absent, said_abandoned, doubted, .. },
            ClaimState::Unknown { said_absent: absent, said_abandoned: abandoned, .. },
        ) = (&now.state, &left.state)
        else {
            panic!("it is in doubt")
        };
        assert_eq!((said_absent, said_abandoned), (absent, abandoned), "{who}");
        assert_eq!(*doubted, Some(StoreTime::of_micros(3)));
    }
    assert_eq!(shown(&Claim { state: ClaimState::Absent, ..both }, "ops-1"), None);
}
