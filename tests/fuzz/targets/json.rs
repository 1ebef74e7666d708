//! Strict JSON, compared with `serde_json`.

use serde_json::Value;
use sluice::base::json::{Limits, from_slice, parse, to_bytes};

/// What Sluice reads, another parser reads alike, and it stays the same when it is written and read again.
pub fn json(input: &[u8]) {
    for limits in [Limits::REQUEST, Limits::ANSWER] {
        let Ok(value) = parse(input, limits) else { continue };
        let other: Value = serde_json::from_slice(input).expect("another parser refuses what Sluice reads");
        assert_eq!(value, other);
        let written = to_bytes(&value);
        assert_eq!(parse(&written, limits).as_ref(), Ok(&value));
        let typed: Value = from_slice(input, limits).expect("the typed reader refuses what the other one reads");
        assert_eq!(typed, value);
    }
    if parse(input, Limits::REQUEST).is_ok() {
        assert!(parse(input, Limits::ANSWER).is_ok(), "requests are read more strictly");
    }
}
