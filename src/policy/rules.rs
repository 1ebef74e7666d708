//! The compiled set, and its verdict on a request.
//!
//! Every rule counts, and their order has no meaning: Deny beats Hold beats Allow; no match is Deny, and a missing fact
//! is Deny. Rules are indexed by operation and by the names in their conditions, so that a decision costs only as much
//! as the few rules that could match.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::acquaintance::fact_name;
use super::condition::{Condition, Sense, cooldowns};
use super::descriptions::Descriptions;
use super::limit::{Limit, Reservation};
use super::limit_figures::{LimitFigures, OverWindow};
use super::literal::NO_VALUE;
use super::rate::Mode;
use super::request::{Facts, PolicyRequest, Valuation, View};
use super::rule::{Effect, Rule};
use super::rule_index::RuleIndex;
use super::signing::{SignableAct, Signing};
use super::words::Approval;
use super::words::Groups;
use crate::base::ids::OperationId;
use crate::base::money::MicroUsd;
use crate::base::pointer::Pointer;
use crate::catalog::Movement;
use crate::ledger::MAX_UNITS;

/// Rules and limits, ready to decide.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub rules: Vec<Rule>,
    pub limits: Vec<Limit>,
    pub approvals: BTreeMap<Arc<str>, Approval>,
    /// The people who may approve.
    pub groups: Groups,
    pub valuation: Valuation,
    pub descriptions: Descriptions,
    /// The ground of signed votes; `None` if no vote can be signed.
    pub signing: Option<Signing>,
    pub(super) cooldowns: BTreeSet<Duration>,
    pub(super) index: HashMap<OperationId, RuleIndex>,
}

/// The effect on a request, and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub effect: Effect,
    /// The reasons of the effect, sorted.
    pub reasons: Vec<Reason>,
    /// Rules that matched too, with a weaker effect.
    pub outweighed: Vec<Reason>,
    /// The approvals that must all be completed, if it is held.
    pub approvals: BTreeSet<Arc<str>>,
    /// The reservations to make before it is sent.
    pub reservations: Vec<Reservation>,
    /// The stored facts that were used: destinations, and whether they were paid before.
    pub assumed: BTreeMap<String, bool>,
    /// The effects that rules and limits in shadow mode would have had.
    pub shadows: Vec<Reason>,
    pub value: Option<MicroUsd>,
    /// Each name of whom it pays, as the destination is known by it afterwards.
    pub payees: Vec<String>,
}

/// A rule or limit that took part, or a fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    pub effect: Effect,
    pub cause: Cause,
    pub text: String,
    /// The approval that a hold waits for.
    pub approval: Option<Arc<str>>,
    /// The window that a call exceeds which a limit holds.
    pub over: Option<OverWindow>,
    /// The figures of a limit that denies the call.
    pub figures: Option<LimitFigures>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    Rule(Arc<str>),
    Limit(Arc<str>),
    /// No rule: the gate's own default.
    Gate,
}

impl Cause {
    /// Returns the name of the rule or limit; no two have the same.
    pub fn name(&self) -> Option<&str> {
        match self {
            Cause::Rule(id) | Cause::Limit(id) => Some(id),
            Cause::Gate => None,
        }
    }
}

impl Rules {
    pub(super) fn new(
        rules: Vec<Rule>,
        limits: Vec<Limit>,
        approvals: BTreeMap<Arc<str>, Approval>,
        groups: Groups,
        valuation: Valuation,
    ) -> Rules {
        let index = RuleIndex::by_operation(&rules, &limits);
        let of_rules = rules.iter().flat_map(|rule| &rule.when.conditions);
        let cooldowns = cooldowns(of_rules.chain(limits.iter().flat_map(|limit| &limit.conditions)));
        let descriptions = Descriptions::default();
        Rules { rules, limits, approvals, groups, valuation, descriptions, signing: None, cooldowns, index }
    }

    /// Returns the webhooks that hear of a payment that fails or comes back, by the limits that count it.
    pub fn alerted<'r>(&'r self, limits: impl Iterator<Item = &'r str>) -> BTreeSet<&'r str> {
        let named: BTreeSet<&str> = limits.collect();
        let counting = self.limits.iter().filter(|limit| named.contains(&*limit.id));
        counting.flat_map(|limit| limit.alert.iter().map(|name| &**name)).collect()
    }

    /// Decides a request.
    pub fn decide(&self, asked: &PolicyRequest<'_>, facts: &Facts) -> Verdict {
        let view = View::of(asked, &self.valuation, facts);
        let mut draft = VerdictDraft::of(self);
        if let Some(Err(fault)) = view.value {
            draft.say(Mode::Enforce, Effect::Deny, Cause::Gate, fault.to_string());
        }
        for side in asked.movement.into_iter().flat_map(Movement::wallets_without_chain) {
            let text = format!("the chain of the {side} wallet is missing or unknown");
            draft.say(Mode::Enforce, Effect::Deny, Cause::Gate, text);
        }
        let found = self.index.get(&asked.operation.id);
        let mut matched = Vec::new();
        for rule in found.map(|found| found.candidates(&view)).unwrap_or_default() {
            let Some(rule) = self.rules.get(rule) else { continue };
            draft.assume(&rule.when.conditions, rule.sense(), &view, facts);
            let cause = Cause::Rule(rule.id.clone());
            match rule.matches(&view, facts) {
                Ok(false) => continue,
                Ok(true) => draft.say_of(rule, cause),
                // The gate has said why.
                Err(NO_VALUE) => {}
                Err(untold) => draft.say(rule.mode, Effect::Deny, cause, untold.0.to_owned()),
            }
            if rule.mode == Mode::Enforce {
                matched.push(rule);
            }
        }
        unnamed(&matched, asked, &mut draft);
        for limit in found.into_iter().flat_map(RuleIndex::limits) {
            if let Some(limit) = self.limits.get(*limit) {
                draft.count(limit, &view, facts);
            }
        }
        draft.verdict(&view)
    }

    /// Returns the fields of bodies that the rules and limits of an operation name.
    pub fn places(&self, operation: &OperationId) -> &[Pointer] {
        self.index.get(operation).map_or(&[], RuleIndex::places)
    }

    /// Returns the rules that fail by one condition only, with that condition.
    pub fn near(&self, asked: &PolicyRequest<'_>, facts: &Facts) -> Vec<(&Rule, &Condition)> {
        let view = View::of(asked, &self.valuation, facts);
        let about = |rule: &&Rule| rule.when.operations.contains(&asked.operation.id);
        let near = |rule| Some((rule, Rule::near(rule, &view, facts)?));
        self.rules.iter().filter(about).filter_map(near).collect()
    }
}

impl Rules {
    /// Returns whether an approval takes only signed votes.
    pub fn is_signed(&self, approval: &str) -> bool {
        self.approvals.get(approval).is_some_and(|approval| approval.signed)
    }

    /// Whether both people of such an act must sign it.
    pub fn must_sign(&self, act: SignableAct) -> bool {
        self.signing.as_ref().is_some_and(|signing| signing.acts.contains(&act))
    }

    pub fn has_signed(&self) -> bool {
        self.approvals.values().any(|approval| approval.signed)
    }

    /// Returns whether a person, named as in groups, has a passkey.
    pub fn is_enrolled(&self, person: &str) -> bool {
        self.signing.as_ref().is_some_and(|signing| signing.of(person).next().is_some())
    }
}

/// Denies fields that no value covers, that the body has, and that no matched rule names.
fn unnamed(matched: &[&Rule], asked: &PolicyRequest<'_>, draft: &mut VerdictDraft<'_>) {
    for pointer in asked.operation.fields_to_name() {
        let names = |rule: &&Rule| {
            let named = |condition: &Condition| matches!(condition, Condition::Body(place, _) if place.covers(pointer));
            rule.when.conditions.iter().any(named)
        };
        let is_stated = match asked.body.literals(pointer) {
            Ok(found) => !found.is_empty(),
            Err(untold) => {
                draft.say(Mode::Enforce, Effect::Deny, Cause::Gate, untold.0.to_owned());
                continue;
            }
        };
        if is_stated && !matched.iter().any(names) {
            let text = format!("`{pointer}` is stated, but no matching rule names it");
            draft.say(Mode::Enforce, Effect::Deny, Cause::Gate, text);
        }
    }
}

/// A verdict in progress.
#[derive(Debug)]
struct VerdictDraft<'d> {
    rules: &'d Rules,
    reasons: BTreeSet<Reason>,
    shadows: BTreeSet<Reason>,
    approvals: BTreeSet<Arc<str>>,
    reservations: Vec<Reservation>,
    assumed: BTreeMap<String, bool>,
}

impl<'d> VerdictDraft<'d> {
    fn of(rules: &'d Rules) -> VerdictDraft<'d> {
        let (reasons, shadows, approvals) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        VerdictDraft { rules, reasons, shadows, approvals, reservations: Vec::new(), assumed: BTreeMap::new() }
    }

    fn say(&mut self, mode: Mode, effect: Effect, cause: Cause, text: String) {
        self.put(mode, Reason { effect, cause, text, approval: None, over: None, figures: None });
    }

    fn put(&mut self, mode: Mode, mut reason: Reason) {
        if let (Mode::Enforce, Some(approval)) = (mode, &reason.approval) {
            self.approvals.insert(approval.clone());
        }
        if let Some(description) = self.rules.descriptions.of_cause(&reason.cause) {
            reason.text = format!("{}: {description}", reason.text);
        }
        let reasons = match mode {
            Mode::Enforce => &mut self.reasons,
            Mode::Shadow => &mut self.shadows,
        };
        reasons.insert(reason);
    }

    fn say_of(&mut self, rule: &Rule, cause: Cause) {
        let text = match (&rule.approval, rule.effect) {
            (Some(approval), _) => self.rules.asked_by(approval),
            (None, Effect::Allow) => "allowed by rule".to_owned(),
            (None, Effect::Deny) => "denied by rule".to_owned(),
            (None, Effect::Hold) => "held by rule".to_owned(),
        };
        let (effect, approval) = (rule.effect, rule.approval.clone());
        self.put(rule.mode, Reason { effect, cause, text, approval, over: None, figures: None });
    }

    /// Records the stored facts that conditions use: where they hold, and where only those facts make them fail.
    fn assume(&mut self, conditions: &[Condition], sense: Sense, view: &View<'_>, facts: &Facts) {
        let (stored, others): (Vec<_>, Vec<_>) =
            conditions.iter().partition(|condition| matches!(condition, Condition::NewDestination { .. }));
        let is_open = || others.iter().all(|condition| condition.holds(view, facts, sense) != Ok(false));
        if !stored.is_empty() && is_open() {
            let destinations = view.acquaintances();
            for cooldown in cooldowns(stored.into_iter()) {
                let known = destinations.iter().filter_map(|name| facts.paid.get_key_value(&fact_name(name, cooldown)));
                self.assumed.extend(known.map(|(name, paid)| (name.clone(), *paid)));
            }
        }
    }

    fn count(&mut self, limit: &Limit, view: &View<'_>, facts: &Facts) {
        let cause = || Cause::Limit(limit.id.clone());
        self.assume(&limit.conditions, Sense::Restricts, view, facts);
        let reservations = match limit.reservations(view, facts) {
            Ok(reservations) => reservations,
            Err(NO_VALUE) => return,
            Err(untold) => return self.say(limit.mode, Effect::Deny, cause(), untold.0.to_owned()),
        };
        let most = limit.most_in_words();
        let are_several = reservations.len() > 1;
        for reservation in reservations {
            // Which of several windows is full.
            let of = if are_several { limit.key_in_words(&reservation.window.key) } else { String::new() };
            let window = (reservation.window.limit.clone(), reservation.window.key.clone());
            let used = facts.exceeded.get(&window).copied();
            let is_over = reservation.units > reservation.max || used.is_some();
            match &limit.over {
                Some(approval) if is_over => {
                    // Other calls may use what is left of the limit until this one is sent.
                    let up_to = used.unwrap_or(0).max(reservation.max).saturating_add(reservation.units).min(MAX_UNITS);
                    let words = limit.max.describe(up_to);
                    let period = reservation.period.as_deref().map(str::to_owned);
                    let within = period.as_ref().map(|period| format!(" {period}")).unwrap_or_default();
                    let asked = self.rules.asked_by(approval);
                    let text = format!("over the limit of {most}{of}{within}, up to {words}: {asked}");
                    let over = Some(OverWindow { key: reservation.window.key.clone(), period, up_to, words });
                    let approval = Some(approval.clone());
                    let (effect, cause) = (Effect::Hold, cause());
                    self.put(limit.mode, Reason { effect, cause, text, approval, over, figures: None });
                }
                None if is_over => {
                    let figures = Some(LimitFigures::of(limit, &reservation, used, facts));
                    let (effect, cause, text) = (Effect::Deny, cause(), format!("over the limit of {most}{of}"));
                    self.put(limit.mode, Reason { effect, cause, text, approval: None, over: None, figures });
                }
                Some(_) | None => {}
            }
            self.reservations.push(reservation);
        }
    }

    fn verdict(mut self, view: &View<'_>) -> Verdict {
        // A limit stops what a rule allows; by itself it allows nothing.
        let is_named = self.reasons.iter().any(|reason| matches!(reason.cause, Cause::Rule(_)));
        if !is_named {
            self.say(Mode::Enforce, Effect::Deny, Cause::Gate, "no rule matches (denied by default)".to_owned());
        }
        let effect = self.reasons.iter().map(|reason| reason.effect).max().unwrap_or(Effect::Deny);
        let (reasons, outweighed) = self.reasons.into_iter().partition(|reason| reason.effect == effect);
        let is_denied = effect == Effect::Deny;
        let mut reservations = if is_denied { Vec::new() } else { self.reservations };
        reservations.sort_by(|a, b| a.window.cmp(&b.window));
        Verdict {
            effect,
            reasons,
            outweighed,
            approvals: if effect == Effect::Hold { self.approvals } else { BTreeSet::new() },
            reservations,
            assumed: self.assumed,
            shadows: self.shadows.into_iter().collect(),
            value: view.value.and_then(Result::ok),
            payees: view.payees(),
        }
    }
}
