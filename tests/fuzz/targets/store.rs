//! Records of the store, and the arguments of the script of a Redis.

use sluice::adapters::store::redis::script_args::{Words, parse_window};
use sluice::base::json::{Limits, from_slice};
use sluice::ledger::{Step, WindowKey};
use sluice::stations::claim::{decode_claim, encode_claim};
use sluice::stations::hold::{decode_hold, encode_hold};

use super::text;

/// A record that is read is written in the same meaning.
pub fn records(input: &[u8]) {
    if let Ok(claim) = decode_claim(input) {
        let written = encode_claim(&claim);
        let again = decode_claim(&written).expect("a claim that was written is read");
        assert_eq!(encode_claim(&again), written);
    }
    if let Ok(hold) = decode_hold(input) {
        let written = encode_hold(&hold);
        let again = decode_hold(&written).expect("a hold that was written is read");
        assert_eq!(encode_hold(&again), written);
    }
}

/// Steps are read as they are written in journals. Names of windows have one reading.
pub fn script_arguments(input: &[u8]) {
    if let Some((limit, key)) = text(input).and_then(|text| text.split_once('|')) {
        let window = WindowKey { limit: limit.to_owned(), key: key.to_owned() };
        let words = Words::default().window(&window);
        let name = words.all().next().expect("a word");
        assert_eq!(parse_window(std::str::from_utf8(name).expect("text")), Some(window));
    }
    let Ok(steps) = from_slice::<Vec<Step>>(input, Limits::ANSWER) else { return };
    let Ok(words) = Words::default().commit(None, b"{}", &steps) else { return };
    let values = steps.iter().filter_map(Step::value).count();
    assert!(words.all().count() >= values, "a value without a word");
    for step in &steps {
        if let Step::GiveBack { window, .. } | Step::Settle { window, .. } = step {
            let words = Words::default().window(window);
            let name = words.all().next().expect("a word");
            assert_eq!(parse_window(std::str::from_utf8(name).expect("text")).as_ref(), Some(window));
        }
    }
}

pub fn steps() -> Vec<Vec<u8>> {
    let key = r#"{"environment":"production","kind":"claim","name":"request/r-1"}"#;
    let window = r#"{"limit":"day","key":"u|1"}"#;
    let steps = [
        format!(r#"[{{"absent":{key}}},{{"version":{{"key":{key},"version":7}}}},{{"before":9}}]"#),
        format!(r#"[{{"create":{{"key":{key},"value":"e30=","keep":"forever"}}}}]"#),
        format!(r#"[{{"giveBack":{{"window":{window},"holder":"h"}}}},{{"above":3}}]"#),
        r#"[{"notSince":{"index":"known","member":"ab","at":9}},{"indexEarliest":{"index":"known","member":"ab","agoMicros":5}}]"#
            .to_owned(),
        format!(
            r#"[{{"reserve":{{"window":{window},"span":{{"rolling":{{"bucketMicros":60000000,"count":24}}}},"holder":"h","units":5,"max":9}}}}]"#
        ),
    ];
    let windows = ["day|user/1", "5:x|:y", "|"];
    steps.into_iter().map(String::into_bytes).chain(windows.map(|text| text.as_bytes().to_vec())).collect()
}
