//! The commits on a hold: one for each event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderMap;

use super::room::{self, HoldRoom, HoldUse};
use super::state::{Hold, HoldEvent, HoldNote, HoldState, ImpossibleHoldEvent, Vote, after};
use super::stored_form::encode_hold;
use super::voting::NeededApprovals;
use crate::audit::{Entry, EntryKind};
use crate::base::ids::{HoldId, TraceId};
use crate::base::keyed::OperandKey;
use crate::ledger::{Commit, Index, Keep, Kind, NodeId, Number, RecordKey, Step, StoreTime, Versioned};
use crate::policy::{HoldCauses, Rules};
use crate::stations::claim::{self, Claim, Decline, Declined, Freeze, Owner, SentRequest, Terms};
use crate::stations::decide::{Held, Unreached};

/// The pause before a call that was certainly not sent is tried again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The most earlier commits that a hold names.
const MAX_ENTRIES: usize = 50;
/// Longer than any list reaches back.
const FOR_GOOD: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Hold {
    /// Returns the numbers of the entries that say what became of it, of which the newest wrote this version.
    pub fn entry_numbers(&self, version: Number) -> Vec<Number> {
        self.entries.iter().copied().chain([version]).collect()
    }
}

impl Versioned<'_, Hold> {
    pub fn deadline(&self) -> StoreTime {
        self.value.deadline(self.at)
    }

    /// The hold as the next record has it: from then on, the record states when the hold began, and which commits wrote it.
    fn next(&self) -> Hold {
        let mut entries = self.value.entry_numbers(self.version);
        if entries.len() > MAX_ENTRIES {
            // The first one says what is held.
            entries.remove(1);
        }
        Hold { created: Some(self.value.created(self.at)), entries, ..self.value.clone() }
    }

    /// The hold as it is with these approvals, asked for at this time. The time of an approval counts from when it is first
    /// asked for; whatever is asked for later, people never have longer than before.
    fn asking(&self, asked: BTreeSet<Arc<str>>, rules: &Rules, now: StoreTime) -> Hold {
        let waited = now.since(self.value.created(self.at));
        let ends =
            shortest(asked.difference(&self.value.asked), rules).map(|time| whole_secs(waited.saturating_add(time)));
        let lasts = ends.map_or(self.value.lasts, |ends| ends.min(self.value.lasts));
        Hold { lasts, asked, ..self.next() }
    }

    fn replace(&self, hold: &Hold, keep: Keep) -> Step {
        Step::Replace { key: self.key.clone(), version: self.version, value: encode_hold(hold), keep }
    }

    fn commit(&self, steps: Vec<Step>, entry: &Entry, node: &NodeId) -> Commit {
        Commit { environment: self.key.environment, node: node.clone(), steps, entry: entry.to_bytes() }
    }
}

/// Makes a hold: its claim, its record and its place in one commit, with the guards of the decision. `used`: the holds
/// that the environment is assumed to have.
#[expect(clippy::too_many_arguments, reason = "each is another part of one commit")]
pub fn hold(
    held: &Held,
    rules: &Rules,
    id: &HoldId,
    headers: &HeaderMap,
    (node, operand_key): (&NodeId, &OperandKey),
    trace: &TraceId,
    again: Option<Versioned<'_, Claim>>,
    (room, used): (HoldRoom, HoldUse),
) -> Commit {
    let (intent, grounds) = (held.intent(), held.grounds());
    let named = intent.name();
    let asked = grounds.verdict.approvals.clone();
    let hold = Hold {
        id: id.clone(),
        claim: named.key.name.clone(),
        by: intent.caller().known(),
        operation: intent.operation().id.clone(),
        method: intent.operation().method.clone(),
        request_id: named.request_id.clone(),
        fingerprint: intent.fingerprint(),
        sent: SentRequest::of(intent),
        headers: headers.clone(),
        trace: trace.clone(),
        causes: HoldCauses::of(&grounds.verdict),
        lasts: shortest(asked.iter(), rules).unwrap_or_default(),
        asked,
        votes: Vec::new(),
        notes: Vec::new(),
        created: None,
        entries: Vec::new(),
        tries: 0,
        reminded: false,
        state: HoldState::Pending,
    };
    let environment = intent.environment();
    let key = RecordKey { environment, kind: Kind::Hold, name: id.to_string() };
    let (_, mut steps) = claim::wait(intent, id, trace, again);
    steps.push(Step::Create { key, value: encode_hold(&hold), keep: Keep::Forever });
    steps.push(Step::IndexAdd { index: Index::Held, member: id.to_string(), due: hold.lasts });
    steps.extend(room.place(&hold, used));
    steps.extend(grounds.guards());
    let entry = intent.entry(EntryKind::Held, trace).claim(&named.key, named.request_id.as_ref());
    let entry = entry.with("hold", id.as_str()).with("decision", grounds.to_json());
    let entry = entry.with("operands", grounds.operands(intent, operand_key)).with("causes", hold.causes.to_json());
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Records a vote, for these members. `complete`: this vote completes every approval that is needed.
pub fn vote(
    here: Versioned<'_, Hold>,
    vote: Vote,
    voice: BTreeSet<String>,
    complete: bool,
    needed: NeededApprovals,
    rules: &Rules,
    node: &NodeId,
) -> Commit {
    let mut hold = here.asking(needed.names, rules, vote.at);
    let left = hold.deadline(here.at).since(vote.at);
    let entry = entry(EntryKind::Voted, here).by(&vote.person.issuer, &vote.person.subject).with("complete", complete);
    let entry = entry
        .with("comment", vote.comment.clone())
        .with("causes", vote.causes.to_hex())
        .with("for", voice.into_iter().collect::<Vec<_>>());
    let entry = match &vote.signed {
        Some(signed) => entry.with("signed", signed).with("figures", hold.causes.figures_digest().to_hex()),
        None => entry,
    };
    hold.votes.retain(|before| !before.person.is_same_person(&vote.person));
    hold.votes.push(vote);
    let mut steps = vec![Step::Before(here.deadline())];
    steps.extend(needed.guards);
    if hold.lasts != here.value.lasts {
        steps.push(Step::IndexAdd { index: Index::Held, member: hold.id.to_string(), due: left });
    }
    if complete && let Ok(state) = after(&hold.state, HoldEvent::Completed, None) {
        hold.state = state;
        steps.push(Step::IndexAdd { index: Index::Approved, member: hold.id.to_string(), due: Duration::ZERO });
    }
    steps.push(here.replace(&hold, Keep::Forever));
    here.commit(steps, &entry, node)
}

/// Withdraws a vote; `None` where there was none, or the quorum is complete.
pub fn withdraw(here: Versioned<'_, Hold>, person: &Owner, node: &NodeId) -> Option<Commit> {
    let mut hold = here.next();
    hold.votes.retain(|vote| !vote.person.is_same_person(person));
    if hold.votes.len() == here.value.votes.len() || hold.state != HoldState::Pending {
        return None;
    }
    let entry = entry(EntryKind::Withdrawn, here).by(&person.issuer, &person.subject);
    Some(here.commit(vec![Step::Before(here.deadline()), here.replace(&hold, Keep::Forever)], &entry, node))
}

/// Records a remark.
pub fn note(here: Versioned<'_, Hold>, note: HoldNote, node: &NodeId) -> Commit {
    let mut hold = here.next();
    let entry =
        entry(EntryKind::Noted, here).by(&note.person.issuer, &note.person.subject).with("text", note.text.as_str());
    hold.notes.push(note);
    here.commit(vec![Step::Before(here.deadline()), here.replace(&hold, Keep::Forever)], &entry, node)
}

/// Ends a hold because the store may have lost its votes or its release, whatever its deadline and its claim.
/// `of_claim` is its claim, if that is still held.
pub fn forget(
    here: Versioned<'_, Hold>,
    of_claim: Option<Versioned<'_, Claim>>,
    node: &NodeId,
    terms: &Terms,
) -> Option<Commit> {
    let declined = Declined { how: Decline::Forgotten, reason: None };
    let state = after(&here.value.state, HoldEvent::Declined(Decline::Forgotten), None).ok()?;
    let mut steps = vec![here.replace(&Hold { state, ..here.next() }, ended(terms))];
    steps.extend(of_claim.and_then(|of_claim| claim::decline(of_claim, declined, terms)));
    steps.extend(no_longer(here.value, terms));
    Some(here.commit(
        steps,
        &entry(EntryKind::Expired, here).with("reason", "the store may have lost votes or rejections of it"),
        node,
    ))
}

/// The steps that end a hold in the commit that proves its call executed by an earlier attempt.
pub fn overtaken(here: Versioned<'_, Hold>, terms: &Terms) -> Vec<Step> {
    let reason = Some("an earlier attempt of this call was executed".to_owned());
    let Ok(state) = after(&here.value.state, HoldEvent::Declined(Decline::Blocked), reason) else { return Vec::new() };
    let ended = here.replace(&Hold { state, ..here.next() }, ended(terms));
    [ended].into_iter().chain(no_longer(here.value, terms)).collect()
}

/// Ends a hold whose claim waits for it no longer; the claim stays as it is. `guard`: that the claim has not changed
/// since it was read.
pub fn end_orphan(
    here: Versioned<'_, Hold>,
    guard: Option<Step>,
    reason: &str,
    node: &NodeId,
    terms: &Terms,
) -> Option<Commit> {
    let declined = HoldEvent::Declined(Decline::Blocked);
    let state = after(&here.value.state, declined, Some(reason.to_owned())).ok()?;
    let mut steps = vec![here.replace(&Hold { state, ..here.next() }, ended(terms))];
    steps.extend(guard);
    steps.extend(no_longer(here.value, terms));
    Some(here.commit(steps, &entry(EntryKind::Blocked, here).with("reason", reason), node))
}

/// Ends a hold and its claim; `said` is the person's remark. Guarded by the store's time: only the expiry happens after
/// the deadline, and never before it.
pub fn decline(
    here: Versioned<'_, Hold>,
    of_claim: Versioned<'_, Claim>,
    declined: Declined,
    said: Option<HoldNote>,
    node: &NodeId,
    terms: &Terms,
) -> Option<Commit> {
    let (how, reason) = (declined.how, declined.reason.clone());
    let state = after(&here.value.state, HoldEvent::Declined(how), reason.clone()).ok()?;
    let (what, guard) = match how {
        Decline::Rejected => (EntryKind::Rejected, Step::Before(here.deadline())),
        Decline::Cancelled => (EntryKind::Cancelled, Step::Before(here.deadline())),
        Decline::Blocked => (EntryKind::Blocked, Step::Before(here.deadline())),
        Decline::Expired => (EntryKind::Expired, Step::After(here.deadline())),
        Decline::Forgotten => return forget(here, Some(of_claim), node, terms),
    };
    let mut entry = entry(what, here);
    let mut hold = Hold { state, ..here.next() };
    if let Some(note) = said {
        entry = entry.by(&note.person.issuer, &note.person.subject);
        hold.notes.push(note);
    }
    if let Some(reason) = reason {
        entry = entry.with("reason", reason);
    }
    let of_claim = claim::decline(of_claim, declined, terms)?;
    let mut steps = vec![guard, of_claim, here.replace(&hold, ended(terms))];
    steps.extend(no_longer(here.value, terms));
    Some(here.commit(steps, &entry, node))
}

/// The steps on a hold in the commit that begins its attempt; `None` where it must not be sent.
pub fn released(here: Versioned<'_, Hold>, terms: &Terms) -> Option<Vec<Step>> {
    let state = after(&here.value.state, HoldEvent::Released, None).ok()?;
    let hold = Hold { state, ..here.next() };
    // A store that lost records may have lost that this hold was sent.
    let whole = Step::Absent(Freeze::Restored.key(here.key.environment));
    let mut steps = vec![Step::Before(here.deadline()), whole, here.replace(&hold, ended(terms))];
    steps.extend(no_longer(&hold, terms));
    Some(steps)
}

/// The steps that approve a hold again after a call that was certainly not sent.
pub fn approve_again(here: Versioned<'_, Hold>, now: StoreTime) -> Result<Vec<Step>, ImpossibleHoldEvent> {
    let state = after(&here.value.state, HoldEvent::NotSent, None)?;
    let hold = Hold { state, tries: here.value.tries.saturating_add(1), ..here.next() };
    let doubled = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(here.value.tries).unwrap_or(u32::MAX));
    let (member, left) = (hold.id.to_string(), here.deadline().since(now));
    Ok(vec![
        here.replace(&hold, Keep::Forever),
        Step::IndexAdd { index: Index::Held, member: member.clone(), due: left },
        Step::IndexRemove { index: Index::Ended, member: member.clone() },
        Step::IndexAdd { index: Index::Approved, member, due: doubled.min(LONGEST_PAUSE).min(left) },
    ])
}

/// Reopens a hold that needs more approvals. Votes do not count for causes that their voters were not shown: everybody votes
/// again. Guarded by the facts of the decision.
pub fn reopen(here: Versioned<'_, Hold>, unreached: Unreached, rules: &Rules, node: &NodeId) -> Option<Commit> {
    let now = unreached.grounds().now();
    let mut steps = vec![Step::Before(here.deadline())];
    steps.extend(unreached.grounds().guards());
    let state = after(&here.value.state, HoldEvent::Reopened, None).ok()?;
    let mut hold = Hold { state, ..here.asking(unreached.asked, rules, now) };
    if let Some(causes) = unreached.other_causes {
        hold.causes = hold.causes.and(causes);
        hold.votes.clear();
    }
    let names: Vec<&str> = hold.asked.iter().map(|name| &**name).collect();
    let entry = entry(EntryKind::Reopened, here).with("approvals", names).with("causes", hold.causes.to_json());
    let left = hold.deadline(here.at).since(now);
    steps.extend([
        here.replace(&hold, Keep::Forever),
        Step::IndexRemove { index: Index::Approved, member: hold.id.to_string() },
        Step::IndexAdd { index: Index::Held, member: hold.id.to_string(), due: left },
    ]);
    Some(here.commit(steps, &entry, node))
}

/// Records the reminder; `None` where it was sent before, or nothing is left to decide.
pub fn remind(here: Versioned<'_, Hold>, node: &NodeId) -> Option<Commit> {
    if here.value.reminded || !here.value.state.is_open() {
        return None;
    }
    let hold = Hold { reminded: true, ..here.next() };
    let steps = vec![Step::Before(here.deadline()), here.replace(&hold, Keep::Forever)];
    Some(here.commit(steps, &entry(EntryKind::Reminded, here), node))
}

/// The shortest time of these approvals.
fn shortest<'a>(asked: impl Iterator<Item = &'a Arc<str>>, rules: &Rules) -> Option<Duration> {
    asked.filter_map(|name| rules.approvals.get(name)).map(|approval| approval.expires).min()
}

/// Records have whole seconds: nobody has less time for that.
fn whole_secs(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)))
}

/// The steps by which a hold is no longer open: it leaves the indexes of open holds, and gives its place back.
fn no_longer(hold: &Hold, terms: &Terms) -> Vec<Step> {
    let id = &hold.id;
    let kept = match ended(terms) {
        Keep::For { whole, .. } => whole,
        Keep::Forever => FOR_GOOD,
    };
    let open = [Index::Held, Index::Approved].map(|index| Step::IndexRemove { index, member: id.to_string() });
    let over = Step::IndexAdd { index: Index::Ended, member: id.to_string(), due: kept };
    open.into_iter().chain([over]).chain(room::give_back(hold)).collect()
}

/// A closed hold is kept as long as its answer.
fn ended(terms: &Terms) -> Keep {
    match terms.keep {
        Keep::For { whole, .. } => Keep::For { whole, spent: Duration::ZERO },
        Keep::Forever => Keep::Forever,
    }
}

fn entry(what: EntryKind, here: Versioned<'_, Hold>) -> Entry {
    let Hold { id, claim, by, operation, request_id, fingerprint, trace, .. } = here.value;
    let claim = RecordKey { environment: here.key.environment, kind: Kind::Claim, name: claim.clone() };
    Entry::of(what)
        .with("hold", id.as_str())
        .claim(&claim, request_id.as_ref())
        .operation(operation)
        .owner(&by.issuer, &by.subject)
        .fingerprint(*fingerprint)
        .trace(trace)
}
