//! Claims and events in their stored form.

use super::*;

#[test]
fn claims_and_events_are_read_as_they_were_written() {
    for state in states() {
        for request_id in [Some("r-1"), None] {
            let written = claim(state.clone(), request_id);
            assert_eq!(decode_claim(&encode_claim(&written)), Ok(written));
        }
    }
    for event in events() {
        match StoredEvent::of(&event) {
            Some(stored) => {
                let written = json::to_form(&stored);
                let read: StoredEvent = json::from_slice(written.as_bytes(), Limits::ANSWER).unwrap();
                assert_eq!(ClaimEvent::from(read), event);
            }
            None => assert!(matches!(
                event,
                ClaimEvent::Doubted(_)
                    | ClaimEvent::Found(_)
                    | ClaimEvent::ShownAbsent { .. }
                    | ClaimEvent::Abandoned { .. }
            )),
        }
    }
}

#[test]
fn a_newer_form_is_refused() {
    let mut newer: Value = serde_json::from_slice(&encode_claim(&claim(states()[2].clone(), Some("r-1")))).unwrap();
    newer["format"] = Value::from(4);
    let fault = UnreadableClaim("format 4 is not readable here; this build reads 3".to_owned());
    assert_eq!(decode_claim(newer.to_string().as_bytes()), Err(fault));
}

#[test]
fn a_claim_without_or_with_another_member_is_refused() {
    for state in states() {
        let value: Value = serde_json::from_slice(&encode_claim(&claim(state, Some("r-1")))).unwrap();
        for name in value.as_object().unwrap().keys() {
            let mut without = value.clone();
            without.as_object_mut().unwrap().remove(name);
            assert!(decode_claim(without.to_string().as_bytes()).is_err(), "{name}");
        }
        let mut more = value;
        more["more"] = Value::Null;
        assert!(decode_claim(more.to_string().as_bytes()).is_err());
    }
}
