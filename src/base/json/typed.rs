//! JSON as a value of a type: the rules of the tree, without the tree.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, Deserialize, Deserializer, Expected, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::limits::Limits;
use super::reader::{FORMAT, JsonError, JsonFaultKind, JsonReader};
use super::typed_fault::{PathStep, TypedFault, expected_kind};
use super::typed_items::{ArrayItems, ItemState, NumberAsWritten, ObjectMembers, SeenNames};

/// The reasons why a text has no value of a type. It never contains a piece of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    #[error("{0}")]
    Json(#[from] JsonError),
    /// JSON of another form. `path` leads from the outermost value to the fault.
    #[error("line {line}, column {column}{}: {reason}", shown(.path))]
    Form { line: usize, column: usize, path: String, reason: String },
    #[error("format {found} is not readable here; this build reads {known}")]
    Format { found: u64, known: u64 },
}

fn shown(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(", `{path}`") }
}

/// Reads one value of a type.
pub fn from_slice<'t, T: Deserialize<'t>>(text: &'t [u8], limits: Limits) -> Result<T, FormError> {
    deserialize_document(JsonReader::new(text, limits)?)
}

/// Reads a record: an object that states its format in `format`, besides the members of its type. No member may be
/// missing, here and in objects inside. If the record has another format, the error says so, and not which of its members
/// are new.
pub fn from_record<'t, T: Deserialize<'t>>(text: &'t [u8], format: u64) -> Result<T, FormError> {
    let mut reader = JsonReader::new(text, Limits::ANSWER)?;
    reader.format = Some(format);
    reader.is_record = true;
    deserialize_document(reader).map_err(|fault| match from_slice::<RecordHead>(text, Limits::ANSWER) {
        Ok(head) if head.format != format => FormError::Format { found: head.format, known: format },
        _ => fault,
    })
}

/// The one member that every record has.
#[derive(serde::Deserialize)]
struct RecordHead {
    format: u64,
}

fn deserialize_document<'t, T: Deserialize<'t>>(mut reader: JsonReader<'t>) -> Result<T, FormError> {
    reader.document(|reader| T::deserialize(reader)).map_err(|fault| match fault {
        TypedFault::Json(reason) => FormError::Json(reader.fault(reason)),
        TypedFault::Form(fault) => {
            let (line, column) = reader.line_and_column(fault.offset.unwrap_or(reader.offset()));
            let mut path = String::new();
            for step in fault.path.iter().rev() {
                match step {
                    PathStep::Member(name) if path.is_empty() => path.push_str(name),
                    PathStep::Member(name) => path.extend([".", name]),
                    PathStep::Item(at) => path.extend(["[", &at.to_string(), "]"]),
                }
            }
            FormError::Form { line, column, path, reason: fault.reason }
        }
    })
}

impl<'t> JsonReader<'t> {
    /// Reads a value, and gives a fault of its form the place where it begins.
    fn placed<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, TypedFault>) -> Result<T, TypedFault> {
        let start = self.offset();
        read(self).map_err(|fault| fault.at(start))
    }

    /// `fields` are the members of a struct; a map has none.
    fn visit_object<V: Visitor<'t>>(
        &mut self,
        fields: &'static [&'static str],
        is_any: bool,
        visitor: V,
    ) -> Result<V::Value, TypedFault> {
        let format = self.format.take();
        self.enter()?;
        let mut members =
            ObjectMembers { reader: self, fields, is_any, format, state: ItemState::First, seen: SeenNames::default() };
        let value = visitor.visit_map(&mut members)?;
        let is_whole = matches!(members.state, ItemState::Over) || members.next_key::<IgnoredAny>()?.is_none();
        match members.format {
            _ if !is_whole => Err(TypedFault::form("the object has too many members".to_owned())),
            Some(_) => Err(de::Error::missing_field(FORMAT)),
            None => match fields.iter().find(|field| members.reader.is_record && !members.seen.has(field)) {
                Some(missing) => Err(de::Error::missing_field(missing)),
                None => Ok(value),
            },
        }
    }

    fn visit_array<V: Visitor<'t>>(&mut self, visitor: V) -> Result<V::Value, TypedFault> {
        self.enter()?;
        let mut items = ArrayItems { reader: self, state: ItemState::First, count: 0 };
        let value = visitor.visit_seq(&mut items)?;
        let is_whole = matches!(items.state, ItemState::Over) || items.next_element::<IgnoredAny>()?.is_none();
        if is_whole { Ok(value) } else { Err(TypedFault::form("the list has too many items".to_owned())) }
    }

    fn visit_number<V: Visitor<'t>>(&mut self, visitor: V) -> Result<V::Value, TypedFault> {
        match self.number()? {
            text if let Ok(number) = text.parse::<u64>() => visitor.visit_u64(number),
            text if let Some(number) = text.parse::<i64>().ok().filter(|number| *number < 0) => {
                visitor.visit_i64(number)
            }
            text => visitor.visit_map(NumberAsWritten(Some(text))),
        }
    }

    /// A whole number that fits into 64 bits, or a fault.
    fn visit_integer<V: Visitor<'t>>(&mut self, visitor: V) -> Result<V::Value, TypedFault> {
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return self.deserialize_any(visitor);
        }
        self.placed(|reader| {
            let text = reader.number()?;
            match (text.parse::<u64>(), text.parse::<i64>()) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) if number < 0 => visitor.visit_i64(number),
                _ => Err(TypedFault::form(format!(
                    "the number is not whole, or too large; {} is expected",
                    expected_kind(&visitor as &dyn Expected)
                ))),
            }
        })
    }
}

impl<'t> Deserializer<'t> for &mut JsonReader<'t> {
    type Error = TypedFault;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.placed(|reader| match reader.peek().ok_or(JsonFaultKind::UnexpectedEnd)? {
            b'{' => reader.visit_object(&[], true, visitor),
            b'[' => reader.visit_array(visitor),
            b'"' => match reader.string()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            b't' => reader.word(b"true").map_err(TypedFault::from).and_then(|()| visitor.visit_bool(true)),
            b'f' => reader.word(b"false").map_err(TypedFault::from).and_then(|()| visitor.visit_bool(false)),
            b'n' => reader.word(b"null").map_err(TypedFault::from).and_then(|()| visitor.visit_unit()),
            b'-' | b'0'..=b'9' => reader.visit_number(visitor),
            _ => Err(JsonFaultKind::UnexpectedByte.into()),
        })
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        if self.peek() == Some(b'n') {
            self.word(b"null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypedFault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        if self.peek() != Some(b'{') {
            return self.deserialize_any(visitor);
        }
        self.placed(|reader| reader.visit_object(&[], false, visitor))
    }

    /// A struct is an object, never a list of its values.
    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypedFault> {
        self.placed(|reader| match reader.peek() {
            Some(b'{') => reader.visit_object(fields, false, visitor),
            _ => {
                let found: WrongKind = WrongKind::deserialize(&mut *reader)?;
                Err(TypedFault::form(format!("{} stands here; an object is expected", found.0)))
            }
        })
    }

    /// A word, or an object whose one member is named by the word.
    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _name: &'static str,
        _words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypedFault> {
        self.placed(|reader| match reader.peek() {
            Some(b'"') => {
                let word = reader.string()?;
                visitor.visit_enum(StrDeserializer::new(&word))
            }
            Some(b'{') => {
                reader.enter()?;
                if !reader.next_item(true, b'}')? {
                    return Err(TypedFault::form("the object has no member; one is expected".to_owned()));
                }
                let value = visitor.visit_enum(&mut *reader)?;
                if reader.next_item(false, b'}')? {
                    return Err(TypedFault::form("the object has several members; one is expected".to_owned()));
                }
                Ok(value)
            }
            _ => {
                let found: WrongKind = WrongKind::deserialize(&mut *reader)?;
                Err(TypedFault::form(format!("{} stands here; a word or an object is expected", found.0)))
            }
        })
    }

    fn deserialize_u8<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    fn deserialize_u16<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    fn deserialize_u32<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    fn deserialize_u64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    fn deserialize_i8<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    fn deserialize_i16<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    fn deserialize_i32<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    fn deserialize_i64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, TypedFault> {
        self.visit_integer(visitor)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'t>>
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct identifier
        ignored_any
    }
}

/// The kind of a value that stands in the place of another. The value is read whole, so that its own faults come first.
struct WrongKind(&'static str);

impl<'t> Deserialize<'t> for WrongKind {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<WrongKind, D::Error> {
        struct AnyKind;
        impl<'t> Visitor<'t> for AnyKind {
            type Value = WrongKind;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_bool<E>(self, _: bool) -> Result<WrongKind, E> {
                Ok(WrongKind("`true` or `false`"))
            }
            fn visit_u64<E>(self, _: u64) -> Result<WrongKind, E> {
                Ok(WrongKind("a number"))
            }
            fn visit_i64<E>(self, _: i64) -> Result<WrongKind, E> {
                Ok(WrongKind("a number"))
            }
            fn visit_str<E>(self, _: &str) -> Result<WrongKind, E> {
                Ok(WrongKind("a text"))
            }
            fn visit_unit<E>(self) -> Result<WrongKind, E> {
                Ok(WrongKind("null"))
            }
            fn visit_seq<A: SeqAccess<'t>>(self, items: A) -> Result<WrongKind, A::Error> {
                IgnoredAny.visit_seq(items).map(|_| WrongKind("a list"))
            }
            fn visit_map<A: MapAccess<'t>>(self, members: A) -> Result<WrongKind, A::Error> {
                IgnoredAny.visit_map(members).map(|_| WrongKind("a number"))
            }
        }
        deserializer.deserialize_any(AnyKind)
    }
}
