//! `sluice recovery`: makes recovery keys, signs with them offline that passkeys are enrolled, and hands the signatures in.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::audit::MEANING;
use super::confirm::confirm;
use super::console::{ConsoleCall, ConsoleOptions};
use super::pages::EnvironmentArg;
use super::{ExitReason, check, print, print_exactly, read_contract, read_named_file, write_new_file};
use crate::adapters::clock::SystemClock;
use crate::adapters::offline_key::{OfflineAlgorithm, OfflineKey};
use crate::base::ids::Environment;
use crate::base::json::written_as::base64url;
use crate::base::json::{self, Limits};
use crate::cli::output::OutputFormat;
use crate::ledger::StoreTime;
use crate::people::key_recovery::{MAX_VALIDITY, RecoverySignature, RecoveryStatement, SignedRecovery};
use crate::policy::{
    AddedPasskey, ArchivedRules, KnownNames, Meaning, RecoveryKeys, Signing, only_enrolled, recovery_key_digest,
    with_passkeys,
};
use crate::ports::Clock as _;

const OTHERS: u32 = 0o077;

/// Enrol passkeys with keys that lie offline, when too few people can sign
///
/// `new` and `sign` need no gate, no configuration and no network: run them on a machine that has none. Recovery keys enrol
/// passkeys, and nothing else.
#[derive(Debug, Args)]
pub(super) struct RecoveryArgs {
    #[command(subcommand)]
    command: RecoveryCommand,
}

#[derive(Debug, Subcommand)]
enum RecoveryCommand {
    New(NewKeyArgs),
    Sign(EnrolmentSignArgs),
    HandIn(HandInArgs),
}

/// Make a recovery key, and print its table for the policies
///
/// The file has the private key. Keep it where no gate and no operator can read it, and never copy it to a machine of a gate.
#[derive(Debug, Args)]
struct NewKeyArgs {
    /// File for the private key; an existing file is never overwritten
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A name for the key, such as the place where it lies: `a-z`, `0-9` and `-`
    #[arg(long, value_name = "ID")]
    id: String,
    /// How the key signs
    #[arg(long, value_enum, default_value = "ed25519")]
    algorithm: AlgorithmArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AlgorithmArg {
    Ed25519,
    Es256,
}

/// Sign that passkeys are enrolled, after a look at them
///
/// The new set is the one in force with these passkeys besides: nothing else can change. Everybody who signs gives the same
/// files, set in force and end.
#[derive(Debug, Args)]
struct EnrolmentSignArgs {
    /// Files with the tables `[[passkey]]` to enrol, as the console's page writes them
    #[arg(value_name = "FILE", required = true)]
    tables: Vec<PathBuf>,
    /// The file with your recovery key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The archived set in force: its folder beside the audit files, `policies/DIGEST`, or the file `meaning.json` in it
    #[arg(long, value_name = "PATH")]
    in_force: PathBuf,
    /// The moment from which the signature counts no more: `2026-12-01T12:00:00Z`, at most 7 days ahead
    #[arg(long, value_name = "TIME")]
    until: String,
    /// The environment of the gates; `production` where they serve it
    #[arg(long, value_enum, default_value = "production")]
    environment: EnvironmentArg,
    /// File for the signature; an existing file is never overwritten
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Do not ask for confirmation; needed where there is no terminal
    #[arg(long)]
    yes: bool,
}

/// Give a gate the signatures of recovery keys for the set that waits there
///
/// First put the new set in the gate's policy folder, so that it waits. The gate verifies everything itself. Takes the role
/// `operator`.
#[derive(Debug, Args)]
struct HandInArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The files that `sluice recovery sign` wrote, of as many different keys as must sign
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(arguments: &RecoveryArgs) -> anyhow::Result<ExitReason> {
    match &arguments.command {
        RecoveryCommand::New(arguments) => new_key(arguments),
        RecoveryCommand::Sign(arguments) => sign(arguments),
        RecoveryCommand::HandIn(arguments) => hand_in(arguments),
    }
}

fn new_key(NewKeyArgs { file, id, algorithm }: &NewKeyArgs) -> anyhow::Result<ExitReason> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !(1..=32).contains(&id.len()) || !id.bytes().all(allowed) {
        bail!("`{}` cannot be the id of a key: use up to 32 of `a-z`, `0-9` and `-`", id.escape_debug());
    }
    let algorithm = match algorithm {
        AlgorithmArg::Ed25519 => OfflineAlgorithm::Ed25519,
        AlgorithmArg::Es256 => OfflineAlgorithm::Es256,
    };
    let pem = OfflineKey::make(algorithm).context("the system provides no random bytes")?;
    let key = OfflineKey::of_pem(pem.reveal().as_bytes()).context("a key cannot be generated")?;
    let public = base64url::encoded(&key.public().context("a key cannot be generated")?.to_cose());
    let proof = key.sign(&recovery_key_digest(id, &public)).context("the system provides no random bytes")?;
    write_new_file(file, 0o600, pem.reveal())?;
    let proof = base64url::encoded(&proof);
    print_exactly(&format!("[[recovery_key]]\nid = \"{id}\"\nkey = \"{public}\"\nproof = \"{proof}\"\n"))?;
    Ok(ExitReason::Done)
}

/// The set in force, and the one that has passkeys besides.
struct Enrolling {
    in_force: ArchivedRules,
    next: Meaning,
    added: Vec<AddedPasskey>,
}

impl Enrolling {
    fn signing(&self) -> anyhow::Result<(&Signing, &RecoveryKeys)> {
        let signing = self.in_force.rules.signing.as_ref();
        let both = signing.and_then(|signing| Some((signing, signing.recovery.as_ref()?)));
        both.context("the set in force has no recovery keys: no `[recovery]`")
    }
}

fn sign(arguments: &EnrolmentSignArgs) -> anyhow::Result<ExitReason> {
    let key = read_key(&arguments.key)?;
    let enrolling = match enrolling(arguments)? {
        Ok(enrolling) => enrolling,
        Err(findings) => {
            print(&findings)?;
            return Ok(ExitReason::Faulty);
        }
    };
    let (signing, recovery) = enrolling.signing()?;
    let public = key.public().context("the recovery key cannot be read")?;
    let id = recovery.keys.iter().find(|(_, known)| **known == public).map(|(id, _)| id);
    let id = id.ok_or_else(|| anyhow!("`{}` is no recovery key of the set in force", arguments.key.display()))?;
    let (from, to) = (enrolling.in_force.version(), enrolling.next.version());
    let environment = Environment::parse(arguments.environment.as_str()).context("this environment is unknown")?;
    let statement = RecoveryStatement::new((environment, &signing.installation), (from, to), &arguments.until);
    let end = statement.end()?;
    let now = StoreTime::of_micros(SystemClock.now().as_microsecond());
    if end <= now || end.since(now) > MAX_VALIDITY {
        bail!("`--until` must be a moment in the next 7 days, and it is `{}`", arguments.until);
    }
    print(&enrolment_in_words(&statement, &enrolling, recovery, id))?;
    if !arguments.yes {
        confirm("Sign exactly this?", "nothing was signed")?;
    }
    let signature = key.sign(&statement.digest()).context("the system provides no random bytes")?;
    let signatures = vec![RecoverySignature { key: id.clone(), signature }];
    let signed = SignedRecovery { statement, signatures };
    write_new_file(&arguments.to, 0o644, &format!("{}\n", json::to_form(&signed)))?;
    print(&format!(
        "Signed: `{}`. Give it to an operator, who hands it in with the others: `sluice recovery hand-in`.\n",
        arguments.to.display()
    ))?;
    Ok(ExitReason::Done)
}

/// Reads the set in force, and adds the passkeys to it; the inner error has the findings in words.
fn enrolling(arguments: &EnrolmentSignArgs) -> anyhow::Result<Result<Enrolling, String>> {
    let path = match arguments.in_force.is_dir() {
        true => arguments.in_force.join(MEANING),
        false => arguments.in_force.clone(),
    };
    let in_force = ArchivedRules::read(&read_named_file(&path)?).with_context(|| format!("`{}`", path.display()))?;
    let mut texts = Vec::new();
    for path in &arguments.tables {
        let text =
            String::from_utf8(read_named_file(path)?).with_context(|| format!("`{}` is no text", path.display()))?;
        texts.push((path.display().to_string(), text));
    }
    let in_words = |findings: &[_]| check::findings_as(findings, OutputFormat::Table);
    let (_, catalog) = match read_contract(None, &[]) {
        Ok(contract) => contract,
        Err(findings) => return Ok(Err(in_words(&findings))),
    };
    let members = in_force.rules.groups.values().flatten();
    let issuers: BTreeSet<&str> = members.filter_map(|member| Some(member.split_once(':')?.0)).collect();
    let issuers: Vec<&str> = issuers.into_iter().collect();
    let known = KnownNames { catalog: &catalog, issuers: &issuers, can_share: false };
    let next = match with_passkeys(&in_force, &texts, &known) {
        Ok(next) => next,
        Err(findings) => return Ok(Err(in_words(&findings))),
    };
    let added = only_enrolled(&in_force.meaning, &next);
    let added = added.map_err(|others| anyhow!("the set would change more than passkeys: {}", others.join(", ")))?;
    if added.is_empty() {
        bail!("these files have no `[[passkey]]`");
    }
    Ok(Ok(Enrolling { in_force, next, added }))
}

fn enrolment_in_words(
    statement: &RecoveryStatement,
    Enrolling { added, .. }: &Enrolling,
    recovery: &RecoveryKeys,
    id: &str,
) -> String {
    let RecoveryStatement { environment, installation, from, to, until, .. } = statement;
    let passkeys: String =
        added.iter().map(|one| format!("  `{}` of `{}`: {}\n", one.name, one.person, one.key)).collect();
    format!(
        "Installation `{installation}`, {}\nSet in force: {from}\nNew set:      {to}\nIt adds {} passkeys, and changes nothing \
         else:\n{passkeys}Whoever has these devices signs as these people: compare each key with its person over another \
         channel.\nYou sign as `{id}`; {} of {} recovery keys must sign. It counts until {until}.\n",
        environment.as_str(),
        added.len(),
        recovery.needs,
        recovery.keys.len()
    )
}

fn read_key(path: &Path) -> anyhow::Result<OfflineKey> {
    let found = fs::metadata(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
    if found.permissions().mode() & OTHERS != 0 {
        bail!("others can read `{}`: a recovery key is its owner's alone; `chmod 600` it", path.display());
    }
    let key = OfflineKey::of_pem(&read_named_file(path)?);
    key.ok_or_else(|| anyhow!("`{}` is no private key; `sluice recovery new` makes one", path.display()))
}

fn hand_in(arguments: &HandInArgs) -> anyhow::Result<ExitReason> {
    let mut all: Option<SignedRecovery> = None;
    for path in &arguments.files {
        let read: SignedRecovery = json::from_slice(&read_named_file(path)?, Limits::ANSWER)
            .map_err(|error| anyhow!("`{}` is no file of `sluice recovery sign`: {error}", path.display()))?;
        match &mut all {
            None => all = Some(read),
            Some(signed) if signed.statement == read.statement => signed.signatures.extend(read.signatures),
            Some(_) => bail!(
                "`{}` is for something else than the first file: everybody signs the same passkeys, set in force and end",
                path.display()
            ),
        }
    }
    let signed = all.context("no signatures were given")?;
    let to = signed.statement.to.clone();
    if to.is_empty() || !to.bytes().all(|b| b.is_ascii_hexdigit()) {
        bail!("`{}` is no version of policies", to.escape_debug());
    }
    let body = json!({ "reason": arguments.reason, "recovery": signed });
    let ask = ConsoleCall::post(format!("policies/{to}/recover"), body);
    arguments.way.ask(&ask, |_| format!("The signatures count: version {to} comes into force.\n"))
}
