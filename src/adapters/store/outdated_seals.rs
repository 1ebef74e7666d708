//! Records that the key which seals now did not seal: they are from before the first key, or a former key sealed them.

use super::embedded::KeySpace;
use super::layout::{self, LayoutReader, Stored};
use super::queries::StoreView as _;
use super::sealed::Seals;
use super::sealed_place::{SEALED, parts};
use super::snapshot::StoreContent;
use crate::base::ids::Environment;
use crate::ledger::{Content, Kind, RecordKey, StoreFault};

/// How many records are read at a time.
const STRIDE: usize = 1_000;
/// Kinds of records that stay for ever, or until people change them. Nothing depends on which commit wrote them last.
const LASTING: [Kind; 9] = [
    Kind::Agreement,
    Kind::InForce,
    Kind::PolicySet,
    Kind::Contract,
    Kind::StandIns,
    Kind::Gone,
    Kind::Opened,
    Kind::Counter,
    Kind::ClockCorrection,
];
/// Kinds that are no matter in plain text: a freeze is taken in any case, and a session counts as none.
const UNSEALED: [Kind; 2] = [Kind::Freeze, Kind::Session];

/// The records of an environment that the key which seals now did not seal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutdatedSeals {
    /// Those that stay and can be read, and so are sealed anew.
    pub lasting: Vec<RecordKey>,
    /// How many of all are in plain text. Those that do not stay go when their time is over.
    pub plain: u64,
}

impl StoreContent {
    /// Looks for them. Where plain text is refused anyway, what does not stay is not counted.
    pub fn outdated_seals(&self, environment: Environment, seals: &Seals) -> Result<OutdatedSeals, StoreFault> {
        let mut found = OutdatedSeals::default();
        for kind in Kind::ALL {
            let may_stay = LASTING.contains(&kind);
            if may_stay || (seals.takes_plain() && !UNSEALED.contains(&kind)) {
                self.look_at(environment, kind, seals, &mut |key, stored, is_plain| {
                    found.plain = found.plain.saturating_add(u64::from(is_plain));
                    let is_readable = !is_plain || seals.takes_plain();
                    if may_stay && is_readable && stored.turns().is_none() {
                        found.lasting.push(key);
                    }
                })?;
            }
        }
        Ok(found)
    }

    /// Shows each record of a kind whose seal is outdated, and whether it is in plain text.
    fn look_at(
        &self,
        environment: Environment,
        kind: Kind,
        seals: &Seals,
        show: &mut dyn FnMut(RecordKey, &Stored, bool),
    ) -> Result<(), StoreFault> {
        let prefix = layout::record(&RecordKey { environment, kind, name: String::new() });
        let (mut from, to) = (prefix.clone(), layout::behind(&prefix));
        loop {
            let stride = KeySpace(&self.0).range(&from, &to, STRIDE)?;
            for (key, value) in &stride {
                let stored = LayoutReader(value).stored()?;
                let Content::Whole(content) = &stored.content else { continue };
                if !seals.is_current(content) {
                    let name = LayoutReader(key.get(prefix.len()..).unwrap_or_default()).rest_text()?;
                    show(RecordKey { environment, kind, name }, &stored, !content.starts_with(SEALED));
                }
            }
            let Some((last, _)) = stride.into_iter().last() else { return Ok(()) };
            from = last;
            from.push(0);
        }
    }
}

impl Seals {
    /// Whether a value is sealed as values are sealed now.
    fn is_current(&self, value: &[u8]) -> bool {
        let sealed_by = value.strip_prefix(SEALED).and_then(parts).map(|(id, ..)| id);
        sealed_by == self.keys.first().map(|key| key.id.as_str())
    }
}
