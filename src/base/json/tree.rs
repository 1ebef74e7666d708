//! JSON as a tree, for texts whose form is not known.

use serde_json::{Map, Number, Value};

use super::limits::Limits;
use super::reader::{JsonError, JsonFaultKind, JsonReader};

/// Reads one JSON value.
pub fn parse(text: &[u8], limits: Limits) -> Result<Value, JsonError> {
    let mut reader = JsonReader::new(text, limits)?;
    reader.document(value).map_err(|reason| reader.fault(reason))
}

/// Writes a value in its one form: no spaces, members sorted by name, numbers and strings as read.
pub fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn value(reader: &mut JsonReader<'_>) -> Result<Value, JsonFaultKind> {
    match reader.peek().ok_or(JsonFaultKind::UnexpectedEnd)? {
        b'{' => object(reader),
        b'[' => array(reader),
        b'"' => Ok(Value::String(reader.string()?.into_owned())),
        b't' => reader.word(b"true").map(|()| Value::Bool(true)),
        b'f' => reader.word(b"false").map(|()| Value::Bool(false)),
        b'n' => reader.word(b"null").map(|()| Value::Null),
        b'-' | b'0'..=b'9' => {
            let number = reader.number()?.parse::<Number>();
            number.map(Value::Number).map_err(|_| JsonFaultKind::BadNumber)
        }
        _ => Err(JsonFaultKind::UnexpectedByte),
    }
}

fn object(reader: &mut JsonReader<'_>) -> Result<Value, JsonFaultKind> {
    let mut members = Map::new();
    reader.enter()?;
    while reader.next_item(members.is_empty(), b'}')? {
        let name = reader.name(|name| !members.contains_key(name))?;
        members.insert(name.into_owned(), value(reader)?);
    }
    Ok(Value::Object(members))
}

fn array(reader: &mut JsonReader<'_>) -> Result<Value, JsonFaultKind> {
    let mut items = Vec::new();
    reader.enter()?;
    while reader.next_item(items.is_empty(), b']')? {
        items.push(value(reader)?);
    }
    Ok(Value::Array(items))
}
