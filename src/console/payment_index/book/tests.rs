use std::collections::BTreeSet;

use super::*;
use crate::adapters::audit::FilePosition;
use crate::console::payment_index::PaymentStatus;

fn fact(number: u64, status: Option<PaymentStatus>, kind: FactKind) -> PaymentFact {
    let at = StoreTime::of_micros(i64::try_from(number).unwrap());
    PaymentFact::of_swap("request/r-1", (number, at), "pay", status, kind)
}

fn decided(amount: &str) -> FactKind {
    FactKind::Decided(Box::new(DecidedCall::of_amount(amount)))
}

fn vote(subject: &str, is_withdrawn: bool) -> FactKind {
    FactKind::Voted { issuer: "people".to_owned(), subject: subject.to_owned(), is_withdrawn }
}

fn facts() -> Vec<PaymentFact> {
    let mut facts = vec![
        fact(1, Some(PaymentStatus::Waiting), decided("5")),
        fact(2, None, vote("bob", false)),
        fact(3, None, vote("cid", false)),
        fact(4, None, vote("bob", true)),
        fact(5, Some(PaymentStatus::Waiting), vote("dan", false)),
        fact(6, Some(PaymentStatus::Sending), decided("5")),
        fact(7, Some(PaymentStatus::Paid), FactKind::Other),
        fact(8, None, FactKind::Other),
    ];
    facts[0].hold = Some("h".to_owned());
    facts[6].answered = Some(200);
    facts
}

fn described(book: &PaymentBook) -> String {
    let row = book.row(&(Environment::Production, "request/r-1".into())).unwrap();
    let approvers: Vec<&str> = row.approvers().map(|vote| &*vote.subject).collect();
    format!("{row:?} {approvers:?}")
}

#[test]
fn a_payment_is_the_same_in_whatever_order_its_entries_come() {
    let mut forwards = PaymentBook::new(10);
    facts().into_iter().for_each(|fact| forwards.add(fact));
    let row = forwards.rows().next().unwrap().1;
    assert_eq!((row.status, row.answered, row.number, row.changed), (PaymentStatus::Paid, Some(200), 6, 7));
    assert_eq!(row.approvers().map(|vote| &*vote.subject).collect::<Vec<_>>(), ["cid", "dan"]);
    assert_eq!((row.hold(), row.to.as_deref()), (Some("h"), Some("wallet #aa")));
    for turn in 0..8 {
        let (mut backwards, mut turned) = (PaymentBook::new(10), facts());
        turned.reverse();
        turned.rotate_left(turn);
        turned.into_iter().for_each(|fact| backwards.add(fact));
        assert_eq!(described(&backwards), described(&forwards), "{turn}");
        let place = |offset| FilePosition { sequence: 1, offset };
        let span = backwards.span_of(&(Environment::Production, "request/r-1".into()));
        assert_eq!(span, Some(EntrySpan { begin: Some(place(1)), end: place(9) }));
    }
}

#[test]
fn a_payment_whose_decision_is_not_read_yet_is_not_shown() {
    let mut book = PaymentBook::new(10);
    book.add(fact(7, Some(PaymentStatus::Paid), FactKind::Other));
    assert_eq!(book.rows().count(), 0);
    book.add(fact(6, Some(PaymentStatus::Sending), decided("5")));
    assert_eq!(book.rows().map(|(_, row)| row.status).collect::<Vec<_>>(), [PaymentStatus::Paid]);
}

#[test]
fn a_full_book_drops_the_oldest_and_says_so() {
    let mut book = PaymentBook::new(100);
    for number in 1..=110 {
        let claim = format!("request/r-{number}");
        book.add(PaymentFact { claim, ..fact(number, Some(PaymentStatus::Paid), decided("5")) });
    }
    assert_eq!((book.rows().count(), book.dropped_before), (100, Some(StoreTime::of_micros(11))));
    // What was dropped does not come back.
    book.add(fact(3, Some(PaymentStatus::Paid), decided("5")));
    assert_eq!(book.rows().count(), 100);
    let terms: Vec<&Arc<PaymentTerms>> = book.rows().map(|(_, row)| &row.terms).collect();
    assert!(terms.iter().all(|one| Arc::ptr_eq(one, terms[0])), "equal terms are kept once");
}

/// What the groups say must be what the rows say, whatever was added, moved and dropped.
fn assert_groups_are_sums(book: &PaymentBook) {
    let mut sums: HashMap<PaymentGroup, MoneySum> = HashMap::new();
    for ((environment, _), row) in book.rows() {
        let one = row.sum();
        sums.entry(row.group(*environment)).and_modify(|sum| *sum = sum.plus(one)).or_insert(one);
    }
    assert_eq!(book.groups().map(|(group, sum)| (group.clone(), *sum)).collect::<HashMap<_, _>>(), sums);
    let days: BTreeSet<PaymentDay> = book.groups().map(|(group, _)| group.day).collect();
    let listed: Vec<u64> =
        days.into_iter().rev().flat_map(|day| book.payments_of_day(day, None)).map(|(_, row)| row.number).collect();
    let mut numbers: Vec<u64> = book.rows().map(|(_, row)| row.number).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(listed, numbers);
}

#[test]
fn groups_have_the_sums_of_their_payments_while_these_change_and_go() {
    let mut book = PaymentBook::new(60);
    for turn in 0..240_u64 {
        // Four entries of each payment, far from each other, on several days.
        let (nth, step) = (turn % 60 + turn / 120 * 30, turn / 60);
        let number = turn + 1;
        let at = StoreTime::of_micros(i64::try_from(number * 3_600_000_000).unwrap());
        let (status, kind) = match step {
            0 => (PaymentStatus::Waiting, decided(&format!("{}.5", nth + 1))),
            1 => (PaymentStatus::Sending, decided(&format!("{}.5", nth + 1))),
            2 => (PaymentStatus::Paid, FactKind::Other),
            _ => (PaymentStatus::Unknown, FactKind::Other),
        };
        book.add(PaymentFact::of_swap(&format!("request/r-{nth}"), (number, at), "pay", Some(status), kind));
        assert_groups_are_sums(&book);
    }
    assert!(book.dropped_before.is_some());
}

#[test]
fn a_sum_with_too_many_digits_is_known_again_when_the_payment_that_made_it_so_left_its_group() {
    let mut book = PaymentBook::new(10);
    let huge = u128::MAX.to_string();
    let waiting = |name: &str, number, amount: &str| {
        let at = StoreTime::of_micros(i64::try_from(number).unwrap());
        PaymentFact::of_swap(name, (number, at), "pay", Some(PaymentStatus::Waiting), decided(amount))
    };
    book.add(waiting("request/r-1", 1, "5"));
    book.add(waiting("request/r-2", 2, &huge));
    book.add(waiting("request/r-3", 3, "7.5"));
    let amount = |book: &PaymentBook, status| {
        let found = book.groups().find(|(group, _)| group.status == status);
        found.and_then(|(_, sum)| sum.amount()).map(|amount| amount.to_string())
    };
    assert_eq!(amount(&book, PaymentStatus::Waiting), None);
    let at = StoreTime::of_micros(4);
    let cancelled = Some(PaymentStatus::Cancelled);
    book.add(PaymentFact::of_swap("request/r-2", (4, at), "pay", cancelled, FactKind::Other));
    assert_eq!(amount(&book, PaymentStatus::Waiting).as_deref(), Some("12.5"));
    assert_eq!(amount(&book, PaymentStatus::Cancelled), Some(huge));
    assert_groups_are_sums(&book);
}

#[test]
fn a_sum_of_payments_of_which_one_states_no_amount_is_not_known() {
    let mut book = PaymentBook::new(10);
    let unstated = DecidedCall { amount: None, ..DecidedCall::of_amount("5") };
    for (number, kind) in [(1, decided("5")), (2, FactKind::Decided(Box::new(unstated)))] {
        let at = StoreTime::of_micros(i64::try_from(number).unwrap());
        let name = format!("request/r-{number}");
        book.add(PaymentFact::of_swap(&name, (number, at), "pay", Some(PaymentStatus::Waiting), kind));
        let amount = book.groups().next().unwrap().1.amount().map(|amount| amount.to_string());
        assert_eq!(amount.as_deref(), (number == 1).then_some("5"));
    }
}

#[test]
fn many_payments_are_counted_and_kept_in_order_and_the_oldest_are_dropped() {
    const MOST: usize = 20_000;
    let mut book = PaymentBook::new(MOST);
    let count = 25_000_u64;
    for nth in 1..=count {
        let at = StoreTime::of_micros(i64::try_from(nth * 60_000_000).unwrap());
        let name = format!("request/r-{nth}");
        book.add(PaymentFact::of_swap(&name, (2 * nth, at), "pay", Some(PaymentStatus::Sending), decided("0.01")));
        book.add(PaymentFact::of_swap(&name, (2 * nth + 1, at), "pay", Some(PaymentStatus::Paid), FactKind::Other));
    }
    let kept = book.rows().count();
    assert!((MOST..=MOST + MOST / 10).contains(&kept), "{kept}");
    let (counted, sum) = book
        .groups()
        .fold((0, 0), |(counted, sum), (_, one)| (counted + one.count, sum + one.amount().unwrap().units(2).unwrap()));
    assert_eq!((counted, sum), (kept as u64, kept as u128), "sums are exact");
    let first_kept = count - kept as u64 + 1;
    let since = StoreTime::of_micros(i64::try_from(first_kept * 60_000_000).unwrap());
    assert_eq!(book.dropped_before, Some(since));
    let days: BTreeSet<PaymentDay> = book.groups().map(|(group, _)| group.day).collect();
    let listed = days.into_iter().rev().flat_map(|day| book.payments_of_day(day, None));
    let names: Vec<String> = listed.map(|((_, name), _)| name.to_string()).collect();
    let expected: Vec<String> = (first_kept..=count).rev().map(|nth| format!("request/r-{nth}")).collect();
    assert_eq!(names, expected);
}

/// A status that rests on people's word does so after a refused repeat, too, in whatever order the entries are read.
#[test]
fn peoples_word_is_no_proof_in_any_order_of_the_entries() {
    let facts = |statuses: &[PaymentStatus]| {
        let mut facts = vec![fact(1, Some(PaymentStatus::Sending), decided("5"))];
        facts.extend((2_u64..).zip(statuses).map(|(number, status)| fact(number, Some(*status), FactKind::Other)));
        facts
    };
    let status = |statuses: &[PaymentStatus]| {
        let read = |facts: Vec<PaymentFact>| {
            let mut book = PaymentBook::new(10);
            facts.into_iter().for_each(|fact| book.add(fact));
            book.rows().map(|(_, row)| row.status).collect::<Vec<_>>()
        };
        let (forwards, backwards) = (read(facts(statuses)), read(facts(statuses).into_iter().rev().collect()));
        assert_eq!(forwards, backwards);
        forwards[0]
    };
    use PaymentStatus::{Absent, NotSent, Paid, Refused, Sending, Unknown};
    assert_eq!(status(&[Unknown, Absent]), Absent);
    assert_eq!(status(&[Unknown, Absent, Sending, Refused]), Absent);
    assert_eq!(status(&[Unknown, Absent, Sending, NotSent]), Absent);
    assert_eq!(status(&[Unknown, Absent, Sending]), Sending);
    assert_eq!(status(&[Unknown, Absent, Paid]), Paid);
    assert_eq!(status(&[Sending, NotSent]), NotSent);
}
