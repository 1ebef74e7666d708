use proptest::prelude::*;

use super::*;

fn reason(text: &str) -> Option<Reason> {
    parse(text.as_bytes(), Limits::REQUEST).err().map(|e| e.reason)
}

#[test]
fn one_text_one_value_or_a_reason() {
    let deep = "[".repeat(33) + &"]".repeat(33);
    let just_deep_enough = "[".repeat(32) + &"]".repeat(32);
    let long = format!("0.{}", "0".repeat(31));
    let cases: &[(&str, Option<Reason>)] = &[
        ("{}", None),
        (" [1, 2.50, -3] ", None),
        (r#"{"a":{"b":[null,true,false,"x"]}}"#, None),
        (r#""\ud83d\ude00 \u0041\n""#, None),
        (&just_deep_enough, None),
        ("999999999999999", None),
        ("0.000000000000001", None),
        ("", Some(Reason::Empty)),
        ("  \n", Some(Reason::Empty)),
        ("\u{feff}{}", Some(Reason::ByteOrderMark)),
        ("{} {}", Some(Reason::TrailingData)),
        ("{},", Some(Reason::TrailingData)),
        ("{\"a\":1,\"a\":1}", Some(Reason::DuplicateName)),
        ("{\"a\":1,\"\\u0061\":1}", Some(Reason::DuplicateName)),
        ("[{\"x\":{\"a\":1,\"a\":2}}]", Some(Reason::DuplicateName)),
        (r#""\ud800""#, Some(Reason::LoneSurrogate)),
        (r#""\udc00""#, Some(Reason::LoneSurrogate)),
        (r#""\ud800\ud800""#, Some(Reason::LoneSurrogate)),
        (r#""\ud800x""#, Some(Reason::LoneSurrogate)),
        (r#""\u00g0""#, Some(Reason::BadEscape)),
        (r#""\x41""#, Some(Reason::BadEscape)),
        ("\"a\nb\"", Some(Reason::ControlInString)),
        ("\"a\u{0}b\"", Some(Reason::ControlInString)),
        (&deep, Some(Reason::TooDeep)),
        ("01", Some(Reason::BadNumber)),
        ("+1", Some(Reason::UnexpectedByte)),
        (".5", Some(Reason::UnexpectedByte)),
        ("1.", Some(Reason::BadNumber)),
        ("-", Some(Reason::BadNumber)),
        ("0x10", Some(Reason::BadNumber)),
        ("1e5", Some(Reason::Exponent)),
        ("1E-2", Some(Reason::Exponent)),
        ("-0", Some(Reason::NegativeZero)),
        ("-0.00", Some(Reason::NegativeZero)),
        ("1000000000000000", Some(Reason::TooManyDigits)),
        ("0.1234567890123456", Some(Reason::TooManyDigits)),
        (&long, Some(Reason::NumberTooLong)),
        ("NaN", Some(Reason::UnexpectedByte)),
        ("Infinity", Some(Reason::UnexpectedByte)),
        ("nul", Some(Reason::UnexpectedEnd)),
        ("{'a':1}", Some(Reason::UnexpectedByte)),
        ("{\"a\":1,}", Some(Reason::UnexpectedByte)),
        ("[1,]", Some(Reason::UnexpectedByte)),
        ("{\"a\"", Some(Reason::UnexpectedEnd)),
        ("/* c */ 1", Some(Reason::UnexpectedByte)),
        (r#"{"$serde_json::private::Number":"1"}"#, None),
    ];
    for (text, expected) in cases {
        assert_eq!(reason(text), *expected, "{text}");
    }
    assert_eq!(parse(b"\"\xff\"", Limits::REQUEST).err().map(|e| e.reason), Some(Reason::NotUtf8));
}

#[test]
fn a_name_that_looks_like_a_number_inside_serde_stays_an_object() {
    let value = parse(br#"{"$serde_json::private::Number":"1"}"#, Limits::REQUEST).unwrap();
    assert!(value.is_object());
}

#[test]
fn the_place_is_named() {
    let error = parse(b"{\n  \"a\": 1,\n  \"a\": 2\n}", Limits::REQUEST).unwrap_err();
    assert_eq!((error.line, error.column, error.offset), (3, 3, 14));
}

#[test]
fn numbers_and_strings_are_written_as_they_were_read() {
    let text = br#"{"b":1.50,"a":[100.00,0.10,-7,12345.678900],"c":"\u00e9\u0041\/"}"#;
    let value = parse(text, Limits::REQUEST).unwrap();
    assert_eq!(
        String::from_utf8(to_bytes(&value)).unwrap(),
        r#"{"a":[100.00,0.10,-7,12345.678900],"b":1.50,"c":"éA/"}"#
    );
}

#[test]
fn answers_may_hold_what_requests_may_not() {
    for text in ["1e5", "-0", "12345678901234567890.5", "1E-7"] {
        let value = parse(text.as_bytes(), Limits::ANSWER).unwrap();
        assert!(value.is_number(), "{text}");
    }
    assert_eq!(parse(b"1e999999", Limits::ANSWER).unwrap_err().reason, Reason::NumberTooLong);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-999_999_999_i64..999_999_999).prop_map(Value::from),
        ".*".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(".{0,6}", inner, 0..6).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in any_json()) {
        let bytes = to_bytes(&value);
        prop_assert_eq!(parse(&bytes, Limits::REQUEST).unwrap(), value);
    }

    #[test]
    fn whatever_is_accepted_a_common_parser_reads_alike(text in r#"[\[\]{}:,"0-9a-c.\-eE\\u \n]{0,24}"#) {
        if let Ok(value) = parse(text.as_bytes(), Limits::REQUEST) {
            let other: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(other, value);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _outcome = parse(&bytes, Limits::REQUEST);
    }
}
