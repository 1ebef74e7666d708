//! Claims that a store lost, and a journal has.

use super::*;

/// A call that was sent, as the chain says, is not sent again because a store that was set back still has it waiting.
#[test]
fn a_chain_that_tells_of_sending_overrules_a_store_in_which_the_call_still_waits() {
    let hold = HoldId::parse(&"a1".repeat(16)).unwrap();
    let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
    let told = |what: &str, number: u64| {
        let entry = serde_json::json!({
            "what": what, "claim": "request/r-1", "requestId": "r-1", "operation": "createSwap", "trace": "t-1",
            "owner": { "issuer": "main", "subject": "payroll" }, "hold": hold.as_str(),
            "fingerprint": Fingerprint::of(&[b"a call"]).to_hex(),
        });
        let (environment, number, at) = (Environment::Production, Number::new(number), StoreTime::of_micros(9));
        let mut tale = Tale::of(sender());
        let node = NodeId::parse("gate").unwrap();
        tale.add(&Outstanding { environment, number, at, node, entry: Bytes::from(entry.to_string()) });
        tale.into_claims().next().map(|(_, told)| told)
    };
    let terms = terms();
    let becomes_by = |what: &str, number: u64, state: ClaimState| {
        let found = Claim { hold: Some(hold.clone()), ..claim(state, Some("r-1")) };
        let content = Content::Whole(encode_claim(&found));
        let record = Record { version: Number::new(3), at: StoreTime::of_micros(3), content };
        let steps = told(what, number)?.over(&key, &record, &found, &terms)?;
        steps.iter().find_map(|step| match step {
            Step::Replace { value, .. } => Some(decode_claim(value).unwrap().state.as_str()),
            _ => None,
        })
    };
    let becomes = |what: &str, state: ClaimState| becomes_by(what, 9, state);
    let expired = ClaimState::Declined(Declined { how: Decline::Expired, reason: None });
    for state in [ClaimState::Held, expired] {
        assert_eq!(becomes("sending", state.clone()), Some("unknown"));
        assert_eq!(becomes("unknown", state.clone()), Some("unknown"));
        assert_eq!(becomes("executed", state.clone()), Some("executed"));
        assert_eq!(becomes("undone", state.clone()), None, "it certainly was not");
        assert_eq!(becomes("rejected", state), None);
    }
    let [sending_now, unknown, executed, _] = states();
    // Its version is the attempt that is being sent; the other has the attempts 5 and 7.
    for (state, number) in [(sending_now.clone(), 3), (unknown.clone(), 7), (unknown.clone(), 5), (executed.clone(), 7)]
    {
        assert_eq!(becomes_by("sending", number, state), None, "the store knows as much");
    }
    for state in [sending_now, unknown, ClaimState::Absent] {
        assert_eq!(becomes("sending", state), Some("unknown"), "a later attempt was sent");
    }
    assert_eq!(becomes("sending", executed), None, "it was executed");
}
