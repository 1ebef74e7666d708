//! `[asset]`, `[value]`, `[group]`, `[list]` and `[approval]`: the definitions that rules and limits name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::KnownNames;
use super::dates::merged;
use super::document::{DocumentTable, PolicyPlace, RawItem};
use super::durations::duration;
use super::expiry::{LastDay, NameSet, PolicyEnd, last_day};
use super::field_form::{FieldValue, Sort};
use super::when::{Vocabulary, normal_name};
use crate::base::finding::Finding;
use crate::base::money::{Asset, Decimal, Worth, is_exact_value};
use crate::base::spanned::SpannedValue;

/// The members of each group.
pub type Groups = BTreeMap<String, BTreeSet<String>>;
/// The people who approved, and the members that each may stand for.
pub type Voices = BTreeMap<String, BTreeSet<String>>;

/// The most options for completing an approval.
pub(super) const MAX_WAYS: usize = 64;
/// An approval: the people who must approve, and how long they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub need: Need,
    pub expires: Duration,
    /// Whether only votes count that are signed with passkeys.
    pub signed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    All(Vec<Need>),
    Any(Vec<Need>),
    /// A number of members of a group, no person twice in one approval.
    People {
        group: String,
        count: u64,
    },
}

impl Need {
    /// Returns the fewest people that can complete it.
    pub fn fewest(&self) -> u64 {
        match self {
            Need::People { count, .. } => *count,
            Need::All(needs) => needs.iter().map(Need::fewest).fold(0, u64::saturating_add),
            Need::Any(needs) => needs.iter().map(Need::fewest).min().unwrap_or(0),
        }
    }
}

/// `[asset.weth]`: decimals, and a value with its age.
pub(super) fn asset(name: &str, mut table: DocumentTable<'_>, words: &mut Vocabulary, findings: &mut Vec<Finding>) {
    let place = table.place;
    let decimals = table.required("decimals", DocumentTable::number);
    let par = table.truth("par");
    let usd = table.text("value");
    let as_of = table.text("as_of");
    let good_for = duration(&mut table, "good_for");
    let worth = match (par, usd, as_of, good_for) {
        (Some(true), None, None, None) => Some(Worth::Par),
        (None | Some(false), None, None, None) => Some(Worth::Unknown),
        (None, Some((place, text)), Some((at, as_of)), Some(good_for)) => {
            let usd =
                text.strip_suffix(" USD").and_then(|text| Decimal::parse(text).ok()).filter(|usd| is_exact_value(*usd));
            if usd.is_none() {
                let fault = format!("`value` cannot be `{}`", text.escape_debug());
                table.fault(place, fault, "write for example `value = \"2500.25 USD\"`, with up to 8 decimals");
            }
            let from = as_of.parse::<Timestamp>().ok().map(Timestamp::as_second);
            if from.is_none() {
                let fault = format!("`as_of` cannot be `{}`", as_of.escape_debug());
                table.fault(at, fault, "write a time with its zone: `2026-11-20T09:00:00Z`");
            }
            let length = i64::try_from(good_for.as_secs()).unwrap_or(i64::MAX);
            usd.zip(from).map(|(usd, from)| Worth::Rate { usd, from_secs: from, to_secs: from.saturating_add(length) })
        }
        _ if !table.is_used_up() => None,
        _ => {
            let remedy =
                "write `par = true`; or `value`, `as_of` and `good_for`; or none of them: it has no value then";
            table.fault(place, "the value of the asset has the wrong form", remedy);
            None
        }
    };
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        table.fault(
            place,
            format!("an asset cannot be called `{}`", name.escape_debug()),
            "write it in `a-z` and `0-9`",
        );
    }
    table.end(findings);
    match (decimals.and_then(|d| u32::try_from(d).ok()), worth) {
        (Some(decimals), Some(worth)) => words.valuation.assets.insert(name, Asset { decimals, worth }),
        _ => {
            words.broken.insert(("asset", name.to_owned()));
        }
    }
}

/// `[value]`: the assumptions for bodies that leave something open.
pub(super) fn value(mut table: DocumentTable<'_>, words: &mut Vocabulary, findings: &mut Vec<Finding>) {
    if let Some((place, text)) = table.text("slippage") {
        let percent = text.strip_suffix('%').and_then(|text| Decimal::parse(text).ok()?.units(4).ok());
        let millionths = percent.and_then(|percent| u64::try_from(percent).ok()).filter(|m| *m <= 1_000_000);
        if millionths.is_none() {
            let fault = format!("`slippage` cannot be `{}`", text.escape_debug());
            table.fault(place, fault, "write for example `slippage = \"0.5%\"`, at most 100%");
        }
        words.valuation.slippage_millionths = millionths;
    }
    table.end(findings);
}

/// `[group.ops]`: people.
pub(super) fn group(
    name: &str,
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    words: &mut Vocabulary,
    findings: &mut Vec<Finding>,
) {
    let members = table.required("members", |table, name| table.texts(name, false));
    let mut set = BTreeSet::new();
    for (place, member) in members.unwrap_or_default() {
        super::rate::callers(&mut table, vec![(place, member.clone())], known);
        set.insert(member);
    }
    if !table.end(findings) {
        words.broken.insert(("group", name.to_owned()));
    }
    words.groups.insert(name.to_owned(), set);
}

/// `[list.payout-accounts]`: names by sort.
pub(super) fn list(
    file: &str,
    name: &str,
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    words: &mut Vocabulary,
    findings: &mut Vec<Finding>,
) {
    let mut sorts = std::collections::BTreeMap::new();
    for form in table.form().all_fields() {
        let (field, FieldValue::List(FieldValue::Name(sort)) | FieldValue::Members(sort)) = (form.name, &form.value)
        else {
            continue;
        };
        let sort = *sort;
        let Some(members) = members(&mut table, field, &form.value) else { continue };
        let mut set = NameSet::default();
        for (place, text, last) in members {
            let Some(normal) = normal_name(&mut table, field, place, &text, sort, known, words) else { continue };
            let what = || format!("`{normal}` of the list `{name}`");
            let remedy = "remove it, or write a later day";
            let end =
                |last: &LastDay| PolicyEnd { what: what(), file: file.to_owned(), place, last: last.clone(), remedy };
            words.ends.extend(last.as_ref().map(end));
            if set.all.contains(&normal) && (last.is_some() || set.expires(&normal)) {
                let fault = format!("`{field}` names `{normal}` twice, and one of them expires");
                table.fault(place, fault, "remove one of them");
            }
            set.add(normal, last);
        }
        if let Some(day) =
            merged(&set.all).last().map(|range| range.most).filter(|day| sort == Sort::Date && *day != u128::MAX)
        {
            let (what, remedy) = (format!("the list `{name}` of dates"), "add the dates that follow");
            let last = LastDay { day, zone: TimeZone::UTC };
            words.ends.push(PolicyEnd { what, file: file.to_owned(), place: table.place, last, remedy });
        }
        sorts.insert(sort, set);
    }
    if sorts.is_empty() && table.is_used_up() {
        let place = table.place;
        table.fault(place, "the list is empty", "write for example `account = [...]`");
    }
    if !table.end(findings) {
        words.broken.insert(("list", name.to_owned()));
    }
    words.lists.insert(name.to_owned(), sorts);
}

/// Takes out the members of a list, each with its last day if it has one: `{ name = "…", expires = "…" }`.
fn members(
    table: &mut DocumentTable<'_>,
    field: &'static str,
    form: &FieldValue,
) -> Option<Vec<(PolicyPlace, String, Option<LastDay>)>> {
    let for_good = |(place, text)| (place, text, None);
    let is_table = |item: &SpannedValue<PolicyPlace>| matches!(item.raw, RawItem::Table(_));
    let (FieldValue::Members(_), Some(items)) = (form, table.items(field).filter(|items| items.iter().any(is_table)))
    else {
        return Some(table.texts(field, false)?.into_iter().map(for_good).collect());
    };
    table.take(field);
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for item in items {
        let (place, member) = match item.raw {
            RawItem::Table(_) => {
                let mut nested = table.nested_of(field, item)?;
                let name = nested.required("name", DocumentTable::text);
                let last = nested.required("expires", |nested, name| {
                    let (place, text) = nested.text(name)?;
                    last_day(nested, place, &text)
                });
                table.include(nested);
                let Some(((place, name), last)) = name.zip(last) else { continue };
                (place, (name, Some(last)))
            }
            _ => {
                let (place, name) = table.text_of(field, item)?;
                (place, (name, None))
            }
        };
        if !seen.insert(member.0.clone()) {
            table.fault(place, format!("`{field}` names `{}` twice", member.0.escape_debug()), "remove one of them");
        }
        found.push((place, member.0, member.1));
    }
    Some(found)
}

/// `[approval.dual]`.
pub(super) fn approval(
    mut table: DocumentTable<'_>,
    words: &Vocabulary,
    can_sign: bool,
    findings: &mut Vec<Finding>,
) -> Option<Approval> {
    let need = need(&mut table, words);
    if need.as_ref().is_some_and(|need| need.ways().is_none()) {
        let (place, fault) = (table.place, format!("there are more than {MAX_WAYS} ways to complete it"));
        table.fault(place, fault, "use fewer `any` together");
    }
    let expires = table.required("expires", duration);
    let signed = table.truth("signed").unwrap_or(false);
    if signed && !can_sign {
        let place = table.place;
        table.fault(place, "`signed` needs `[signing]`", "write `[signing]`, and a `[[passkey]]` for each person");
    }
    let is_good = table.end(findings);
    let read = Approval { need: need?, expires: expires?, signed };
    is_good.then_some(read)
}

/// `all = [...]`, `any = [...]`, or `of` and `n`.
fn need(table: &mut DocumentTable<'_>, words: &Vocabulary) -> Option<Need> {
    let (place, all, any) = (table.place, table.take("all"), table.take("any"));
    let has_people = table.has("of") || table.has("n");
    let remedy = "write one of `all = [...]`, `any = [...]` and `of = \"group\", n = 1`";
    match (all, any, has_people) {
        (Some(all), None, false) => needs(table, "all", all, words).map(Need::All),
        (None, Some(any), false) => needs(table, "any", any, words).map(Need::Any),
        (None, None, true) => people(table, words),
        (None, None, false) if ["all", "any", "of", "n"].iter().any(|name| table.has_misspelt(name)) => None,
        _ => {
            table.fault(place, "the people who must approve are missing", remedy);
            None
        }
    }
}

fn needs(
    table: &mut DocumentTable<'_>,
    name: &str,
    found: SpannedValue<PolicyPlace>,
    words: &Vocabulary,
) -> Option<Vec<Need>> {
    let place = found.place;
    let RawItem::List(items) = found.raw else {
        return table.wrong(name, place, &found.raw, "a list of tables");
    };
    if items.is_empty() {
        table.fault(place, format!("`{name}` is empty: nobody would have to approve"), "add at least one");
        return None;
    }
    let mut needs = Vec::new();
    for item in items {
        let mut nested = table.nested_of(name, item)?;
        let read = need(&mut nested, words);
        table.include(nested);
        needs.push(read?);
    }
    Some(needs)
}

fn people(table: &mut DocumentTable<'_>, words: &Vocabulary) -> Option<Need> {
    let (place, group) = table.required("of", DocumentTable::text)?;
    let count = table.required("n", DocumentTable::number)?;
    if words.is_broken("group", &group) {
        return None;
    }
    let Some(members) = words.groups.get(&group) else {
        table.unknown_name(place, "a group", &group, words.groups.keys().map(String::as_str));
        return None;
    };
    if u64::try_from(members.len()).is_ok_and(|members| members < count) {
        let fault = format!("`{group}` has {} members, but {count} of them must approve", members.len());
        table.fault(place, fault, "write a smaller `n`, or more `members`");
    }
    Some(Need::People { group, count })
}
