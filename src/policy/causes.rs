//! The causes of a hold, as its voters are shown them: rules and limits, with their figures.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::limit::{Max, Reservation};
use super::limit_figures::OverWindow;
use super::rule::Effect;
use super::rules::{Reason, Verdict};
use crate::base::digest::Fingerprint;
use crate::base::json::{self, Limits};

/// The causes of a hold. Votes count only for exactly these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldCauses(Vec<HoldCause>);

/// A rule or a limit that holds a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HoldCause {
    rule: Option<String>,
    /// The text that callers and voters get; it names the approval and the figures of a limit.
    text: String,
    approval: Option<Arc<str>>,
    /// For a limit, the window that the call exceeds.
    over: Option<OverWindow>,
}

/// Returns the digest of causes, each the name of its rule and its text.
pub fn causes_digest<'c>(causes: impl Iterator<Item = (Option<&'c str>, &'c str)>) -> Fingerprint {
    let parts = causes.flat_map(|(rule, text)| [rule.unwrap_or_default(), text]);
    Fingerprint::of(&parts.map(str::as_bytes).collect::<Vec<_>>())
}

impl HoldCauses {
    /// Returns the causes of a verdict that holds a call.
    pub fn of(verdict: &Verdict) -> HoldCauses {
        HoldCauses(verdict.reasons.iter().filter(|reason| reason.effect == Effect::Hold).map(HoldCause::of).collect())
    }

    /// Returns the digest that a vote names: SHA-256 over the rule and the text of each cause, each after its length.
    pub fn digest(&self) -> Fingerprint {
        causes_digest(self.0.iter().map(|cause| (cause.rule.as_deref(), cause.text.as_str())))
    }

    /// Returns the digest that a signed vote names besides: SHA-256 over everything that releases go by, as JSON.
    pub fn figures_digest(&self) -> Fingerprint {
        Fingerprint::of(&[self.figures().as_bytes()])
    }

    /// Returns the text of that digest, so that a page computes it from what it shows.
    pub fn figures(&self) -> String {
        json::to_form(self)
    }

    /// Reads causes from that text; `None` where it has another form, or figures that its words do not tell.
    pub fn of_figures(text: &str) -> Option<HoldCauses> {
        let causes: HoldCauses = json::from_slice(text.as_bytes(), Limits::ANSWER).ok()?;
        (causes.figures() == text && causes.0.iter().all(HoldCause::tells_its_figure)).then_some(causes)
    }

    /// Returns whether these contain all others, with figures at least as large.
    pub fn cover(&self, others: &HoldCauses) -> bool {
        others.0.iter().all(|other| self.0.iter().any(|cause| cause.covers(other)))
    }

    /// Returns these causes and the others; where both have a figure of a window, the other's.
    pub fn and(&self, others: HoldCauses) -> HoldCauses {
        let is_replaced = |cause: &&HoldCause| !others.0.iter().any(|other| other.is_about_the_same(cause));
        HoldCauses(self.0.iter().filter(is_replaced).cloned().chain(others.0.iter().cloned()).collect())
    }

    /// Returns how far a call may exceed a window, if an approval was asked for by its limit. A calendar window that began
    /// since is another one.
    pub fn beyond(&self, reservation: &Reservation, approval: &str) -> Option<&OverWindow> {
        let Reservation { window, period, .. } = reservation;
        let is_it = |cause: &&HoldCause| {
            cause.rule.as_deref() == Some(&*window.limit) && cause.approval.as_deref() == Some(approval)
        };
        let is_same = |over: &&OverWindow| over.key == window.key && over.period.as_deref() == period.as_deref();
        let over = self.0.iter().filter(is_it).filter_map(|cause| cause.over.as_ref());
        over.filter(is_same).max_by_key(|over| over.up_to)
    }

    /// Returns the names of the rules and limits.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|cause| cause.rule.as_deref())
    }

    /// Returns the names of the limits that the call exceeds.
    pub fn limits(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|cause| cause.over.is_some()).filter_map(|cause| cause.rule.as_deref())
    }

    /// Returns the causes as callers and voters get them.
    pub fn to_json(&self) -> Value {
        let told = |cause: &HoldCause| match &cause.rule {
            Some(rule) => json!({ "rule": rule, "text": cause.text }),
            None => json!({ "text": cause.text }),
        };
        self.0.iter().map(told).collect()
    }
}

impl HoldCause {
    fn of(reason: &Reason) -> HoldCause {
        let Reason { cause, text, approval, over, .. } = reason;
        let (rule, approval) = (cause.name().map(str::to_owned), approval.clone());
        HoldCause { rule, text: text.clone(), approval, over: over.clone() }
    }

    /// Returns whether the text says how far the call may exceed a window, and which one.
    fn tells_its_figure(&self) -> bool {
        self.over.as_ref().is_none_or(|OverWindow { up_to, words, period, .. }| {
            let is_it = |max: Max| max.describe(*up_to) == *words;
            let within = period.as_ref().map(|period| format!(" {period}")).unwrap_or_default();
            let is_told = self.text.contains(&format!("{within}, up to {words}: "));
            is_told && (is_it(Max::MicroUsd(*up_to)) || is_it(Max::Calls(*up_to)))
        })
    }

    fn is_about_the_same(&self, other: &HoldCause) -> bool {
        let key = |cause: &HoldCause| cause.over.as_ref().map(|over| over.key.clone());
        self.rule == other.rule && key(self) == key(other)
    }

    fn covers(&self, other: &HoldCause) -> bool {
        let up_to = |cause: &HoldCause| cause.over.as_ref().map(|over| over.up_to);
        let period = |cause: &HoldCause| cause.over.as_ref().and_then(|over| over.period.clone());
        let is_same = self.is_about_the_same(other) && self.approval == other.approval;
        is_same && period(self) == period(other) && up_to(self) >= up_to(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{WindowKey, WindowSpan};
    use crate::policy::Mode;

    fn cause(rule: &str, approval: &str, over: Option<(&str, u64)>) -> HoldCause {
        let window = |(key, up_to): (&str, u64)| OverWindow {
            key: key.to_owned(),
            period: Some("in 2026-12 (UTC)".to_owned()),
            up_to,
            words: String::new(),
        };
        let over = over.map(window);
        let text = format!("held for `{approval}`{over:?}");
        HoldCause { rule: Some(rule.to_owned()), text, approval: Some(approval.into()), over }
    }

    #[test]
    fn figures_are_read_where_the_words_tell_them() {
        let within = |period: Option<&str>, text: &str, up_to: u64, words: &str| {
            let (period, words) = (period.map(str::to_owned), words.to_owned());
            let over = Some(OverWindow { key: "{}".to_owned(), period, up_to, words });
            let rule = Some("day".to_owned());
            HoldCauses(vec![HoldCause { rule, text: text.to_owned(), approval: None, over }])
        };
        let with = |text: &str, up_to: u64, words: &str| within(None, text, up_to, words);
        let of_month = |period: &str| {
            within(
                Some(period),
                "over the limit of 1000 USD in 2026-12 (UTC), up to 1500 USD: needs one",
                1_500_000_000,
                "1500 USD",
            )
        };
        let told = "over the limit of 1000 USD, up to 1500 USD: needs one";
        let table = [
            (with(told, 1_500_000_000, "1500 USD"), true),
            (with(told, 1_500_000_001, "1500 USD"), false),
            (with(told, 15_000_000_000, "15000 USD"), false),
            (with("over the limit of 1000 USD: needs one", 1_500_000_000, "1500 USD"), false),
            (with("over the limit of 2 calls, up to 3 calls: needs one", 3, "3 calls"), true),
            (with("over the limit of 2 calls, up to 3 calls: needs one", 4, "3 calls"), false),
            (of_month("in 2026-12 (UTC)"), true),
            (of_month("in 2027-01 (UTC)"), false),
        ];
        for (causes, is_read) in table {
            let text = causes.figures();
            assert_eq!(HoldCauses::of_figures(&text), is_read.then_some(causes), "{text}");
        }
        let plain = HoldCauses(vec![cause("large", "one", None)]).figures();
        assert!(HoldCauses::of_figures(&plain).is_some());
        for other in [format!(" {plain}"), plain.replace("\"rule\"", "\"more\""), "{}".to_owned(), String::new()] {
            assert_eq!(HoldCauses::of_figures(&other), None, "{other}");
        }
    }

    #[test]
    fn causes_cover_the_same_and_smaller_figures() {
        let shown = HoldCauses(vec![cause("large", "one", None), cause("day", "one", Some(("a", 7)))]);
        let table = [
            (cause("large", "one", None), true),
            (cause("large", "two", None), false),
            (cause("other", "one", None), false),
            (cause("day", "one", Some(("a", 7))), true),
            (cause("day", "one", Some(("a", 6))), true),
            (cause("day", "one", Some(("a", 8))), false),
            (cause("day", "one", Some(("b", 7))), false),
            (cause("day", "two", Some(("a", 7))), false),
        ];
        for (other, is_covered) in table {
            assert_eq!(shown.cover(&HoldCauses(vec![other.clone()])), is_covered, "{other:?}");
        }
        assert!(shown.cover(&HoldCauses::default()));
        let beyond_in = |causes: &HoldCauses, key: &str, approval: &str, period: &str| {
            let reservation = Reservation {
                window: WindowKey { limit: "day".to_owned(), key: key.to_owned() },
                span: WindowSpan::ALWAYS,
                units: 1,
                max: 1,
                over: Some(approval.into()),
                period: Some(period.into()),
                mode: Mode::Enforce,
            };
            causes.beyond(&reservation, approval).map(|over| over.up_to)
        };
        let december = "in 2026-12 (UTC)";
        let beyond = |causes: &HoldCauses, key: &str, approval: &str| beyond_in(causes, key, approval, december);
        assert_eq!(beyond(&shown, "a", "one"), Some(7));
        assert_eq!((beyond(&shown, "a", "two"), beyond(&shown, "b", "one")), (None, None));
        // The next month is another window, of which its voters were shown nothing.
        assert_eq!(beyond_in(&shown, "a", "one", "in 2027-01 (UTC)"), None);
        let mut later = cause("day", "one", Some(("a", 6)));
        later.over.as_mut().unwrap().period = Some("in 2027-01 (UTC)".to_owned());
        let later = HoldCauses(vec![later]);
        assert!(!shown.cover(&later));
        let shown_again = shown.and(later.clone());
        assert!(shown_again.cover(&later) && shown_again.0.len() == 2, "the former month is replaced");
        let more = shown.and(HoldCauses(vec![cause("day", "one", Some(("a", 9))), cause("new", "one", None)]));
        assert_eq!(beyond(&more, "a", "one"), Some(9));
        assert_eq!(more.rules().collect::<Vec<_>>(), ["large", "day", "new"]);
        assert_eq!(more.limits().collect::<Vec<_>>(), ["day"], "a rule is no limit");
        assert_ne!(more.digest(), shown.digest());
        assert!(more.cover(&shown) && !shown.cover(&more));
    }
}
