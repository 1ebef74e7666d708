//! `sluice passkeys`: changes a folder of policies where people's keys change: a new key, another, a lost one, a person who
//! leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::policy::{PolicySetting, SettingNames};
use super::{ExitReason, check, print, read_named_text, write_new_file};
use crate::adapters::policies::{PolicyText, placed, texts};
use crate::base::finding::Finding;
use crate::base::json::written_as::base64url;
use crate::policy::{
    EditedText, Passkey, Policies, PolicyReading, SignableAct, difference, enrolled_people, read_policies,
    without_member, without_passkeys,
};

/// Change people's passkeys in the policies: enrol, rotate, revoke, leave
///
/// Each command prints what has to change and, with `--to`, writes the changed policies to a new folder. It refuses where too
/// few people could sign afterwards. No running gate is affected.
#[derive(Debug, Args)]
pub(super) struct PasskeysArgs {
    #[command(subcommand)]
    command: PasskeysCommand,
}

#[derive(Debug, Subcommand)]
enum PasskeysCommand {
    /// List the passkeys of a set
    List(ListPasskeysArgs),
    /// Add a passkey of a person
    Enrol(WithTable),
    /// Put another passkey in the place of a person's former one
    Rotate(RotateArgs),
    /// Remove a passkey that was lost or stolen
    Revoke(RevokeArgs),
    /// Remove all passkeys of a person who leaves, and the person from all groups
    Leave(LeaveArgs),
}

#[derive(Debug, Args)]
struct ListPasskeysArgs {
    /// The folder with the policies
    folder: PathBuf,
    #[command(flatten)]
    setting: PolicySetting,
}

/// The policies, and where the changed ones go.
#[derive(Debug, Args)]
struct EditArgs {
    /// The folder with the policies
    folder: PathBuf,
    /// A new folder for the changed policies; without it, nothing is written
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    #[command(flatten)]
    setting: PolicySetting,
}

#[derive(Debug, Args)]
struct WithTable {
    #[command(flatten)]
    edit: EditArgs,
    /// The file with the table `[[passkey]]` that the console's page showed to the person
    #[arg(long, value_name = "FILE")]
    table: PathBuf,
}

#[derive(Debug, Args)]
struct OfPerson {
    /// The person, as groups name them
    #[arg(long, value_name = "ISSUER:SUBJECT")]
    person: String,
    /// The name of the device; without it, all passkeys of the person
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct RotateArgs {
    #[command(flatten)]
    new: WithTable,
    #[command(flatten)]
    old: OfPerson,
}

#[derive(Debug, Args)]
struct RevokeArgs {
    #[command(flatten)]
    edit: EditArgs,
    #[command(flatten)]
    old: OfPerson,
}

#[derive(Debug, Args)]
struct LeaveArgs {
    #[command(flatten)]
    edit: EditArgs,
    /// The person who leaves, as groups name them
    #[arg(long, value_name = "ISSUER:SUBJECT")]
    person: String,
}

/// What is to change.
struct KeyChange<'c> {
    /// A text with the table of a new passkey.
    added: Option<String>,
    /// The passkeys that go.
    removed: Option<(&'c str, Option<&'c str>)>,
    /// The person who leaves all groups.
    leaver: Option<&'c str>,
}

pub(super) fn run(arguments: &PasskeysArgs) -> anyhow::Result<ExitReason> {
    match &arguments.command {
        PasskeysCommand::List(ListPasskeysArgs { folder, setting }) => list(folder, setting),
        PasskeysCommand::Enrol(WithTable { edit, table }) => {
            edit.change(&KeyChange { added: Some(read_named_text(table)?), removed: None, leaver: None })
        }
        PasskeysCommand::Rotate(RotateArgs { new: WithTable { edit, table }, old }) => {
            edit.change(&KeyChange { added: Some(read_named_text(table)?), removed: Some(old.which()), leaver: None })
        }
        PasskeysCommand::Revoke(RevokeArgs { edit, old }) => {
            edit.change(&KeyChange { added: None, removed: Some(old.which()), leaver: None })
        }
        PasskeysCommand::Leave(LeaveArgs { edit, person }) => {
            let removed = Some((person.as_str(), None));
            edit.change(&KeyChange { added: None, removed, leaver: Some(person) })
        }
    }
}

impl OfPerson {
    fn which(&self) -> (&str, Option<&str>) {
        (&self.person, self.name.as_deref())
    }
}

fn keys(policies: &Policies) -> BTreeMap<String, Passkey> {
    policies.rules.signing.as_ref().map(|signing| signing.passkeys.clone()).unwrap_or_default()
}

fn list(folder: &Path, setting: &PolicySetting) -> anyhow::Result<ExitReason> {
    let read = setting.names().and_then(|names| names.read(folder, None));
    let policies = match read {
        Ok(PolicyReading { policies, .. }) => policies,
        Err(findings) => return refuse(&findings, setting),
    };
    let keys = keys(&policies);
    let words = || {
        let line =
            |one: &Passkey| format!("{}  `{}`  {}\n", one.person, one.name, base64url::encoded(&one.key.to_cose()));
        let lines: String = keys.values().map(line).collect();
        if lines.is_empty() { "The set has no passkeys.\n".to_owned() } else { lines }
    };
    let value = || {
        let all = keys.iter().map(|(credential, one)| {
            let key = base64url::encoded(&one.key.to_cose());
            json!({ "person": one.person, "name": one.name, "credential": credential, "key": key })
        });
        json!({ "passkeys": all.collect::<Vec<Value>>() })
    };
    print(&setting.output.text(words, value, Some("passkeys")))?;
    Ok(ExitReason::Done)
}

fn refuse(findings: &[Finding], setting: &PolicySetting) -> anyhow::Result<ExitReason> {
    print(&check::findings_as(findings, setting.output))?;
    Ok(ExitReason::Faulty)
}

impl EditArgs {
    fn change(&self, change: &KeyChange<'_>) -> anyhow::Result<ExitReason> {
        let names = match self.setting.names() {
            Ok(names) => names,
            Err(findings) => return refuse(&findings, &self.setting),
        };
        let read = names.read(&self.folder, None).and_then(|read| Ok((read.policies, texts(&self.folder)?)));
        let (old, files) = match read {
            Ok(read) => read,
            Err(findings) => return refuse(&findings, &self.setting),
        };
        is_of_person(change)?;
        let removed = removed(&old, change)?;
        let (changed, edits) = edited(files, change, &removed)?;
        let new = names.with(|known| read_policies(&changed, known));
        let new = match new.map_err(|findings| placed(&self.folder, findings)) {
            Ok(new) => new.policies,
            Err(findings) => {
                print("The changed set would not load, so nothing was written:\n")?;
                return refuse(&findings, &self.setting);
            }
        };
        is_as_meant(&old, &new, &removed, change)?;
        if let Some(folder) = &self.to {
            write_folder(folder, &changed)?;
        }
        let words = || self.in_words(&names, (&old, &new), &edits, &changed, change);
        let value = || json!({ "version": new.version(), "edits": edits, "written": self.to.is_some() });
        print(&self.setting.output.text(words, value, None))?;
        Ok(ExitReason::Done)
    }

    fn in_words(
        &self,
        names: &SettingNames,
        (old, new): (&Policies, &Policies),
        edits: &[String],
        changed: &[PolicyText],
        change: &KeyChange<'_>,
    ) -> String {
        let mut text: String = edits.iter().map(|edit| format!("{edit}\n")).collect();
        let named = change.leaver.map(|person| format!("\"{person}\""));
        for (file, changed) in changed {
            let lines = changed.lines().enumerate();
            let named = lines.filter(|(_, line)| named.as_ref().is_some_and(|named| line.contains(named)));
            let word = |(at, _): (usize, &str)| format!("{file}:{} names the person still\n", at.saturating_add(1));
            text.extend(named.map(word));
        }
        let found = names.with(|known| difference(old, new, known));
        text.push_str(&format!("The change, as people see it:\n{found}Version {}\n", new.version()));
        match &self.to {
            Some(folder) => text
                .push_str(&format!("Written to `{}`. Put it in the policy folder of every gate. ", folder.display())),
            None => {
                text.push_str("Nothing was written: name a new folder with `--to`. Once it is in the gates' folder: ")
            }
        }
        let next = match (old.rules.must_sign(SignableAct::Activation), found.loosens()) {
            (true, _) => "two policy admins sign it on the console's page, under Rules.",
            (false, true) => "with `loosening = \"two-people\"`, two policy admins agree to it on the console's page.",
            (false, false) => "it takes force at once.",
        };
        let next = if self.to.is_some() { capitalized(next) } else { next.to_owned() };
        text + &next + "\n"
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

/// Checks that a new key is of the person whose former one goes.
fn is_of_person(change: &KeyChange<'_>) -> anyhow::Result<()> {
    let (Some(table), Some((person, _))) = (&change.added, change.removed) else { return Ok(()) };
    let people = enrolled_people(table).context("the file of `--table` is not valid TOML")?;
    match people.iter().find(|one| *one != person) {
        Some(other) => bail!("the new passkey is of `{other}`, not of `{person}`"),
        None => Ok(()),
    }
}

/// Returns the credentials that go.
fn removed(old: &Policies, change: &KeyChange<'_>) -> anyhow::Result<BTreeSet<String>> {
    let Some((person, name)) = change.removed else { return Ok(BTreeSet::new()) };
    let is_it = |one: &Passkey| one.person == person && name.is_none_or(|name| one.name == name);
    let removed: BTreeSet<String> =
        keys(old).into_iter().filter(|(_, one)| is_it(one)).map(|(credential, _)| credential).collect();
    let in_group = old.rules.groups.values().any(|members| members.contains(person));
    if removed.is_empty() && (change.leaver.is_none() || !in_group) {
        let of = name.map_or_else(String::new, |name| format!(" named `{name}`"));
        bail!("the set has no passkey{of} of `{person}`; `sluice passkeys list` shows them");
    }
    Ok(removed)
}

/// Returns the changed files, and each edit in words.
fn edited(
    files: Vec<PolicyText>,
    change: &KeyChange<'_>,
    removed: &BTreeSet<String>,
) -> anyhow::Result<(Vec<PolicyText>, Vec<String>)> {
    // The new key goes where the keys are.
    let home = files.iter().rposition(|(_, text)| text.contains("[[passkey]]"));
    let home = home.or_else(|| files.iter().position(|(_, text)| text.contains("[signing]")));
    let (mut changed, mut edits) = (Vec::new(), Vec::new());
    for (at, (file, text)) in files.into_iter().enumerate() {
        let unread = || format!("`{file}` is not valid TOML");
        let EditedText { text, edits: first } = without_passkeys(&text, removed).with_context(unread)?;
        let (mut text, second) = match change.leaver {
            None => (text, Vec::new()),
            Some(person) => {
                let EditedText { text, edits } = without_member(&text, person).with_context(unread)?;
                (text, edits)
            }
        };
        edits.extend(first.into_iter().chain(second).map(|edit| format!("{file}, {edit}")));
        if let Some(table) = change.added.as_ref().filter(|_| home == Some(at)) {
            let tie = if text.ends_with("\n\n") { "" } else { "\n" };
            text = format!("{text}{tie}{table}");
            edits.push(format!("{file}, at its end: the new passkey is added"));
        }
        changed.push((file, text));
    }
    Ok((changed, edits))
}

/// Checks that nothing else changed, whatever the texts look like.
fn is_as_meant(
    old: &Policies,
    new: &Policies,
    removed: &BTreeSet<String>,
    change: &KeyChange<'_>,
) -> anyhow::Result<()> {
    let by_hand = "the files are written in a way that this command cannot change; change them by hand";
    let (before, then) = (keys(old), keys(new));
    let left: BTreeSet<&String> = before.keys().filter(|credential| !removed.contains(*credential)).collect();
    let added: Vec<&Passkey> = then.iter().filter(|(id, _)| !before.contains_key(*id)).map(|(_, one)| one).collect();
    if left.iter().any(|credential| !then.contains_key(*credential)) || removed.iter().any(|id| then.contains_key(id)) {
        bail!("{by_hand}");
    }
    match (&change.added, added.as_slice()) {
        (Some(_), [_]) | (None, []) => {}
        _ => bail!("the file of `--table` must have exactly one new table `[[passkey]]`"),
    }
    let changes = new.meaning.since(&old.meaning);
    let is_key = |name: &&String| name.starts_with("passkey ");
    let is_group = |name: &&String| change.leaver.is_some() && name.starts_with("group ");
    let mut others = changes.added.iter().chain(&changes.removed).chain(&changes.changed);
    if let Some(other) = others.find(|name| !is_key(name) && !is_group(name)) {
        bail!("`{other}` would change, too: the file of `--table` must have nothing but the table `[[passkey]]`");
    }
    let stays = |person: &&str| new.rules.groups.values().any(|members| members.contains(*person));
    if change.leaver.filter(stays).is_some() {
        bail!("{by_hand}");
    }
    Ok(())
}

fn write_folder(folder: &Path, files: &[PolicyText]) -> anyhow::Result<()> {
    let made = DirBuilder::new().mode(0o755).create(folder);
    made.with_context(|| format!("`{}` cannot be made; name a folder that is not there yet", folder.display()))?;
    files.iter().try_for_each(|(name, text)| write_new_file(&folder.join(name), 0o644, text))
}
