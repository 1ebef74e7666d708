//! A hold as a person may see it: its progress, the permitted votes, and what it would do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::payments::EarlierQuery;
use super::person::{Person, Role};
use super::policies::window_json;
use super::render;
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::base::money::{Decimal, MicroUsd};
use crate::base::normal::shown_wallet;
use crate::catalog::Party;
use crate::ledger::{Record, RecordKey, StoreFault, StoreTime};
use crate::node::Snapshot;
use crate::node::approve::needed_now;
use crate::node::explain;
use crate::node::explain::Forecast;
use crate::policy::{Limit, ListNames, Policies, Progress, Reservation};
use crate::stations::admit::KnownCaller;
use crate::stations::check::Intent;
use crate::stations::claim::{Claim, ClaimState, Owner};
use crate::stations::decide::progress;
use crate::stations::hold::{
    Hold, HoldState, StandIns, Stuck, Vote, VoteAction, VoteContext, in_words, may_say, member_of, read_again,
    read_bytes,
};

/// Shows holds to one person, under one version of the policies and, in each environment, one time and one list of
/// stand-ins.
pub(super) struct HoldViewer<'l> {
    inside: &'l ConsoleState,
    person: &'l Person,
    snapshot: Arc<Snapshot>,
    stand_ins: BTreeMap<Environment, (StandIns, StoreTime)>,
}

/// One hold with its progress under the current policies.
pub(super) struct HoldView<'s> {
    pub hold: &'s Hold,
    key: &'s RecordKey,
    record: &'s Record,
    hearing: VoteContext<'s>,
    intent: Option<Intent>,
    asked: BTreeSet<Arc<str>>,
    progress: Vec<Progress>,
    stuck: Option<Stuck>,
    /// The value of the call now, fees included.
    value: Option<MicroUsd>,
}

impl<'l> HoldViewer<'l> {
    pub async fn of(
        inside: &'l ConsoleState,
        person: &'l Person,
        environments: &[Environment],
    ) -> Result<HoldViewer<'l>, StoreFault> {
        let mut stand_ins = BTreeMap::new();
        for environment in environments {
            stand_ins.insert(*environment, inside.node.stand_ins(*environment).await?);
        }
        Ok(HoldViewer { inside, person, snapshot: inside.in_force.now(), stand_ins })
    }

    /// Returns a hold with the approvals that it needs now; `None` in an environment that is not shown.
    pub async fn view<'s>(
        &'s self,
        key: &'s RecordKey,
        record: &'s Record,
        hold: &'s Hold,
    ) -> Result<Option<HoldView<'s>>, StoreFault> {
        let policies = &*self.snapshot.policies;
        let Some((stand_ins, now)) = self.stand_ins.get(&key.environment) else { return Ok(None) };
        let hearing = self.inside.node.hearing(key.environment, (&self.snapshot.catalog, policies), stand_ins, *now);
        let intent = read_again(&self.snapshot.catalog, key.environment, hold);
        let is_open = hold.state.is_open();
        let asked = match is_open {
            true => needed_now(&self.inside.node, policies, hold, intent.as_ref(), *now).await?.names,
            false => hold.asked.clone(),
        };
        let progress = progress(hold.fingerprint, &asked, policies, &hold.consent(&hearing));
        let stuck = if is_open { hearing.stuck(hold, &asked) } else { None };
        let value = intent.as_ref().and_then(|intent| value_of(policies, intent, *now));
        Ok(Some(HoldView { hold, key, record, hearing, intent, asked, progress, stuck, value }))
    }

    /// Returns the value of a held call now in micro-USD, and what is known of its destination.
    pub fn value_and_destination(&self, environment: Environment, hold: &Hold) -> (Option<u64>, Option<Value>) {
        let policies = &self.snapshot.policies;
        let now = self.stand_ins.get(&environment).map(|(_, now)| *now);
        let intent = read_again(&self.snapshot.catalog, environment, hold);
        let value = intent.as_ref().zip(now).and_then(|(intent, now)| value_of(policies, intent, now));
        let movement = intent.as_ref().and_then(Intent::movement);
        let known = movement.map(|movement| known_destination(&policies.list_names, &movement.destination));
        (value.map(MicroUsd::as_u64), known)
    }

    pub fn policies_version(&self) -> &str {
        self.snapshot.policies.version()
    }

    fn may(&self, view: &HoldView<'_>, say: VoteAction) -> bool {
        let (hold, person) = ((view.hold, view.record.at), &self.person.who);
        self.person.has(Role::Approver)
            && may_say(hold, say, person, view.hold.seen(), &view.asked, &view.hearing).is_ok()
    }

    /// Returns whether the hold waits for this person's signature: an approval takes only signed votes, and none of this
    /// person's counts for it yet.
    fn must_sign(&self, view: &HoldView<'_>) -> bool {
        let person = member_of(&self.person.who);
        let rules = &self.snapshot.policies.rules;
        let signed = view.hold.consent(&view.hearing).signed;
        let counts = |approval: &str| signed.get(approval).is_some_and(|people| people.contains_key(&person));
        view.asked.iter().any(|name| rules.is_signed(name) && rules.may_say(name, &person) && !counts(name))
    }

    /// Returns whether the person sees the calls of this hold's caller.
    pub fn shows(&self, environment: Environment, hold: &Hold) -> bool {
        self.inside.shows_call(self.person, environment, &hold.by.issuer, &hold.by.subject)
    }

    /// Returns whether the hold waits for this person's vote, and the vote would count.
    pub fn is_mine(&self, view: &HoldView<'_>) -> bool {
        let Hold { state, votes, fingerprint, .. } = view.hold;
        let has_agreed = votes.iter().any(|vote| vote.person.is_same_person(&self.person.who));
        if *state != HoldState::Pending || has_agreed || !self.may(view, VoteAction::Approve) {
            return false;
        }
        let causes = view.hold.causes.digest();
        let person = &self.person.who;
        let vote = Vote { person: person.clone(), causes, comment: None, at: view.hearing.now, signed: None };
        let with = Hold { votes: votes.iter().cloned().chain([vote]).collect(), ..view.hold.clone() };
        let with = progress(
            *fingerprint,
            &view.asked,
            &self.snapshot.policies,
            &with.consent_with(&view.hearing, Some(person)),
        );
        view.progress.iter().zip(&with).any(|(before, after)| after.given > before.given)
    }

    /// Returns the JSON of a hold without what the store knows of its destination.
    pub fn summary(&self, view: &HoldView<'_>) -> Map<String, Value> {
        let mut members = view.members();
        let movement = view.intent.as_ref().and_then(Intent::movement);
        members.extend(movement.map(|movement| {
            let known = known_destination(&self.snapshot.policies.list_names, &movement.destination);
            ("destination".to_owned(), known)
        }));
        members.insert("mayJudge".to_owned(), self.may(view, VoteAction::Approve).into());
        members.insert("mustSign".to_owned(), self.must_sign(view).into());
        members.insert("mayReject".to_owned(), self.may(view, VoteAction::Reject).into());
        members
    }

    /// Returns the JSON of a hold in a list, with what is known of its destination.
    pub async fn row(&self, view: &HoldView<'_>) -> Result<Map<String, Value>, StoreFault> {
        let mut members = self.summary(view);
        if let Some(intent) = view.intent.as_ref().filter(|_| view.hold.state.is_open()) {
            let paid = explain::last_paid(&self.inside.node, &self.snapshot.policies, intent).await?;
            members.insert("newDestination".to_owned(), paid.iter().any(|(_, at)| at.is_none()).into());
            let limits = &self.snapshot.policies.rules.limits;
            let is_of_repeats =
                |name: &str| limits.iter().any(|limit| &*limit.id == name && limit.counts_equal_payments());
            let causes = &view.hold.causes;
            members.insert("equalPayment".to_owned(), causes.rules().any(is_of_repeats).into());
            members.insert("overLimit".to_owned(), causes.limits().any(|limit| !is_of_repeats(limit)).into());
        }
        Ok(members)
    }

    /// Returns the JSON of one hold: words for every role, all comments, the exact bytes for approvers and operators, and for
    /// an open hold the last payments to its destinations and the limits that it uses.
    pub async fn details(&self, view: &HoldView<'_>) -> Result<Map<String, Value>, StoreFault> {
        let (mut shown, hold) = (self.row(view).await?, view.hold);
        let notes = hold.notes.iter().map(|note| Value::Object(spoken(&note.person, Some(&note.text), note.at)));
        shown.insert("notes".to_owned(), notes.collect());
        let sees = self.person.has(Role::Approver) || self.person.has(Role::Operator);
        if let (true, Ok(body)) = (sees, std::str::from_utf8(&hold.sent.body)) {
            let sent = json!({ "method": hold.method.as_str(), "target": hold.sent.target, "body": body });
            shown.insert("sent".to_owned(), sent);
            shown.insert("figures".to_owned(), hold.causes.figures().into());
        }
        if let Some(intent) = view.intent.as_ref().filter(|_| hold.state.is_open()) {
            let policies = &self.snapshot.policies;
            let Forecast { paid, counts } = explain::outlook(&self.inside.node, policies, intent).await?;
            let last = |(destination, at): &(String, Option<StoreTime>)| {
                let (kind, name) = destination.rsplit_once(':').unwrap_or(("", destination));
                let shown = format!("{kind}:{}", shown_wallet(name));
                json!({ "destination": shown, "at": at.map(render::moment) })
            };
            shown.insert("paidBefore".to_owned(), paid.iter().map(last).collect());
            let counted =
                |(reservation, used): &(Reservation, u64)| counted(&policies.rules.limits, reservation, *used);
            shown.insert("limits".to_owned(), counts.iter().filter_map(counted).collect());
        }
        Ok(shown)
    }
}

impl HoldView<'_> {
    /// Returns which earlier payments speak for or against an open hold; `None` where its call states no amount or no
    /// destination.
    pub fn earlier_query(&self) -> Option<EarlierQuery> {
        let HoldView { hold, key, .. } = self;
        let movement = self.intent.as_ref().filter(|_| hold.state.is_open())?.movement()?;
        let main = movement.main_side();
        Some(EarlierQuery {
            environment: key.environment,
            hold: hold.id.to_string(),
            request: hold.request_id.as_ref().map(|id| id.as_str().to_owned()),
            destination: names_of(&movement.destination).next()?.clone(),
            amount: Decimal::parse(main.amount.as_deref()?).ok()?,
            currency: main.currency.as_ref().map(|name| name.to_lowercase()),
        })
    }

    fn members(&self) -> Map<String, Value> {
        let HoldView { hold, key, record, .. } = self;
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        put("id", json!(hold.id.as_str()));
        put("environment", json!(key.environment.as_str()));
        put("state", json!(hold.state.as_str()));
        put("operation", json!(hold.operation.as_str()));
        if let Some(id) = &hold.request_id {
            put("requestId", json!(id.as_str()));
        }
        put("fingerprint", json!(hold.fingerprint.to_hex()));
        put("owner", json!({ "issuer": hold.by.issuer, "subject": hold.by.subject }));
        put("requester", json!(hold.by.requester));
        put("reasons", hold.causes.to_json());
        put("causes", json!(hold.causes.digest().to_hex()));
        let approval = |one: &Progress| approval(one, self.hearing.rules.is_signed(&one.name));
        put("approvals", self.progress.iter().map(approval).collect());
        if let Some(stuck) = self.stuck {
            put("stuck", json!(stuck.in_words()));
        }
        put("votes", hold.votes.iter().map(|vote| self.vote(vote)).collect());
        put("noteCount", hold.notes.len().into());
        put("createdAt", render::moment(hold.created(record.at)));
        put("expiresAt", render::moment(hold.deadline(record.at)));
        if !hold.state.is_open() {
            put("endedAt", render::moment(record.at));
        }
        put("trace", json!(hold.trace.as_str()));
        if hold.tries > 0 {
            put("tries", json!(hold.tries));
        }
        put("words", words_of(self.intent.as_ref(), self.value));
        members
    }

    /// Returns the JSON of a vote, with the members in whose place it counts.
    fn vote(&self, vote: &Vote) -> Value {
        let mut members = spoken(&vote.person, vote.comment.as_deref(), vote.at);
        let mut voice = self.hearing.voice(self.hold, &vote.person);
        voice.remove(&member_of(&vote.person));
        if !voice.is_empty() && self.hold.state.is_open() {
            members.insert("for".to_owned(), json!(voice));
        }
        if vote.signed.is_some() {
            members.insert("signed".to_owned(), Value::Bool(true));
        }
        Value::Object(members)
    }
}

/// Returns the value of a call at a time, fees included, if it has one.
fn value_of(policies: &Policies, intent: &Intent, now: StoreTime) -> Option<MicroUsd> {
    let secs = now.as_micros().div_euclid(1_000_000);
    let movement = Some(intent).filter(|intent| intent.operation().has_amount())?.movement()?;
    policies.rules.valuation.value(movement, secs).ok()
}

/// Returns the JSON of a call's description.
fn words_of(intent: Option<&Intent>, value: Option<MicroUsd>) -> Value {
    let line = |(name, text): (&str, String)| json!({ "name": name, "text": text });
    let mut words = intent.map(in_words).unwrap_or_default();
    words.extend(value.map(|value| ("value", format!("{value}, fees included"))));
    words.into_iter().map(line).collect()
}

/// Returns what a call that was sent moves, by today's contract: in words, with its value when it was sent, and what is
/// known of its destination. Empty where its bytes are gone.
pub(super) fn sent_in_words(snapshot: &Snapshot, environment: Environment, claim: &Claim) -> Map<String, Value> {
    let (ClaimState::Sending { sent, .. } | ClaimState::Unknown { sent, .. }) = &claim.state else { return Map::new() };
    let operation = snapshot.catalog.operation(&claim.operation);
    let Owner { issuer, subject, opaque } = claim.owner.clone();
    let by = KnownCaller { issuer, subject, requester: None, roles: BTreeSet::new(), opaque };
    let intent = operation.and_then(|operation| {
        let bytes = (&operation.method, sent.target.as_str(), &*sent.body);
        read_bytes(&snapshot.catalog, environment, bytes, by)
    });
    let Some(intent) = intent else { return Map::new() };
    let since = claim.in_doubt().map(|past| past.since);
    let value = since.and_then(|since| value_of(&snapshot.policies, &intent, since));
    let mut members = Map::new();
    members.insert("words".to_owned(), words_of(Some(&intent), value));
    if let Some(movement) = intent.movement() {
        let known = known_destination(&snapshot.policies.list_names, &movement.destination);
        members.insert("destination".to_owned(), known);
    }
    members
}

/// Returns the destination of a call: its most exact name, the lists that contain it, and the listed address that a person
/// could take it for.
fn known_destination(names: &ListNames, party: &Party) -> Value {
    let all: Vec<&String> = names_of(party).collect();
    let lists: BTreeSet<&str> = all.iter().flat_map(|name| names.lists_of(name)).collect();
    let look_alike = all.iter().find_map(|name| names.look_alike(name));
    let known =
        look_alike.map(|name| json!({ "name": shown_wallet(name), "lists": names.lists_of(name).collect::<Vec<_>>() }));
    json!({ "name": all.first().map(|name| shown_wallet(name)), "lists": lists, "lookAlike": known })
}

/// Returns the names of one end of a movement, the most exact first.
fn names_of(party: &Party) -> impl Iterator<Item = &String> {
    let Party { user, wallet, external_wallet, account, .. } = party;
    [account, external_wallet, wallet, user].into_iter().flatten()
}

fn approval(one: &Progress, is_signed: bool) -> Value {
    let missing = |(group, count): &(String, u64)| json!({ "group": group, "count": count });
    let missing: Vec<Value> = one.missing.iter().map(missing).collect();
    json!({ "name": &*one.name, "needed": one.needed, "given": one.given, "missing": missing, "signed": is_signed })
}

fn spoken(person: &Owner, text: Option<&str>, at: StoreTime) -> Map<String, Value> {
    let members = [
        ("issuer", json!(person.issuer)),
        ("subject", json!(person.subject)),
        ("text", json!(text)),
        ("at", render::moment(at)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the JSON of a limit with what is left now, and after the call.
fn counted(limits: &[Limit], reservation: &Reservation, used: u64) -> Option<Value> {
    let Reservation { window, units, max, .. } = reservation;
    let mut members = window_json(limits.iter().find(|limit| *limit.id == *window.limit)?, &window.key, used);
    members.insert("adds".to_owned(), json!(units));
    members.insert("leftAfter".to_owned(), json!(max.saturating_sub(used).saturating_sub(*units)));
    Some(Value::Object(members))
}
