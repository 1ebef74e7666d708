//! `when`: reads conditions, and the names of groups, lists and assets in them.

use std::collections::{BTreeMap, BTreeSet};

use super::KnownNames;
use super::condition::{Condition, PRICE_DECIMALS, SoughtValue, Ways};
use super::contract_check::{self, Scope};
use super::dates::{date_range, merged, others};
use super::document::{DocumentTable, PolicyPlace, RawItem};
use super::durations::duration;
use super::expiry::{NameSense, NameSet, PolicyEnd, in_time};
use super::field_form::{FieldValue, Sort};
use super::interval::Interval;
use super::literal::Literal;
use super::rate;
use super::request::{Field, Valuation, chain_name};
use super::times::{has_times, times};
use crate::base::ids::{Environment, OperationId};
use crate::base::money::{Decimal, MicroUsd, asset_name};
use crate::base::normal::{self, is_uuid};
use crate::base::pointer::Pointer;
use crate::base::spanned::SpannedValue;

pub(super) const WITHOUT: [(&str, bool); 2] = [("match", true), ("skip", false)];

/// The definitions of the set that rules may use.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub valuation: Valuation,
    pub groups: BTreeMap<String, BTreeSet<String>>,
    pub lists: BTreeMap<String, BTreeMap<Sort, NameSet>>,
    /// The lists of dates, and the members of lists, that end.
    pub ends: Vec<PolicyEnd>,
    pub approvals: BTreeSet<String>,
    /// The kinds and names of definitions with errors: nobody is told that these are missing.
    pub broken: BTreeSet<(&'static str, String)>,
}

impl Vocabulary {
    pub(super) fn is_broken(&self, kind: &'static str, name: &str) -> bool {
        self.broken.contains(&(kind, name.to_owned()))
    }
}

/// The operations and the conditions of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct When {
    pub operations: BTreeSet<OperationId>,
    pub conditions: Vec<Condition>,
}

/// Reads the conditions of a table; the table is `when` itself, or one that has its fields among others.
pub(super) fn read_when(table: &mut DocumentTable<'_>, known: &KnownNames<'_>, words: &Vocabulary) -> Option<When> {
    let written = table.required("op", DocumentTable::one_or_more);
    let (is_written, ops) = (written.is_some(), written.unwrap_or_default());
    let operations = rate::operations(table, &ops, known);
    // The conditions are read even without operations: each has its own mistakes.
    let conditions = conditions(table, &Scope::of(&operations, &ops, known), known, words);
    is_written.then_some(When { operations, conditions })
}

/// Reads every condition but the operations.
pub(super) fn conditions(
    table: &mut DocumentTable<'_>,
    scope: &Scope<'_>,
    known: &KnownNames<'_>,
    words: &Vocabulary,
) -> Vec<Condition> {
    let mut found = Vec::new();
    fields(table, known, words, &mut found);
    if let Some(mut source) = table.nested("source") {
        fields(&mut source, known, words, &mut found);
        table.include(source);
    }
    if let Some(mut side) = table.nested("destination") {
        let has_fee_wallet = found.iter().any(|condition| matches!(condition, Condition::Names(Field::FeeWallet, _)));
        destination(&mut side, has_fee_wallet, known, words, &mut found);
        table.include(side);
    }
    found.extend(amount(table, scope.operations, known));
    let price = |text: &str| decimal(text, PRICE_DECIMALS);
    let remedy = "write for example `price = \"[0.99, inf)\"`";
    found.extend(interval(table, "price", remedy, price).map(Condition::Price));
    if let Some(body) = table.nested("body") {
        let body = pointers(body, scope, words, &mut found);
        table.include(body);
    }
    let has_times = has_times(table);
    let dates = names(table, "date", Sort::Date, known, words).map(|(sense, set)| match sense {
        NameSense::In => merged(&set.all),
        NameSense::NotIn => others(&merged(&set.all)),
    });
    times(table, has_times, dates, &mut found);
    contract_check::fields(table, scope, &found, known);
    found
}

fn fields(table: &mut DocumentTable<'_>, known: &KnownNames<'_>, words: &Vocabulary, found: &mut Vec<Condition>) {
    for form in table.form().all_fields() {
        if let FieldValue::Names(sort, Some(field)) = &form.value {
            let Some((sense, set)) = names(table, form.name, *sort, known, words) else { continue };
            let make = |sets: Vec<BTreeSet<String>>| {
                let names = sets.into_iter().next().unwrap_or_default();
                match sense {
                    NameSense::In => Condition::Names(*field, names),
                    NameSense::NotIn => Condition::NotNames(*field, names),
                }
            };
            found.extend(in_time(table, sense, &[&set], make));
        }
    }
}

fn destination(
    table: &mut DocumentTable<'_>,
    has_fee_wallet: bool,
    known: &KnownNames<'_>,
    words: &Vocabulary,
    found: &mut Vec<Condition>,
) {
    let names_account = table.has("account");
    fields(table, known, words, found);
    let (mut inside, mut outside) = ([None, None, None], [None, None, None]);
    let ways = [("user", Sort::User), ("wallet", Sort::Wallet), ("external_wallet", Sort::ExternalWallet)];
    for (((name, sort), inside), outside) in ways.into_iter().zip(&mut inside).zip(&mut outside) {
        match names(table, name, sort, known, words) {
            Some((NameSense::In, set)) => *inside = Some(set),
            Some((NameSense::NotIn, set)) => *outside = Some(set),
            None => {}
        }
    }
    // A wallet that takes fees is a destination too.
    if (names_account || inside.iter().any(Option::is_some)) && !has_fee_wallet {
        let wallets = inside.get(1).cloned().flatten().unwrap_or_default();
        let make = |sets: Vec<BTreeSet<String>>| Condition::FeesOnlyTo(sets.into_iter().next().unwrap_or_default());
        found.extend(in_time(table, NameSense::In, &[&wallets], make));
    }
    let both = [
        (NameSense::In, inside, Condition::Destination as fn(Ways) -> Condition),
        (NameSense::NotIn, outside, Condition::NotDestination),
    ];
    for (sense, sets, of_ways) in both.into_iter().filter(|(_, sets, _)| sets.iter().any(Option::is_some)) {
        let sets = sets.map(Option::unwrap_or_default);
        found.extend(in_time(table, sense, &sets.each_ref(), |sets| {
            let mut sets = sets.into_iter();
            let mut next = || sets.next().unwrap_or_default();
            of_ways(Ways { user: next(), wallet: next(), external_wallet: next() })
        }));
    }
    let (place, new, cooldown) = (table.place, table.truth("new"), duration(table, "cooldown"));
    if cooldown.is_some() && new.is_none() && !table.has_misspelt("new") {
        table.fault(place, "`cooldown` has no effect without `new`", "remove it, or add `new = true`");
    }
    let cooldown = cooldown.unwrap_or_default();
    found.extend(new.map(|new| Condition::NewDestination { new, cooldown }));
}

/// Reads names, or `{ not_in = ... }`.
fn names(
    table: &mut DocumentTable<'_>,
    name: &'static str,
    sort: Sort,
    known: &KnownNames<'_>,
    words: &Vocabulary,
) -> Option<(NameSense, NameSet)> {
    let found = table.take(name)?;
    if !matches!(found.raw, RawItem::Table(_)) {
        let texts = table.one_or_more_of(name, found)?;
        return Some((NameSense::In, named(table, name, texts, sort, known, words)));
    }
    let mut nested = table.nested_of(name, found)?;
    let texts = nested.required("not_in", DocumentTable::one_or_more);
    let set = texts.map(|texts| named(&mut nested, name, texts, sort, known, words));
    table.include(nested);
    set.map(|set| (NameSense::NotIn, set))
}

/// Returns a set of names in their normal forms: texts, and lists as `@name`.
fn named(
    table: &mut DocumentTable<'_>,
    name: &'static str,
    texts: Vec<(PolicyPlace, String)>,
    sort: Sort,
    known: &KnownNames<'_>,
    words: &Vocabulary,
) -> NameSet {
    let mut set = NameSet::default();
    for (place, text) in texts {
        match text.strip_prefix('@') {
            Some(list) => {
                let listed = listed(table, place, list, sort, words);
                let texts = listed.filter(|_| sort == Sort::Text).into_iter().flat_map(|listed| &listed.all);
                texts.for_each(|text| rate::no_pattern(table, place, text));
                set.add_all(listed.unwrap_or(&NameSet::default()));
            }
            None if sort == Sort::Text => {
                rate::no_pattern(table, place, &text);
                set.add(text, None);
            }
            None => {
                let normal = normal_name(table, name, place, &text, sort, known, words);
                normal.into_iter().for_each(|name| set.add(name, None));
            }
        }
    }
    set
}

fn listed<'w>(
    table: &mut DocumentTable<'_>,
    place: PolicyPlace,
    list: &str,
    sort: Sort,
    words: &'w Vocabulary,
) -> Option<&'w NameSet> {
    if words.is_broken("list", list) {
        return None;
    }
    let Some(sorts) = words.lists.get(list) else {
        table.unknown_name(place, "a list", list, words.lists.keys().map(String::as_str));
        return None;
    };
    let found = sorts.get(&sort);
    if found.is_none() {
        let remedy = format!("write `{sort} = [...]` in `[list.{list}]`");
        table.fault(place, format!("the list `{list}` has no `{sort}`"), remedy);
    }
    found
}

/// Returns the normal form of a name; an invalid name is an error.
pub(super) fn normal_name(
    table: &mut DocumentTable<'_>,
    field: &str,
    place: PolicyPlace,
    text: &str,
    sort: Sort,
    known: &KnownNames<'_>,
    words: &Vocabulary,
) -> Option<String> {
    let what = format!("`{field}`");
    match sort {
        Sort::Text => Some(text.to_owned()),
        Sort::Date => {
            let read = date_range(text);
            if let Err(why) = &read {
                let remedy = "write for example `2026-12-24`, or `[2026-12-24, 2027-01-02)`";
                table.fault(place, format!("{what} cannot be `{}`: {why}", text.escape_debug()), remedy);
            }
            read.is_ok().then(|| text.to_owned())
        }
        Sort::User | Sort::ExternalWallet | Sort::Account => {
            if !is_uuid(text) {
                table.fault(place, format!("{what} cannot be `{}`", text.escape_debug()), "write a UUID");
            }
            is_uuid(text).then(|| normal::uuid(text))
        }
        Sort::Wallet => {
            let normal = normal::known_wallet(None, text);
            if normal.is_none() {
                let fault = format!("{what} cannot be `{}`", text.escape_debug());
                table.fault(place, fault, format!("write {}", normal::KNOWN_ADDRESSES));
            }
            normal
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
                if words.is_broken("asset", text) {
                    return None;
                }
                table.unknown_name(place, &what, text, words.valuation.assets.names());
                return None;
            }
            Some(asset_name(text).into_owned())
        }
        Sort::Environment => table
            .choice_of("environment", place, text, &Environment::WORDS)
            .map(|environment| environment.as_str().to_owned()),
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

fn amount(
    table: &mut DocumentTable<'_>,
    operations: &BTreeSet<OperationId>,
    known: &KnownNames<'_>,
) -> Option<Condition> {
    let (place, is_asked) = (table.place, table.has("amount"));
    let without = table.choice("without_amount", &WITHOUT);
    let remedy = "write for example `amount = \"(0, 5000] USD\"`";
    let within = interval(table, "amount", remedy, |text| decimal(text, 6));
    if !is_asked && without.is_some() {
        table.fault(place, "`without_amount` has no effect without `amount`", "remove it, or add `amount`");
    }
    let within = within?;
    if let (None, Some(name)) = (without, first_without_amount(operations, known)) {
        let fault = format!("`{name}` has no amount, but `amount` is a condition");
        table.fault(place, fault, "remove it from `op`, or add `without_amount = \"match\"` or `\"skip\"`");
    }
    Some(Condition::Amount { within, without: without.unwrap_or(false) })
}

/// Returns the first of these operations whose bodies state no amount.
pub(super) fn first_without_amount(operations: &BTreeSet<OperationId>, known: &KnownNames<'_>) -> Option<String> {
    let named = known.catalog.operations().iter().filter(|operation| operations.contains(&operation.id));
    named.filter(|operation| !operation.has_amount()).map(|operation| operation.id.to_string()).next()
}

fn interval(
    table: &mut DocumentTable<'_>,
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

fn pointers<'f>(
    mut body: DocumentTable<'f>,
    scope: &Scope<'_>,
    words: &Vocabulary,
    found: &mut Vec<Condition>,
) -> DocumentTable<'f> {
    for (name, value) in body.rest() {
        let place = value.place;
        let Some(pointer) = Pointer::parse(&name) else {
            let fault = format!("`{}` is not a JSON pointer", name.escape_debug());
            body.fault(place, fault, "write for example `\"/developerFee\" = \"absent\"`");
            continue;
        };
        let Some(sought) = sought(&mut body, &name, value, words) else { continue };
        contract_check::body(&mut body, place, &pointer, &sought, scope);
        found.push(Condition::Body(pointer, sought));
    }
    body
}

/// `"present"`, `"absent"`, `{ equals = 5 }`, `{ in = ["a", "@list"] }` or `{ not_in = ["a", "@list"] }`.
fn sought(
    body: &mut DocumentTable<'_>,
    name: &str,
    value: SpannedValue<PolicyPlace>,
    words: &Vocabulary,
) -> Option<SoughtValue> {
    let place = value.place;
    let remedy = "write `\"present\"`, `\"absent\"`, `{ equals = \"x\" }`, `{ in = [\"x\", \"@list\"] }` or `{ not_in = [...] }`";
    match &value.raw {
        RawItem::Text(word) if word == "present" => return Some(SoughtValue::Present),
        RawItem::Text(word) if word == "absent" => return Some(SoughtValue::Absent),
        RawItem::Table(_) => {}
        _ => {
            body.fault(place, format!("`{name}` has an unknown condition"), remedy);
            return None;
        }
    }
    let mut asked = body.nested_of(name, value)?;
    let mut set = BTreeSet::new();
    let is_in = asked.has("equals") || asked.has("in");
    if is_in && asked.has("not_in") {
        asked.fault(place, "`not_in` is the opposite of `in` and `equals`", "write one of them");
    }
    if let Some(found) = asked.take("equals") {
        set.extend(literal(&mut asked, found));
    }
    for name in ["in", "not_in"] {
        let Some(found) = asked.take(name) else { continue };
        match found.raw {
            RawItem::List(items) => {
                for item in items {
                    match &item.raw {
                        RawItem::Text(text) if text.starts_with('@') => {
                            let list = text.trim_start_matches('@').to_owned();
                            let texts = listed(&mut asked, item.place, &list, Sort::Text, words);
                            set.extend(texts.into_iter().flat_map(|texts| &texts.all).map(|text| Literal::text(text)));
                        }
                        _ => set.extend(literal(&mut asked, item)),
                    }
                }
            }
            other => asked.fault(found.place, format!("`{name}`: {}", other.instead_of("a list")), remedy),
        }
    }
    if set.is_empty() && asked.is_used_up() {
        asked.fault(place, format!("`{name}` has no condition"), remedy);
    }
    body.include(asked);
    let sought = if is_in { SoughtValue::Among } else { SoughtValue::NotAmong };
    (!set.is_empty()).then_some(sought(set))
}

fn literal(table: &mut DocumentTable<'_>, found: SpannedValue<PolicyPlace>) -> Option<Literal> {
    match found.raw {
        RawItem::Text(text) => Some(Literal::text(&text)),
        RawItem::Number(Some(number)) => Some(Literal::Number(number)),
        RawItem::Truth(truth) => Some(Literal::Truth(truth)),
        other => table.wrong("equals", found.place, &other, "a text, a whole number, `true` or `false`"),
    }
}
