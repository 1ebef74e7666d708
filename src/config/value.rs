//! From something written to the value of a setting: type, range, form, and the files that it names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::World;
use super::document::{Found, Raw};
use super::fault::{Fault, Place};
use super::meant::CredentialSource;
use super::pem::{self, PublicKey};
use super::revocations::Revocations;
use super::settings::{
    ANSWERS, DURABILITIES, HOLDS, Kind, LOG_FORMATS, LOG_LEVELS, LOOSENINGS, MESSAGE_FORMATS, MOST_MILLIS, STORE_KINDS,
};
use super::url;
use super::written::{Placed, RevokedFile, Slot, Written};
use crate::base::digest::Fingerprint;
use crate::base::finding::nearest;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::commit::NodeId;
use crate::stations::admit::{Algorithm, FieldPath, KeySet};
use crate::stations::tell::{Event, SigningSecret};

/// What values may lead to: the environment, and files relative to the folder of the configuration.
pub(super) struct Source<'s> {
    pub world: &'s World<'s>,
    pub folder: &'s Path,
    /// The files that were read, and what stood in them.
    pub read: RefCell<Vec<(PathBuf, Fingerprint)>>,
}

/// Puts what was written where the setting's value is kept.
pub(super) fn store(kind: &Kind, found: &Found, source: &Source<'_>, written: &mut Written) -> Result<(), Fault> {
    let place = &found.place;
    match kind {
        Kind::Address(slot) => put(*slot, written, place, address(&found.raw)),
        Kind::Upstream(slot) => put(*slot, written, place, upstream_url(&found.raw)),
        Kind::Certificates(slot) => put(*slot, written, place, certificates(&found.raw, source)),
        Kind::RevokedFile(slot) => put(*slot, written, place, revoked_file(&found.raw, source)),
        Kind::Folder(slot) => put(*slot, written, place, folder(&found.raw, source)),
        Kind::Secret(slot) => put(*slot, written, place, secret(&found.raw, source)),
        Kind::Credential(slot) => put(*slot, written, place, credential(&found.raw, source)),
        Kind::Text(slot) => put(*slot, written, place, plain_text(&found.raw)),
        Kind::Names(slot) => put(*slot, written, place, names(&found.raw)),
        Kind::Texts(slot) => put(*slot, written, place, some_of(&found.raw, plain_text)),
        Kind::Environments(slot) => {
            let words = Environment::ALL.map(|environment| (environment.as_str(), environment));
            put(*slot, written, place, list(&found.raw, |raw| choice(raw, &words)))
        }
        Kind::Algorithms(slot) => {
            let words = Algorithm::ALL.map(|algorithm| (algorithm.as_str(), algorithm));
            put(*slot, written, place, some_of(&found.raw, |raw| choice(raw, &words)))
        }
        Kind::FieldPath(slot) => put(*slot, written, place, field_path(&found.raw)),
        Kind::FieldPaths(slot) => put(*slot, written, place, list(&found.raw, field_path)),
        Kind::KeysUrl(slot) => put(*slot, written, place, keys_url(&found.raw)),
        Kind::WebhookUrl(slot) => put(*slot, written, place, webhook_url(&found.raw, source)),
        Kind::SigningSecrets(slot) => {
            put(*slot, written, place, some_of(&found.raw, |raw| signing_secret(raw, source)))
        }
        Kind::Events(slot) => {
            let words = Event::ALL.map(|event| (event.as_str(), event));
            put(*slot, written, place, some_of(&found.raw, |raw| choice(raw, &words)))
        }
        Kind::MessageFormat(slot) => put(*slot, written, place, choice(&found.raw, MESSAGE_FORMATS)),
        Kind::CollectorUrl(slot) => put(*slot, written, place, collector_url(&found.raw)),
        Kind::Origin(slot) => put(*slot, written, place, text(&found.raw, "a URL as text").and_then(url::origin)),
        Kind::RedisUrl(slot) => put(*slot, written, place, redis_url(&found.raw, source)),
        Kind::Hosts(slot) => put(*slot, written, place, some_of(&found.raw, sentinel)),
        Kind::KeysFile(slot) => put(*slot, written, place, keys_file(&found.raw, source)),
        Kind::KeptFile(slot) => put(*slot, written, place, kept_file(&found.raw, source)),
        Kind::KeptFolder(slot) => put(*slot, written, place, kept_folder(&found.raw, source)),
        Kind::Node(slot) => put(*slot, written, place, node(&found.raw)),
        Kind::PublicKey(slot) => put(*slot, written, place, public_key(&found.raw, source)),
        Kind::Truth(slot) => put(*slot, written, place, truth(&found.raw)),
        Kind::Number { least, most, unit, slot } => {
            let number = number(&found.raw, *least, *most, unit)
                .and_then(|n| usize::try_from(n).map_err(|_| Fault::new("the number is too large for this machine")));
            put(*slot, written, place, number)
        }
        Kind::Millis(slot) => {
            let millis = number(&found.raw, 1, MOST_MILLIS, "milliseconds");
            put(*slot, written, place, millis.map(Duration::from_millis))
        }
        Kind::Seconds { least, most, slot } => {
            let seconds = number(&found.raw, *least, *most, "seconds");
            put(*slot, written, place, seconds.map(Duration::from_secs))
        }
        Kind::Store(slot) => put(*slot, written, place, choice(&found.raw, STORE_KINDS)),
        Kind::Durability(slot) => put(*slot, written, place, choice(&found.raw, DURABILITIES)),
        Kind::Loosening(slot) => put(*slot, written, place, choice(&found.raw, LOOSENINGS)),
        Kind::Answers(slot) => put(*slot, written, place, choice(&found.raw, ANSWERS)),
        Kind::Holds(slot) => put(*slot, written, place, choice(&found.raw, HOLDS)),
        Kind::LogFormat(slot) => put(*slot, written, place, choice(&found.raw, LOG_FORMATS)),
        Kind::LogLevel(slot) => put(*slot, written, place, choice(&found.raw, LOG_LEVELS)),
    }
}

fn put<T>(slot: Slot<T>, written: &mut Written, place: &Place, value: Result<T, Fault>) -> Result<(), Fault> {
    *slot(written) = Some(Placed { value: value?, place: place.clone() });
    Ok(())
}

fn address(raw: &Raw) -> Result<SocketAddr, Fault> {
    let text = text(raw, "an address and a port as text")?;
    text.parse().map_err(|_| {
        Fault::new(format!("`{text}` is not an address and a port"))
            .remedy("write an IP address and a port, as `127.0.0.1:8080`, `0.0.0.0:8080` or `[::1]:8080`")
    })
}

fn upstream_url(raw: &Raw) -> Result<super::UpstreamConfig, Fault> {
    url::upstream(text(raw, "a URL as text")?)
}

fn certificates(raw: &Raw, source: &Source<'_>) -> Result<Vec<u8>, Fault> {
    let name = text(raw, "the name of a file as text")?;
    let content = source.file(name)?;
    pem::certificates(&content).map_err(|fault| Fault { text: format!("`{name}`: {}", fault.text), ..fault })?;
    Ok(content)
}

/// Whether they go with the authorities is seen when both are there.
fn revoked_file(raw: &Raw, source: &Source<'_>) -> Result<RevokedFile, Fault> {
    let name = text(raw, "the name of a file as text")?;
    let content = source.file(name)?;
    Revocations::read(&content, &[]).map_err(|fault| Fault::new(format!("`{name}`: {fault}")))?;
    Ok(RevokedFile { path: source.folder.join(name), content })
}

fn redis_url(raw: &Raw, source: &Source<'_>) -> Result<Secret, Fault> {
    let secret = secret(raw, source)?;
    url::redis(secret.reveal())?;
    Ok(secret)
}

fn sentinel(raw: &Raw) -> Result<(String, u16), Fault> {
    url::sentinel(text(raw, "a host and a port as text")?)
}

fn keys_url(raw: &Raw) -> Result<String, Fault> {
    url::keys(text(raw, "a URL as text")?)
}

fn webhook_url(raw: &Raw, source: &Source<'_>) -> Result<Secret, Fault> {
    let secret = secret(raw, source)?;
    url::webhook(secret.reveal())?;
    Ok(secret)
}

fn signing_secret(raw: &Raw, source: &Source<'_>) -> Result<Secret, Fault> {
    let secret = secret(raw, source)?;
    let fault = || Fault::new("a secret of a webhook is `whsec_` and 24 to 64 random bytes in base64");
    let made = "make one with `echo \"whsec_$(openssl rand -base64 32)\"`, and name its file";
    SigningSecret::parse(secret.reveal()).map(|_| secret).ok_or_else(|| fault().remedy(made))
}

fn collector_url(raw: &Raw) -> Result<String, Fault> {
    url::collector(text(raw, "a URL as text")?)
}

/// The keys themselves are read by those that use them, again and again.
fn keys_file(raw: &Raw, source: &Source<'_>) -> Result<PathBuf, Fault> {
    let name = text(raw, "the name of a file as text")?;
    match KeySet::from_jwks(&source.file(name)?) {
        Ok(_) => Ok(source.folder.join(name)),
        Err(fault) => Err(Fault::new(format!("`{name}`: {fault}")).remedy(
            "it is an object in JSON, with the keys as a list: `{\"keys\": […]}`; `sluice token keys` makes one",
        )),
    }
}

fn kept_file(raw: &Raw, source: &Source<'_>) -> Result<PathBuf, Fault> {
    let path = source.folder.join(text(raw, "the name of a file as text")?);
    let of_the_file = |folder: &Path| if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.to_owned();
    let folder = path.file_name().and(path.parent()).map(of_the_file);
    if folder.is_some_and(|folder| (source.world.is_folder)(&folder)) && !(source.world.is_folder)(&path) {
        return Ok(path);
    }
    Err(Fault::new(format!("`{}` names no file in a folder that is there", path.display()))
        .remedy("names are relative to the folder of the configuration file"))
}

fn kept_folder(raw: &Raw, source: &Source<'_>) -> Result<PathBuf, Fault> {
    let path = source.folder.join(text(raw, "the name of a folder as text")?);
    if (source.world.is_folder)(&path) {
        return Ok(path);
    }
    kept_file(raw, source).map_err(|_| {
        Fault::new(format!("`{}` is no folder, and names none in a folder that is there", path.display()))
            .remedy("names are relative to the folder of the configuration file")
    })
}

fn node(raw: &Raw) -> Result<NodeId, Fault> {
    NodeId::parse(text(raw, "a name as text")?).ok_or_else(|| {
        Fault::new("the name of a node is 1 to 64 of `A-Za-z0-9._-`, and begins with a letter or a digit")
    })
}

fn public_key(raw: &Raw, source: &Source<'_>) -> Result<PublicKey, Fault> {
    let name = text(raw, "the name of a file as text")?;
    pem::public_key(source.file(name)?).map_err(|fault| Fault { text: format!("`{name}`: {}", fault.text), ..fault })
}

fn folder(raw: &Raw, source: &Source<'_>) -> Result<PathBuf, Fault> {
    let name = text(raw, "the name of a folder as text")?;
    let path = source.folder.join(name);
    if !name.is_empty() && (source.world.is_folder)(&path) {
        return Ok(path);
    }
    Err(Fault::new(format!("there is no folder `{}` that can be read", path.display()))
        .remedy("names are relative to the folder of the configuration file"))
}

fn names(raw: &Raw) -> Result<Vec<String>, Fault> {
    list(raw, |item| text(item, "a text").map(str::to_owned))
}

/// What tokens are compared with: blanks at its ends, or characters that nobody sees, would be slips of the pen.
fn plain_text(raw: &Raw) -> Result<String, Fault> {
    let text = text(raw, "a text")?;
    match text {
        "" => Err(Fault::new("the text is empty")),
        _ if text.trim() != text || text.contains(char::is_control) => {
            Err(Fault::new("the text has blanks at its ends, or control characters").remedy("take them out"))
        }
        _ => Ok(text.to_owned()),
    }
}

fn field_path(raw: &Raw) -> Result<FieldPath, Fault> {
    let text = text(raw, "a field as text")?;
    let remedy = "write the name of a field, with dots between the steps to an inner one: `act.sub`; a name that has \
                  dots, slashes or blanks of its own stands in quotes: `'\"https://example.com/roles\".x'`";
    FieldPath::parse(text)
        .ok_or_else(|| Fault::new(format!("`{}` leads to no field", text.escape_debug())).remedy(remedy))
}

fn list<T>(raw: &Raw, item: impl Fn(&Raw) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    let Raw::List(items) = raw else { return Err(wrong_type(raw, "a list of texts")) };
    items.iter().map(|found| item(&found.raw).map_err(|fault| fault.at(&found.place))).collect()
}

/// A list that means nothing when it is empty.
fn some_of<T>(raw: &Raw, item: impl Fn(&Raw) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    let list = list(raw, item)?;
    if list.is_empty() { Err(Fault::new("the list is empty").remedy("write at least one")) } else { Ok(list) }
}

fn truth(raw: &Raw) -> Result<bool, Fault> {
    match raw {
        Raw::Truth(truth) => Ok(*truth),
        other => Err(wrong_type(other, "`true` or `false`")),
    }
}

fn number(raw: &Raw, least: u64, most: u64, unit: &str) -> Result<u64, Fault> {
    let Raw::Number(number) = raw else { return Err(wrong_type(raw, &format!("a whole number of {unit}"))) };
    number
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| Fault::new(format!("the number is out of range: {least} to {most} {unit} are possible")))
}

fn choice<T: Copy>(raw: &Raw, words: &[(&str, T)]) -> Result<T, Fault> {
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
    Err(Fault::new(format!("`{text}` is not a choice here")).remedy(remedy))
}

/// What a secret says is never part of a fault.
fn secret(raw: &Raw, source: &Source<'_>) -> Result<Secret, Fault> {
    let text = match raw {
        Raw::Text(text) => text.clone(),
        Raw::Table(table) => secret_from(table, source)?,
        other => return Err(wrong_type(other, "a secret").remedy(WAYS)),
    };
    if text.trim().is_empty() { Err(Fault::new("the secret is empty").remedy(WAYS)) } else { Ok(Secret::new(text)) }
}

fn credential(raw: &Raw, source: &Source<'_>) -> Result<CredentialSource, Fault> {
    let secret = fit_for_a_header(secret(raw, source)?)?;
    let Raw::Table(table) = raw else { return Ok(CredentialSource::Given(secret)) };
    match table.get("file").map(|file| text(&file.raw, "the name of a file as text")) {
        Some(name) => Ok(CredentialSource::File(source.folder.join(name?))),
        None => Ok(CredentialSource::Given(secret)),
    }
}

fn fit_for_a_header(secret: Secret) -> Result<Secret, Fault> {
    if secret.reveal().bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(secret);
    }
    Err(Fault::new("the secret holds something other than printable ASCII without spaces")
        .remedy("write the token alone, without `Bearer` before it and without line breaks"))
}

/// The credential that a file holds, read when it is configured and again when it changes.
pub fn credential_in(content: Vec<u8>) -> Option<Secret> {
    let secret = Secret::new(text_in(content)?);
    fit_for_a_header(secret).ok().filter(|secret| !secret.reveal().is_empty())
}

/// The text of a file, without the line break at its end.
fn text_in(content: Vec<u8>) -> Option<String> {
    Some(String::from_utf8(content).ok()?.trim_end_matches(['\r', '\n']).to_owned())
}

const WAYS: &str = "write it as `{ file = \"path\" }` or `{ env = \"NAME\" }`";

fn secret_from(table: &BTreeMap<String, Found>, source: &Source<'_>) -> Result<String, Fault> {
    if let Some((name, found)) = table.iter().find(|(name, _)| !matches!(name.as_str(), "file" | "env")) {
        return Err(Fault::new(format!("a secret has no `{name}`")).remedy(WAYS).at(&found.place));
    }
    match (table.get("file"), table.get("env")) {
        (Some(file), None) => {
            let name = text(&file.raw, "the name of a file as text").map_err(|fault| fault.at(&file.place))?;
            let content = source.file(name).map_err(|fault| fault.at(&file.place))?;
            text_in(content)
                .ok_or_else(|| Fault::new(format!("what the file `{name}` holds is not text")).at(&file.place))
        }
        (None, Some(variable)) => {
            let name =
                text(&variable.raw, "the name of a variable as text").map_err(|fault| fault.at(&variable.place))?;
            let value = source.world.environment.get(name).ok_or_else(|| {
                Fault::new(format!("the environment variable `{name}` is not set")).at(&variable.place)
            })?;
            let value = value.to_str().ok_or_else(|| {
                Fault::new(format!("what the environment variable `{name}` holds is not text")).at(&variable.place)
            })?;
            Ok(value.to_owned())
        }
        _ => Err(Fault::new("a secret comes from one place").remedy(WAYS)),
    }
}

fn text<'r>(raw: &'r Raw, expected: &str) -> Result<&'r str, Fault> {
    match raw {
        Raw::Text(text) => Ok(text),
        other => Err(wrong_type(other, expected)),
    }
}

fn wrong_type(raw: &Raw, expected: &str) -> Fault {
    Fault::new(raw.instead_of(expected))
}

impl Source<'_> {
    fn file(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let path = self.folder.join(name);
        let content = (self.world.read_file)(&path).map_err(|error| {
            Fault::new(format!("the file `{}` cannot be read: {error}", path.display()))
                .remedy("names are relative to the folder of the configuration file")
        })?;
        self.read.borrow_mut().push((path, Fingerprint::of(&[&content])));
        Ok(content)
    }
}

/// The environment variables that hold what is found.
pub(super) fn variables_named(found: &Found) -> Vec<&str> {
    match &found.raw {
        Raw::Table(table) => match table.get("env").map(|env| &env.raw) {
            Some(Raw::Text(name)) => vec![name],
            _ => Vec::new(),
        },
        Raw::List(items) => items.iter().flat_map(variables_named).collect(),
        _ => Vec::new(),
    }
}

/// Whether a secret stands in the file itself.
pub(super) fn is_plain(kind: &Kind, found: &Found) -> bool {
    let in_file = matches!(found.place, Place::File { .. });
    let is_text = |found: &Found| matches!(found.raw, Raw::Text(_));
    in_file
        && match (kind, &found.raw) {
            (Kind::Secret(_) | Kind::Credential(_) | Kind::RedisUrl(_), _) => is_text(found),
            (Kind::SigningSecrets(_), Raw::List(items)) => items.iter().any(is_text),
            _ => false,
        }
}
