//! The table of a hold, whole; whose word counts; how holds are written and read again.

mod persons;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderValue};

use super::*;
use crate::base::ids::{Environment, HoldId, OperationId, RequestId, TraceId};
use crate::catalog::{Catalog, SchemaFiles};
use crate::ledger::{
    Commit, Content, Index, Keep, Kind, NodeId, Number, Record, RecordKey, Step, StoreTime, Versioned,
};
use crate::policy::{Facts, HoldCauses, KnownNames, Policies, Rules, read_policies};
use crate::stations::admit::KnownCaller;
use crate::stations::claim::{Decline, Declined, Owner, SentRequest, Terms};
use crate::stations::decide::{Consent, evaluate};

mod release;
mod reopened;
mod signed;

const RULES: &str = r#"
[[rule]]
id = "larger"
effect = "hold"
approval = "dual"
when = { op = "createSwap", amount = "(100, 5000] USD" }
[[rule]]
id = "small"
effect = "allow"
when = { op = "createSwap", amount = "(0, 100] USD" }
[[limit]]
id = "often"
ops = ["createSwap"]
window = "rolling 1h"
per = ["environment"]
max = "1 call"
over = "hold"
approval = "dual"
[approval.dual]
all = [{ of = "ops", n = 1 }, { of = "finance", n = 1 }]
expires = "8h"
[group.ops]
members = ["people:ops-1", "people:ops-2", "people:test"]
[group.finance]
members = ["people:finance-1", "people:ops-2"]
"#;

fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::build(&SchemaFiles::built_in(), &[]).unwrap());
    &CATALOG
}

fn policies(text: &str) -> Policies {
    let known = KnownNames { catalog: catalog(), issuers: &["main", "people"], can_share: true };
    read_policies(&[("x.toml".to_owned(), text.to_owned())], &known).unwrap().policies
}

fn by(subject: &str) -> KnownCaller {
    let requester = Some("ann".to_owned());
    KnownCaller {
        issuer: "main".to_owned(),
        subject: subject.to_owned(),
        requester,
        roles: BTreeSet::new(),
        opaque: false,
    }
}

fn body(amount: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"destination":{{"chain":"POLYGON","currency":"usdc","walletAddress":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}},"requestId":"r-1","source":{{"amount":"{amount}","chain":"POLYGON","currency":"usdt"}}}}"#
    ))
}

/// The causes of a hold by no limit.
static USUAL: LazyLock<HoldCauses> = LazyLock::new(|| causes("500", &Facts::default()));

/// The causes of the hold of a swap, by these facts.
fn causes(amount: &str, facts: &Facts) -> HoldCauses {
    let body = body(amount);
    let sent = (&Method::POST, "/v2/wallets/swaps", &*body);
    let intent = read_bytes(catalog(), Environment::Production, sent, by("test")).unwrap();
    HoldCauses::of(&evaluate(&intent, &policies(RULES), facts).verdict)
}

/// The window of `often` contains this many calls.
fn full(calls: u64) -> Facts {
    Facts {
        exceeded: [(("often".to_owned(), "{\"environment\":\"production\",\"unit\":\"calls\"}".to_owned()), calls)]
            .into(),
        ..Facts::default()
    }
}

fn waits(amount: &str) -> Hold {
    let (target, body) = ("/v2/wallets/swaps".to_owned(), body(amount));
    let sent = (&Method::POST, target.as_str(), &*body);
    let intent = read_bytes(catalog(), Environment::Production, sent, by("test")).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("tracestate", HeaderValue::from_static("a=b"));
    Hold {
        id: HoldId::parse(&"a1".repeat(16)).unwrap(),
        claim: "request/r-1".to_owned(),
        by: by("test"),
        operation: OperationId::new("createSwap"),
        method: Method::POST,
        request_id: RequestId::parse("r-1"),
        fingerprint: intent.fingerprint(),
        sent: SentRequest { target, body },
        headers,
        trace: TraceId::parse("t-1").unwrap(),
        causes: USUAL.clone(),
        asked: BTreeSet::from([Arc::from("dual")]),
        votes: Vec::new(),
        notes: Vec::new(),
        created: None,
        entries: Vec::new(),
        lasts: Duration::from_secs(8 * 3600),
        tries: 0,
        reminded: false,
        state: HoldState::Pending,
    }
}

fn person(issuer: &str, subject: &str) -> Owner {
    Owner::named(issuer, subject)
}

fn vote_of(issuer: &str, subject: &str) -> Vote {
    let causes = USUAL.digest();
    Vote {
        person: person(issuer, subject),
        causes,
        comment: Some("seen".to_owned()),
        at: StoreTime::of_micros(7),
        signed: None,
    }
}

fn states() -> [HoldState; 8] {
    let [a, b, c, d, e] = Decline::ALL.map(|how| HoldState::Declined(Declined { how, reason: Some("why".to_owned()) }));
    [HoldState::Pending, HoldState::Approved, HoldState::Released, a, b, c, d, e]
}

#[test]
fn every_event_has_its_place_in_every_state_or_none() {
    let declined = Decline::ALL.map(HoldEvent::Declined);
    let others = [HoldEvent::Completed, HoldEvent::Released, HoldEvent::Reopened, HoldEvent::NotSent];
    let row = |state: &HoldState| {
        let events = others.into_iter().chain(declined);
        let word = |event| after(state, event, None).map_or("-".to_owned(), |state| state.as_str().to_owned());
        events.map(word).collect::<Vec<_>>().join(" ")
    };
    let [pending, approved, released, over @ ..] = states();
    assert_eq!(row(&pending), "approved - pending - rejected expired cancelled blocked forgotten");
    assert_eq!(row(&approved), "- released pending - rejected expired cancelled blocked forgotten");
    assert_eq!(row(&released), "- - - approved - - - - -");
    for state in over {
        assert_eq!(row(&state), "- - - - - - - - -", "{state:?}");
    }
}

#[test]
fn holds_are_read_as_they_were_written_and_newer_ones_are_refused() {
    for state in states() {
        let mut hold = Hold { state, created: Some(StoreTime::of_micros(5)), tries: 3, reminded: true, ..waits("500") };
        hold.votes.push(vote_of("people", "ops-1"));
        hold.notes.push(HoldNote {
            person: person("people", "ops-1"),
            text: "é".to_owned(),
            at: StoreTime::of_micros(9),
        });
        let written = encode_hold(&hold);
        assert_eq!(decode_hold(&written), Ok(hold));
        let newer = String::from_utf8(written.to_vec()).unwrap().replace("\"format\":6", "\"format\":7");
        let fault = UnreadableHold("format 7 is not readable here; this build reads 6".to_owned());
        assert_eq!(decode_hold(newer.as_bytes()), Err(fault));
        for cut in [0, 1, written.len() / 2, written.len() - 1] {
            assert!(decode_hold(&written[..cut]).is_err());
        }
    }
}

/// A change here needs a new number of the format.
#[test]
fn the_stored_form_of_a_hold_stays_as_it_is() {
    let reason = Some("why".to_owned());
    let declined = HoldState::Declined(Declined { how: Decline::Rejected, reason });
    let mut hold = Hold { state: declined, created: Some(StoreTime::of_micros(5)), ..waits("500") };
    hold.votes.push(vote_of("people", "ops-1"));
    hold.notes.push(HoldNote { person: person("people", "ops-1"), text: "x".to_owned(), at: StoreTime::of_micros(9) });
    let written =
        [encode_hold(&hold), encode_hold(&waits("500"))].map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
    insta::assert_snapshot!(written.join("\n"));
}

static NOBODY: LazyLock<StandIns> = LazyLock::new(StandIns::default);

fn hearing<'h>(rules: &'h Rules, owners: &'h Owners) -> VoteContext<'h> {
    let environment = Environment::Production;
    VoteContext { catalog: catalog(), rules, owners, stand_ins: &NOBODY, environment, now: StoreTime::of_micros(1) }
}

fn consent(hold: &Hold) -> Consent {
    hold.consent(&hearing(&Rules::default(), &Owners::default()))
}

/// Returns the words that this person could say about a hold.
fn vote_result(hold: &Hold, say: VoteAction, who: &Owner, seen: SeenHold, now: i64) -> Result<(), VoteRefusal> {
    let policies = policies(RULES);
    let (owners, stand_ins) = (Owners::default(), StandIns::default());
    let now = StoreTime::of_micros(now);
    let (rules, environment) = (&policies.rules, Environment::Production);
    let hearing = VoteContext { catalog: catalog(), rules, owners: &owners, stand_ins: &stand_ins, environment, now };
    may_say((hold, StoreTime::of_micros(0)), say, who, seen, &hold.asked, &hearing)
}

#[test]
fn only_those_are_heard_who_are_asked_and_saw_these_bytes_and_did_not_ask_for_it() {
    let hold = waits("500");
    let (seen, over) = (hold.seen(), 8 * 3600 * 1_000_000);
    for say in [VoteAction::Approve, VoteAction::Reject, VoteAction::Withdraw] {
        let heard = |who: &Owner, seen, now| vote_result(&hold, say, who, seen, now);
        assert_eq!(heard(&person("people", "ops-1"), seen, 1), Ok(()));
        assert_eq!(heard(&person("people", "ops-1"), SeenHold::default(), 1), Err(VoteRefusal::OtherBytes));
        let other = SeenHold { fingerprint: Some(waits("501").fingerprint), ..seen };
        assert_eq!(heard(&person("people", "ops-1"), other, 1), Err(VoteRefusal::OtherBytes));
        // Only an approval is for causes.
        for causes in [None, Some(causes("500", &full(1)).digest())] {
            let result = heard(&person("people", "ops-1"), SeenHold { causes, ..seen }, 1);
            assert_eq!(result, if say == VoteAction::Approve { Err(VoteRefusal::OtherCauses) } else { Ok(()) });
        }
        // The caller itself, with a credential of people, and the person behind its token.
        for subject in ["test", "ann", "TEST", "Ann", "\u{ff54}est", "\u{ff21}nn"] {
            assert_eq!(heard(&person("people", subject), seen, 1), Err(VoteRefusal::Asked));
        }
        assert_eq!(heard(&person("people", "stranger"), seen, 1), Err(VoteRefusal::NotAsked));
        assert_eq!(heard(&person("main", "ops-1"), seen, 1), Err(VoteRefusal::NotAsked), "another issuer's ops-1");
        assert_eq!(heard(&person("people", "ops-1"), seen, over - 1), Ok(()));
        assert_eq!(heard(&person("people", "ops-1"), seen, over), Err(VoteRefusal::Over("expired")));
    }
    for state in states().into_iter().filter(|state| !state.is_open()) {
        let word = state.as_str();
        let over = Hold { state, ..hold.clone() };
        assert_eq!(
            vote_result(&over, VoteAction::Approve, &person("people", "ops-1"), seen, 1),
            Err(VoteRefusal::Over(word))
        );
    }
}

#[test]
fn whoever_owns_a_service_does_not_judge_what_it_asks_for() {
    let owners = |texts: &[&str]| Owners::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    let (hold, policies) = (waits("500"), policies(RULES));
    let heard = |owners: &Owners| {
        let (who, seen) = (person("people", "ops-1"), hold.seen());
        let hearing = hearing(&policies.rules, owners);
        may_say((&hold, StoreTime::of_micros(0)), VoteAction::Approve, &who, seen, &hold.asked, &hearing)
    };
    for (text, is_heard) in [
        ("main:test=ops-1", false),
        // A name that differs, of the person behind the token.
        ("main:ann=ops-1", false),
        ("main:test=ops-2", true),
        ("other:test=ops-1", true),
        ("main:other=ops-1", true),
    ] {
        let owners = owners(&[text]).unwrap();
        assert_eq!(heard(&owners).is_ok(), is_heard, "{text}");
        // Votes that were given before it was configured do not count either.
        let voted = voted(&[("people", "ops-1")]);
        assert_eq!(voted.consent(&hearing(&policies.rules, &owners)).people.len(), usize::from(is_heard), "{text}");
    }
    for odd in ["", "main", "main:test", "main=ops-1", ":test=ops-1", "main:=ops-1", "main:test="] {
        assert_eq!(owners(&[odd]), None, "{odd}");
    }
}

fn stands_in(member: &str, who: &str) -> StandIns {
    let named = StandIn {
        member: person("people", member),
        person: person("people", who),
        from: StoreTime::of_micros(0),
        until: StoreTime::of_micros(10),
        reason: "away".to_owned(),
    };
    let (now, node) = (StoreTime::of_micros(0), NodeId::parse("gate").unwrap());
    let commit = StandIns::default().name(named, now, Environment::Production, &node).unwrap();
    let Some(Step::Create { value, .. }) = commit.steps.into_iter().next() else { panic!("it is not created") };
    StandIns::read(Some(&Record { version: Number::new(1), at: now, content: Content::Whole(value) })).unwrap()
}

#[test]
fn a_stand_in_is_heard_for_a_member_in_their_time_and_never_for_whoever_asked() {
    let (policies, owners) = (policies(RULES), Owners::default());
    let heard = |member: &str, who: &str, now: i64| {
        let stand_ins = stands_in(member, who);
        let now = StoreTime::of_micros(now);
        let (rules, environment) = (&policies.rules, Environment::Production);
        let hearing =
            VoteContext { catalog: catalog(), rules, owners: &owners, stand_ins: &stand_ins, environment, now };
        let hold = voted(&[("people", who)]);
        let (seen, who) = (hold.seen(), person("people", who));
        let said = may_say((&hold, StoreTime::of_micros(0)), VoteAction::Approve, &who, seen, &hold.asked, &hearing);
        let progress = policies.rules.progress("dual", &hold.consent(&hearing).people).unwrap();
        assert_eq!(said.is_ok(), progress.given == 1);
        said
    };
    assert_eq!(heard("ops-1", "dora", 9), Ok(()));
    assert_eq!(heard("ops-1", "dora", 10), Err(VoteRefusal::NotAsked), "its time is over");
    assert_eq!(heard("stranger", "dora", 9), Err(VoteRefusal::NotAsked), "for one who is no member");
    // `test` asked for it, and so did `ann` behind its token.
    assert_eq!(heard("test", "dora", 9), Err(VoteRefusal::NotAsked), "in the place of whoever asked");
    assert_eq!(heard("test", "ops-1", 9), Ok(()), "who has a seat of their own");
    for asked in ["test", "ann"] {
        assert_eq!(heard("ops-1", asked, 9), Err(VoteRefusal::Asked), "whoever asked, in another's place");
    }
}

#[test]
fn what_nobody_can_complete_is_known_and_every_approver_may_reject_it() {
    let (hold, policies) = (waits("500"), policies(RULES));
    let look = |owners: &[&str], asked: &[&str]| {
        let asked: BTreeSet<Arc<str>> = asked.iter().map(|name| Arc::from(*name)).collect();
        let owners = Owners::parse(&owners.iter().map(|owner| (*owner).to_owned()).collect::<Vec<_>>()).unwrap();
        let hearing = hearing(&policies.rules, &owners);
        let says = |say| {
            let (who, seen) = (person("people", "stranger"), hold.seen());
            may_say((&hold, StoreTime::of_micros(0)), say, &who, seen, &asked, &hearing).is_ok()
        };
        (hearing.stuck(&hold, &asked), says(VoteAction::Reject), says(VoteAction::Approve))
    };
    assert_eq!(look(&[], &["dual"]), (None, false, false));
    assert_eq!(look(&[], &[]), (Some(Stuck::NoApproval), true, false));
    assert_eq!(look(&["main:test=ops-1"], &["dual"]), (None, false, false));
    // One is left who could sit for either group, and no other.
    assert_eq!(look(&["main:test=ops-1", "main:ann=finance-1"], &["dual"]), (Some(Stuck::TooFew), true, false));
}

fn voted(subjects: &[(&str, &str)]) -> Hold {
    let votes = subjects.iter().map(|(issuer, subject)| vote_of(issuer, subject)).collect();
    Hold { votes, ..waits("500") }
}

#[test]
fn bytes_that_are_not_what_was_voted_for_are_not_read() {
    let read = |hold: &Hold| read_again(catalog(), Environment::Production, hold).is_some();
    let hold = waits("500");
    assert!(read(&hold));
    assert!(!read(&Hold { sent: waits("501").sent, ..hold.clone() }), "other bytes");
    assert!(!read(&Hold { fingerprint: waits("501").fingerprint, ..hold.clone() }));
    assert!(!read(&Hold { claim: "request/r-2".to_owned(), ..hold.clone() }));
    assert!(!read(&Hold { operation: OperationId::new("createOfframp"), ..hold.clone() }));
    let target = "/v2/offramps".to_owned();
    assert!(!read(&Hold { sent: SentRequest { target, ..hold.sent.clone() }, ..hold }));
}

fn key() -> RecordKey {
    RecordKey { environment: Environment::Production, kind: Kind::Hold, name: "a1".repeat(16) }
}

fn guards(commit: &Commit) -> Vec<Step> {
    commit.steps.iter().filter(|step| matches!(step, Step::Before(_) | Step::After(_))).cloned().collect()
}

#[test]
fn nothing_but_the_expiry_happens_behind_the_deadline_and_that_not_before() {
    let (hold, key, node) = (waits("500"), key(), NodeId::parse("gate").unwrap());
    let here = Versioned { key: &key, version: Number::new(3), at: StoreTime::of_micros(1_000_000), value: &hold };
    let deadline = StoreTime::of_micros(1_000_000).plus(hold.lasts);
    let before = vec![Step::Before(deadline)];
    let (needed, rules) = (NeededApprovals { names: hold.asked.clone(), guards: Vec::new() }, policies(RULES).rules);
    assert_eq!(guards(&vote(here, vote_of("people", "ops-1"), BTreeSet::new(), false, needed, &rules, &node)), before);
    assert!(withdraw(here, &person("people", "ops-1"), &node).is_none(), "there is no vote");
    let approved = Hold { state: HoldState::Approved, created: Some(StoreTime::of_micros(1_000_000)), ..hold.clone() };
    // However often it was written since.
    let later = Versioned { at: StoreTime::of_micros(9_000_000), value: &approved, ..here };
    let keep = Keep::For { whole: Duration::from_secs(1), spent: Duration::from_secs(1) };
    let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
    let terms = Terms { begin_within, lease, first_look, quiet, keep };
    let steps = released(later, &terms).unwrap();
    assert!(steps.contains(&Step::Before(deadline)));
    assert!(released(here, &terms).is_none(), "it is not approved");
    let out = |index| Step::IndexRemove { index, member: hold.id.to_string() };
    assert!(steps.contains(&out(Index::Held)) && steps.contains(&out(Index::Approved)));
    // As long as its record is kept.
    let ended = Step::IndexAdd { index: Index::Ended, member: hold.id.to_string(), due: Duration::from_secs(1) };
    assert!(steps.contains(&ended));
}

#[test]
fn what_was_not_sent_is_tried_again_later_and_later_and_never_behind_its_deadline() {
    let key = key();
    let pause = |tries, now: i64| {
        let hold = Hold { state: HoldState::Released, tries, ..waits("500") };
        let here = Versioned { key: &key, version: Number::new(3), at: StoreTime::of_micros(0), value: &hold };
        let steps = approve_again(here, StoreTime::of_micros(now)).unwrap();
        let due = |step: &Step| match step {
            Step::IndexAdd { index: Index::Approved, due, .. } => Some(due.as_secs()),
            _ => None,
        };
        steps.iter().find_map(due).unwrap()
    };
    assert_eq!([0, 1, 2, 7, 8, 31, 32, u32::MAX].map(|tries| pause(tries, 0)), [2, 4, 8, 256, 300, 300, 300, 300]);
    assert_eq!(pause(9, (8 * 3600 - 5) * 1_000_000), 5);
    let hold = waits("500");
    let here = Versioned { key: &key, version: Number::new(3), at: StoreTime::of_micros(0), value: &hold };
    assert!(approve_again(here, StoreTime::of_micros(1)).is_err(), "it was not sent at all");
}

#[test]
fn words_come_from_the_bytes() {
    let intent = read_again(catalog(), Environment::Production, &waits("500")).unwrap();
    let words: BTreeMap<&str, String> = in_words(&intent).into_iter().collect();
    assert_eq!(words["from"], "500 usdt, on POLYGON");
    assert_eq!(words["to"], "usdc, on POLYGON, wallet 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
}
