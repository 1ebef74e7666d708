//! Values that name other services: their hosts, URLs and keys.

use super::{RawValue, SettingFault, ValueSource, secret, text, url};
use crate::audit::{NoteKey, NoteKeyKind};
use crate::base::secret::Secret;
use crate::notify::SigningSecret;

pub(super) fn redis_url(raw: &RawValue, source: &ValueSource<'_>) -> Result<Secret, SettingFault> {
    let secret = secret(raw, source)?;
    url::redis(secret.reveal())?;
    Ok(secret)
}

pub(super) fn cluster_node(raw: &RawValue) -> Result<(String, u16), SettingFault> {
    url::cluster_node(text(raw, "a host and a port as text")?)
}

pub(super) fn sentinel(raw: &RawValue) -> Result<(String, u16), SettingFault> {
    url::sentinel(text(raw, "a host and a port as text")?)
}

pub(super) fn keys_url(raw: &RawValue) -> Result<String, SettingFault> {
    url::keys(text(raw, "a URL as text")?)
}

pub(super) fn webhook_url(raw: &RawValue, source: &ValueSource<'_>) -> Result<Secret, SettingFault> {
    let secret = secret(raw, source)?;
    url::webhook(secret.reveal())?;
    Ok(secret)
}

pub(super) fn signing_secret(raw: &RawValue, source: &ValueSource<'_>) -> Result<Secret, SettingFault> {
    let secret = secret(raw, source)?;
    let fault = || SettingFault::new("a webhook secret must be `whsec_` and 24 to 64 random bytes in base64");
    let made = "create one with `echo \"whsec_$(openssl rand -base64 32)\"`, and name its file";
    SigningSecret::parse(secret.reveal()).map(|_| secret).ok_or_else(|| fault().remedy(made))
}

pub(super) fn witness_key(raw: &RawValue) -> Result<NoteKey, SettingFault> {
    let key = NoteKey::parse(text(raw, "a key as text")?).filter(|key| key.kind() == NoteKeyKind::Witness);
    key.ok_or_else(|| {
        SettingFault::new("the key is not one of a witness")
            .remedy("write the line `NAME+ID+KEY` that `sluice witness` prints")
    })
}

pub(super) fn collector_url(raw: &RawValue) -> Result<String, SettingFault> {
    url::collector(text(raw, "a URL as text")?)
}
