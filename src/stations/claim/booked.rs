//! What an attempt has booked beside its claim: its share of windows, and where its money goes.

use std::time::Duration;

use super::state::Nonce;
use crate::catalog::Class;
use crate::commit::{Index, Step, WindowKey};
use crate::stations::decide::Grounds;

/// What is settled or given back with the outcome of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Booked {
    /// In whose name the windows hold it: one of this attempt alone.
    pub holder: String,
    pub windows: Vec<WindowKey>,
    /// Where its money goes, by names among what was paid.
    pub pays: Vec<String>,
}

impl Booked {
    pub(super) fn of(grounds: &Grounds, class: Class, nonce: &Nonce) -> Booked {
        Booked { holder: nonce.0.clone(), windows: grounds.windows().cloned().collect(), pays: grounds.paid(class) }
    }

    /// It was executed: it counts for good, and its destination was paid.
    pub(super) fn executed(&self) -> Vec<Step> {
        let settle = |window: &WindowKey| Step::Settle { window: window.clone(), holder: self.holder.clone() };
        let paid = |name: &String| Step::IndexAdd { index: Index::Paid, member: name.clone(), due: Duration::ZERO };
        self.windows.iter().map(settle).chain(self.pays.iter().map(paid)).collect()
    }

    /// Certainly nothing was executed.
    pub(super) fn given_back(&self) -> Vec<Step> {
        let give_back = |window: &WindowKey| Step::GiveBack { window: window.clone(), holder: self.holder.clone() };
        self.windows.iter().map(give_back).collect()
    }
}
