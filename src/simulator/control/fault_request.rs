//! Parses the JSON of a requested fault; every mistake is reported.

use serde_json::{Map, Value};

use super::super::faults::{FaultKind, InjectedFault};
use crate::base::finding::nearest;
use crate::base::ids::OperationId;
use crate::base::json::{self, Limits};
use crate::catalog::{Catalog, Violation};

/// Each kind with the fields that it takes besides the common ones.
const KINDS: [(&str, &[&str]); 21] = [
    ("delay", &["ms"]),
    ("resetBeforeReading", &[]),
    ("resetAfterReceiving", &[]),
    ("closeAfterReceiving", &[]),
    ("hang", &[]),
    ("hangBeforeEffect", &[]),
    ("cutBody", &[]),
    ("stallBody", &[]),
    ("answer", &["status", "contentType", "body", "effect"]),
    ("html500", &["effect"]),
    ("garbage", &["effect"]),
    ("brokenJson", &[]),
    ("redirect", &["location", "effect"]),
    ("wrongShape", &[]),
    ("oversize", &["bytes"]),
    ("lateEffect", &["ms"]),
    ("foreignRecord", &[]),
    ("interim", &["count"]),
    ("drip", &["ms"]),
    ("echoCredential", &[]),
    ("alreadyExists", &["status"]),
];
const COMMON: [&str; 4] = ["operation", "kind", "times", "percent"];

pub(super) fn fault(body: &[u8], catalog: &Catalog) -> Result<InjectedFault, Vec<Violation>> {
    let value = json::parse(body, Limits::ANSWER).map_err(|e| vec![Violation::new("", "json", e.to_string())])?;
    let Value::Object(members) = value else {
        return Err(vec![Violation::new("", "type", "an object such as {\"kind\": \"hang\"}")]);
    };
    let mut wish = FaultWish { members: &members, violations: Vec::new() };
    let operation = wish.operation(catalog);
    let times = wish.whole("times", u64::from(u32::MAX)).and_then(|n| u32::try_from(n).ok());
    let percent = wish.whole("percent", 100).and_then(|n| u8::try_from(n).ok());
    match (wish.kind(), wish.violations) {
        (Some(kind), violations) if violations.is_empty() => Ok(InjectedFault { operation, kind, times, percent }),
        (_, violations) => Err(violations),
    }
}

struct FaultWish<'b> {
    members: &'b Map<String, Value>,
    violations: Vec<Violation>,
}

impl FaultWish<'_> {
    fn operation(&mut self, catalog: &Catalog) -> Option<OperationId> {
        let name = self.text("operation")?;
        let known = || catalog.operations().iter().map(|o| o.id.as_str());
        if !known().any(|id| id == name) {
            let near = nearest(&name, known()).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            self.note("operation", "enum", &format!("an operation of the contract{near}"));
        }
        Some(OperationId::new(&name))
    }

    fn kind(&mut self) -> Option<FaultKind> {
        let name = self.text("kind").unwrap_or_default();
        let Some((_, fields)) = KINDS.into_iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = KINDS.into_iter().map(|(known, _)| known).collect();
            self.note("kind", "enum", &format!("one of {}", known.join(", ")));
            return None;
        };
        let strange =
            self.members.keys().filter(|key| !COMMON.contains(&key.as_str()) && !fields.contains(&key.as_str()));
        for field in strange.cloned().collect::<Vec<_>>() {
            self.note(&field, "additionalProperties", "no field of this name for this kind");
        }
        Some(match name.as_str() {
            "delay" => FaultKind::Delay { ms: self.needed("ms", 600_000)? },
            "resetBeforeReading" => FaultKind::ResetBeforeReading,
            "resetAfterReceiving" => FaultKind::ResetAfterReceiving,
            "closeAfterReceiving" => FaultKind::CloseAfterReceiving,
            "hang" => FaultKind::Hang,
            "hangBeforeEffect" => FaultKind::HangBeforeEffect,
            "cutBody" => FaultKind::CutBody,
            "stallBody" => FaultKind::StallBody,
            "answer" => self.answer()?,
            "html500" => FaultKind::Html500 { effect: self.effect() },
            "garbage" => FaultKind::Garbage { effect: self.effect() },
            "brokenJson" => FaultKind::BrokenJson,
            "redirect" => {
                let location = self.text("location").unwrap_or_else(|| "https://elsewhere.example.com/".to_owned());
                FaultKind::Redirect { location, effect: self.effect() }
            }
            "wrongShape" => FaultKind::WrongShape,
            "oversize" => FaultKind::Oversize { bytes: usize::try_from(self.needed("bytes", 1 << 30)?).ok()? },
            "lateEffect" => FaultKind::LateEffect { ms: self.needed("ms", 600_000)? },
            "foreignRecord" => FaultKind::ForeignRecord,
            "interim" => FaultKind::Interim { count: u32::try_from(self.needed("count", 1_000_000)?).ok()? },
            "drip" => FaultKind::Drip { ms: self.needed("ms", 600_000)? },
            "echoCredential" => FaultKind::EchoCredential,
            "alreadyExists" => FaultKind::AlreadyExists { status: self.repeat_status()? },
            _ => return None,
        })
    }

    fn repeat_status(&mut self) -> Option<u16> {
        let status = u16::try_from(self.needed("status", 499)?).ok().filter(|s| *s == 200 || *s >= 400);
        if status.is_none() {
            self.note("status", "enum", "200, or 400 to 499");
        }
        status
    }

    /// Returns the fault that answers. A body that is a text is sent as it is; any other JSON is serialized.
    fn answer(&mut self) -> Option<FaultKind> {
        let status = u16::try_from(self.needed("status", 599)?).ok().filter(|s| *s >= 200);
        if status.is_none() {
            self.note("status", "minimum", "200 to 599");
        }
        let body = self.members.get("body");
        let (default_type, body) = match body {
            None => (None, Vec::new()),
            Some(Value::String(text)) => (None, text.as_bytes().to_vec()),
            Some(other) => (Some("application/json".to_owned()), json::to_bytes(other)),
        };
        let content_type = self.text("contentType").or(default_type);
        Some(FaultKind::Answer { status: status?, content_type, body, effect: self.effect() })
    }

    fn effect(&mut self) -> bool {
        match self.members.get("effect") {
            None => false,
            Some(Value::Bool(effect)) => *effect,
            Some(_) => {
                self.note("effect", "type", "true or false");
                false
            }
        }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.members.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            _ => {
                self.note(name, "type", "a text");
                None
            }
        }
    }

    fn whole(&mut self, name: &str, most: u64) -> Option<u64> {
        match self.members.get(name)? {
            Value::Null => None,
            value => {
                let number = value.as_u64().filter(|n| *n <= most);
                if number.is_none() {
                    self.note(name, "type", &format!("a whole number from 0 to {most}"));
                }
                number
            }
        }
    }

    fn needed(&mut self, name: &str, most: u64) -> Option<u64> {
        if !self.members.contains_key(name) {
            self.note(name, "required", "this field for this kind");
        }
        self.whole(name, most)
    }

    fn note(&mut self, name: &str, keyword: &str, expected: &str) {
        self.violations.push(Violation::new(format!("/{name}"), keyword, expected));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::SchemaFiles;

    fn read(text: &str) -> Result<InjectedFault, Vec<Violation>> {
        fault(text.as_bytes(), &Catalog::build(&SchemaFiles::built_in(), &[]).unwrap())
    }

    #[test]
    fn every_kind_can_be_asked_for() {
        for (name, fields) in KINDS {
            let mut members = Map::from_iter([("kind".to_owned(), Value::from(name))]);
            for field in fields {
                let value = match *field {
                    "status" if name == "alreadyExists" => Value::from(409),
                    "ms" | "bytes" | "count" | "status" => Value::from(200),
                    "effect" => Value::Bool(true),
                    _ => Value::from("text"),
                };
                members.insert((*field).to_owned(), value);
            }
            let read = read(&Value::Object(members).to_string()).unwrap();
            assert_eq!(read.kind.name(), name);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, pointer) in [
            (r#"{"kind": "hung"}"#, "/kind"),
            (r#"{}"#, "/kind"),
            (r#"{"kind": "delay"}"#, "/ms"),
            (r#"{"kind": "hang", "ms": 5}"#, "/ms"),
            (r#"{"kind": "hang", "operation": "createSwop"}"#, "/operation"),
            (r#"{"kind": "hang", "percent": 101}"#, "/percent"),
            (r#"{"kind": "answer", "status": 99}"#, "/status"),
            (r#"{"kind": "alreadyExists", "status": 302}"#, "/status"),
            (r#"{"kind": "alreadyExists"}"#, "/status"),
            (r#"{"kind": "lateEffect"}"#, "/ms"),
            (r#"{"kind": "drip", "ms": 600001}"#, "/ms"),
            (r#"{"kind": "interim", "count": -1}"#, "/count"),
            (r#"{"kind": "foreignRecord", "effect": true}"#, "/effect"),
            (r#"[]"#, ""),
        ] {
            assert_eq!(read(text).unwrap_err().first().map(|v| v.pointer.as_str()), Some(pointer), "{text}");
        }
    }
}
