//! Messages: about which commits, how they are written, and how receivers read them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::message::Waited;
use super::*;
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId, TraceId};
use crate::catalog::{Movement, Party};
use crate::ledger::{Commit, Index, Keep, Kind, NodeId, Number, RecordKey, Step, StoreTime};
use crate::policy::Progress;
use crate::stations::admit::KnownCaller;
use crate::stations::claim::{Decline, Declined, Owner, SentRequest};
use crate::stations::hold::{self, Hold, HoldState, Vote};

const KEEP: Duration = Duration::from_secs(3 * 86_400);

fn id() -> HoldId {
    HoldId::parse(&"a1".repeat(16)).unwrap()
}

fn waits(state: HoldState, tries: u32) -> Hold {
    let anna = Owner::named("people", "anna");
    Hold {
        id: id(),
        claim: "request/salary-of-anna".to_owned(),
        by: KnownCaller {
            issuer: "main".to_owned(),
            subject: "payroll".to_owned(),
            requester: Some("bert".to_owned()),
            roles: BTreeSet::new(),
            opaque: false,
        },
        operation: OperationId::new("createSwap"),
        method: Method::POST,
        request_id: None,
        fingerprint: Fingerprint::of(&[b"x"]),
        sent: SentRequest { target: "/x".to_owned(), body: Bytes::from_static(b"{\"iban\":\"DE00\"}") },
        headers: HeaderMap::new(),
        trace: TraceId::parse("t-1").unwrap(),
        causes: serde_json::from_value(json!([
            { "rule": "larger", "text": "held", "approval": "dual", "over": null },
            { "rule": null, "text": "no name", "approval": null, "over": null },
        ]))
        .unwrap(),
        asked: BTreeSet::from([Arc::from("dual")]),
        votes: vec![Vote {
            signed: None,
            person: anna,
            causes: Fingerprint::of(&[b"y"]),
            comment: Some("fine".to_owned()),
            at: StoreTime::of_micros(3),
        }],
        notes: Vec::new(),
        created: Some(StoreTime::of_micros(1_000_000)),
        entries: Vec::new(),
        lasts: Duration::from_secs(3_600),
        tries,
        reminded: false,
        state,
    }
}

fn key(kind: Kind, name: &str) -> RecordKey {
    RecordKey { environment: Environment::Production, kind, name: name.to_owned() }
}

fn commit(entry: Entry, steps: Vec<Step>) -> Commit {
    let node = NodeId::parse("gate").unwrap();
    Commit { environment: Environment::Production, node, steps, entry: entry.to_bytes() }
}

fn of_hold(what: EntryKind, hold: &Hold, version: u64) -> Commit {
    let (key, version) = (key(Kind::Hold, hold.id.as_str()), Number::new(version));
    let step = Step::Replace { key, version, value: hold::encode_hold(hold), keep: Keep::Forever };
    commit(Entry::of(what).with("hold", hold.id.as_str()).operation(&hold.operation), vec![step])
}

fn of_claim(entry: Entry) -> Commit {
    let (key, version) = (key(Kind::Claim, "request/salary-of-anna"), Number::new(7));
    commit(entry, vec![Step::Replace { key, version, value: Bytes::from_static(b"{}"), keep: Keep::Forever }])
}

fn outlet(name: &str, events: &[NoticeEvent]) -> Outlet {
    Outlet {
        name: name.to_owned(),
        events: events.iter().copied().collect(),
        environments: BTreeSet::from([Environment::Production]),
        keep: KEEP,
    }
}

fn all() -> Outlet {
    outlet("all", &NoticeEvent::ALL)
}

fn messages(commit: &Commit, outlets: &[Outlet]) -> Vec<(String, Message)> {
    let steps = filed(commit, outlets.iter());
    let mut messages = Vec::new();
    for pair in steps.chunks(2) {
        let [Step::Create { key, value, keep }, Step::IndexAdd { index: Index::Message, member, due }] = pair else {
            panic!("{pair:?}")
        };
        let whole = Keep::For { whole: KEEP, spent: Duration::ZERO };
        assert_eq!((key.kind, &key.name, *keep, *due), (Kind::Message, member, whole, Duration::ZERO));
        messages.push((key.name.clone(), decode_message(value).unwrap()));
    }
    messages
}

fn events_of(commit: &Commit) -> Vec<&'static str> {
    messages(commit, &[all()]).iter().map(|(_, message)| message.event.as_str()).collect()
}

#[test]
fn each_thing_that_happens_is_told_once() {
    let declined = |how| HoldState::Declined(Declined { how, reason: None });
    for (what, state, events) in [
        (EntryKind::Held, HoldState::Pending, vec!["hold.held"]),
        (EntryKind::Voted, HoldState::Pending, vec!["hold.voted"]),
        (EntryKind::Withdrawn, HoldState::Pending, vec!["hold.withdrawn"]),
        (EntryKind::Reopened, HoldState::Pending, vec!["hold.reopened"]),
        (EntryKind::Reminded, HoldState::Pending, vec!["hold.reminder"]),
        (EntryKind::Rejected, declined(Decline::Rejected), vec!["hold.rejected"]),
        (EntryKind::Expired, declined(Decline::Expired), vec!["hold.expired"]),
        (EntryKind::Cancelled, declined(Decline::Cancelled), vec!["hold.cancelled"]),
        (EntryKind::Blocked, declined(Decline::Blocked), vec!["hold.blocked"]),
        (EntryKind::Sending, HoldState::Released, vec!["hold.released"]),
        (EntryKind::Noted, HoldState::Pending, vec![]),
        (EntryKind::Late, HoldState::Pending, vec![]),
        (EntryKind::Frozen, HoldState::Pending, vec![]),
    ] {
        assert_eq!(events_of(&of_hold(what, &waits(state, 0), 5)), events, "{what:?}");
    }
    let mut complete = of_hold(EntryKind::Voted, &waits(HoldState::Approved, 0), 5);
    complete.entry = Entry::of(EntryKind::Voted).with("complete", true).to_bytes();
    assert_eq!(events_of(&complete), ["hold.voted", "hold.approved"]);
}

#[test]
fn an_attempt_that_fails_again_and_again_is_told_once() {
    let sending = |tries| events_of(&of_hold(EntryKind::Sending, &waits(HoldState::Released, tries), 5));
    let undone = |tries| events_of(&of_hold(EntryKind::Undone, &waits(HoldState::Approved, tries), 5));
    assert_eq!((sending(0), undone(1)), (vec!["hold.released"], vec!["hold.not-sent"]));
    assert_eq!((sending(1), undone(2)), (vec![], vec![]));
}

#[test]
fn what_became_of_it_is_told_of_holds_and_doubt_of_every_call() {
    let with_hold = |what| Entry::of(what).with("hold", id().as_str());
    assert_eq!(events_of(&of_claim(with_hold(EntryKind::Executed))), ["hold.executed"]);
    assert_eq!(events_of(&of_claim(with_hold(EntryKind::NotExecuted))), ["hold.not-executed"]);
    assert_eq!(events_of(&of_claim(with_hold(EntryKind::Unknown))), ["request.in-doubt"]);
    assert_eq!(events_of(&of_claim(Entry::of(EntryKind::Unknown))), ["request.in-doubt"]);
    for silent in [
        Entry::of(EntryKind::Executed),
        Entry::of(EntryKind::NotExecuted),
        Entry::of(EntryKind::Sending),
        Entry::of(EntryKind::Undone),
        Entry::of(EntryKind::Unknown).with("looks", 3),
    ] {
        assert_eq!(events_of(&of_claim(silent.clone())), Vec::<&str>::new(), "{silent:?}");
    }
    assert_eq!(events_of(&commit(Entry::of(EntryKind::Unknown), Vec::new())), Vec::<&str>::new(), "there is no claim");
    let nonsense = Commit { entry: Bytes::from_static(b"nonsense"), ..of_claim(Entry::of(EntryKind::Unknown)) };
    assert_eq!(events_of(&nonsense), Vec::<&str>::new());
}

#[test]
fn each_new_state_of_a_payment_is_told_once_whatever_it_means() {
    let followed = |entry: Entry, version: u64| {
        let (key, value) = (key(Kind::Followed, "claim/request/p-1"), Bytes::from_static(b"{}"));
        let (version, keep) = (Number::new(version), Keep::Forever);
        commit(entry.with("record", "r-1"), vec![Step::Replace { key, version, value, keep }])
    };
    let state = |meaning: &str| Entry::of(EntryKind::Followed).with("state", "S").with("meaning", meaning);
    for (meaning, event) in [
        ("open", "payment.open"),
        ("settled", "payment.settled"),
        ("failed", "payment.failed"),
        ("returned", "payment.returned"),
    ] {
        assert_eq!(events_of(&followed(state(meaning), 5)), [event]);
    }
    // An entry without a new state, as that of another amount.
    assert_eq!(events_of(&followed(Entry::of(EntryKind::Followed).with("state", "S"), 5)), Vec::<&str>::new());
    // A repetition has the same name; the next state another one.
    let names = |version| messages(&followed(state("open"), version), &[all()]).remove(0).0;
    assert_eq!(names(5), names(5));
    assert_ne!(names(5), names(6));
}

#[test]
fn whoever_the_rules_name_hears_of_failed_and_returned_payments_alone() {
    let followed = |meaning: &str| {
        let (key, value) = (key(Kind::Followed, "claim/request/p-1"), Bytes::from_static(b"{}"));
        let entry = Entry::of(EntryKind::Followed).with("state", "S").with("meaning", meaning);
        let entry = entry.with("record", "r-1").with("alert", ["a", "gone"]);
        commit(entry, vec![Step::Replace { key, version: Number::new(5), value, keep: Keep::Forever }])
    };
    let (named, other) = (outlet("a", &[NoticeEvent::Held]), outlet("b", &[NoticeEvent::Held]));
    for (meaning, told) in [("failed", 1), ("returned", 1), ("open", 0), ("settled", 0)] {
        assert_eq!(messages(&followed(meaning), &[named.clone(), other.clone()]).len(), told, "{meaning}");
    }
    let twice = outlet("a", &[NoticeEvent::PaymentFailed]);
    assert_eq!(messages(&followed("failed"), &[twice]).len(), 1, "one message, although both name it");
    let mut elsewhere = named;
    elsewhere.environments = BTreeSet::from([Environment::Sandbox]);
    assert_eq!(messages(&followed("failed"), &[elsewhere]).len(), 0);
}

#[test]
fn each_is_told_what_it_asked_for_under_one_name() {
    let held = of_hold(EntryKind::Held, &waits(HoldState::Pending, 0), 5);
    let mut elsewhere = all();
    elsewhere.environments = BTreeSet::from([Environment::Sandbox]);
    let outlets = [
        outlet("a", &[NoticeEvent::Held]),
        outlet("b", &[NoticeEvent::InDoubt]),
        elsewhere,
        outlet("c", &NoticeEvent::ALL),
    ];
    let [(first, one), (second, other)] = messages(&held, &outlets).try_into().unwrap();
    assert_eq!(one, other);
    assert_eq!((outlet_of(&first), outlet_of(&second)), ("a", "c"));
    assert_eq!(first, member_of("a", &one));
    assert!(one.id.starts_with("msg_") && one.id.len() == 36, "{}", one.id);
}

#[test]
fn a_name_is_of_one_happening_alone() {
    let of = |commit: &Commit| messages(commit, &[all()])[0].1.id.clone();
    let hold = waits(HoldState::Pending, 0);
    let once = of_hold(EntryKind::Voted, &hold, 5);
    assert_eq!(of(&once), of(&once));
    let others = [
        of_hold(EntryKind::Voted, &hold, 6),
        of_hold(EntryKind::Withdrawn, &hold, 5),
        of_hold(EntryKind::Voted, &Hold { id: HoldId::parse(&"b2".repeat(16)).unwrap(), ..hold.clone() }, 5),
        of_claim(Entry::of(EntryKind::Unknown)),
    ];
    let names: BTreeSet<String> = others.iter().map(of).chain([of(&once)]).collect();
    assert_eq!(names.len(), 5);
}

#[test]
fn what_is_written_is_read_again() {
    let [(_, message)] =
        messages(&of_hold(EntryKind::Held, &waits(HoldState::Pending, 0), 5), &[all()]).try_into().unwrap();
    assert_eq!(decode_message(&encode_message(&message)).unwrap(), message);
    let (written, later) = (StoreTime::of_micros(9_000_000), StoreTime::of_micros(12_000_000));
    let again = Message { not_before: Some(later), tries: 4, ..message.clone().next(written) };
    assert_eq!(decode_message(&encode_message(&again)).unwrap(), again);
    assert_eq!((message.happened(written), again.happened(later)), (written, written));
    let bare = Message { waited: None, hold: None, operation: None, attempt: Some(5), ..message.clone() };
    assert_eq!(decode_message(&encode_message(&bare)).unwrap(), bare);
    let value: Value = serde_json::from_slice(&encode_message(&message)).unwrap();
    for name in value.as_object().unwrap().keys() {
        let mut without = value.clone();
        without.as_object_mut().unwrap().remove(name);
        assert!(decode_message(without.to_string().as_bytes()).is_err(), "{name}");
    }
    let mut newer = value.clone();
    newer["format"] = json!(2);
    let fault = decode_message(newer.to_string().as_bytes()).unwrap_err().to_string();
    assert!(fault.ends_with("format 2 is not readable here; this build reads 1"), "{fault}");
}

#[test]
fn a_hold_that_just_began_expires_when_it_says() {
    let began = StoreTime::of_micros(50_000_000);
    let hold = Hold { created: None, ..waits(HoldState::Pending, 0) };
    let [(_, message)] = messages(&of_hold(EntryKind::Held, &hold, 0), &[all()]).try_into().unwrap();
    let expires = Some(began.plus(hold.lasts));
    assert_eq!((message.expires(began), message.next(began).expires(StoreTime::of_micros(99))), (expires, expires));
}

fn message() -> Message {
    Message {
        id: "msg_1".to_owned(),
        event: NoticeEvent::Held,
        operation: Some(OperationId::new("createSwap")),
        hold: Some(id()),
        state: "pending".to_owned(),
        attempt: None,
        record: None,
        policies: None,
        waited: Some(Waited {
            rules: vec!["larger".to_owned()],
            created: Some(StoreTime::of_micros(0)),
            lasts: Duration::from_secs(3_600),
            asked: BTreeSet::from([Arc::from("dual")]),
            voters: BTreeSet::from(["people:anna".to_owned()]),
        }),
        happened: Some(StoreTime::of_micros(1_000_000)),
        not_before: None,
        tries: 1,
    }
}

fn sent(format: PayloadFormat, message: &Message, details: Option<&Details>) -> Value {
    let progress = [Progress { name: Arc::from("dual"), needed: 3, given: 1, missing: Vec::new() }];
    let (environment, written, console) = (Environment::Production, StoreTime::of_micros(2), Some("https://c.example"));
    let policies = None;
    let telling = Telling { message, environment, written, progress: &progress, console, details, policies };
    serde_json::from_str(&body(format, telling)).unwrap()
}

fn details(requester: &str) -> Details {
    let source = Party { amount: Some("500".to_owned()), currency: Some("usdt".to_owned()), ..Party::default() };
    let wallet = Some("0xsecretwallet".to_owned());
    let destination = Party { currency: Some("usdc".to_owned()), external_wallet: wallet, ..Party::default() };
    let movement = Movement { source, destination, ..Movement::default() };
    Details { requester: Some(requester.to_owned()), movement: Some(movement) }
}

#[test]
fn by_default_no_amount_and_no_person_is_told() {
    let told = sent(PayloadFormat::Standard, &message(), None);
    assert_eq!(
        told,
        json!({
            "type": "hold.held",
            "timestamp": "1970-01-01T00:00:01Z",
            "data": {
                "environment": "production",
                "hold": id().as_str(),
                "operation": "createSwap",
                "state": "pending",
                "rules": ["larger"],
                "approvals": [{ "name": "dual", "needed": 3, "given": 1 }],
                "expiresAt": "1970-01-01T01:00:00Z",
                "link": format!("https://c.example/#/hold/{}", id()),
            },
        })
    );
    assert!(!told.to_string().contains("anna"));
    let told = sent(PayloadFormat::Standard, &message(), Some(&details("bert")));
    let source = json!({ "amount": "500", "currency": "usdt", "chain": null });
    assert_eq!((&told["data"]["source"], &told["data"]["requester"]), (&source, &json!("bert")));
    assert!(!told.to_string().contains("wallet"), "{told}");
    let doubt = Message { event: NoticeEvent::InDoubt, hold: None, waited: None, attempt: Some(12), ..message() };
    let told = sent(PayloadFormat::Standard, &doubt, None);
    assert_eq!(told["data"]["attempt"], 12);
    assert!(told["data"].get("hold").is_none() && told["data"].get("expiresAt").is_none(), "{told}");
}

#[test]
fn in_a_chat_nobody_is_called_and_nothing_leads_elsewhere() {
    let evil = "<!channel> @here <https://evil.example|click> [x](https://evil.example) `\n*b*\u{202e}\u{200b}&amp;";
    let mut message = message();
    message.waited.as_mut().unwrap().rules = vec!["@everyone".to_owned()];
    let told = sent(PayloadFormat::Chat, &message, Some(&details(evil)));
    let text = told["text"].as_str().unwrap();
    let line = text.lines().find(|line| line.starts_with("Asked for by ")).unwrap();
    assert!(line.ends_with('`') && line.matches('`').count() == 2, "{line}");
    for wrong in ["<", ">", "@here", "@everyone", "\u{202e}"] {
        assert!(!text.contains(wrong), "{wrong}: {text}");
    }
    assert!(line.contains("&lt;!channel&gt;") && line.contains("&amp;amp;"), "{line}");
    assert_eq!(told.as_object().unwrap().len(), 1);
    assert!(text.contains("500 usdt") && text.contains(&format!("https://c.example/#/hold/{}", id())), "{text}");
    let long = sent(PayloadFormat::Chat, &message, Some(&details(&"x".repeat(10_000))));
    assert!(long.to_string().len() < 1_000);
    let bare = sent(PayloadFormat::Chat, &message, None);
    assert!(!bare.to_string().contains("500"), "{bare}");
}

#[test]
fn every_event_has_a_name_of_its_own_and_words() {
    let names: BTreeSet<&str> = NoticeEvent::ALL.map(NoticeEvent::as_str).into();
    let words: BTreeSet<&str> = NoticeEvent::ALL.map(NoticeEvent::in_words).into();
    assert_eq!((names.len(), words.len()), (NoticeEvent::ALL.len(), NoticeEvent::ALL.len()));
    for event in NoticeEvent::ALL {
        assert_eq!(NoticeEvent::parse(event.as_str()), Some(event));
    }
}
