use std::collections::BTreeMap;

use super::filter::SoughtText;
use super::*;
use crate::base::money::Decimal;
use crate::console::payment_index::{DecidedCall, FactKind, MoneySum, PaymentFact, PaymentStatus};

/// Sums by environment, status and currency.
type SumsByStatus = BTreeMap<(Environment, PaymentStatus, Option<String>), MoneySum>;

const DAYS: u64 = 30;
const HOUR_MICROS: u64 = 3_600_000_000;
/// The first payment was made then.
const BEGIN_MICROS: u64 = 1_790_000_000_000_000;
const CALLERS: [&str; 3] = ["erp", "payroll", "treasury"];

fn at(nth: u64) -> StoreTime {
    StoreTime::of_micros(i64::try_from(BEGIN_MICROS + nth * HOUR_MICROS).unwrap())
}

/// Payments of thirty days, each sent and most of them executed.
fn a_month() -> PaymentBook {
    let mut book = PaymentBook::new(10_000);
    for nth in 0..DAYS * 24 {
        let name = format!("request/r-{nth}");
        let caller = CALLERS[usize::try_from(nth % 3).unwrap()];
        let sent = FactKind::Decided(Box::new(DecidedCall::of_amount(&format!("{}.25", (nth * 7_919) % 1_000))));
        let mut add = |number, status, kind| {
            book.add(PaymentFact::of_swap(&name, (2 * nth + number, at(nth)), caller, Some(status), kind));
        };
        add(1, PaymentStatus::Sending, sent);
        match nth % 7 {
            0 => add(2, PaymentStatus::Unknown, FactKind::Other),
            1 => {}
            _ => add(2, PaymentStatus::Paid, FactKind::Other),
        }
    }
    book
}

fn query(filter: PaymentFilter, order: PaymentOrder) -> PaymentQuery {
    PaymentQuery { filter, order, limit: 50, after: None }
}

/// The names of a page, and how many payments were looked at for it.
fn page(query: &PaymentQuery, book: &PaymentBook) -> (Vec<PaymentKey>, Option<SortKey>, usize) {
    let mut looked_at = 0;
    let tally = query.tally_and_tell(&Visibility::default(), &["viewer"], book, &mut |_| looked_at += 1);
    let (page, next) = tally.page();
    (page, next, looked_at)
}

/// All that is wanted, found by looking at every payment: its sums by status, and the names in their order.
fn by_hand(query: &PaymentQuery, book: &PaymentBook) -> (SumsByStatus, Vec<PaymentKey>) {
    let mut sums = SumsByStatus::new();
    let filtered = query.filter.on(book);
    let mut rows: Vec<_> = book.rows().filter(|(key, row)| filtered.matches(key, row)).collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(query.order.key(row)));
    for (key, row) in &rows {
        let one = row.sum();
        let by = (key.0, row.status, row.terms.currency.clone());
        sums.entry(by).and_modify(|sum| *sum = sum.plus(one)).or_insert(one);
    }
    (sums, rows.into_iter().map(|(key, _)| key.clone()).collect())
}

fn filters() -> Vec<PaymentFilter> {
    let day = |nth: u64| PaymentDay::of(at(nth * 24)).begin();
    let all = PaymentFilter::default;
    vec![
        all(),
        PaymentFilter { status: Some(PaymentStatus::Unknown), ..all() },
        PaymentFilter { caller: Some("erp".to_owned()), ..all() },
        PaymentFilter { caller: Some("nobody".to_owned()), ..all() },
        PaymentFilter { from: Some(day(7)), until: Some(day(9)), ..all() },
        PaymentFilter { from: Some(at(200)), ..all() },
        PaymentFilter { least: Decimal::parse("600").ok(), ..all() },
        PaymentFilter { from: Some(at(100)), until: Some(at(450)), caller: Some("erp".to_owned()), ..all() },
        PaymentFilter { from: Some(at(100)), until: Some(at(103)), ..all() },
    ]
}

#[test]
fn the_first_page_costs_what_it_shows() {
    let book = a_month();
    let count = book.rows().count();
    let (first, next, looked_at) = page(&query(PaymentFilter::default(), PaymentOrder::Time), &book);
    assert_eq!((first.len(), looked_at), (50, 51), "of {count}");
    let (_, _, looked_at) =
        page(&PaymentQuery { after: next, ..query(PaymentFilter::default(), PaymentOrder::Time) }, &book);
    assert_eq!(looked_at, 51);
    let [a_day, nobody] = [4, 3].map(|nth| page(&query(filters()[nth].clone(), PaymentOrder::Time), &book));
    assert!(a_day.0.len() == 48 && a_day.2 == 48, "{}", a_day.2);
    assert_eq!((nobody.0.len(), nobody.2), (0, 0));
    // Of the day on which the time begins, each payment is looked at.
    let (_, _, looked_at) = page(&query(filters()[5].clone(), PaymentOrder::Time), &book);
    assert!(looked_at <= 24 + 51, "{looked_at}");
    assert!(book.groups().count() < count, "groups have several payments");
}

#[test]
fn sums_and_pages_are_those_of_the_payments_one_by_one() {
    let book = a_month();
    for (nth, filter) in filters().into_iter().enumerate() {
        for order in [PaymentOrder::Time, PaymentOrder::Value] {
            let mut query = query(filter.clone(), order);
            let (sums, names) = by_hand(&query, &book);
            let tally = query.tally(&Visibility::default(), &["viewer"], &book);
            assert_eq!(tally.sums(), sums, "filter {nth}, {order:?}");
            assert_eq!(usize::try_from(tally.count).unwrap(), names.len());
            let mut found = Vec::new();
            loop {
                let (page, next, _) = page(&query, &book);
                found.extend(page);
                let Some(next) = next else { break };
                query.after = Some(next);
            }
            assert_eq!(found, names, "filter {nth}, {order:?}");
        }
    }
}

#[test]
fn a_text_is_found_in_what_payments_have_in_common_and_in_what_is_their_own() {
    let book = a_month();
    for (text, count) in
        [("payr", DAYS * 24 / 3), ("createswap", DAYS * 24), ("r-71", 11), ("r-", DAYS * 24), ("no-such", 0)]
    {
        let text = Some(SoughtText { text: text.to_owned(), names: BTreeSet::new() });
        let query = query(PaymentFilter { text: text.clone(), ..PaymentFilter::default() }, PaymentOrder::Time);
        let tally = query.tally(&Visibility::default(), &["viewer"], &book);
        assert_eq!(tally.count, count, "{text:?}");
    }
}

#[test]
fn a_person_sees_sums_and_pages_of_their_callers_alone() {
    let book = a_month();
    let limited = Visibility::parse(&["viewer:production:main:erp".to_owned()]).unwrap();
    let is_theirs = |key: &PaymentKey| book.row(key).unwrap().terms.subject == "erp";
    // Found by groups, and by looking at each payment.
    let small = PaymentFilter { least: Decimal::parse("0").ok(), ..PaymentFilter::default() };
    for (filter, order) in [
        (PaymentFilter::default(), PaymentOrder::Time),
        (PaymentFilter::default(), PaymentOrder::Value),
        (small, PaymentOrder::Time),
    ] {
        let tally = query(filter, order).tally(&limited, &["viewer"], &book);
        assert_eq!(tally.count, DAYS * 24 / 3);
        let (page, _) = tally.page();
        assert!(page.len() == 50 && page.iter().all(is_theirs));
    }
}
