use super::*;

const DAY: i64 = 86_400_000_000;
const DAYS: i64 = 31;

fn at(micros: i64) -> StoreTime {
    StoreTime::of_micros(micros)
}

fn row(amount: &str, stages: &[(i64, PaymentStage)]) -> PaymentRow {
    let stages = stages.iter().enumerate();
    let marks = stages.map(|(n, (time, stage))| StageMark { number: n as u64 + 1, at: at(*time), stage: *stage });
    PaymentRow::of_stages(Decimal::parse(amount).unwrap(), marks.collect())
}

fn key(n: usize) -> PaymentKey {
    (Environment::Production, format!("request/{n}").into())
}

/// Count and cents of a column.
fn sum(statement: &DayStatement, column: StatementColumn) -> (u64, u128) {
    let all = statement.totals_json();
    let sums = all.iter().map(|total| &total["sums"][column.as_str()]);
    sums.fold((0, 0), |(count, cents), sum| {
        let amount = Decimal::parse(sum["amount"].as_str().unwrap()).unwrap().units(2).unwrap();
        (count + sum["count"].as_u64().unwrap(), cents + amount)
    })
}

fn columns(stages: &[(i64, PaymentStage)], day: i64) -> Vec<StatementColumn> {
    let row = row("1", stages);
    let mut found = columns_of(&row.stages, true, at(day * DAY), at((day + 1) * DAY));
    found.sort();
    found
}

#[test]
fn a_payment_that_came_back_on_another_day_is_returned_there_and_settled_where_it_was() {
    use PaymentStage::{Executed, Open, Returned, Sending, Settled};
    let path = [
        (10, Sending),
        (20, Executed),
        (30, Open),
        (DAY + 5, Settled),
        // Known later than it happened: the list's word stands.
        (DAY + 6, Executed),
        (3 * DAY, Returned),
    ];
    assert_eq!(columns(&path, 0), [StatementColumn::Sent, StatementColumn::Open]);
    assert_eq!(columns(&path, 1), [StatementColumn::Opening, StatementColumn::Settled]);
    assert_eq!(columns(&path, 2), []);
    assert_eq!(columns(&path, 3), [StatementColumn::Reopened, StatementColumn::Returned]);
    assert_eq!(columns(&path, 4), []);
    // A day without an entry of an open payment.
    assert_eq!(columns(&path[..3], 7), [StatementColumn::Opening, StatementColumn::Open]);
    assert_eq!(
        columns_of(&row("1", &path[..2]).stages, false, at(0), at(DAY)),
        [StatementColumn::Sent, StatementColumn::Settled]
    );
}

/// Numbers that follow from a seed.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

#[test]
fn a_month_adds_up_and_each_day_carries_over() {
    use PaymentStage::{Executed, Failed, GivenUp, NotExecuted, Open, Returned, Sending, Settled, Unknown};
    let paths: [&[PaymentStage]; 8] = [
        &[Sending, Executed, Open, Open, Settled],
        &[Sending, Executed, Open, Settled, Returned],
        &[Sending, NotExecuted, Sending, Executed, Open, Failed, Returned],
        &[Sending, Unknown, Executed, Open, Failed],
        &[Sending, Unknown, GivenUp],
        &[Sending, Executed, Open, Failed, Open, Settled],
        &[Sending, Unknown, NotExecuted],
        &[Sending, Executed, Open],
    ];
    let (mut seed, mut payments) = (1, Vec::new());
    for n in 0..2_000 {
        let mut time = i64::try_from(below(&mut seed, 31 * 86_400)).unwrap() * 1_000_000;
        let path = paths[usize::try_from(below(&mut seed, 8)).unwrap()];
        let stages: Vec<(i64, PaymentStage)> = path
            .iter()
            .map(|stage| {
                let now = time;
                time += i64::try_from(below(&mut seed, 60)).unwrap() * 3_600_000_000;
                (now, *stage)
            })
            .collect();
        let cents = below(&mut seed, 10_000_000) + 1;
        payments.push((key(n), cents, stages.clone(), row(&format!("{}.{:02}", cents / 100, cents % 100), &stages)));
    }
    let under_way = |stage: PaymentStage| matches!(stage, Sending | Executed | Open | Unknown);
    let mut carried = (0, 0);
    let mut whole: BTreeMap<StatementColumn, (u64, u128)> = BTreeMap::new();
    for day in 0..DAYS {
        let mut statement = DayStatement::new(at(day * DAY), at((day + 1) * DAY));
        payments.iter().for_each(|(key, _, _, row)| statement.add(key, row, true));
        let of = |columns: &[StatementColumn]| {
            columns.iter().map(|column| sum(&statement, *column)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        let opening = of(&[StatementColumn::Opening]);
        assert_eq!(opening, carried, "day {day} begins with what the day before ended with");
        let begun = of(&[StatementColumn::Sent, StatementColumn::Reopened]);
        let ended = of(&[
            StatementColumn::Settled,
            StatementColumn::Failed,
            StatementColumn::Returned,
            StatementColumn::NotExecuted,
            StatementColumn::GivenUp,
        ]);
        carried = of(&[StatementColumn::Open, StatementColumn::Unknown]);
        let sides = ((opening.0 + begun.0, opening.1 + begun.1), (ended.0 + carried.0, ended.1 + carried.1));
        assert_eq!(sides.0, sides.1, "day {day}");
        // Said once more, payment by payment.
        let last = |stages: &[(i64, PaymentStage)]| {
            stages.iter().rev().find(|(time, _)| *time < (day + 1) * DAY).map(|(_, stage)| *stage)
        };
        let still = payments.iter().filter(|(_, _, stages, _)| last(stages).is_some_and(under_way));
        let still = still.fold((0, 0), |sum, (_, cents, ..)| (sum.0 + 1, sum.1 + u128::from(*cents)));
        assert_eq!(carried, still, "day {day}");
        for column in StatementColumn::ALL {
            let (count, cents) = sum(&statement, column);
            let all = whole.entry(column).or_default();
            *all = (all.0 + count, all.1 + cents);
        }
    }
    // Over the month: each send, settlement and return of the journal is in one day.
    for (column, stage) in
        [(StatementColumn::Sent, Sending), (StatementColumn::Returned, Returned), (StatementColumn::Settled, Settled)]
    {
        let marks = payments.iter().flat_map(|(_, cents, stages, _)| {
            let those = stages.iter().filter(|(time, one)| *one == stage && *time < DAYS * DAY);
            those.map(|_| u128::from(*cents))
        });
        assert_eq!(whole[&column], marks.fold((0, 0), |sum, cents| (sum.0 + 1, sum.1 + cents)), "{column:?}");
    }
}

#[test]
fn what_is_over_counts_in_no_column_and_nearly_all_that_counts_in_none_is_over() {
    let all = &PaymentStage::ALL;
    let paths =
        all.iter().flat_map(|one| all.iter().flat_map(move |two| all.iter().map(move |three| [*one, *two, *three])));
    let (mut over, mut uncounted) = (0, 0);
    for (path, is_followed) in paths.flat_map(|path| [(path, true), (path, false)]) {
        let marks = row("1", &path.map(|stage| (5, stage))).stages;
        let is_uncounted = columns_of(&marks, is_followed, at(DAY), at(2 * DAY)).is_empty();
        let is_over = is_over(&marks, is_followed, at(DAY));
        assert!(is_uncounted || !is_over, "{path:?} {is_followed}");
        // On its own day it counts.
        assert!(!super::is_over(&marks, is_followed, at(5)), "{path:?}");
        over += usize::from(is_over);
        uncounted += usize::from(is_uncounted);
    }
    assert!(over * 10 > uncounted * 8, "{over} of {uncounted}");
    let paid = row("1", &[(1, PaymentStage::Sending), (2, PaymentStage::Executed)]).stages;
    assert!(is_over(&paid, false, at(DAY)) && !is_over(&paid, true, at(DAY)));
}
