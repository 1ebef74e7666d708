//! Configuration: from what was written to what is meant.
//!
//! One table (`settings`) says which settings there are; the parser, the names of environment variables and the
//! reference file derive from it. All that is wrong is told at once, each thing with its place and a remedy.
//! Nothing here reads the environment or a file by itself: both come in through [`World`].
//!
//! The way of a value: `document` finds it in the file, or `environment` in a variable, which wins; `value`
//! gives it its type and keeps it in `written`; `combination` looks at what goes together; `meant` is the result.

mod combination;
mod document;
mod environment;
mod fault;
mod longest;
mod meant;
mod pem;
mod reference;
mod revocations;
mod settings;
mod url;
mod value;
mod written;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use longest::LongestWrite;
pub use meant::{
    AnswerMode, AuditConfig, CatalogConfig, ClientsConfig, Collector, Config, ConsoleConfig, CredentialConfig,
    CredentialSource, Demands, Durability, EnvironmentConfig, HoldsMode, IssuerConfig, KeySource, LimitsConfig,
    ListenerTls, LogConfig, LogFormat, LogLevel, Login, Loosening, OidcConfig, ProbesConfig, ReconcileConfig,
    RedisConfig, RedisPlace, SentinelsConfig, StoreConfig, StoreKind, TimeoutsConfig, UpstreamConfig, WebhookConfig,
};
pub use reference::{first, reference};
pub use revocations::{Revocations, RevocationsFault};
pub use settings::FIRST_SECRET;
pub use url::is_safe as is_safe_url;
pub use value::credential_in;

use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, Severity};
use document::{Document, Found, Raw};
use fault::{Fault, Place};
use settings::{Absent, Heading, Presence, SECTIONS, Section, Setting};
use value::Source;
use written::Written;

/// What configuration may look at besides its own text.
pub struct World<'w> {
    pub environment: BTreeMap<String, OsString>,
    pub read_file: &'w dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Whether there is a folder of that name, and it can be read.
    pub is_folder: &'w dyn Fn(&Path) -> bool,
}

impl fmt::Debug for World<'_> {
    /// The environment may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// A configuration that can be run, and what is odd about it.
#[derive(Clone, Debug)]
pub struct Reading {
    pub config: Config,
    pub warnings: Vec<Finding>,
    /// The settings that are written, each with a digest of its value and of the files that it names.
    pub written: BTreeMap<String, Fingerprint>,
    /// Every file that a setting names and that was read.
    pub files: Vec<PathBuf>,
}

/// Reads the text of the configuration file called `file`, or tells everything that is wrong with it.
pub fn read(text: &str, file: &str, world: &World<'_>) -> Result<Reading, Vec<Finding>> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let document = document::document(text, file);
    if document.is_broken {
        return Err(document.findings);
    }
    let mut reader = Reader::new(file, Source { world, folder, read: RefCell::default() }, document);
    reader.sections();
    reader.findings.extend(combination::findings(file, &reader.written));
    reader.findings.extend(environment::unknown(world, &reader.variables));
    reader.finish()
}

/// Goes through the table, setting by setting.
struct Reader<'r> {
    file: &'r str,
    source: Source<'r>,
    document: Document,
    written: Written,
    /// The environments that are configured.
    present: BTreeSet<&'static str>,
    /// Environment variables that the configuration names.
    variables: Vec<String>,
    digests: BTreeMap<String, Fingerprint>,
    findings: Vec<Finding>,
}

impl<'r> Reader<'r> {
    fn new(file: &'r str, source: Source<'r>, mut document: Document) -> Reader<'r> {
        let findings = std::mem::take(&mut document.findings);
        let (written, present, variables, digests) = Default::default();
        Reader { file, source, document, written, present, variables, digests, findings }
    }

    fn sections(&mut self) {
        for section in SECTIONS {
            match section.presence {
                Presence::Always | Presence::IfWritten | Presence::Optional => {
                    self.section(section, &section.heading());
                }
                Presence::Named { .. } => {
                    let written = self.document.headings.keys().filter(|heading| heading.section == section.name);
                    for heading in &written.cloned().collect::<Vec<_>>() {
                        self.section(section, heading);
                        self.written.end_named(heading);
                    }
                }
            }
        }
        if self.present.is_empty() {
            let finding = Finding::error(self.file, "there is neither a `[production]` nor a `[sandbox]` section");
            self.findings.push(finding.remedy("write at least one, with `listen` and `upstream`"));
        }
    }

    fn section(&mut self, section: &Section, heading: &Heading) {
        let found: Vec<(&Setting, Option<Found>)> =
            section.settings.iter().map(|setting| (setting, self.found(heading, setting))).collect();
        let is_written = self.document.headings.contains_key(heading) || found.iter().any(|(_, found)| found.is_some());
        match section.presence {
            Presence::IfWritten | Presence::Optional if !is_written => return,
            Presence::IfWritten => {
                self.present.insert(section.name);
            }
            Presence::Always | Presence::Optional | Presence::Named { .. } => {}
        }
        self.pairs(heading, &found);
        self.alternatives(heading, &found);
        self.unsigned(heading, &found);
        for (setting, found) in &found {
            self.setting(heading, setting, found.as_ref());
        }
    }

    fn found(&mut self, heading: &Heading, setting: &Setting) -> Option<Found> {
        let in_file = self.document.found.remove(&(heading.clone(), setting.name));
        environment::found(heading, setting, self.source.world).or(in_file)
    }

    fn setting(&mut self, heading: &Heading, setting: &Setting, found: Option<&Found>) {
        let (is_written, before) = (found.is_some(), self.source.read.borrow().len());
        let path = heading.path(setting.name);
        let by_default;
        let found = match (found, &setting.absent) {
            (Some(found), _) => found,
            (None, Absent::Nothing { .. } | Absent::First { .. } | Absent::Another { .. }) => return,
            (None, Absent::Fault { example, .. }) => return self.missing(heading, setting, example),
            (None, Absent::Means(text)) => match document::value(text, &Place::Default) {
                Some(found) => {
                    by_default = found;
                    &by_default
                }
                None => return self.fault(&Place::Default, Fault::new(format!("the default of `{path}` is broken"))),
            },
        };
        self.variables.extend(value::variables_named(found).into_iter().map(str::to_owned));
        if value::is_plain(&setting.kind, found) {
            let warning = Finding::warning(self.file, format!("`{path}` is a secret, and stands here for all to read"))
                .remedy("write it as `{ file = \"path\" }` or `{ env = \"NAME\" }`");
            self.findings.push(found.place.locate(self.file, warning));
        }
        if let Err(fault) = value::store(&setting.kind, found, &self.source, &mut self.written) {
            self.fault(&found.place, Fault { text: format!("`{path}`: {}", fault.text), ..fault });
        }
        if is_written {
            let read = self.source.read.borrow();
            let files = read.iter().skip(before).map(|(_, content)| content.to_hex());
            let parts: Vec<String> = std::iter::once(found.raw.plainly()).chain(files).collect();
            let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
            self.digests.insert(path, Fingerprint::of(&parts));
        }
    }

    fn missing(&mut self, heading: &Heading, setting: &Setting, example: &str) {
        let name = setting.name;
        let fault = Fault::new(format!("`{}` is missing", heading.path(name)));
        let variable = heading.variable(name).map_or_else(String::new, |variable| format!(", or set `{variable}`"));
        self.fault(&self.place(heading), fault.remedy(format!("write for example `{name} = {example}`{variable}")));
    }

    fn place(&self, heading: &Heading) -> Place {
        self.document.headings.get(heading).cloned().unwrap_or(Place::Default)
    }

    /// Settings that mean nothing without each other, whether or not they can be read.
    fn pairs(&mut self, heading: &Heading, found: &[(&Setting, Option<Found>)]) {
        let of = |name: &str| found.iter().find(|(s, _)| s.name == name).and_then(|(_, found)| found.as_ref());
        let fault = |has: &str, lacks: &str| {
            Fault::new(format!("`{}` has no use without `{}`", heading.path(has), heading.path(lacks)))
                .remedy(format!("write `{lacks}` as well, or leave `{has}` out"))
        };
        if let (Some(_), Some(sentinels)) = (of("url"), of("sentinels")) {
            let fault =
                Fault::new(format!("`{}` does not go with `{}`", heading.path("sentinels"), heading.path("url")));
            self.fault(&sentinels.place, fault.remedy("write the one that says where the Redis is"));
        }
        match (of("tls_certificate"), of("tls_key")) {
            (Some(certificate), None) => self.fault(&certificate.place, fault("tls_certificate", "tls_key")),
            (None, Some(key)) => self.fault(&key.place, fault("tls_key", "tls_certificate")),
            _ => {}
        }
        let redis = ["url", "sentinels"].as_slice();
        for (name, others) in [
            ("client_ca", ["tls_certificate"].as_slice()),
            ("client_revoked", &["client_ca"]),
            ("jwks_ca", &["jwks_url"]),
            ("oidc_client_id", &["public_url"]),
            ("oidc_client_secret", &["oidc_client_id"]),
            ("oidc_scopes", &["oidc_client_id"]),
            ("oidc_name", &["oidc_client_id"]),
            ("oidc_ca", &["oidc_client_id"]),
            ("jwks_keep", &["jwks_url"]),
            ("sentinels", &["master"]),
            ("master", &["sentinels"]),
            ("user", &["sentinels"]),
            ("user", &["password"]),
            ("password", &["sentinels"]),
            ("sentinel_user", &["sentinel_password"]),
            ("sentinel_password", &["sentinels"]),
            ("tls", &["sentinels"]),
            ("ca", redis),
            ("nodes", redis),
            ("durability", redis),
            ("replicas", redis),
            ("allow_unsafe", redis),
        ] {
            if let (Some(lonely), [other, ..]) = (of(name), others)
                && others.iter().all(|other| of(other).is_none())
            {
                self.fault(&lonely.place, fault(name, other));
            }
        }
    }

    /// Of settings that stand for each other there is one, whether or not it can be read.
    fn alternatives(&mut self, heading: &Heading, found: &[(&Setting, Option<Found>)]) {
        let all: Vec<_> = found.iter().filter(|(s, _)| matches!(s.absent, Absent::Another { .. })).collect();
        let written: Vec<_> = all.iter().filter_map(|(s, found)| Some((s.name, found.as_ref()?))).collect();
        let names: Vec<String> = all.iter().map(|(s, _)| format!("`{}`", s.name)).collect();
        let remedy = format!("write exactly one of {}", names.join(", "));
        match written.as_slice() {
            [] if !all.is_empty() => {
                let fault = Fault::new(format!("`{}` has none of {}", heading.path(""), names.join(", ")));
                self.fault(&self.place(heading), fault.remedy(remedy));
            }
            [(first, _), .., (last, found)] => {
                let fault = Fault::new(format!("`{}` does not go with `{first}`", heading.path(last)));
                self.fault(&found.place, fault.remedy(remedy));
            }
            [] | [_] => {}
        }
    }

    /// A webhook has secrets, whether or not they can be read; a chat asks for none.
    fn unsigned(&mut self, heading: &Heading, found: &[(&Setting, Option<Found>)]) {
        let of = |name: &str| found.iter().find(|(s, _)| s.name == name).and_then(|(_, found)| found.as_ref());
        let is_chat = of("format").is_some_and(|format| matches!(&format.raw, Raw::Text(text) if text == "chat"));
        if heading.section != "webhook" || is_chat || of("secrets").is_some() {
            return;
        }
        let fault = Fault::new(format!("`{}` has no `secrets`: nobody could tell who sends to it", heading.path("")));
        let remedy = "make one with `echo \"whsec_$(openssl rand -base64 32)\"`, and name its file: `secrets = [{ file = \
                      \"path\" }]`";
        self.fault(&self.place(heading), fault.remedy(remedy));
    }

    fn fault(&mut self, place: &Place, fault: Fault) {
        self.findings.push(fault.error(self.file, place));
    }

    fn finish(mut self) -> Result<Reading, Vec<Finding>> {
        self.findings.sort_by_key(|finding| order(self.file, finding));
        if self.findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(self.findings);
        }
        match self.written.meant() {
            Some(config) => Ok(Reading {
                config,
                warnings: self.findings,
                written: self.digests,
                files: self.source.read.into_inner().into_iter().map(|(path, _)| path).collect(),
            }),
            None => Err(vec![Finding::error(self.file, "a setting has no value; this is a fault of Sluice itself")]),
        }
    }
}

/// As one reads the file, then the rest.
fn order(file: &str, finding: &Finding) -> (bool, usize, usize) {
    let place = finding.place.as_deref().and_then(|place| place.split_once(':'));
    let number = |text: &str| text.parse().unwrap_or(usize::MAX);
    let (line, column) = place.map_or((0, 0), |(line, column)| (number(line), number(column)));
    (finding.file != file, line, column)
}

#[cfg(test)]
mod tests;
