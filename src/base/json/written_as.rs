//! How values that are no JSON are written in it. Each module stands in `#[serde(with = "…")]`.

/// Bytes as base64.
pub mod base64 {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::STANDARD;
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'t, T: From<Vec<u8>>, D: Deserializer<'t>>(deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(Base64Text).map(T::from)
    }

    struct Base64Text;

    impl Visitor<'_> for Base64Text {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
            STANDARD.decode(text).map_err(|_| E::custom("the text is not base64"))
        }
    }
}

/// Bytes as base64 for addresses, without padding.
pub mod base64url {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub fn encoded(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads the one form of some bytes.
    pub fn decoded(text: &str) -> Option<Vec<u8>> {
        URL_SAFE_NO_PAD.decode(text).ok()
    }

    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encoded(bytes.as_ref()))
    }

    pub fn deserialize<'t, T: From<Vec<u8>>, D: Deserializer<'t>>(deserializer: D) -> Result<T, D::Error> {
        let bytes = decoded(&String::deserialize(deserializer)?);
        bytes.map(T::from).ok_or_else(|| D::Error::custom("the text is not base64 for addresses"))
    }
}

/// Bytes as the text that they are; `base64:` and base64 where they are none, or begin so.
pub mod text {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::STANDARD;
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    const NO_TEXT: &str = "base64:";

    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes.as_ref()) {
            Ok(text) if !text.starts_with(NO_TEXT) => serializer.serialize_str(text),
            _ => serializer.collect_str(&format_args!("{NO_TEXT}{}", STANDARD.encode(bytes))),
        }
    }

    pub fn deserialize<'t, T: From<Vec<u8>>, D: Deserializer<'t>>(deserializer: D) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Some(base64) = text.strip_prefix(NO_TEXT) else { return Ok(T::from(text.into_bytes())) };
        let decoded = STANDARD.decode(base64);
        decoded.map(T::from).map_err(|_| D::Error::custom("the text behind `base64:` is not base64"))
    }
}

/// Headers as pairs of a name and the value in base64: a value need not be text.
pub mod headers {
    use ::base64::Engine as _;
    use ::base64::engine::general_purpose::STANDARD;
    use http::header::{HeaderMap, HeaderName, HeaderValue};
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(headers: &HeaderMap, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(headers.iter().map(|(name, value)| (name.as_str(), STANDARD.encode(value))))
    }

    pub fn deserialize<'t, D: Deserializer<'t>>(deserializer: D) -> Result<HeaderMap, D::Error> {
        let header = |(name, value): (String, String)| {
            let value = HeaderValue::from_bytes(&STANDARD.decode(value).ok()?).ok()?;
            Some((name.parse::<HeaderName>().ok()?, value))
        };
        let pairs: Vec<(String, String)> = Vec::deserialize(deserializer)?;
        let headers: Option<HeaderMap> = pairs.into_iter().map(header).collect();
        headers.ok_or_else(|| D::Error::custom("a header is not a name and base64"))
    }
}

/// The method of a request as its word.
pub mod method {
    use http::Method;
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(method.as_str())
    }

    pub fn deserialize<'t, D: Deserializer<'t>>(deserializer: D) -> Result<Method, D::Error> {
        let word = String::deserialize(deserializer)?;
        Method::from_bytes(word.as_bytes()).map_err(|_| D::Error::custom("the text is not a method"))
    }
}

/// A duration in whole microseconds.
pub mod micros {
    use std::time::Duration;

    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'t, D: Deserializer<'t>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

/// A duration in whole seconds.
pub mod secs {
    use std::time::Duration;

    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(time.as_secs())
    }

    pub fn deserialize<'t, D: Deserializer<'t>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}

/// Writes a type as text, and reads it from a text that its parser accepts.
macro_rules! written_as_text {
    ($type:ty, $text:ident, $parse:path, $form:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.$text().as_ref())
            }
        }

        impl<'t> serde::Deserialize<'t> for $type {
            fn deserialize<D: serde::Deserializer<'t>>(deserializer: D) -> Result<$type, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                $parse(&text).ok_or_else(|| serde::de::Error::custom(concat!("the text is not ", $form)))
            }
        }
    };
}

pub(crate) use written_as_text;
