//! What orders holds, of those that were read before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most open holds of an environment that can be put in another order than that of their expiry.
pub(super) const MAX_RANKED: usize = 20_000;

/// What orders a hold.
#[derive(Debug)]
pub(super) struct RankFacts {
    /// In micro-USD.
    pub value: Option<u64>,
    pub caller: String,
    /// The lists that know the destination, and its name.
    pub destination: String,
}

/// The facts of holds that were read before.
#[derive(Debug, Default)]
pub struct HoldRanks(Mutex<RankMemory>);

#[derive(Debug, Default)]
struct RankMemory {
    /// The version of the policies by which the facts were read.
    version: String,
    facts: HashMap<String, Arc<RankFacts>>,
}

impl HoldRanks {
    pub(super) fn known(&self, version: &str, name: &str) -> Option<Arc<RankFacts>> {
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.facts.get(name).filter(|_| memory.version == version).cloned()
    }

    pub(super) fn keep(&self, version: &str, name: &str, facts: RankFacts) -> Arc<RankFacts> {
        let facts = Arc::new(facts);
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Both environments have room; holds that ended leave with the others.
        if memory.version != version || memory.facts.len() >= MAX_RANKED.saturating_mul(2) {
            *memory = RankMemory { version: version.to_owned(), facts: HashMap::new() };
        }
        memory.facts.insert(name.to_owned(), facts.clone());
        facts
    }
}
