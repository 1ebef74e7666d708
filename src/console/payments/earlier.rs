//! Earlier payments to the destinations of open holds: by these, people judge a hold.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::destinations::spellings;
use super::filter::own_copy;
use super::{is_visible, paid_alike, read_book};
use crate::base::ids::Environment;
use crate::base::keyed::OperandKey;
use crate::base::money::Decimal;
use crate::console::payment_index::{
    MoneySum, PaymentBook, PaymentKey, PaymentRow, PaymentStatus, PaymentTerms, ReadBook,
};
use crate::console::person::Person;
use crate::console::render::{moment, shown_as};
use crate::console::server::ConsoleServer;
use crate::ledger::StoreTime;

/// How many payments of the same amount are named.
const MAX_SAME: usize = 3;

/// The earlier payments that people want to know of, beside an open hold.
#[derive(Clone, Debug)]
pub(in crate::console) struct EarlierQuery {
    pub environment: Environment,
    /// The hold itself, and its call, are not earlier payments.
    pub hold: String,
    pub request: Option<String>,
    /// The most exact name of the destination.
    pub destination: String,
    pub amount: Decimal,
    pub currency: Option<String>,
}

/// A hold as JSON, and the earlier payments that are to be told with it.
pub(in crate::console) struct JudgedHold {
    pub json: Map<String, Value>,
    pub earlier: Option<EarlierQuery>,
}

/// A payment by its time and number, the latest first, with its name and status.
type SamePayment = (Reverse<(i64, u64)>, String, PaymentStatus);

/// The earlier payments to one destination, in one currency.
#[derive(Debug, Default)]
struct EarlierPayments {
    /// Those of the same amount, the latest first.
    same: Vec<SamePayment>,
    /// The sum of those that were paid.
    paid: Option<MoneySum>,
}

impl EarlierQuery {
    /// Whether a payment is the hold's own call.
    fn is_itself(&self, claim: &str, row: &PaymentRow) -> bool {
        let is_request = |request: &String| request.eq_ignore_ascii_case(&shown_as(claim));
        row.hold() == Some(self.hold.as_str()) || self.request.as_ref().is_some_and(is_request)
    }
}

impl EarlierPayments {
    fn take(&mut self, query: &EarlierQuery, (environment, claim): &PaymentKey, row: &PaymentRow) {
        if *environment != query.environment || row.terms.currency != query.currency {
            return;
        }
        if row.status == PaymentStatus::Paid {
            let one = row.sum();
            self.paid = Some(self.paid.map_or(one, |sum| sum.plus(one)));
        }
        let is_same = |amount: Decimal| amount.compare(query.amount) == Ordering::Equal;
        if row.amount().is_some_and(is_same) && !query.is_itself(claim, row) {
            let order = Reverse((row.at.as_micros(), row.number));
            self.same.push((order, shown_as(claim).into_owned(), row.status));
            self.same.sort();
            self.same.truncate(MAX_SAME);
        }
    }

    fn to_json(&self, read: &ReadBook, look_alike: Value) -> Value {
        let same = |(Reverse((micros, _)), name, status): &(Reverse<(i64, u64)>, String, PaymentStatus)| json!({ "name": name, "status": status.as_str(), "at": moment(StoreTime::of_micros(*micros)) });
        let amount = self.paid.and_then(|paid| paid.amount()).map(|amount| amount.to_string());
        json!({
            "same": self.same.iter().map(same).collect::<Vec<_>>(),
            "paid": { "count": self.paid.map_or(0, |paid| paid.count), "amount": amount },
            "since": read.since().map_or(Value::Null, moment),
            "reading": read.is_filling() || read.book.paid.has_unread(),
            "lookAlike": look_alike,
        })
    }
}

/// Returns the holds as JSON, each with the earlier payments that it asks for: null where these cannot be read.
pub(in crate::console) async fn put_earlier(
    server: &ConsoleServer,
    person: &Person,
    mut holds: Vec<JudgedHold>,
) -> Vec<Value> {
    let queries: Vec<EarlierQuery> = holds.iter().filter_map(|hold| hold.earlier.clone()).collect();
    if !queries.is_empty() {
        let (who, person) = (&person.who, person.clone());
        let found = read_book(server, who, move |inside, read| {
            let roles: Vec<&str> = person.roles().collect();
            let is_seen =
                |environment, terms: &PaymentTerms| is_visible(&inside.visibility, &roles, environment, terms);
            paid_alike::read_addresses(inside, read);
            let found = find_earlier(&inside.node.operand_key, &queries, &read.book, &is_seen);
            let alike = |query: &EarlierQuery| {
                paid_alike::find(inside, (query.environment, &query.destination), read, &is_seen)
            };
            found.iter().zip(&queries).map(|(one, query)| one.to_json(read, alike(query))).collect::<Vec<Value>>()
        });
        let mut found = found.await.unwrap_or_default().into_iter();
        for hold in holds.iter_mut().filter(|hold| hold.earlier.is_some()) {
            hold.json.insert("earlier".to_owned(), found.next().unwrap_or(Value::Null));
        }
    }
    holds.into_iter().map(|hold| Value::Object(hold.json)).collect()
}

/// Finds the earlier payments of each query: the payments are looked at once for all of them.
fn find_earlier(
    key: &OperandKey,
    queries: &[EarlierQuery],
    book: &PaymentBook,
    is_seen: &dyn Fn(Environment, &PaymentTerms) -> bool,
) -> Vec<EarlierPayments> {
    let mut by_name: HashMap<String, BTreeSet<usize>> = HashMap::new();
    for (nth, query) in queries.iter().enumerate() {
        for spelling in spellings(&query.destination) {
            by_name.entry(key.name("name", &spelling)).or_default().insert(nth);
        }
    }
    let mut ends: HashMap<*const u8, BTreeSet<usize>> = HashMap::new();
    for end in book.parties() {
        let wanted: BTreeSet<usize> = end.split(' ').filter_map(|part| by_name.get(part)).flatten().copied().collect();
        if !wanted.is_empty() {
            ends.insert(own_copy(end), wanted);
        }
    }
    let mut found: Vec<EarlierPayments> = queries.iter().map(|_| EarlierPayments::default()).collect();
    if ends.is_empty() {
        return found;
    }
    for (name, row) in book.rows() {
        let Some(wanted) = row.to.as_ref().and_then(|to| ends.get(&own_copy(to))) else { continue };
        if !is_seen(name.0, &row.terms) {
            continue;
        }
        for nth in wanted {
            if let (Some(one), Some(query)) = (found.get_mut(*nth), queries.get(*nth)) {
                one.take(query, name, row);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::payment_index::{DecidedCall, FactKind, PaymentFact};

    const WALLET: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";

    fn key() -> OperandKey {
        OperandKey::of(&[7; 16]).unwrap()
    }

    fn query(hold: &str, amount: &str) -> EarlierQuery {
        EarlierQuery {
            environment: Environment::Production,
            hold: hold.to_owned(),
            request: None,
            destination: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed".to_owned(),
            amount: Decimal::parse(amount).unwrap(),
            currency: Some("usdc".to_owned()),
        }
    }

    fn book(payments: &[(&str, &str, PaymentStatus, &str)]) -> PaymentBook {
        let mut book = PaymentBook::new(100);
        for (nth, (name, amount, status, caller)) in (1_u64..).zip(payments) {
            let to = Some(format!("wallet {}", key().name("name", WALLET)));
            let call = DecidedCall { to, ..DecidedCall::of_amount(amount) };
            let at = StoreTime::of_micros(i64::try_from(nth).unwrap());
            let fact = PaymentFact::of_swap(
                &format!("request/{name}"),
                (nth, at),
                caller,
                Some(*status),
                FactKind::Decided(Box::new(call)),
            );
            book.add(PaymentFact { hold: (*name == "own").then(|| "h-own".to_owned()), ..fact });
        }
        book
    }

    fn names(one: &EarlierPayments) -> Vec<&str> {
        one.same.iter().map(|(_, name, _)| name.as_str()).collect()
    }

    #[test]
    fn earlier_payments_are_those_to_the_same_destination_that_the_person_sees() {
        let book = book(&[
            ("a", "500", PaymentStatus::Paid, "erp"),
            ("b", "500.00", PaymentStatus::Cancelled, "erp"),
            ("c", "700", PaymentStatus::Paid, "erp"),
            ("d", "500", PaymentStatus::Paid, "secret"),
            ("own", "500", PaymentStatus::Waiting, "erp"),
        ]);
        let other = EarlierQuery { destination: format!("{WALLET}1"), ..query("h-x", "500") };
        let sandbox = EarlierQuery { environment: Environment::Sandbox, ..query("h-x", "500") };
        let euros = EarlierQuery { currency: Some("eur".to_owned()), ..query("h-x", "500") };
        let itself = EarlierQuery { request: Some("A".to_owned()), ..query("h-own", "500") };
        let queries = [query("h-own", "500"), query("h-x", "700"), other, sandbox, euros, itself];
        let found = find_earlier(&key(), &queries, &book, &|_, terms| terms.subject != "secret");
        assert_eq!(names(&found[0]), ["b", "a"], "the latest first, without itself and without what is hidden");
        assert_eq!(names(&found[1]), ["c"]);
        let paid = |one: &EarlierPayments| one.paid.map(|paid| (paid.count, paid.amount().unwrap().to_string()));
        assert_eq!(paid(&found[0]), Some((2, "1200".to_owned())));
        for nothing in &found[2..5] {
            assert!(nothing.same.is_empty() && nothing.paid.is_none(), "{nothing:?}");
        }
        assert_eq!(names(&found[5]), ["b"]);
        let all = find_earlier(&key(), &queries, &book, &|_, _| true);
        assert_eq!((names(&all[0]), paid(&all[0])), (vec!["d", "b", "a"], Some((3, "1700".to_owned()))));
    }

    #[test]
    fn the_latest_of_many_are_named_and_all_are_counted() {
        let many: Vec<String> = (0..40).map(|nth| format!("r-{nth}")).collect();
        let payments: Vec<_> = many.iter().map(|name| (name.as_str(), "5", PaymentStatus::Paid, "erp")).collect();
        let found = find_earlier(&key(), &[query("h", "5")], &book(&payments), &|_, _| true);
        assert_eq!(names(&found[0]), ["r-39", "r-38", "r-37"]);
        assert_eq!(found[0].paid.map(|paid| paid.count), Some(40));
    }
}
