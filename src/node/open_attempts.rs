//! The attempts that this process still works on: it sends them, listens for their answers, or has to store their
//! outcomes. While one is open, people must not say that it was not executed: this gate may hold the proof that it was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::ids::Environment;
use crate::ledger::Number;

/// The open attempts, each with the number of those who work on it.
#[derive(Clone, Debug, Default)]
pub struct OpenAttempts {
    open: Arc<Mutex<BTreeMap<(Environment, Number), usize>>>,
}

/// Work on one attempt; it ends when this is dropped.
#[derive(Debug)]
pub struct OpenAttempt {
    of: OpenAttempts,
    key: (Environment, Number),
}

impl OpenAttempts {
    pub fn open(&self, environment: Environment, attempt: Number) -> OpenAttempt {
        let key = (environment, attempt);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(key).or_default();
        *count = count.saturating_add(1);
        OpenAttempt { of: self.clone(), key }
    }

    /// Keeps an attempt open as long as the process lives: it may hold a proof that it cannot tell.
    pub fn keep_open(&self, environment: Environment, attempt: Number) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry((environment, attempt)).or_default();
        *count = count.saturating_add(1);
    }

    /// Returns the earliest open attempt of an environment.
    pub fn earliest(&self, environment: Environment) -> Option<Number> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.keys().filter(|(of, _)| *of == environment).map(|(_, attempt)| *attempt).min()
    }
}

impl Drop for OpenAttempt {
    fn drop(&mut self) {
        let mut open = self.of.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_open_as_long_as_somebody_works_on_it() {
        let (all, environment) = (OpenAttempts::default(), Environment::Production);
        assert_eq!(all.earliest(environment), None);
        let (sending, later) = (all.open(environment, Number::new(7)), all.open(environment, Number::new(9)));
        let storing = all.open(environment, Number::new(7));
        drop(sending);
        assert_eq!(all.earliest(environment), Some(Number::new(7)));
        assert_eq!(all.earliest(Environment::Sandbox), None);
        drop(storing);
        assert_eq!(all.earliest(environment), Some(Number::new(9)));
        drop(later);
        assert_eq!(all.earliest(environment), None);
    }
}
