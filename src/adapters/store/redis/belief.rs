//! What a node knows of the store, told with every call: who does not find it so is answered by nobody.
//!
//! Its *generation* is a random word that the store was begun with: one that is empty, or another's, has not that. And
//! the highest number that this very node was told of a commit of its own: what the store keeps of it only this node
//! moves, so that commits of others never hide that it is behind.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::roll::Heard;
use super::words::Words;
use crate::base::ids::Environment;
use crate::commit::{Commit, NodeId, Number};

#[derive(Debug)]
pub(super) struct Beliefs {
    pub node: NodeId,
    production: Mutex<Belief>,
    sandbox: Mutex<Belief>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Belief {
    /// None before it has met the store.
    pub generation: Option<String>,
    /// Of its own commits.
    pub highest: u64,
    /// Of all, as the store told it.
    pub seen: u64,
    /// What was heard when all was well.
    pub heard: Option<Heard>,
}

impl Beliefs {
    pub fn of(node: NodeId) -> Beliefs {
        Beliefs { node, production: Mutex::default(), sandbox: Mutex::default() }
    }

    pub fn at(&self, environment: Environment) -> MutexGuard<'_, Belief> {
        let place = match environment {
            Environment::Production => &self.production,
            Environment::Sandbox => &self.sandbox,
        };
        place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a call says of itself.
    pub fn words(&self, environment: Environment, run: &str, head: Words) -> Words {
        let belief = self.at(environment);
        let generation = belief.generation.as_deref().unwrap_or_default();
        head.word(self.node.as_str()).word(generation).word(run).number(belief.highest)
    }

    pub fn committed(&self, commit: &Commit, number: Number) {
        if commit.node == self.node {
            self.at(commit.environment).has(number.as_u64());
        }
    }
}

impl Belief {
    pub fn has(&mut self, number: u64) {
        self.highest = self.highest.max(number);
    }
}
