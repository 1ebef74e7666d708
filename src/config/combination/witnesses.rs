//! Checks of witnesses together with the audit log's settings.

use std::time::Duration;

use super::{Wrong, error, lacks};
use crate::config::UnwitnessedMode;
use crate::config::fault::SettingFault;
use crate::config::written::{WrittenConfig, WrittenWitness};

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    wrong.extend(nothing_to_sign(written));
    wrong.extend(too_many_needed(written));
    wrong.extend(nobody_to_wait_for(written));
    wrong.extend(late_always(written));
    for (at, witness) in written.witnesses.iter().enumerate() {
        wrong.extend(known_before(witness, written.witnesses.get(..at).unwrap_or_default()));
    }
    wrong
}

fn nothing_to_sign(written: &WrittenConfig) -> Option<Wrong> {
    let url = written.witnesses.iter().find_map(|witness| witness.url.as_ref())?;
    let fault = SettingFault::new("witnesses have nothing to sign without `audit.checkpoint_key`");
    let remedy = "create a key with `sluice audit key FILE`, and set `audit.checkpoint_key`";
    lacks(written, "audit.checkpoint_key", &written.checkpoint_key).then(|| error(&url.place, fault.remedy(remedy)))
}

fn too_many_needed(written: &WrittenConfig) -> Option<Wrong> {
    let (needed, count) = (written.witnesses_needed.as_ref()?, written.witnesses.len());
    let text = format!("`audit.witnesses_needed` is {}, but there are {count} witnesses", needed.value);
    let remedy = "add sections `[witness.NAME]`, or lower the number";
    (needed.value > count).then(|| error(&needed.place, SettingFault::new(text).remedy(remedy)))
}

/// Nothing can be signed before its checkpoint is made, and a round with the witnesses takes up to a minute.
fn late_always(written: &WrittenConfig) -> Option<Wrong> {
    const ROUND: Duration = Duration::from_secs(60);
    let (within, every) = (written.unwitnessed_within.as_ref()?, written.checkpoint_seconds.as_ref()?);
    let least = every.value.saturating_add(if every.value < ROUND { every.value } else { ROUND });
    let text = format!(
        "`audit.unwitnessed_seconds` is {}, and checkpoints are made every {} seconds: lines would often wait for longer",
        within.value.as_secs(),
        every.value.as_secs()
    );
    let fault = SettingFault::new(text).remedy(format!("set it to at least {}", least.as_secs()));
    (!written.witnesses.is_empty() && within.value < least).then(|| error(&within.place, fault))
}

fn nobody_to_wait_for(written: &WrittenConfig) -> Option<Wrong> {
    let mode = written.unwitnessed.as_ref().filter(|mode| mode.value == UnwitnessedMode::Close)?;
    let fault =
        SettingFault::new("`audit.unwitnessed` is `close`, but there are no witnesses: money would never be closed");
    let fault = fault.remedy("add sections `[witness.NAME]`");
    written.witnesses.is_empty().then(|| error(&mode.place, fault))
}

/// Two names for one key would count as two witnesses.
fn known_before(witness: &WrittenWitness, before: &[WrittenWitness]) -> Option<Wrong> {
    let key = witness.key.as_ref()?;
    let is_same = |other: &&WrittenWitness| other.key.as_ref().is_some_and(|other| other.value.is_alike(&key.value));
    let other = before.iter().find(is_same)?;
    let text =
        format!("`witness.{}` and `witness.{}` are one witness: they have the same key", other.name, witness.name);
    Some(error(&key.place, SettingFault::new(text).remedy("remove one of them")))
}
