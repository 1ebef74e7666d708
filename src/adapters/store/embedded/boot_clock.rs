//! The store's time at a moment since the machine was started: a restart of the gate goes on from it by the monotonic
//! clock, and need not trust the time of day.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::adapters::machine::boot_id;
use crate::base::json;
use crate::ledger::StoreTime;

const FILE: &str = "store.clock";
const FORMAT: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BootClock {
    boot: String,
    elapsed_micros: u64,
    at: StoreTime,
}

/// Returns the time that the store should have now; `None` where the machine was started since, or nothing is known.
pub(super) fn expected(folder: &Path, elapsed: Duration) -> Option<StoreTime> {
    let text = fs::read(folder.join(FILE)).ok()?;
    let BootClock { boot, elapsed_micros, at } = json::from_record(&text, FORMAT).ok()?;
    let passed = elapsed.checked_sub(Duration::from_micros(elapsed_micros))?;
    (boot_id()? == boot).then(|| at.plus(passed))
}

/// Keeps the store's time at this moment. A file that cannot be written is no obstacle: the next start goes by the time
/// of day.
pub(super) fn keep(folder: &Path, at: StoreTime, elapsed: Duration) {
    let Some(boot) = boot_id() else { return };
    let elapsed_micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    let kept = json::to_record(&BootClock { boot, elapsed_micros, at }, FORMAT);
    let new = folder.join(format!("{FILE}.new"));
    let written = fs::write(&new, kept).and_then(|()| fs::rename(&new, folder.join(FILE)));
    if let Err(error) = written {
        tracing::warn!(%error, "the time of the store cannot be kept beside it");
    }
}
