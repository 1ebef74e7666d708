//! The slots of windows in memory, in front of a table: those that changed, and those that commits read lately.

use std::collections::{BTreeMap, HashMap};

use foldhash::quality::RandomState;

use super::layout;
use super::queries::ShowPair;
use crate::ledger::StoreFault;

/// What follows the window in the key of a slot: its end and its begin.
type SlotTimes = [u8; 16];

/// What a window or a slot takes in memory besides its bytes, about.
const OVERHEAD: usize = 128;

#[derive(Default)]
pub(super) struct GatheredSlots {
    windows: HashMap<Vec<u8>, KnownWindow, RandomState>,
    bytes: usize,
}

#[derive(Default)]
struct KnownWindow {
    slots: BTreeMap<SlotTimes, KnownSlot>,
    /// From here on, the slots that are not among these are not in the table.
    known_from: Option<SlotTimes>,
    /// From where on it was read since the table was written.
    read_from: Option<SlotTimes>,
}

struct KnownSlot {
    /// `None` where it is removed.
    value: Option<Vec<u8>>,
    is_changed: bool,
    /// Whether the table may have it.
    is_in_table: bool,
}

impl GatheredSlots {
    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the value of a slot, or that there is none; `None` where the table must be asked.
    pub fn get(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let (window, times) = split(key)?;
        let window = self.windows.get(window)?;
        match window.slots.get(&times) {
            Some(slot) => Some(slot.value.clone()),
            None => window.known_from.is_some_and(|from| from <= times).then_some(None),
        }
    }

    /// Sets or removes a slot. `is_in_table` says whether the table may have it, if it is not known here.
    pub fn change(&mut self, key: &[u8], value: Option<Vec<u8>>, is_in_table: impl FnOnce() -> bool) {
        let Some((window, times)) = split(key) else { return };
        let window = match self.windows.get_mut(window) {
            Some(window) => window,
            None => {
                self.bytes = self.bytes.saturating_add(window.len()).saturating_add(OVERHEAD);
                self.windows.entry(window.to_owned()).or_default()
            }
        };
        let is_in_table = match window.slots.get(&times) {
            Some(slot) => slot.is_in_table,
            None => window.known_from.is_none_or(|from| from > times) && is_in_table(),
        };
        if value.is_none() && !is_in_table {
            window.slots.remove(&times);
        } else {
            self.bytes = self.bytes.saturating_add(OVERHEAD);
            window.slots.insert(times, KnownSlot { value, is_changed: true, is_in_table });
        }
    }

    /// Forgets a slot that the table never had. Returns whether it was one.
    pub fn forget_new(&mut self, key: &[u8]) -> bool {
        let Some((window, times)) = split(key) else { return false };
        let Some(known) = self.windows.get_mut(window) else { return false };
        let is_new = known.slots.get(&times).is_some_and(|slot| !slot.is_in_table);
        if is_new {
            known.slots.remove(&times);
        }
        is_new
    }

    /// Shows the slots of a window from a key on. `load` shows those of the table; it is asked for what is not known yet.
    pub fn each_of_window(
        &mut self,
        window: &[u8],
        from: &[u8],
        load: impl FnOnce(&mut ShowPair<'_>) -> Result<(), StoreFault>,
        show: &mut ShowPair<'_>,
    ) -> Result<(), StoreFault> {
        let mut first = SlotTimes::default();
        let times = from.get(window.len()..).unwrap_or_default();
        first.iter_mut().zip(times).for_each(|(byte, from)| *byte = *from);
        if !self.windows.contains_key(window) {
            self.bytes = self.bytes.saturating_add(window.len()).saturating_add(OVERHEAD);
            self.windows.insert(window.to_owned(), KnownWindow::default());
        }
        let Some(known) = self.windows.get_mut(window) else { return Ok(()) };
        if known.known_from.is_none_or(|from| from > first) {
            load(&mut |times, value| {
                let times = SlotTimes::try_from(times).map_err(|_| layout::broken("a window"))?;
                known.slots.entry(times).or_insert_with(|| {
                    self.bytes = self.bytes.saturating_add(OVERHEAD);
                    KnownSlot { value: Some(value.to_owned()), is_changed: false, is_in_table: true }
                });
                Ok(())
            })?;
            known.known_from = Some(first);
        }
        known.read_from = Some(known.read_from.map_or(first, |before| before.min(first)));
        let mut slots = known.slots.range(first..);
        slots.try_for_each(|(times, slot)| slot.value.iter().try_for_each(|value| show(times, value)))
    }

    /// Returns the keys that changed, and their values.
    pub fn changes(&self) -> impl Iterator<Item = (Vec<u8>, Option<&Vec<u8>>)> {
        self.windows.iter().flat_map(|(window, known)| {
            let changed = known.slots.iter().filter(|(_, slot)| slot.is_changed);
            changed.map(move |(times, slot)| ([window.as_slice(), times].concat(), slot.value.as_ref()))
        })
    }

    /// The changes were written. Keeps what was read since the last time, unless it is more than so many bytes.
    pub fn written(&mut self, most: usize) {
        self.bytes = 0;
        self.windows.retain(|window, known| {
            let Some(read_from) = known.read_from.take() else { return false };
            known.known_from = Some(read_from);
            known.slots.retain(|times, slot| *times >= read_from && slot.value.is_some());
            for slot in known.slots.values_mut() {
                (slot.is_changed, slot.is_in_table) = (false, true);
            }
            let slots = known.slots.len().saturating_add(1).saturating_mul(OVERHEAD);
            self.bytes = self.bytes.saturating_add(window.len()).saturating_add(slots);
            true
        });
        if self.bytes > most {
            *self = GatheredSlots::default();
        }
    }
}

/// Splits the key of a slot into its window and its times.
fn split(key: &[u8]) -> Option<(&[u8], SlotTimes)> {
    let window = layout::window_of_slot(key)?;
    Some((window, key.get(window.len()..)?.try_into().ok()?))
}
