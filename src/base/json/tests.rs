use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn reason(text: &str) -> Option<JsonFaultKind> {
    parse(text.as_bytes(), Limits::REQUEST).err().map(|e| e.reason)
}

#[test]
fn one_text_one_value_or_a_reason() {
    let deep = "[".repeat(33) + &"]".repeat(33);
    let just_deep_enough = "[".repeat(32) + &"]".repeat(32);
    let long = format!("0.{}", "0".repeat(31));
    let cases: &[(&str, Option<JsonFaultKind>)] = &[
        ("{}", None),
        (" [1, 2.50, -3] ", None),
        (r#"{"a":{"b":[null,true,false,"x"]}}"#, None),
        (r#""\ud83d\ude00 \u0041\n""#, None),
        (&just_deep_enough, None),
        ("999999999999999", None),
        ("0.000000000000001", None),
        ("", Some(JsonFaultKind::Empty)),
        ("  \n", Some(JsonFaultKind::Empty)),
        ("\u{feff}{}", Some(JsonFaultKind::ByteOrderMark)),
        ("{} {}", Some(JsonFaultKind::TrailingData)),
        ("{},", Some(JsonFaultKind::TrailingData)),
        ("{\"a\":1,\"a\":1}", Some(JsonFaultKind::DuplicateName)),
        ("{\"a\":1,\"\\u0061\":1}", Some(JsonFaultKind::DuplicateName)),
        ("[{\"x\":{\"a\":1,\"a\":2}}]", Some(JsonFaultKind::DuplicateName)),
        (r#""\ud800""#, Some(JsonFaultKind::LoneSurrogate)),
        (r#""\udc00""#, Some(JsonFaultKind::LoneSurrogate)),
        (r#""\ud800\ud800""#, Some(JsonFaultKind::LoneSurrogate)),
        (r#""\ud800x""#, Some(JsonFaultKind::LoneSurrogate)),
        (r#""\u00g0""#, Some(JsonFaultKind::BadEscape)),
        (r#""\x41""#, Some(JsonFaultKind::BadEscape)),
        ("\"a\nb\"", Some(JsonFaultKind::ControlInString)),
        ("\"a\u{0}b\"", Some(JsonFaultKind::ControlInString)),
        (&deep, Some(JsonFaultKind::TooDeep)),
        ("01", Some(JsonFaultKind::BadNumber)),
        ("+1", Some(JsonFaultKind::UnexpectedByte)),
        (".5", Some(JsonFaultKind::UnexpectedByte)),
        ("1.", Some(JsonFaultKind::BadNumber)),
        ("-", Some(JsonFaultKind::BadNumber)),
        ("0x10", Some(JsonFaultKind::BadNumber)),
        ("1e5", Some(JsonFaultKind::Exponent)),
        ("1E-2", Some(JsonFaultKind::Exponent)),
        ("-0", Some(JsonFaultKind::NegativeZero)),
        ("-0.00", Some(JsonFaultKind::NegativeZero)),
        ("1000000000000000", Some(JsonFaultKind::TooManyDigits)),
        ("0.1234567890123456", Some(JsonFaultKind::TooManyDigits)),
        (&long, Some(JsonFaultKind::NumberTooLong)),
        ("NaN", Some(JsonFaultKind::UnexpectedByte)),
        ("Infinity", Some(JsonFaultKind::UnexpectedByte)),
        ("nul", Some(JsonFaultKind::UnexpectedEnd)),
        ("{'a':1}", Some(JsonFaultKind::UnexpectedByte)),
        ("{\"a\":1,}", Some(JsonFaultKind::UnexpectedByte)),
        ("[1,]", Some(JsonFaultKind::UnexpectedByte)),
        ("{\"a\"", Some(JsonFaultKind::UnexpectedEnd)),
        ("/* c */ 1", Some(JsonFaultKind::UnexpectedByte)),
        (r#"{"$serde_json::private::Number":"1"}"#, None),
    ];
    for (text, expected) in cases {
        assert_eq!(reason(text), *expected, "{text}");
    }
    assert_eq!(parse(b"\"\xff\"", Limits::REQUEST).err().map(|e| e.reason), Some(JsonFaultKind::NotUtf8));
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
    for text in ["1e99999", "1e+99999", "1E-99999"] {
        assert_eq!(parse(text.as_bytes(), Limits::ANSWER).unwrap_err().reason, JsonFaultKind::NumberTooLong);
    }
}

/// An exponent is written with its sign, also where it was read without one.
#[test]
fn what_was_read_is_read_again_when_it_is_written() {
    let digits = "1".repeat(Limits::ANSWER.number_length - 2);
    for text in [&format!("{digits}e5"), "741.1e5054", "1E+9999", "1e-9999"] {
        let value = parse(text.as_bytes(), Limits::ANSWER).unwrap();
        assert_eq!(parse(&to_bytes(&value), Limits::ANSWER), Ok(value), "{text}");
    }
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

#[test]
fn what_is_not_in_the_one_form_has_no_pieces() {
    let long = format!(r#"{{"a":{}}}"#, "1".repeat(65));
    let cases = [
        (r#"{"a":[1,2.50,{"b":null}],"ab":true,"b":"\"\nä","c":{}}"#, true),
        ("{}", true),
        (r#"{"a":""}"#, true),
        (" {}", false),
        ("{} ", false),
        ("[]", false),
        ("", false),
        (r#"{"b":1,"a":1}"#, false),
        (r#"{"a":1,"a":1}"#, false),
        (r#"{"a" :1}"#, false),
        (r#"{"a":1,}"#, false),
        (r#"{"a":"\/"}"#, false),
        (r#"{"a":"\u0041"}"#, false),
        (r#"{"\n":1}"#, false),
        ("{\"a\":\"\t\"}", false),
        (r#"{"a":01}"#, false),
        (r#"{"a":1.}"#, false),
        (r#"{"a":1e5}"#, false),
        (r#"{"a":-1}"#, false),
        (r#"{"a":[1 ]}"#, false),
        (r#"{"a":truer}"#, false),
        (r#"{"a"}"#, false),
        (r#"{"a":"#, false),
        (&long, false),
    ];
    for (text, is_in_form) in cases {
        assert_eq!(members_in_form(text.as_bytes(), Limits::ANSWER).is_some(), is_in_form, "{text}");
    }
    assert_eq!(members_in_form(b"{\"a\":\"\xff\"}", Limits::ANSWER), None);
    let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(members_in_form(deep(63).as_bytes(), Limits::ANSWER).is_some());
    assert!(members_in_form(deep(64).as_bytes(), Limits::ANSWER).is_none());
    assert_eq!(
        members_in_form(br#"{"a":{"b":1},"c":"d"}"#, Limits::ANSWER),
        Some(vec![("a", "{\"b\":1}"), ("c", "\"d\"")])
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in any_json()) {
        let bytes = to_bytes(&value);
        prop_assert_eq!(parse(&bytes, Limits::REQUEST).unwrap(), value);
    }

    #[test]
    fn pieces_of_a_text_in_its_form_are_what_a_tree_of_it_has(value in any_json(), at: prop::sample::Index, byte: u8) {
        let mut text = to_bytes(&value);
        for _ in 0..2 {
            let limits = Limits { depth: 3, ..Limits::ANSWER };
            if let Some(members) = members_in_form(&text, limits) {
                let tree = parse(&text, limits).unwrap();
                prop_assert_eq!(to_bytes(&tree), text.as_slice());
                let tree = tree.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.to_string()));
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
                prop_assert_eq!(members.collect::<Vec<_>>(), tree.collect::<Vec<_>>());
            }
            let at = at.index(text.len());
            text[at] = byte;
        }
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

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    id: u64,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    lines: Vec<SampleLine>,
    #[serde(default)]
    any: Value,
    #[serde(default)]
    map: std::collections::BTreeMap<String, i64>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum SampleLine {
    Empty,
    Priced(serde_json::Number),
    Named { name: String, flag: bool },
}

fn sample(text: &str) -> Result<Sample, String> {
    from_slice(text.as_bytes(), Limits::REQUEST).map_err(|fault| fault.to_string())
}

#[test]
fn a_typed_value_is_read_by_the_same_rules() {
    let text = r#" {"map": {"b": -1, "a": 2}, "id": 18446744073709551615, "note": "\u00e9\n",
        "lines": ["empty", {"priced": 1.50}, {"named": {"name": "x", "flag": true}}],
        "any": [0.10, {"b": null, "a": "b"}, -7]} "#;
    let read: Sample = from_slice(text.as_bytes(), Limits::ANSWER).unwrap();
    assert_eq!((read.id, read.note.as_deref(), read.map["b"]), (u64::MAX, Some("é\n"), -1));
    assert_eq!(read.lines[0], SampleLine::Empty);
    let SampleLine::Priced(price) = &read.lines[1] else { panic!("{read:?}") };
    assert_eq!(price.to_string(), "1.50");
    assert_eq!(read.lines[2], SampleLine::Named { name: "x".to_owned(), flag: true });
    assert_eq!(to_bytes(&read.any), br#"[0.10,{"a":"b","b":null},-7]"#);

    for (text, told) in [
        ("", "line 1, column 1: the body is empty; a JSON value is expected"),
        ("{\"id\": 1,\n \"id\": 1}", "line 2, column 2: a name appears twice in one object"),
        ("{\"id\": 1, \"\\u0069d\": 1}", "line 1, column 11: a name appears twice in one object"),
        ("{\"id\": 1, \"any\": {\"a\": 1, \"a\": 1}}", "line 1, column 27: a name appears twice in one object"),
        ("{\"id\": 1, \"map\": {\"a\": 1, \"a\": 1}}", "line 1, column 27: a name appears twice in one object"),
        ("{\"id\": 1} x", "line 1, column 11: something follows the JSON value; send one value only"),
        ("{\"id\": 1, \"any\": 1e2}", "line 1, column 18: a number has an exponent; write it out in digits"),
        (
            "{\"id\": 1234567890123456}",
            "line 1, column 8: a number has more than 15 digits, which not every reader keeps; send it as a string where \
             the schema allows",
        ),
        (
            "{\"id\": 1.5}",
            "line 1, column 8, `id`: the number is not whole, or too large; a whole number (u64) is expected",
        ),
        ("{\"id\": -1}", "line 1, column 8, `id`: the value is not possible here; a whole number (u64) is expected"),
        ("{\"id\": \"1\"}", "line 1, column 8, `id`: a text stands here; a whole number (u64) is expected"),
        ("{\"id\": null}", "line 1, column 8, `id`: null stands here; a whole number (u64) is expected"),
        ("{\"note\": \"x\"}", "line 1, column 1: the member `id` is missing"),
        (
            "{\"id\": 1, \"secret\": 7}",
            "line 1, column 11: the member is not known; known are `id`, `note`, `lines`, `any`, `map`",
        ),
        ("[1]", "line 1, column 1: a list stands here; an object is expected"),
        ("7.5", "line 1, column 1: a number stands here; an object is expected"),
        ("{\"id\": 1, \"note\": 7}", "line 1, column 19, `note`: a number stands here; a text is expected"),
        (
            "{\"id\": 1,\n\"lines\": [\"empty\", \"other\"]}",
            "line 2, column 20, `lines[1]`: the word is not known; known are `empty`, `priced`, `named`",
        ),
        (
            "{\"id\": 1, \"lines\": [{\"named\": {\"name\": \"x\", \"flag\": 1}}]}",
            "line 1, column 53, `lines[0].flag`: a number stands here; `true` or `false` is expected",
        ),
        (
            "{\"id\": 1, \"lines\": [{\"named\": [\"x\", true]}]}",
            "line 1, column 31, `lines[0]`: a list stands here; an object is expected",
        ),
        (
            "{\"id\": 1, \"lines\": [{\"empty\": null, \"priced\": 1}]}",
            "line 1, column 21, `lines[0]`: the object has several members; one is expected",
        ),
        ("{\"id\": 1, \"lines\": [{}]}", "line 1, column 21, `lines[0]`: the object has no member; one is expected"),
        (
            "{\"id\": 1, \"map\": {\"a\": \"b\"}}",
            "line 1, column 24, `map`: a text stands here; a whole number (i64) is expected",
        ),
        (
            r#"{"id": 1, "any": {"$serde_json::private::RawValue": "{\"a\":1,\"a\":2}"}}"#,
            "line 1, column 19, `any`: the name is reserved",
        ),
        (
            r#"{"id": 1, "any": {"$serde_json::private::Number": "1"}}"#,
            "line 1, column 19, `any`: the name is reserved",
        ),
    ] {
        assert_eq!(sample(text), Err(told.to_owned()), "{text}");
    }
    let pair = |text: &str| from_slice::<(u64, u64)>(text.as_bytes(), Limits::REQUEST).map_err(|e| e.to_string());
    assert_eq!(pair("[1, 2]"), Ok((1, 2)));
    assert_eq!(pair("[1, 2, 3]"), Err("line 1, column 1: the list has too many items".to_owned()));
    assert!(pair("[1]").is_err());
    let many: String = (0..40).map(|n| format!("\"n{n}\": {n}, ")).collect();
    let map = |last: &str| {
        let text = format!("{{{many}\"{last}\": 0}}");
        from_slice::<std::collections::BTreeMap<String, u64>>(text.as_bytes(), Limits::REQUEST)
    };
    assert_eq!(map("x").unwrap().len(), 41);
    for seen in (0..40).map(|n| format!("n{n}")) {
        assert!(matches!(map(&seen), Err(FormError::Json(JsonError { reason: JsonFaultKind::DuplicateName, .. }))));
    }
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleRecord {
    name: String,
    count: u8,
    inner: Option<Box<SampleRecord>>,
}

#[test]
fn a_record_of_another_format_says_so_first() {
    let record = SampleRecord { name: "x".to_owned(), count: 7, inner: None };
    assert_eq!(to_record(&record, 1), r#"{"count":7,"format":1,"inner":null,"name":"x"}"#);
    let read = |text: &str| from_record::<SampleRecord>(text.as_bytes(), 1).map_err(|fault| fault.to_string());
    assert_eq!(read(r#"{"count":7,"format":1,"inner":null,"name":"x"}"#).as_ref(), Ok(&record));
    assert_eq!(read(r#"{"count":7,"name":"x","format":1,"inner":null}"#).as_ref(), Ok(&record));
    assert_eq!(read(r#"{"format":1,"name":"x","inner":null,"count":7}"#), Ok(record));
    let newer = Err("format 2 is not readable here; this build reads 1".to_owned());
    assert_eq!(read(r#"{"count":7,"format":2,"name":"x"}"#), newer);
    assert_eq!(read(r#"{"added":7,"format":2}"#), newer);
    for (text, told) in [
        (r#"{"count":7,"inner":null,"name":"x"}"#, "line 1, column 1: the member `format` is missing"),
        (r#"{"count":7,"format":1,"name":"x"}"#, "line 1, column 1: the member `inner` is missing"),
        (
            r#"{"count":7,"format":1,"name":"x","inner":{"count":7,"name":"x"}}"#,
            "line 1, column 42, `inner`: the member `inner` is missing",
        ),
        (
            r#"{"format":"1","count":7,"name":"x"}"#,
            "line 1, column 11: a text stands here; a whole number (u64) is expected",
        ),
        (r#"{"format":1,"format":1,"count":7,"name":"x"}"#, "line 1, column 13: a name appears twice in one object"),
        (
            r#"{"format":1,"count":7,"name":"x","inner":{"format":1,"count":7,"name":"x"}}"#,
            "line 1, column 43, `inner`: the member is not known; known are `name`, `count`, `inner`",
        ),
        ("[]", "line 1, column 1: a list stands here; an object is expected"),
    ] {
        assert_eq!(read(text), Err(told.to_owned()), "{text}");
    }
}

/// Texts that are nearly JSON, of small alphabets, so that every rule is met.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        r#"[\[\]{}:,"0-9a-c.\-eE\\u \n]{0,24}"#,
        any_json().prop_map(|value| value.to_string()),
        r#"\{"(a|b|\\u0061)": ?(1|-0|1\.50|1e2|"x"), ?"(a|b)": ?\[(null|true|\{\}|[0-9]{1,20})\]\}"#,
        ".{0,12}",
    ]
}

proptest! {
    #[test]
    fn a_typed_tree_is_the_tree(text in any_text()) {
        for limits in [Limits::REQUEST, Limits::ANSWER] {
            let tree = parse(text.as_bytes(), limits);
            prop_assert_eq!(from_slice::<Value>(text.as_bytes(), limits), tree.clone().map_err(FormError::Json));
            // Nor does a type that looks at nothing let anything pass.
            let ignored = from_slice::<serde::de::IgnoredAny>(text.as_bytes(), limits);
            prop_assert_eq!(ignored.map(|_| ()), tree.map(|_| ()).map_err(FormError::Json));
        }
    }

    #[test]
    fn no_bytes_make_a_typed_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _outcome = from_slice::<Sample>(&bytes, Limits::REQUEST);
    }

    #[test]
    fn a_flat_text_is_its_tree(text in any_text()) {
        for limits in [Limits::REQUEST, Limits::ANSWER] {
            let flat = FlatJson::parse(text.as_bytes(), limits).map(|flat| flat.root().to_tree());
            prop_assert_eq!(flat, parse(text.as_bytes(), limits));
        }
    }

    #[test]
    fn a_typed_value_is_written_as_its_tree(
        inner in any_json(),
        members in prop::collection::vec((r#"[a-c"\\{}:,é]{0,3}"#, any_json()), 0..6),
    ) {
        let unsorted = Unsorted(members, inner);
        let mut tree = serde_json::to_value(&unsorted).unwrap();
        prop_assert_eq!(to_form(&unsorted), tree.to_string());
        tree["format"] = 7.into();
        prop_assert_eq!(to_record(&unsorted, 7), tree.to_string());
    }
}

/// An object whose members stand in any order, also twice, and one member behind them.
struct Unsorted(Vec<(String, Value)>, Value);

impl serde::Serialize for Unsorted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inner =
            self.1.as_object().map(|members| members.iter().rev().map(|(name, one)| (name.clone(), one.clone())));
        let inner = inner.map(|members| Unsorted(members.collect(), Value::Null));
        let mut map = serde::Serializer::serialize_map(serializer, None)?;
        for (name, one) in &self.0 {
            serde::ser::SerializeMap::serialize_entry(&mut map, name, one)?;
        }
        if let Some(inner) = inner {
            serde::ser::SerializeMap::serialize_entry(&mut map, "b", &inner)?;
        }
        serde::ser::SerializeMap::end(map)
    }
}

#[test]
fn a_name_that_stands_twice_among_many_is_found() {
    for count in [1, 15, 16, 17, 18, 40] {
        let members: Vec<String> = (0..count).map(|at| format!("\"n{at}\":{{\"n{at}\":1}}")).collect();
        let read = |last: &str| {
            let text = format!("{{{},\"{last}\":2}}", members.join(","));
            FlatJson::parse(text.as_bytes(), Limits::ANSWER).map(|flat| flat.root().children().count())
        };
        assert_eq!(read("x"), Ok(count + 1));
        for at in 0..count {
            assert_eq!(read(&format!("n{at}")).unwrap_err().reason, JsonFaultKind::DuplicateName);
        }
    }
}

#[test]
fn a_value_that_json_cannot_write_is_null() {
    let map = std::collections::BTreeMap::from([(vec![1_u8], 1)]);
    assert_eq!((to_form(&map), to_record(&map, 1)), ("null".to_owned(), "null".to_owned()));
    assert_eq!(to_record(&std::collections::BTreeMap::<u8, u8>::new(), 1), r#"{"format":1}"#);
}
