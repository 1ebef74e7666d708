//! Outcomes that the store took, and whose entries are not on this node's disk yet: a store that loses its memory now
//! loses them, and gets them again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Node;
use crate::base::ids::Environment;
use crate::ledger::Number;
use crate::stations::claim::{ClaimEvent, Settlement};

#[derive(Debug, Default)]
pub struct FreshOutcomes {
    parts: Mutex<FreshParts>,
}

#[derive(Debug, Default)]
struct FreshParts {
    /// By the number of the commit that stored the outcome.
    fresh: BTreeMap<(Environment, Number), (Settlement, ClaimEvent)>,
    /// Outcomes that a lost store may have lost.
    lost: Vec<(Environment, Settlement, ClaimEvent)>,
}

impl FreshOutcomes {
    fn parts(&self) -> MutexGuard<'_, FreshParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, environment: Environment, number: Number, settlement: &Settlement, event: &ClaimEvent) {
        self.parts().fresh.insert((environment, number), (settlement.clone(), event.clone()));
    }

    /// The journal has every entry up to this number.
    pub(super) fn are_on_disk(&self, environment: Environment, up_to: Number) {
        self.parts().fresh.retain(|(of, number), _| *of != environment || *number > up_to);
    }

    /// The store lost its memory, and perhaps these outcomes.
    pub(super) fn are_lost(&self, environment: Environment) {
        let mut parts = self.parts();
        let (lost, fresh) = std::mem::take(&mut parts.fresh).into_iter().partition(|((of, _), _)| *of == environment);
        parts.fresh = fresh;
        let lost: BTreeMap<(Environment, Number), (Settlement, ClaimEvent)> = lost;
        parts.lost.extend(lost.into_values().map(|(settlement, event)| (environment, settlement, event)));
    }

    fn take_lost(&self, environment: Environment) -> Vec<(Environment, Settlement, ClaimEvent)> {
        let mut parts = self.parts();
        let (lost, others) = std::mem::take(&mut parts.lost).into_iter().partition(|(of, ..)| *of == environment);
        parts.lost = others;
        lost
    }
}

impl Node {
    /// Stores outcomes again that a lost store may have lost; for one that it still has, this does nothing.
    pub(super) fn store_lost_outcomes(self: &Arc<Self>, environment: Environment) {
        for (_, settlement, event) in self.fresh.take_lost(environment) {
            let node = self.clone();
            self.settling.spawn(async move {
                if let Err(fault) = node.try_to_settle(&settlement, &event).await {
                    node.told_of(&fault);
                }
            });
        }
    }
}
