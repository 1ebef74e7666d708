//! Parses and checks values: type, range, form, and the files that they name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod services;

use self::services::{
    cluster_node, collector_url, keys_url, redis_url, sentinel, signing_secret, webhook_url, witness_key,
};
use super::ConfigWorld;
use super::belief::UnlistedMode;
use super::document::{FoundValue, RawValue};
use super::fault::{SettingFault, SettingPlace};
use super::meant::{
    AnswerMode, CredentialSource, HoldsMode, LogFormat, LogLevel, Loosening, StoreKind, SubjectForm, UnwitnessedMode,
};
use super::pem::{self, PemKey};
use super::revocations::Revocations;
use super::settings::{MAX_MILLIS, SettingKind};
use super::url;
use super::written::{DurabilityWord, Placed, RevokedFile, SettingSlot, TrustedWord, WrittenConfig};
use crate::base::digest::Fingerprint;
use crate::base::finding::nearest;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::ledger::NodeId;
use crate::notify::{NoticeEvent, PayloadFormat};
use crate::stations::admit::{Algorithm, FieldPath, KeySet};

/// The sources that values refer to: the environment, and files relative to the folder of the configuration.
pub(super) struct ValueSource<'s> {
    pub world: &'s ConfigWorld<'s>,
    pub folder: &'s Path,
    /// The files that were read, with a digest of their content.
    pub read: RefCell<Vec<(PathBuf, Fingerprint)>>,
}

/// Parses a value and stores it in its slot.
pub(super) fn store(
    kind: &SettingKind,
    found: &FoundValue,
    source: &ValueSource<'_>,
    written: &mut WrittenConfig,
) -> Result<(), SettingFault> {
    let place = &found.place;
    match kind {
        SettingKind::Address(slot) => put(*slot, written, place, address(&found.raw)),
        SettingKind::Upstream(slot) => put(*slot, written, place, upstream_url(&found.raw)),
        SettingKind::Certificates(slot) => put(*slot, written, place, certificates(&found.raw, source)),
        SettingKind::RevokedFile(slot) => put(*slot, written, place, revoked_file(&found.raw, source)),
        SettingKind::Folder(slot) => put(*slot, written, place, folder(&found.raw, source)),
        SettingKind::Secret(slot) => put(*slot, written, place, secret(&found.raw, source)),
        SettingKind::Credential(slot) => put(*slot, written, place, credential(&found.raw, source)),
        SettingKind::Text(slot) => put(*slot, written, place, plain_text(&found.raw)),
        SettingKind::Names(slot) => put(*slot, written, place, names(&found.raw)),
        SettingKind::Texts(slot) => put(*slot, written, place, some_of(&found.raw, plain_text)),
        SettingKind::Environments(slot) => {
            put(*slot, written, place, list(&found.raw, |raw| choice(raw, &Environment::WORDS)))
        }
        SettingKind::Algorithms(slot) => put(*slot, written, place, some_of(&found.raw, algorithm)),
        SettingKind::FieldPath(slot) => put(*slot, written, place, field_path(&found.raw)),
        SettingKind::FieldPaths(slot) => put(*slot, written, place, list(&found.raw, field_path)),
        SettingKind::KeysUrl(slot) => put(*slot, written, place, keys_url(&found.raw)),
        SettingKind::WebhookUrl(slot) => put(*slot, written, place, webhook_url(&found.raw, source)),
        SettingKind::SigningSecrets(slot) => {
            put(*slot, written, place, some_of(&found.raw, |raw| signing_secret(raw, source)))
        }
        SettingKind::Events(slot) => {
            put(*slot, written, place, some_of(&found.raw, |raw| choice(raw, &NoticeEvent::WORDS)))
        }
        SettingKind::MessageFormat(slot) => put(*slot, written, place, choice(&found.raw, &PayloadFormat::WORDS)),
        SettingKind::WitnessUrl(slot) => {
            put(*slot, written, place, text(&found.raw, "a URL as text").and_then(url::witness))
        }
        SettingKind::WitnessKey(slot) => put(*slot, written, place, witness_key(&found.raw)),
        SettingKind::Unwitnessed(slot) => put(*slot, written, place, choice(&found.raw, &UnwitnessedMode::WORDS)),
        SettingKind::CollectorUrl(slot) => put(*slot, written, place, collector_url(&found.raw)),
        SettingKind::Origin(slot) => {
            put(*slot, written, place, text(&found.raw, "a URL as text").and_then(url::origin))
        }
        SettingKind::RedisUrl(slot) => put(*slot, written, place, redis_url(&found.raw, source)),
        SettingKind::ClusterHosts(slot) => put(*slot, written, place, some_of(&found.raw, cluster_node)),
        SettingKind::Hosts(slot) => put(*slot, written, place, some_of(&found.raw, sentinel)),
        SettingKind::KeysFile(slot) => put(*slot, written, place, keys_file(&found.raw, source)),
        SettingKind::KeptFile(slot) => put(*slot, written, place, kept_file(&found.raw, source)),
        SettingKind::KeptFolder(slot) => put(*slot, written, place, kept_folder(&found.raw, source)),
        SettingKind::Node(slot) => put(*slot, written, place, node(&found.raw)),
        SettingKind::SetVersion(slot) => put(*slot, written, place, set_version(&found.raw)),
        SettingKind::PublicKey(slot) => put(*slot, written, place, public_key(&found.raw, source)),
        SettingKind::Truth(slot) => put(*slot, written, place, truth(&found.raw)),
        SettingKind::Number { least, most, unit, slot } => {
            let number = number(&found.raw, *least, *most, unit).and_then(|n| {
                usize::try_from(n).map_err(|_| SettingFault::new("the number is too large for this platform"))
            });
            put(*slot, written, place, number)
        }
        SettingKind::Millis(slot) => {
            let millis = number(&found.raw, 1, MAX_MILLIS, "milliseconds");
            put(*slot, written, place, millis.map(Duration::from_millis))
        }
        SettingKind::Seconds { least, most, slot } => {
            let seconds = number(&found.raw, *least, *most, "seconds");
            put(*slot, written, place, seconds.map(Duration::from_secs))
        }
        SettingKind::Store(slot) => put(*slot, written, place, choice(&found.raw, &StoreKind::WORDS)),
        SettingKind::TrustedTraits(slot) => {
            put(*slot, written, place, list(&found.raw, |raw| choice(raw, &TrustedWord::WORDS)))
        }
        SettingKind::Durability(slot) => put(*slot, written, place, choice(&found.raw, &DurabilityWord::WORDS)),
        SettingKind::Loosening(slot) => put(*slot, written, place, choice(&found.raw, &Loosening::WORDS)),
        SettingKind::Answers(slot) => put(*slot, written, place, choice(&found.raw, &AnswerMode::WORDS)),
        SettingKind::Unlisted(slot) => put(*slot, written, place, choice(&found.raw, &UnlistedMode::WORDS)),
        SettingKind::Holds(slot) => put(*slot, written, place, choice(&found.raw, &HoldsMode::WORDS)),
        SettingKind::Subjects(slot) => put(*slot, written, place, choice(&found.raw, &SubjectForm::WORDS)),
        SettingKind::LogFormat(slot) => put(*slot, written, place, choice(&found.raw, &LogFormat::WORDS)),
        SettingKind::LogLevel(slot) => put(*slot, written, place, choice(&found.raw, &LogLevel::WORDS)),
    }
}

fn put<T>(
    slot: SettingSlot<T>,
    written: &mut WrittenConfig,
    place: &SettingPlace,
    value: Result<T, SettingFault>,
) -> Result<(), SettingFault> {
    *slot(written) = Some(Placed { value: value?, place: place.clone() });
    Ok(())
}

fn address(raw: &RawValue) -> Result<SocketAddr, SettingFault> {
    let text = text(raw, "an address and a port as text")?;
    text.parse().map_err(|_| {
        SettingFault::new(format!("`{text}` is not an address and a port"))
            .remedy("write an IP address and a port, such as `127.0.0.1:8080`, `0.0.0.0:8080` or `[::1]:8080`")
    })
}

fn upstream_url(raw: &RawValue) -> Result<super::UpstreamConfig, SettingFault> {
    url::upstream(text(raw, "a URL as text")?)
}

fn certificates(raw: &RawValue, source: &ValueSource<'_>) -> Result<Vec<u8>, SettingFault> {
    let name = text(raw, "the name of a file as text")?;
    let content = source.file(name)?;
    pem::certificates(&content).map_err(|fault| SettingFault { text: format!("`{name}`: {}", fault.text), ..fault })?;
    Ok(content)
}

/// Reads a file of revocation lists; `combination` checks them against the authorities.
fn revoked_file(raw: &RawValue, source: &ValueSource<'_>) -> Result<RevokedFile, SettingFault> {
    let name = text(raw, "the name of a file as text")?;
    let content = source.file(name)?;
    Revocations::read(&content, &[]).map_err(|fault| SettingFault::new(format!("`{name}`: {fault}")))?;
    Ok(RevokedFile { path: source.folder.join(name), content })
}

/// Checks a file of keys; the keyring reads it again from time to time.
fn keys_file(raw: &RawValue, source: &ValueSource<'_>) -> Result<PathBuf, SettingFault> {
    let name = text(raw, "the name of a file as text")?;
    match KeySet::from_jwks(&source.file(name)?) {
        Ok(_) => Ok(source.folder.join(name)),
        Err(fault) => Err(SettingFault::new(format!("`{name}`: {fault}")).remedy(
            "the file must be a JSON object with a list of keys: `{\"keys\": […]}`; `sluice token keys` creates one",
        )),
    }
}

fn kept_file(raw: &RawValue, source: &ValueSource<'_>) -> Result<PathBuf, SettingFault> {
    let path = source.folder.join(text(raw, "the name of a file as text")?);
    let of_the_file = |folder: &Path| if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.to_owned();
    let folder = path.file_name().and(path.parent()).map(of_the_file);
    if folder.is_some_and(|folder| (source.world.is_folder)(&folder)) && !(source.world.is_folder)(&path) {
        return Ok(path);
    }
    Err(SettingFault::new(format!("`{}` is not a file name in an existing folder", path.display()))
        .remedy("names are relative to the folder of the configuration file"))
}

fn kept_folder(raw: &RawValue, source: &ValueSource<'_>) -> Result<PathBuf, SettingFault> {
    let path = source.folder.join(text(raw, "the name of a folder as text")?);
    if (source.world.is_folder)(&path) {
        return Ok(path);
    }
    kept_file(raw, source).map_err(|_| {
        SettingFault::new(format!("`{}` is not a folder, and its parent folder does not exist", path.display()))
            .remedy("names are relative to the folder of the configuration file")
    })
}

fn node(raw: &RawValue) -> Result<NodeId, SettingFault> {
    NodeId::parse(text(raw, "a name as text")?).ok_or_else(|| {
        SettingFault::new("the name of a node must be 1 to 64 of `A-Za-z0-9._-`, beginning with a letter or a digit")
    })
}

fn set_version(raw: &RawValue) -> Result<String, SettingFault> {
    let text = text(raw, "the version of a set of policies as text")?;
    let fault = || {
        SettingFault::new(format!("`{}` is not the version of a set of policies: 64 of `0-9a-f`", text.escape_debug()))
            .remedy("write the name of its folder in `audit.folder/policies`")
    };
    Fingerprint::of_hex(text).map(Fingerprint::to_hex).ok_or_else(fault)
}

fn public_key(raw: &RawValue, source: &ValueSource<'_>) -> Result<PemKey, SettingFault> {
    let name = text(raw, "the name of a file as text")?;
    pem::public_key(source.file(name)?)
        .map_err(|fault| SettingFault { text: format!("`{name}`: {}", fault.text), ..fault })
}

fn folder(raw: &RawValue, source: &ValueSource<'_>) -> Result<PathBuf, SettingFault> {
    let name = text(raw, "the name of a folder as text")?;
    let path = source.folder.join(name);
    if !name.is_empty() && (source.world.is_folder)(&path) {
        return Ok(path);
    }
    Err(SettingFault::new(format!("the folder `{}` does not exist or is not readable", path.display()))
        .remedy("names are relative to the folder of the configuration file"))
}

fn names(raw: &RawValue) -> Result<Vec<String>, SettingFault> {
    list(raw, |item| text(item, "a text").map(str::to_owned))
}

/// Parses a text that tokens are compared with: blanks at its ends or invisible characters are mistakes.
fn plain_text(raw: &RawValue) -> Result<String, SettingFault> {
    let text = text(raw, "a text")?;
    match text {
        "" => Err(SettingFault::new("the text is empty")),
        _ if text.trim() != text || text.contains(char::is_control) => {
            Err(SettingFault::new("the text has blanks at its ends, or control characters").remedy("remove them"))
        }
        _ => Ok(text.to_owned()),
    }
}

fn field_path(raw: &RawValue) -> Result<FieldPath, SettingFault> {
    let text = text(raw, "a field as text")?;
    let remedy = "write the name of a field, with dots between the steps to an inner one: `act.sub`; a name that has \
                  dots, slashes or blanks of its own is written in quotes: `'\"https://example.com/roles\".x'`";
    FieldPath::parse(text).ok_or_else(|| {
        SettingFault::new(format!("`{}` is not the path of a field", text.escape_debug())).remedy(remedy)
    })
}

fn list<T>(raw: &RawValue, item: impl Fn(&RawValue) -> Result<T, SettingFault>) -> Result<Vec<T>, SettingFault> {
    let RawValue::List(items) = raw else { return Err(wrong_type(raw, "a list of texts")) };
    items.iter().map(|found| item(&found.raw).map_err(|fault| fault.at(&found.place))).collect()
}

/// Parses a list that must not be empty.
fn some_of<T>(raw: &RawValue, item: impl Fn(&RawValue) -> Result<T, SettingFault>) -> Result<Vec<T>, SettingFault> {
    let list = list(raw, item)?;
    if list.is_empty() { Err(SettingFault::new("the list is empty").remedy("add at least one")) } else { Ok(list) }
}

fn truth(raw: &RawValue) -> Result<bool, SettingFault> {
    match raw {
        RawValue::Truth(truth) => Ok(*truth),
        other => Err(wrong_type(other, "`true` or `false`")),
    }
}

fn number(raw: &RawValue, least: u64, most: u64, unit: &str) -> Result<u64, SettingFault> {
    let RawValue::Number(number) = raw else { return Err(wrong_type(raw, &format!("a whole number of {unit}"))) };
    number
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| SettingFault::new(format!("the number is out of range: it must be {least} to {most} {unit}")))
}

fn choice<T: Copy>(raw: &RawValue, words: &[(&str, T)]) -> Result<T, SettingFault> {
    let all = || words.iter().map(|(word, _)| *word);
    let listed = || all().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let text = text(raw, &format!("one of {}", listed()))?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let in_other_case = all().find(|word| word.eq_ignore_ascii_case(text));
    let remedy = match in_other_case.or_else(|| nearest(text, all())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("choose one of {}", listed()),
    };
    Err(SettingFault::new(format!("`{text}` is not a valid choice")).remedy(remedy))
}

/// Reads an algorithm. For an unsupported one the fault lists all that are supported: the nearest name may not be what
/// the issuer signs with.
fn algorithm(raw: &RawValue) -> Result<Algorithm, SettingFault> {
    let words = Algorithm::WORDS;
    let fault = match choice(raw, &words) {
        Ok(algorithm) => return Ok(algorithm),
        Err(fault) => fault,
    };
    let RawValue::Text(text) = raw else { return Err(fault) };
    if words.iter().any(|(word, _)| word.eq_ignore_ascii_case(text)) {
        return Err(fault);
    }
    let supported = words.map(|(word, _)| format!("`{word}`")).join(", ");
    Err(SettingFault::new(format!("`{text}` is not a supported algorithm"))
        .remedy(format!("supported are {supported}")))
}

/// Reads a secret. A fault never repeats it.
fn secret(raw: &RawValue, source: &ValueSource<'_>) -> Result<Secret, SettingFault> {
    let text = match raw {
        RawValue::Text(text) => text.clone(),
        RawValue::Table(table) => secret_from(table, source)?,
        other => return Err(wrong_type(other, "a secret").remedy(WAYS)),
    };
    if text.trim().is_empty() {
        Err(SettingFault::new("the secret is empty").remedy(WAYS))
    } else {
        Ok(Secret::new(text))
    }
}

fn credential(raw: &RawValue, source: &ValueSource<'_>) -> Result<CredentialSource, SettingFault> {
    let secret = fit_for_a_header(secret(raw, source)?)?;
    let RawValue::Table(table) = raw else { return Ok(CredentialSource::Given(secret)) };
    match table.get("file").map(|file| text(&file.raw, "the name of a file as text")) {
        Some(name) => Ok(CredentialSource::File(source.folder.join(name?))),
        None => Ok(CredentialSource::Given(secret)),
    }
}

fn fit_for_a_header(secret: Secret) -> Result<Secret, SettingFault> {
    if secret.reveal().bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(secret);
    }
    Err(SettingFault::new("the secret contains something other than printable ASCII without spaces")
        .remedy("write the token alone, without `Bearer` before it and without line breaks"))
}

/// Parses the content of a credential file.
pub fn credential_in(content: Vec<u8>) -> Option<Secret> {
    let secret = Secret::new(text_in(content)?);
    fit_for_a_header(secret).ok().filter(|secret| !secret.reveal().is_empty())
}

/// Returns the text of a file, without the line break at its end.
fn text_in(content: Vec<u8>) -> Option<String> {
    Some(String::from_utf8(content).ok()?.trim_end_matches(['\r', '\n']).to_owned())
}

const WAYS: &str = "write it as `{ file = \"path\" }` or `{ env = \"NAME\" }`";

fn secret_from(table: &BTreeMap<String, FoundValue>, source: &ValueSource<'_>) -> Result<String, SettingFault> {
    if let Some((name, found)) = table.iter().find(|(name, _)| !matches!(name.as_str(), "file" | "env")) {
        return Err(SettingFault::new(format!("a secret has no `{name}`")).remedy(WAYS).at(&found.place));
    }
    match (table.get("file"), table.get("env")) {
        (Some(file), None) => {
            let name = text(&file.raw, "the name of a file as text").map_err(|fault| fault.at(&file.place))?;
            let content = source.file(name).map_err(|fault| fault.at(&file.place))?;
            text_in(content).ok_or_else(|| {
                SettingFault::new(format!("the content of the file `{name}` is not UTF-8 text")).at(&file.place)
            })
        }
        (None, Some(variable)) => {
            let name =
                text(&variable.raw, "the name of a variable as text").map_err(|fault| fault.at(&variable.place))?;
            let value = source.world.environment.get(name).ok_or_else(|| {
                SettingFault::new(format!("the environment variable `{name}` is not set")).at(&variable.place)
            })?;
            let value = value.to_str().ok_or_else(|| {
                SettingFault::new(format!("the value of the environment variable `{name}` is not UTF-8 text"))
                    .at(&variable.place)
            })?;
            Ok(value.to_owned())
        }
        _ => Err(SettingFault::new("a secret must have exactly one source").remedy(WAYS)),
    }
}

fn text<'r>(raw: &'r RawValue, expected: &str) -> Result<&'r str, SettingFault> {
    match raw {
        RawValue::Text(text) => Ok(text),
        other => Err(wrong_type(other, expected)),
    }
}

fn wrong_type(raw: &RawValue, expected: &str) -> SettingFault {
    SettingFault::new(raw.instead_of(expected))
}

impl ValueSource<'_> {
    fn file(&self, name: &str) -> Result<Vec<u8>, SettingFault> {
        let path = self.folder.join(name);
        let content = (self.world.read_file)(&path).map_err(|error| {
            SettingFault::new(format!("the file `{}` cannot be read: {error}", path.display()))
                .remedy("names are relative to the folder of the configuration file")
        })?;
        self.read.borrow_mut().push((path, Fingerprint::of(&[&content])));
        Ok(content)
    }
}

/// Returns the environment variables that a value names.
pub(super) fn variables_named(found: &FoundValue) -> Vec<&str> {
    match &found.raw {
        RawValue::Table(table) => match table.get("env").map(|env| &env.raw) {
            Some(RawValue::Text(name)) => vec![name],
            _ => Vec::new(),
        },
        RawValue::List(items) => items.iter().flat_map(variables_named).collect(),
        _ => Vec::new(),
    }
}

/// Whether the value is a secret, or names files with secrets.
pub(super) fn is_secret(kind: &SettingKind) -> bool {
    matches!(
        kind,
        SettingKind::Secret(_)
            | SettingKind::SigningSecrets(_)
            | SettingKind::Credential(_)
            | SettingKind::RedisUrl(_)
            | SettingKind::WebhookUrl(_)
    )
}

/// Whether a secret is in plain text in the file itself.
pub(super) fn is_plain(kind: &SettingKind, found: &FoundValue) -> bool {
    let in_file = matches!(found.place, SettingPlace::File { .. });
    let is_text = |found: &FoundValue| matches!(found.raw, RawValue::Text(_));
    in_file
        && match (kind, &found.raw) {
            (SettingKind::Secret(_) | SettingKind::Credential(_) | SettingKind::RedisUrl(_), _) => is_text(found),
            (SettingKind::SigningSecrets(_), RawValue::List(items)) => items.iter().any(is_text),
            _ => false,
        }
}
