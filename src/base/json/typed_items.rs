//! The items of arrays, the members of objects and the variants of enums, for typed values.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::reader::{FORMAT, JsonReader};
use super::typed_fault::{PathStep, TypedFault};

/// The beginning of names that `serde_json` gives a meaning of its own: its tree would parse such a value by other rules.
const RESERVED: &str = "$serde_json::private::";
/// The name that stands for a number inside `serde_json`: an object with it could pass for a number.
const NUMBER: &str = "$serde_json::private::Number";
/// Up to this many names need no memory of their own.
const FIRST_NAMES: usize = 6;
/// Up to this many further names are compared one by one.
const FEW_NAMES: usize = 10;

pub(super) enum ItemState {
    First,
    Further,
    Over,
}

pub(super) struct ArrayItems<'r, 't> {
    pub reader: &'r mut JsonReader<'t>,
    pub state: ItemState,
    pub count: usize,
}

impl<'t> SeqAccess<'t> for ArrayItems<'_, 't> {
    type Error = TypedFault;

    fn next_element_seed<T: DeserializeSeed<'t>>(&mut self, seed: T) -> Result<Option<T::Value>, TypedFault> {
        let is_first = match self.state {
            ItemState::Over => return Ok(None),
            ItemState::First => true,
            ItemState::Further => false,
        };
        if !self.reader.next_item(is_first, b']')? {
            self.state = ItemState::Over;
            return Ok(None);
        }
        self.state = ItemState::Further;
        let at = self.count;
        self.count = at.saturating_add(1);
        seed.deserialize(&mut *self.reader).map(Some).map_err(|fault| fault.below(PathStep::Item(at)))
    }
}

pub(super) struct ObjectMembers<'r, 't> {
    pub reader: &'r mut JsonReader<'t>,
    pub fields: &'static [&'static str],
    /// The visitor may take the object for a number.
    pub is_any: bool,
    /// The format that the object has still to state.
    pub format: Option<u64>,
    pub state: ItemState,
    pub seen: SeenNames<'t>,
}

impl<'t> ObjectMembers<'_, 't> {
    fn next_name(&mut self) -> Result<Option<(usize, Cow<'t, str>)>, TypedFault> {
        let is_first = match self.state {
            ItemState::Over => return Ok(None),
            ItemState::First => true,
            ItemState::Further => false,
        };
        if !self.reader.next_item(is_first, b'}')? {
            self.state = ItemState::Over;
            return Ok(None);
        }
        self.state = ItemState::Further;
        let start = self.reader.offset();
        let seen = &self.seen;
        let name = self.reader.name(|name| !seen.has(name))?;
        Ok(Some((start, name)))
    }
}

impl<'t> MapAccess<'t> for ObjectMembers<'_, 't> {
    type Error = TypedFault;

    fn next_key_seed<K: DeserializeSeed<'t>>(&mut self, seed: K) -> Result<Option<K::Value>, TypedFault> {
        let Some((mut start, mut name)) = self.next_name()? else { return Ok(None) };
        if name == FORMAT
            && let Some(known) = self.format.take()
        {
            self.seen.add(name);
            if u64::deserialize(&mut *self.reader)? != known {
                return Err(TypedFault::form("the format is another".to_owned()).at(start));
            }
            match self.next_name()? {
                Some(next) => (start, name) = next,
                None => return Ok(None),
            }
        }
        if self.is_any && name.starts_with(RESERVED) {
            return Err(TypedFault::form("the name is reserved".to_owned()).at(start));
        }
        let key = deserialize_name(seed, name.clone()).map_err(|fault| fault.at(start))?;
        self.seen.add(name);
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, TypedFault> {
        seed.deserialize(&mut *self.reader).map_err(|fault| {
            let last = self.seen.last.as_deref().unwrap_or_default();
            match self.fields.iter().find(|field| **field == last) {
                Some(field) => fault.below(PathStep::Member(field)),
                None => fault,
            }
        })
    }
}

pub(super) fn deserialize_name<'t, K: DeserializeSeed<'t>>(
    seed: K,
    name: Cow<'t, str>,
) -> Result<K::Value, TypedFault> {
    match name {
        Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
        Cow::Owned(name) => seed.deserialize(StringDeserializer::new(name)),
    }
}

/// The names of an object's members so far.
#[derive(Default)]
pub(super) struct SeenNames<'t> {
    /// Most objects have no more.
    first: [Option<Cow<'t, str>>; FIRST_NAMES],
    few: Vec<Cow<'t, str>>,
    many: BTreeSet<Cow<'t, str>>,
    last: Option<Cow<'t, str>>,
}

impl<'t> SeenNames<'t> {
    pub fn has(&self, name: &str) -> bool {
        self.last.as_deref() == Some(name)
            || self.first.iter().map_while(Option::as_deref).any(|seen| seen == name)
            || self.few.iter().any(|seen| seen == name)
            || self.many.contains(name)
    }

    pub fn add(&mut self, name: Cow<'t, str>) {
        let Some(before) = self.last.replace(name) else { return };
        if let Some(place) = self.first.iter_mut().find(|place| place.is_none()) {
            *place = Some(before);
        } else if self.few.len() < FEW_NAMES {
            self.few.push(before);
        } else {
            self.many.insert(before);
        }
    }
}

/// The variant of an enum: the name of the one member, then its value.
impl<'t> EnumAccess<'t> for &mut JsonReader<'t> {
    type Error = TypedFault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'t>>(self, seed: V) -> Result<(V::Value, Self), TypedFault> {
        let start = self.offset();
        let name = self.name(|_| true)?;
        Ok((deserialize_name(seed, name).map_err(|fault| fault.at(start))?, self))
    }
}

impl<'t> VariantAccess<'t> for &mut JsonReader<'t> {
    type Error = TypedFault;

    fn unit_variant(self) -> Result<(), TypedFault> {
        <()>::deserialize(self)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'t>>(self, seed: T) -> Result<T::Value, TypedFault> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'t>>(self, _length: usize, visitor: V) -> Result<V::Value, TypedFault> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'t>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypedFault> {
        self.deserialize_struct("", fields, visitor)
    }
}

/// A number that no integer of 64 bits can stand for, in the form in which `serde_json` keeps one as written.
pub(super) struct NumberAsWritten<'t>(pub Option<&'t str>);

impl<'t> MapAccess<'t> for NumberAsWritten<'t> {
    type Error = TypedFault;

    fn next_key_seed<K: DeserializeSeed<'t>>(&mut self, seed: K) -> Result<Option<K::Value>, TypedFault> {
        self.0.map(|_| seed.deserialize(BorrowedStrDeserializer::new(NUMBER))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, TypedFault> {
        seed.deserialize(BorrowedStrDeserializer::new(self.0.take().unwrap_or_default()))
    }
}
