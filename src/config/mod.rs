//! Configuration: from the written file to checked values.
//!
//! One table (`settings`) lists all settings; the parser, the names of environment variables and the reference file
//! derive from it. All faults are reported at once, each with its place and a remedy. Nothing here reads the
//! environment or a file directly: both come in through [`ConfigWorld`].
//!
//! The path of a value: `document` finds it in the file, or `environment` in a variable, which wins; `value` checks its
//! type and stores it in `written`; `combination` checks settings together; `meant` is the result.

mod belief;
mod combination;
mod console_place;
mod document;
mod environment;
mod fault;
mod heading;
mod in_force;
mod longest_write;
mod meant;
mod pem;
mod reference;
mod revocations;
mod schema;
mod settings;
mod shared_redis;
mod url;
mod value;
mod written;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use belief::{BeliefConfig, UnlistedMode};
pub use console_place::{ConsolePlace, console_place};
pub use in_force::SettingInForce;
pub use longest_write::{LongestWrite, QuietTime};
pub use meant::{
    AnswerMode, AuditConfig, CatalogConfig, ClientsConfig, Collector, Config, ConsoleConfig, CredentialConfig,
    CredentialSource, EnvironmentConfig, FollowConfig, HoldsMode, IssuerConfig, KeySource, LimitsConfig, ListenerTls,
    LogConfig, LogFormat, LogLevel, Loosening, MAX_ANSWER_HEAD_BYTES, OidcConfig, ProbesConfig, ReconcileConfig,
    StoreConfig, StoreKind, SubjectForm, TimeoutsConfig, UnwitnessedMode, UpstreamConfig, WebhookConfig, WitnessConfig,
    WitnessingConfig,
};
pub use reference::{first, reference};
pub use revocations::{Revocations, RevocationsFault};
pub use schema::schema;
pub use settings::FIRST_SECRET;
pub use shared_redis::{
    ClusterConfig, Demands, Durability, Login, RedisConfig, RedisPlace, SentinelsConfig, TrustedTraits,
};
pub use url::is_loopback;
pub use url::is_safe as is_safe_url;
pub use value::credential_in;

use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, Severity};
use document::{ConfigDocument, FoundValue, RawValue};
use fault::{SettingFault, SettingPlace};
use heading::Heading;
use settings::{Absent, Presence, SECTIONS, Section, Setting};
use value::ValueSource;
use written::WrittenConfig;

/// The environment and the files that a configuration may read.
pub struct ConfigWorld<'w> {
    pub environment: BTreeMap<String, OsString>,
    pub read_file: &'w dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Whether a folder of that name exists and is readable.
    pub is_folder: &'w dyn Fn(&Path) -> bool,
}

impl fmt::Debug for ConfigWorld<'_> {
    /// Shows no field: the environment may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// A valid configuration, and its warnings.
#[derive(Clone, Debug)]
pub struct ConfigReading {
    pub config: Config,
    pub warnings: Vec<Finding>,
    /// The settings that are set, each with a digest of its value and of the files that it names.
    pub written: BTreeMap<String, Fingerprint>,
    /// The settings that have a value, in the order of the reference.
    pub in_force: Vec<SettingInForce>,
    /// Every file that a setting names and that was read.
    pub files: Vec<PathBuf>,
    /// The files that contain secrets; the configuration itself if a secret is written in it.
    pub secret_files: Vec<PathBuf>,
}

/// Parses and checks the text of the configuration file called `file`, or returns every fault.
pub fn parse_config(text: &str, file: &str, world: &ConfigWorld<'_>) -> Result<ConfigReading, Vec<Finding>> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let document = document::document(text, file);
    if document.is_broken {
        return Err(document.findings);
    }
    let mut reader = ConfigReader::new(file, ValueSource { world, folder, read: RefCell::default() }, document);
    reader.sections();
    reader.findings.extend(combination::findings(file, &reader.written));
    reader.findings.extend(environment::unknown(world, &reader.variables));
    reader.finish()
}

/// Reads the table, setting by setting.
struct ConfigReader<'r> {
    file: &'r str,
    source: ValueSource<'r>,
    document: ConfigDocument,
    written: WrittenConfig,
    /// The environments that are configured.
    present: BTreeSet<&'static str>,
    /// Environment variables that the configuration names.
    variables: Vec<String>,
    digests: BTreeMap<String, Fingerprint>,
    in_force: Vec<SettingInForce>,
    secret_files: Vec<PathBuf>,
    findings: Vec<Finding>,
}

impl<'r> ConfigReader<'r> {
    fn new(file: &'r str, source: ValueSource<'r>, mut document: ConfigDocument) -> ConfigReader<'r> {
        let findings = std::mem::take(&mut document.findings);
        let (written, present, variables, digests, in_force, secret_files) = Default::default();
        ConfigReader { file, source, document, written, present, variables, digests, in_force, secret_files, findings }
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
            let finding = Finding::error(self.file, "the file has neither a `[production]` nor a `[sandbox]` section");
            self.findings.push(finding.remedy("add at least one, with `listen` and `upstream`"));
        }
    }

    fn section(&mut self, section: &Section, heading: &Heading) {
        let found: Vec<(&Setting, Option<FoundValue>)> =
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

    fn found(&mut self, heading: &Heading, setting: &Setting) -> Option<FoundValue> {
        let in_file = self.document.found.remove(&(heading.clone(), setting.name));
        environment::found(heading, setting, self.source.world).or(in_file)
    }

    fn setting(&mut self, heading: &Heading, setting: &Setting, found: Option<&FoundValue>) {
        let (is_written, before) = (found.is_some(), self.source.read.borrow().len());
        let path = heading.path(setting.name);
        let by_default;
        let found = match (found, &setting.absent) {
            (Some(found), _) => found,
            (None, Absent::Nothing { .. } | Absent::First { .. } | Absent::Another { .. }) => return,
            (None, Absent::Fault { example, .. }) => return self.missing(heading, setting, example),
            (None, Absent::Means(text)) => match document::value(text, &SettingPlace::Default) {
                Some(found) => {
                    by_default = found;
                    &by_default
                }
                None => {
                    return self.fault(
                        &SettingPlace::Default,
                        SettingFault::new(format!("the default of `{path}` is invalid")),
                    );
                }
            },
        };
        self.variables.extend(value::variables_named(found).into_iter().map(str::to_owned));
        if value::is_plain(&setting.kind, found) {
            self.secret_files.push(PathBuf::from(self.file));
            let warning = Finding::insecure(self.file, format!("`{path}` is a secret in plain text in this file"))
                .remedy("write it as `{ file = \"path\" }` or `{ env = \"NAME\" }`");
            self.findings.push(found.place.locate(self.file, warning));
        }
        if let Err(fault) = value::store(&setting.kind, found, &self.source, &mut self.written) {
            self.fault(&found.place, SettingFault { text: format!("`{path}`: {}", fault.text), ..fault });
            self.written.refused.insert(path.clone());
        }
        self.in_force.push(SettingInForce::of(&path, &setting.kind, found, self.file));
        let read = self.source.read.borrow();
        if value::is_secret(&setting.kind) {
            self.secret_files.extend(read.iter().skip(before).map(|(path, _)| path.clone()));
        }
        if is_written {
            let files = read.iter().skip(before).map(|(_, content)| content.to_hex());
            let parts: Vec<String> = std::iter::once(found.raw.plainly()).chain(files).collect();
            let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
            self.digests.insert(path, Fingerprint::of(&parts));
        }
    }

    fn missing(&mut self, heading: &Heading, setting: &Setting, example: &str) {
        let name = setting.name;
        let fault = SettingFault::new(format!("`{}` is missing", heading.path(name)));
        let variable = heading.variable(name).map_or_else(String::new, |variable| format!(", or set `{variable}`"));
        self.fault(&self.place(heading), fault.remedy(format!("write for example `{name} = {example}`{variable}")));
    }

    fn place(&self, heading: &Heading) -> SettingPlace {
        self.document.headings.get(heading).cloned().unwrap_or(SettingPlace::Default)
    }

    /// Checks pairs of settings that need or exclude each other, whether or not their values are valid.
    fn pairs(&mut self, heading: &Heading, found: &[(&Setting, Option<FoundValue>)]) {
        let of = |name: &str| found.iter().find(|(s, _)| s.name == name).and_then(|(_, found)| found.as_ref());
        let fault = |has: &str, lacks: &str| {
            SettingFault::new(format!("`{}` has no effect without `{}`", heading.path(has), heading.path(lacks)))
                .remedy(format!("set `{lacks}` as well, or remove `{has}`"))
        };
        for (one, other) in [("url", "sentinels"), ("url", "cluster"), ("sentinels", "cluster")] {
            if let (Some(_), Some(second)) = (of(one), of(other)) {
                let fault = format!("`{}` cannot be combined with `{}`", heading.path(other), heading.path(one));
                let remedy = "keep the one that says where the Redis is";
                self.fault(&second.place, SettingFault::new(fault).remedy(remedy));
            }
        }
        match (of("tls_certificate"), of("tls_key")) {
            (Some(certificate), None) => self.fault(&certificate.place, fault("tls_certificate", "tls_key")),
            (None, Some(key)) => self.fault(&key.place, fault("tls_key", "tls_certificate")),
            _ => {}
        }
        let (redis, named) = (["url", "sentinels", "cluster"].as_slice(), ["sentinels", "cluster"].as_slice());
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
            ("user", named),
            ("user", &["password"]),
            ("password", named),
            ("sentinel_user", &["sentinel_password"]),
            ("sentinel_password", &["sentinels"]),
            ("tls", named),
            ("ca", redis),
            ("nodes", redis),
            ("durability", redis),
            ("replicas", redis),
            ("allow_unsafe", redis),
            ("trusted", redis),
        ] {
            if let (Some(lonely), [other, ..]) = (of(name), others)
                && others.iter().all(|other| of(other).is_none())
            {
                self.fault(&lonely.place, fault(name, other));
            }
        }
    }

    /// Checks that exactly one of several alternative settings is set, whether or not its value is valid.
    fn alternatives(&mut self, heading: &Heading, found: &[(&Setting, Option<FoundValue>)]) {
        let all: Vec<_> = found.iter().filter(|(s, _)| matches!(s.absent, Absent::Another { .. })).collect();
        let written: Vec<_> = all.iter().filter_map(|(s, found)| Some((s.name, found.as_ref()?))).collect();
        let names: Vec<String> = all.iter().map(|(s, _)| format!("`{}`", s.name)).collect();
        let remedy = format!("set exactly one of {}", names.join(", "));
        match written.as_slice() {
            [] if !all.is_empty() => {
                let fault = SettingFault::new(format!("`{}` needs one of {}", heading.path(""), names.join(", ")));
                self.fault(&self.place(heading), fault.remedy(remedy));
            }
            [(first, _), .., (last, found)] => {
                let fault = SettingFault::new(format!("`{}` cannot be combined with `{first}`", heading.path(last)));
                self.fault(&found.place, fault.remedy(remedy));
            }
            [] | [_] => {}
        }
    }

    /// Checks that a webhook has secrets, whether or not they are valid; only a chat needs none.
    fn unsigned(&mut self, heading: &Heading, found: &[(&Setting, Option<FoundValue>)]) {
        let of = |name: &str| found.iter().find(|(s, _)| s.name == name).and_then(|(_, found)| found.as_ref());
        let is_chat = of("format").is_some_and(|format| matches!(&format.raw, RawValue::Text(text) if text == "chat"));
        if heading.section != "webhook" || is_chat || of("secrets").is_some() {
            return;
        }
        let fault = SettingFault::new(format!(
            "`{}` has no `secrets`: its receiver could not verify the sender",
            heading.path("")
        ));
        let remedy = "create one with `echo \"whsec_$(openssl rand -base64 32)\"`, and name its file: `secrets = [{ file = \
                      \"path\" }]`";
        self.fault(&self.place(heading), fault.remedy(remedy));
    }

    fn fault(&mut self, place: &SettingPlace, fault: SettingFault) {
        self.findings.push(fault.error(self.file, place));
    }

    fn finish(mut self) -> Result<ConfigReading, Vec<Finding>> {
        self.findings.sort_by_key(|finding| order(self.file, finding));
        if self.findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(self.findings);
        }
        let secret_files: BTreeSet<PathBuf> = self.secret_files.into_iter().collect();
        match self.written.meant() {
            Some(config) => Ok(ConfigReading {
                config,
                warnings: self.findings,
                written: self.digests,
                in_force: self.in_force,
                secret_files: secret_files.into_iter().collect(),
                files: self.source.read.into_inner().into_iter().map(|(path, _)| path).collect(),
            }),
            None => Err(vec![Finding::error(self.file, "a setting has no value: this is a bug in Sluice")]),
        }
    }
}

/// Sorts findings in the order of the file, then the rest.
fn order(file: &str, finding: &Finding) -> (bool, usize, usize) {
    let place = finding.place.as_deref().and_then(|place| place.split_once(':'));
    let number = |text: &str| text.parse().unwrap_or(usize::MAX);
    let (line, column) = place.map_or((0, 0), |(line, column)| (number(line), number(column)));
    (finding.file != file, line, column)
}

#[cfg(test)]
mod tests;
