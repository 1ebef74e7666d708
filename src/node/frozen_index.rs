//! The freezes that the store names, whatever their number: none that stops money or reads is cut off by others.
//!
//! People may freeze a bounded number of callers. A store can have more, because a journal tells a rebuilt store what people
//! froze. So the index is read to a far end; where it goes on even there, what stops all money is read by its own name, and
//! whoever asks learns that not all is known.

use crate::base::ids::Environment;
use crate::ledger::{Index, IndexPart, NodeId, StoreFault, StoreTime};
use crate::ports::Store;
use crate::stations::claim::Freeze;

/// The most freezes of callers and of callers' reads that people may make in an environment.
pub const MAX_FROZEN_CALLERS: usize = 1_000;
/// How many names are read at a time.
const PAGE: usize = 1_000;
/// How many pages are read.
const MAX_PAGES: usize = 10;

/// The freezes of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenIndex {
    /// Since when and what; those of callers come last, each kind by time.
    pub freezes: Vec<(StoreTime, Freeze)>,
    /// Whether the store has more.
    pub has_more: bool,
}

impl FrozenIndex {
    /// Reads the freezes. `node` is the gate whose own freeze is never cut off.
    pub async fn read(
        store: &(impl Store + ?Sized),
        environment: Environment,
        node: Option<&NodeId>,
    ) -> Result<FrozenIndex, StoreFault> {
        let (mut freezes, mut behind, mut has_more) = (Vec::new(), None, true);
        for _ in 0..MAX_PAGES {
            let page = IndexPart { backwards: false, behind, count: PAGE };
            let members = store.part(environment, Index::Frozen, page).await?;
            freezes.extend(members.iter().filter_map(|(since, name)| Some((*since, Freeze::parse(name)?))));
            has_more = members.len() >= PAGE;
            behind = members.into_iter().next_back();
            if !has_more {
                break;
            }
        }
        if has_more {
            let of_node = node.map(|node| Freeze::GateClock(node.clone()));
            for freeze in [Freeze::All, Freeze::Restored, Freeze::Clock].into_iter().chain(of_node) {
                let since = store.member(environment, Index::Frozen, &freeze.name()).await?;
                if let Some(since) = since.filter(|_| freezes.iter().all(|(_, known)| *known != freeze)) {
                    freezes.push((since, freeze));
                }
            }
        }
        freezes.sort_by_key(|(_, freeze)| freeze.is_of_caller());
        Ok(FrozenIndex { freezes, has_more })
    }

    /// Returns how many further callers people may freeze.
    pub fn room_for_callers(&self) -> usize {
        let callers = self.freezes.iter().filter(|(_, freeze)| freeze.is_of_caller()).count();
        MAX_FROZEN_CALLERS.saturating_sub(callers)
    }
}
