//! Checks of the keys with which the gate seals records, signs checkpoints and hides names.

use super::{Wrong, error, insecure, lacks, moves_money};
use crate::base::ed25519;
use crate::base::finding::Severity;
use crate::base::key_bytes::{is_key_id, key_bytes};
use crate::base::keyed::SHORTEST_KEY;
use crate::base::secret::Secret;
use crate::config::fault::{SettingFault, SettingPlace};
use crate::config::written::{Placed, WrittenConfig};

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let new = "put the key of this installation back; for a new installation, create one with `openssl rand -hex 32`";
    let former = "put the other key of the change back, as `rotate.md` says";
    let mut wrong = Vec::new();
    wrong.extend(seal_keys(written));
    wrong.extend(malformed_seal_key("store.seal_key", &written.seal_key, new));
    wrong.extend(malformed_seal_key("store.former_seal_key", &written.former_seal_key, former));
    wrong.extend(malformed_id("store.seal_key_id", &written.seal_key_id));
    wrong.extend(malformed_id("store.former_seal_key_id", &written.former_seal_key_id));
    wrong.extend(unchanged_seal_key(written));
    wrong.extend(operand_key(written));
    wrong.extend(checkpoint_key(written));
    wrong
}

fn seal_keys(written: &WrittenConfig) -> Option<Wrong> {
    let Some(key) = &written.seal_key else {
        let place = written.production.listen.as_ref()?.place.clone();
        let fault = SettingFault::new(
            "`store.seal_key` is not set: bank and personal data of production are stored unencrypted, and whoever writes the \
             store can plant records",
        );
        let is_allowed = written.allow_plain.as_ref().is_some_and(|one| one.value);
        let severity = if !moves_money(written) || is_allowed { Severity::Insecure } else { Severity::Error };
        let finding = (severity, place, fault.remedy("create a key with `openssl rand -hex 32`, and name its file"));
        return lacks(written, "store.seal_key", &written.seal_key).then_some(finding);
    };
    if let Some(allow) = written.allow_plain.as_ref().filter(|one| one.value) {
        let fault = SettingFault::new(
            "`store.allow_plain` takes records in plain text although `seal_key` is set: whoever writes the store can plant them",
        );
        let remedy = "remove it when the store from before the key is taken over, as `rotate.md` says";
        return Some((Severity::Insecure, allow.place.clone(), fault.remedy(remedy)));
    }
    let former = written.former_seal_key.as_ref()?;
    let (id, former_id) = (written.seal_key_id.as_ref()?, written.former_seal_key_id.as_ref()?);
    let place = if former_id.place == SettingPlace::Default { &id.place } else { &former_id.place };
    let place = if *place == SettingPlace::Default { &former.place } else { place };
    let fault = SettingFault::new(format!(
        "`store.seal_key_id` and `store.former_seal_key_id` are the same, `{}`: records could not be matched to their key",
        id.value
    ));
    let same_key = key.value.reveal() == former.value.reveal();
    (id.value == former_id.value && !same_key).then(|| error(place, fault.remedy("give the new key a new name")))
}

fn operand_key(written: &WrittenConfig) -> Option<Wrong> {
    let key = written.operand_key.as_ref()?;
    let fault =
        SettingFault::new(format!("`audit.operand_key` is shorter than {SHORTEST_KEY} characters: it can be guessed"));
    let remedy = "create a key with `openssl rand -hex 32`, and name its file";
    (key.value.reveal().len() < SHORTEST_KEY).then(|| error(&key.place, fault.remedy(remedy)))
}

fn checkpoint_key(written: &WrittenConfig) -> Option<Wrong> {
    let key = written.checkpoint_key.as_ref()?;
    let fault = SettingFault::new("`audit.checkpoint_key` is not an Ed25519 private key in PEM");
    let remedy = "create a key with `sluice audit key FILE`, and name its file";
    ed25519::of_pem(key.value.reveal().as_bytes()).is_none().then(|| error(&key.place, fault.remedy(remedy)))
}

fn malformed_seal_key(name: &str, key: &Option<Placed<Secret>>, remedy: &str) -> Option<Wrong> {
    let key = key.as_ref()?;
    let fault = SettingFault::new(format!(
        "`{name}` is not a key: a key is 32 random bytes, as base64 or as 64 hexadecimal digits"
    ));
    key_bytes(key.value.reveal().trim()).is_none().then(|| error(&key.place, fault.remedy(remedy)))
}

fn malformed_id(name: &str, id: &Option<Placed<String>>) -> Option<Wrong> {
    let id = id.as_ref()?;
    let fault = SettingFault::new(format!("`{name}` cannot be the id of a key"));
    (!is_key_id(&id.value)).then(|| error(&id.place, fault.remedy("an id has 1 to 64 of `A-Za-z0-9._-`")))
}

/// Checks that a change of the key changes it.
fn unchanged_seal_key(written: &WrittenConfig) -> Option<Wrong> {
    let (key, former) = (written.seal_key.as_ref()?, written.former_seal_key.as_ref()?);
    let (id, former_id) = (written.seal_key_id.as_ref()?, written.former_seal_key_id.as_ref()?);
    let bytes = |key: &Placed<Secret>| key_bytes(key.value.reveal().trim());
    let is_same = bytes(key)? == bytes(former)? && id.value != former_id.value;
    let text = format!(
        "`store.seal_key` and `store.former_seal_key` are one key, under the ids `{}` and `{}`: the change of \
         keys changes nothing",
        id.value, former_id.value
    );
    let remedy = "create the new key with `openssl rand -hex 32`, as `rotate.md` says";
    is_same.then(|| insecure(&former.place, text, remedy))
}
