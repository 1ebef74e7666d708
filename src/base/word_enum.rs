//! Enums whose variants are words: in files, on the wire, in metrics and logs.

/// Declares an enum with one word for each variant, and derives from it: `ALL`, `WORDS`, `as_str`, `parse`,
/// `Display`, and its form in JSON. The enum must be `Copy`.
///
/// ```text
/// word_enum! {
///     /// The colour of a light.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Light {
///         Red = "red",
///         DeepGreen = "deep-green",
///     }
/// }
/// ```
macro_rules! word_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $name {
            $($(#[$variant_attribute])* $variant,)+
        }

        impl $name {
            /// Every variant with its word, in the order of the enum.
            pub const WORDS: [(&'static str, $name); [$($word),+].len()] = [$(($word, $name::$variant)),+];

            /// Every variant, in the order of the enum.
            pub const ALL: [$name; $name::WORDS.len()] = [$($name::$variant),+];

            /// Returns the word of this variant.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            /// Returns the variant that a word names; the case must match.
            pub fn parse(word: &str) -> Option<$name> {
                $name::WORDS.into_iter().find(|(known, _)| *known == word).map(|(_, variant)| variant)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'t> serde::Deserialize<'t> for $name {
            fn deserialize<D: serde::Deserializer<'t>>(deserializer: D) -> Result<$name, D::Error> {
                let word = <String as serde::Deserialize>::deserialize(deserializer)?;
                $name::parse(&word).ok_or_else(|| serde::de::Error::unknown_variant(&word, &[$($word),+]))
            }
        }

        // Not every enum needs all of this.
        const _: (fn(&str) -> Option<$name>, [$name; $name::WORDS.len()]) = ($name::parse, $name::ALL);
    };
}

pub(crate) use word_enum;

#[cfg(test)]
mod tests {
    word_enum! {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Light {
            Red = "red",
            /// Darker than other greens.
            DeepGreen = "deep-green",
        }
    }

    #[test]
    fn a_word_names_one_variant_and_a_variant_has_one_word() {
        assert_eq!(Light::ALL, [Light::Red, Light::DeepGreen]);
        for light in Light::ALL {
            assert_eq!(Light::parse(light.as_str()), Some(light));
            assert_eq!(light.to_string(), light.as_str());
        }
        assert_eq!(Light::WORDS, [("red", Light::Red), ("deep-green", Light::DeepGreen)]);
        for other in ["", "Red", "red ", "deep_green"] {
            assert_eq!(Light::parse(other), None, "{other}");
        }
    }
}
