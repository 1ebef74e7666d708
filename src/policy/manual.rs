//! The fields of the policy language as Markdown, for people.

use super::field_form::{FieldValue, MEMBER, PolicyTable, Sort};
use super::language::table_of;
use super::value_kind::ValueKind;
use crate::base::ids::Environment;

const HEAD: &str = "\
# Fields of the policy language

Every table of a policy file, with its fields. [README.md](README.md) explains how they act together. This page is the output of
`sluice policy fields`.
";

/// Returns the manual's page of fields.
pub fn manual() -> String {
    let mut tables: Vec<(String, &'static PolicyTable)> = Vec::new();
    for kind in ValueKind::ALL {
        list(kind_heading(kind), table_of(kind), &mut tables);
    }
    let sections: String = tables.iter().map(|(heading, table)| section(heading, table)).collect();
    format!("{HEAD}{sections}")
}

fn kind_heading(kind: ValueKind) -> String {
    format!("`{}`", kind.heading())
}

/// Lists a table, then the tables inside of it, each once.
fn list(heading: String, table: &'static PolicyTable, tables: &mut Vec<(String, &'static PolicyTable)>) {
    if tables.iter().any(|(_, known)| known.name == table.name) {
        return;
    }
    tables.push((heading, table));
    let own = table.fields.iter().filter_map(|field| match field.value {
        FieldValue::Table(inner) | FieldValue::Tables(inner) | FieldValue::BodyConditions(inner) => Some(inner),
        FieldValue::Members(_) => Some(&MEMBER),
        _ => None,
    });
    for inner in table.base.into_iter().chain(own) {
        list(capitalized(inner.name), inner, tables);
    }
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

fn section(heading: &str, table: &PolicyTable) -> String {
    let mut text = format!("\n## {heading}\n\n{}", table.doc);
    if !table.one_of.is_empty() {
        let groups: Vec<String> = table.one_of.iter().map(|group| code(group).join(" with ")).collect();
        text.push_str(&format!(" Exactly one of {} must be written.", groups.join(", ")));
    }
    if let Some(base) = table.base {
        text.push_str(&format!(" It also has the fields of [{}](#{}).", base.name, base.name.replace(' ', "-")));
    }
    text.push_str("\n\n| field | required | value | meaning |\n|---|---|---|---|\n");
    for field in table.fields {
        let required = if field.is_required() { "yes" } else { "" };
        let value = value_in_words(&field.value);
        text.push_str(&format!("| `{}` | {required} | {value} | {} |\n", field.name, field.doc));
    }
    text
}

fn value_in_words(value: &FieldValue) -> String {
    let link = |table: &PolicyTable| format!("[{}](#{})", table.name, table.name.replace(' ', "-"));
    match value {
        FieldValue::Text | FieldValue::Pattern(_) => "text".to_owned(),
        FieldValue::Truth => "`true`, `false`".to_owned(),
        FieldValue::Number { least, most } => format!("{least} to {most}"),
        FieldValue::Word(words) => code(&words()).join(", "),
        FieldValue::Words(words) => format!("list: {}", code(&words()).join(", ")),
        FieldValue::Name(sort) => sort_in_words(*sort),
        FieldValue::Members(sort) => format!("list: {}, or table {}", sort_in_words(*sort), link(&MEMBER)),
        FieldValue::Names(sort, _) => {
            let has_lists = table_of(ValueKind::List).field(sort.as_str()).is_some();
            let list = if has_lists { ", `@LIST`" } else { "" };
            format!("{}{list}, or a list of these; or `{{ not_in = … }}`", sort_in_words(*sort))
        }
        FieldValue::Operations => "operation id, `@read`, `@change`, `@money`, `*`".to_owned(),
        FieldValue::Operation => "operation id".to_owned(),
        FieldValue::OneOrMore(one) => format!("{}, or a list of these", value_in_words(one)),
        FieldValue::List(one) => format!("list: {}", value_in_words(one)),
        FieldValue::Table(table) => format!("table {}", link(table)),
        FieldValue::Tables(table) => format!("list: table {}", link(table)),
        FieldValue::BodyConditions(table) => {
            format!("table: JSON pointers, each with `\"present\"`, `\"absent\"` or a {}", link(table))
        }
        FieldValue::BodyValues => "table: JSON pointers, each with a value".to_owned(),
        FieldValue::Texts => "table of texts".to_owned(),
        FieldValue::Literal => "text, whole number, `true`, `false`".to_owned(),
        FieldValue::Literals => "list: text, whole number, `true`, `false`".to_owned(),
    }
}

fn code(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| format!("`{word}`")).collect()
}

/// Returns the words of a sort.
fn sort_in_words(sort: Sort) -> String {
    match sort {
        Sort::User | Sort::ExternalWallet | Sort::Account => "UUID".to_owned(),
        Sort::Wallet => "EVM, Solana or Tron address".to_owned(),
        Sort::Chain => "name of a chain".to_owned(),
        Sort::Currency => "name of an asset".to_owned(),
        Sort::Caller => "`issuer:subject`".to_owned(),
        Sort::Issuer => "name of an issuer".to_owned(),
        Sort::Environment => Environment::ALL.map(|one| format!("`{one}`")).join(", "),
        Sort::Text => "text".to_owned(),
        Sort::Date => "date, or interval of dates".to_owned(),
    }
}
