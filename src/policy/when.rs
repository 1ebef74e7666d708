//! `when`: from what is written to conditions; and the names of groups, lists and assets that it may use.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::Known;
use super::asked::{Field, Valuation, chain_name};
use super::condition::{Condition, Literal, PRICE_DECIMALS, Sought, Ways};
use super::document::{Place, Raw, Table};
use super::interval::Interval;
use super::rate;
use crate::base::ids::{Environment, OperationId};
use crate::base::money::{Decimal, MicroUsd, asset_name};
use crate::base::normal::{self, is_uuid};
use crate::base::pointer::Pointer;
use crate::base::spanned::Found;

/// What the names in a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    User,
    Wallet,
    ExternalWallet,
    Account,
    Chain,
    Currency,
    Caller,
    Issuer,
    Environment,
    Text,
}

pub(super) const SORTS: [(&str, Sort); 7] = [
    ("user", Sort::User),
    ("wallet", Sort::Wallet),
    ("external_wallet", Sort::ExternalWallet),
    ("account", Sort::Account),
    ("chain", Sort::Chain),
    ("currency", Sort::Currency),
    ("text", Sort::Text),
];
pub(super) const TOP: [(&str, Field, Sort); 10] = [
    ("environment", Field::Environment, Sort::Environment),
    ("issuer", Field::Issuer, Sort::Issuer),
    ("caller", Field::Caller, Sort::Caller),
    ("role", Field::Role, Sort::Text),
    ("requester", Field::Requester, Sort::Text),
    ("user", Field::User, Sort::User),
    ("chain", Field::Chain, Sort::Chain),
    ("currency", Field::Currency, Sort::Currency),
    ("wallet", Field::Wallet, Sort::Wallet),
    ("account", Field::Account, Sort::Account),
];
pub(super) const SOURCE: [(&str, Field, Sort); 5] = [
    ("user", Field::SourceUser, Sort::User),
    ("chain", Field::SourceChain, Sort::Chain),
    ("currency", Field::SourceCurrency, Sort::Currency),
    ("wallet", Field::SourceWallet, Sort::Wallet),
    ("account", Field::SourceAccount, Sort::Account),
];
pub(super) const DESTINATION: [(&str, Field, Sort); 3] = [
    ("chain", Field::DestinationChain, Sort::Chain),
    ("currency", Field::DestinationCurrency, Sort::Currency),
    ("account", Field::DestinationAccount, Sort::Account),
];
pub(super) const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];
pub(super) const WITHOUT: [(&str, bool); 2] = [("match", true), ("skip", false)];

/// What rules may use that is written elsewhere in the set.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub valuation: Valuation,
    pub groups: BTreeMap<String, BTreeSet<String>>,
    pub lists: BTreeMap<String, BTreeMap<Sort, BTreeSet<String>>>,
    pub approvals: BTreeSet<String>,
}

/// The operations and the conditions of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct When {
    pub operations: BTreeSet<OperationId>,
    pub conditions: Vec<Condition>,
}

/// Reads what a table asks; the table is `when` itself, or one that has its fields among others.
pub(super) fn read(table: &mut Table<'_>, known: &Known<'_>, words: &Vocabulary) -> Option<When> {
    let remedy = "write `op = [\"*\"]` for all, classes as `\"@money\"`, or operations by their ids";
    let ops = table.required("op", remedy, Table::one_or_more)?;
    let operations = rate::operations(table, &ops, known);
    let conditions = conditions(table, &operations, known, words);
    Some(When { operations, conditions })
}

/// Every condition but the operations.
pub(super) fn conditions(
    table: &mut Table<'_>,
    operations: &BTreeSet<OperationId>,
    known: &Known<'_>,
    words: &Vocabulary,
) -> Vec<Condition> {
    let mut found = Vec::new();
    fields(table, &TOP, known, words, &mut found);
    if let Some(wallets) = names(table, "fee_wallet", Sort::Wallet, known, words) {
        found.push(Condition::Names(Field::FeeWallet, wallets));
    }
    if let Some(mut source) = table.nested("source") {
        fields(&mut source, &SOURCE, known, words, &mut found);
        table.include(source);
    }
    if let Some(mut side) = table.nested("destination") {
        destination(&mut side, known, words, &mut found);
        table.include(side);
    }
    found.extend(amount(table, operations, known));
    let price = |text: &str| decimal(text, PRICE_DECIMALS);
    let remedy = "write for example `price = \"[0.99, inf)\"`";
    found.extend(interval(table, "price", remedy, price).map(Condition::Price));
    if let Some(body) = table.nested("body") {
        let body = pointers(body, words, &mut found);
        table.include(body);
    }
    times(table, &mut found);
    found
}

fn fields(
    table: &mut Table<'_>,
    fields: &[(&'static str, Field, Sort)],
    known: &Known<'_>,
    words: &Vocabulary,
    found: &mut Vec<Condition>,
) {
    for (name, field, sort) in fields {
        found.extend(names(table, name, *sort, known, words).map(|set| Condition::Names(*field, set)));
    }
}

fn destination(table: &mut Table<'_>, known: &Known<'_>, words: &Vocabulary, found: &mut Vec<Condition>) {
    fields(table, &DESTINATION, known, words, found);
    let user = names(table, "user", Sort::User, known, words);
    let wallet = names(table, "wallet", Sort::Wallet, known, words);
    let external_wallet = names(table, "external_wallet", Sort::ExternalWallet, known, words);
    if user.is_some() || wallet.is_some() || external_wallet.is_some() {
        found.push(Condition::Destination(Ways {
            user: user.unwrap_or_default(),
            wallet: wallet.unwrap_or_default(),
            external_wallet: external_wallet.unwrap_or_default(),
        }));
    }
    found.extend(table.truth("new").map(Condition::NewDestination));
}

/// A set of names in their normal forms: texts, and lists as `@name`.
pub(super) fn names(
    table: &mut Table<'_>,
    name: &'static str,
    sort: Sort,
    known: &Known<'_>,
    words: &Vocabulary,
) -> Option<BTreeSet<String>> {
    let texts = table.one_or_more(name)?;
    let mut set = BTreeSet::new();
    for (place, text) in texts {
        match text.strip_prefix('@') {
            Some(list) => set.extend(listed(table, place, list, sort, words).into_iter().flatten().cloned()),
            None => set.extend(normal_name(table, name, place, &text, sort, known, words)),
        }
    }
    Some(set)
}

fn listed<'w>(
    table: &mut Table<'_>,
    place: Place,
    list: &str,
    sort: Sort,
    words: &'w Vocabulary,
) -> Option<&'w BTreeSet<String>> {
    let Some(sorts) = words.lists.get(list) else {
        table.unknown_name(place, "a list", list, words.lists.keys().map(String::as_str));
        return None;
    };
    let found = sorts.get(&sort);
    if found.is_none() {
        let sort = SORTS.iter().find(|(_, other)| *other == sort).map_or("text", |(name, _)| name);
        let remedy = format!("write `{sort} = [...]` in `[list.{list}]`");
        table.fault(place, format!("the list `{list}` has no `{sort}`"), remedy);
    }
    found
}

/// The normal form of one name; what cannot be one is a fault.
pub(super) fn normal_name(
    table: &mut Table<'_>,
    field: &str,
    place: Place,
    text: &str,
    sort: Sort,
    known: &Known<'_>,
    words: &Vocabulary,
) -> Option<String> {
    let what = format!("`{field}`");
    match sort {
        Sort::Text => Some(text.to_owned()),
        Sort::User | Sort::ExternalWallet | Sort::Account => {
            if !is_uuid(text) {
                table.fault(place, format!("{what} cannot be `{}`", text.escape_debug()), "write a UUID");
            }
            is_uuid(text).then(|| normal::uuid(text))
        }
        Sort::Wallet => {
            let normal = normal::wallet(None, text.to_owned());
            let is_address = normal != text || normal::AddressKind::of_address(text).is_some();
            if !is_address {
                let fault = format!("{what} cannot be `{}`", text.escape_debug());
                table.fault(place, fault, "write an EVM, Solana or Tron address, with a right checksum");
            }
            is_address.then_some(normal)
        }
        Sort::Chain => {
            let name = chain_name(text).into_owned();
            if normal::AddressKind::of_chain(&name).is_none() {
                let chains = ["POLYGON", "ETHEREUM", "BASE", "SOLANA", "TRON"];
                table.unknown_name(place, &what, text, chains.into_iter());
                return None;
            }
            Some(name)
        }
        Sort::Currency => {
            if words.valuation.assets.asset(text).is_none() {
                table.unknown_name(place, &what, text, words.valuation.assets.names());
                return None;
            }
            Some(asset_name(text).into_owned())
        }
        Sort::Environment => {
            let words = Environment::ALL.map(|environment| (environment.as_str(), environment));
            table.choice_of("environment", place, text, &words).map(|environment| environment.as_str().to_owned())
        }
        Sort::Issuer => {
            rate::known_issuer(table, place, text, known);
            Some(text.to_owned())
        }
        Sort::Caller => {
            rate::callers(table, vec![(place, text.to_owned())], known);
            Some(text.to_owned())
        }
    }
}

fn amount(table: &mut Table<'_>, operations: &BTreeSet<OperationId>, known: &Known<'_>) -> Option<Condition> {
    let (place, is_asked) = (table.place, table.has("amount"));
    let without = table.choice("without_amount", &WITHOUT);
    let remedy = "write for example `amount = \"(0, 5000] USD\"`";
    let within = interval(table, "amount", remedy, |text| decimal(text, 6));
    if !is_asked && without.is_some() {
        table.fault(place, "`without_amount` says nothing without `amount`", "take it out, or write `amount`");
    }
    let within = within?;
    if let (None, Some(name)) = (without, first_without_amount(operations, known)) {
        let fault = format!("`{name}` has no amount, and `amount` is asked of it");
        table.fault(place, fault, "leave it out of `op`, or write `without_amount = \"match\"` or `\"skip\"`");
    }
    Some(Condition::Amount { within, without: without.unwrap_or(false) })
}

/// The first of these operations whose bodies state no amount.
pub(super) fn first_without_amount(operations: &BTreeSet<OperationId>, known: &Known<'_>) -> Option<String> {
    let named = known.catalog.operations().iter().filter(|operation| operations.contains(&operation.id));
    named.filter(|operation| !operation.has_amount()).map(|operation| operation.id.to_string()).next()
}

fn interval(
    table: &mut Table<'_>,
    name: &'static str,
    remedy: &str,
    number: impl Fn(&str) -> Result<u128, String>,
) -> Option<Interval> {
    let (place, text) = table.text(name)?;
    let bare = if name == "amount" { text.strip_suffix(" USD") } else { Some(text.as_str()) };
    let read = bare.ok_or_else(|| "it does not end with ` USD`".to_owned());
    match read.and_then(|bare| Interval::parse(bare, number)) {
        Ok(interval) => Some(interval),
        Err(why) => {
            table.fault(place, format!("`{name}` cannot be `{}`: {why}", text.escape_debug()), remedy);
            None
        }
    }
}

fn decimal(text: &str, decimals: u32) -> Result<u128, String> {
    Decimal::parse(text).and_then(|decimal| decimal.units(decimals)).map_err(|fault| fault.to_string())
}

/// `250000 USD`.
pub(super) fn usd(text: &str) -> Result<MicroUsd, String> {
    let amount = text.strip_suffix(" USD").ok_or("it does not end with ` USD`")?;
    Decimal::parse(amount).and_then(MicroUsd::of).map_err(|fault| fault.to_string())
}

fn pointers<'f>(mut body: Table<'f>, words: &Vocabulary, found: &mut Vec<Condition>) -> Table<'f> {
    for (name, value) in body.rest() {
        let place = value.place;
        let Some(pointer) = Pointer::parse(&name) else {
            let fault = format!("`{}` is no JSON pointer", name.escape_debug());
            body.fault(place, fault, "write for example `\"/developerFee\" = \"absent\"`");
            continue;
        };
        found.extend(sought(&mut body, &name, value, words).map(|sought| Condition::Body(pointer, sought)));
    }
    body
}

/// `"present"`, `"absent"`, `{ equals = 5 }` or `{ in = ["a", "@list"] }`.
fn sought(body: &mut Table<'_>, name: &str, value: Found<Place>, words: &Vocabulary) -> Option<Sought> {
    let place = value.place;
    let remedy = "write `\"present\"`, `\"absent\"`, `{ equals = \"x\" }` or `{ in = [\"x\", \"@list\"] }`";
    match &value.raw {
        Raw::Text(word) if word == "present" => return Some(Sought::Present),
        Raw::Text(word) if word == "absent" => return Some(Sought::Absent),
        Raw::Table(_) => {}
        _ => {
            body.fault(place, format!("`{name}` is asked otherwise"), remedy);
            return None;
        }
    }
    let mut asked = body.nested_of(name, value)?;
    let mut set = BTreeSet::new();
    if let Some(found) = asked.take("equals") {
        set.extend(literal(&mut asked, found));
    }
    if let Some(found) = asked.take("in") {
        match found.raw {
            Raw::List(items) => {
                for item in items {
                    match &item.raw {
                        Raw::Text(text) if text.starts_with('@') => {
                            let list = text.trim_start_matches('@').to_owned();
                            let texts = listed(&mut asked, item.place, &list, Sort::Text, words);
                            set.extend(texts.into_iter().flatten().map(|text| Literal::text(text)));
                        }
                        _ => set.extend(literal(&mut asked, item)),
                    }
                }
            }
            other => asked.fault(found.place, format!("`in`: {}", other.instead_of("a list")), remedy),
        }
    }
    if set.is_empty() {
        asked.fault(place, format!("`{name}` is asked for nothing"), remedy);
    }
    body.include(asked);
    Some(Sought::Among(set))
}

fn literal(table: &mut Table<'_>, found: Found<Place>) -> Option<Literal> {
    match found.raw {
        Raw::Text(text) => Some(Literal::text(&text)),
        Raw::Number(Some(number)) => Some(Literal::Number(number)),
        Raw::Truth(truth) => Some(Literal::Truth(truth)),
        other => table.wrong("equals", found.place, &other, "a text, a whole number, `true` or `false`"),
    }
}

fn times(table: &mut Table<'_>, found: &mut Vec<Condition>) {
    let place = table.place;
    let days = table.one_or_more("weekday").map(|texts| {
        let day = |(place, text): &(Place, String)| table.choice_of("weekday", *place, text, &DAYS);
        texts.iter().filter_map(day).collect::<Vec<_>>()
    });
    let number = |text: &str| match text.parse::<u128>() {
        Ok(hour) if hour <= 24 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(hour),
        _ => Err("hours are 0 to 24".to_owned()),
    };
    let hours = interval(table, "hour", "write for example `hour = \"[9, 17)\"`", number);
    let zone = table.text("zone");
    match zone {
        Some((place, name)) => {
            let Some(zone) = zone_of(table, place, &name) else { return };
            if days.is_none() && hours.is_none() {
                table.fault(place, "`zone` says nothing alone", "write `weekday` or `hour` beside it");
            }
            found.extend(days.map(|days| Condition::Weekday(days, zone.clone())));
            found.extend(hours.map(|hours| Condition::Hour(hours, zone)));
        }
        None if days.is_some() || hours.is_some() => {
            table.fault(place, "`zone` is missing", "write for example `zone = \"Europe/Berlin\"`, or `\"UTC\"`");
        }
        None => {}
    }
}

/// A zone of the database that is built in: the same on every machine.
pub(super) fn zone_of(table: &mut Table<'_>, place: Place, name: &str) -> Option<TimeZone> {
    let database = TimeZoneDatabase::bundled();
    let found = database.get(name).ok();
    if found.is_none() {
        let known: Vec<String> = database.available().map(|name| name.to_string()).collect();
        let near = crate::base::finding::nearest(name, known.iter().map(String::as_str));
        let remedy =
            near.map_or("write a name of the IANA database".to_owned(), |near| format!("did you mean `{near}`?"));
        table.fault(place, format!("there is no zone `{}`", name.escape_debug()), remedy);
    }
    found
}
