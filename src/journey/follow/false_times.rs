//! Records whose times contradict their places in upstream's list, as this gate saw them.

use std::collections::{HashMap, HashSet};

use crate::stations::follow::{MAX_FALSE_TIMES, misplaced};

/// The readings in a row that show a record at a false place before it is told: one page may be out of order.
const READINGS_MISPLACED: u32 = 2;

/// The misplaced records of one list.
#[derive(Debug, Default)]
pub(super) struct FalseTimes {
    /// For how many readings each has been misplaced.
    readings: HashMap<String, u32>,
    /// How many were told: a list in no order at all is not told record by record.
    told: usize,
}

impl FalseTimes {
    pub fn forget(&mut self) {
        self.readings.clear();
    }

    /// Whether a record is to be told at this reading.
    pub fn is_due(&self, id: &str) -> bool {
        self.readings.get(id) == Some(&READINGS_MISPLACED) && self.told < MAX_FALSE_TIMES
    }

    pub fn told(&mut self, id: &str) {
        self.told = self.told.saturating_add(1);
        self.readings.insert(id.to_owned(), READINGS_MISPLACED.saturating_add(1));
    }

    /// Takes the records of a reading in, each with its time, in the order of the list. Pages overlap.
    pub fn note(&mut self, listed: &[(String, i64)]) {
        let mut seen = HashSet::new();
        let listed = listed.iter().map(|(id, created)| (id.as_str(), *created));
        let listed: Vec<(&str, i64)> = listed.filter(|(id, _)| seen.insert(*id)).collect();
        let found: HashSet<&str> = misplaced(&listed).into_iter().collect();
        for (id, _) in &listed {
            if found.contains(id) {
                let readings = self.readings.entry((*id).to_owned()).or_default();
                *readings = (*readings).max(readings.saturating_add(1).min(READINGS_MISPLACED));
            } else {
                self.readings.remove(*id);
            }
        }
    }
}
