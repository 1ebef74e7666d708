//! `sluice audit verify --people`: who agreed to each payment that needed signed approvals.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};

use super::files::{chosen, reading};
use crate::adapters::regular_file::read_regular;
use crate::audit::{FileSource as _, FlawPlace, LineBody, LineReader, read_line, split_steps};
use crate::base::digest::Fingerprint;
use crate::base::json::{self, Limits};
use crate::base::visible::visible;
use crate::people::signed_payments::{ActProof, KnownSets, PaymentProof, PaymentRecord, PeopleReport, moment};
use crate::policy::ArchivedRules;

/// The folder of archived sets beside the audit files, and the file with the meaning of one.
const SETS: &str = "policies";
pub(in crate::cli) const MEANING: &str = "meaning.json";

#[derive(Debug, Args)]
pub(super) struct PeopleArgs {
    /// Prove who agreed to each payment that needed signed approvals
    #[arg(long, requires = "roots")]
    pub people: bool,
    /// The digest of the first set of policies, which you keep; then, in the order in which they took force, those of all
    /// later sets that you vouch for
    #[arg(long = "root", value_name = "DIGEST", requires = "people")]
    roots: Vec<String>,
    /// Folders of archived sets, if they are not beside the audit files; may be given several times
    #[arg(long = "policies", value_name = "FOLDER", requires = "people")]
    sets: Vec<PathBuf>,
}

/// What is proved of people, and the archived sets that are not what their names say.
pub(super) struct ProvedPeople {
    report: PeopleReport,
    changed: Vec<ChangedSet>,
}

/// An archived set that does not have the digest that it is named after.
struct ChangedSet {
    file: String,
    why: String,
}

/// Reads entries and sets, and proves each payment.
pub(super) fn prove(paths: &[PathBuf], arguments: &PeopleArgs) -> anyhow::Result<ProvedPeople> {
    let wrong = arguments.roots.iter().find(|root| Fingerprint::of_hex(root).is_none());
    if let Some(wrong) = wrong {
        bail!("`{}` is no digest of a set of policies: 64 digits of `0-9a-f`", visible(wrong));
    }
    let mut folders: Vec<PathBuf> = arguments.sets.clone();
    if folders.is_empty() {
        folders.extend(paths.iter().map(|path| path.join(SETS)).filter(|folder| folder.is_dir()));
    }
    if folders.is_empty() {
        bail!("no folder of archived sets was found beside the audit files: name it with `--policies`");
    }
    let (mut sets, mut changed) = (KnownSets::vouched(arguments.roots.clone()), Vec::new());
    for folder in &folders {
        read_sets(folder, &mut sets, &mut changed)?;
    }
    Ok(ProvedPeople { report: read_record(paths)?.prove(&sets), changed })
}

/// Reads the sets of a folder. One that has another digest than its name counts as the set that it is, and is told.
fn read_sets(folder: &Path, sets: &mut KnownSets, changed: &mut Vec<ChangedSet>) -> anyhow::Result<()> {
    let unreadable = || format!("`{}` cannot be read", folder.display());
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if Fingerprint::of_hex(&name).is_none() {
            continue;
        }
        let path = path.join(MEANING);
        let file = path.display().to_string();
        let text = match read_regular(&path) {
            Ok(text) => text,
            Err(error) => {
                changed.push(ChangedSet { file, why: error.to_string() });
                continue;
            }
        };
        match ArchivedRules::read(&text) {
            Ok(set) => {
                if set.version() != name {
                    let why = format!("the digest of its content is {}: it was changed", set.version());
                    changed.push(ChangedSet { file, why });
                }
                sets.add(set);
            }
            Err(error) => changed.push(ChangedSet { file, why: error.to_string() }),
        }
    }
    Ok(())
}

fn read_record(paths: &[PathBuf]) -> anyhow::Result<PaymentRecord> {
    let mut record = PaymentRecord::default();
    let files = chosen(paths)?;
    let (mut progress, mut bytes) = (reading(&files), 0_u64);
    for file in &files {
        let mut lines = LineReader::of(file.open()?);
        let before = bytes;
        while let Some(raw) = lines.following()? {
            bytes = before.saturating_add(raw.end());
            progress.show(bytes);
            // What is no line is a finding of the verification of files.
            let Ok(line) = read_line(raw.bytes) else { continue };
            let LineBody::Entry(outstanding) = line.body else { continue };
            let bare = split_steps(&outstanding.entry).map_or(outstanding.entry.to_vec(), |split| split.bare);
            let Ok(entry) = json::parse(&bare, Limits::ANSWER) else { continue };
            let (file, line, offset) = (Some(file.name().to_owned()), Some(raw.line), Some(raw.offset));
            record.add(&outstanding, &entry, &FlawPlace { file, line, offset });
        }
    }
    Ok(record)
}

impl ProvedPeople {
    pub fn is_whole(&self) -> bool {
        self.report.is_proved() && self.changed.is_empty()
    }

    pub fn in_words(&self) -> String {
        let mut text = String::new();
        for ChangedSet { file, why } in &self.changed {
            text.push_str(&format!("{file}: this archived set is not the one of its name: {}\n", visible(why)));
        }
        for (place, fault) in &self.report.breaks {
            text.push_str(&format!("{}: {}\n", place_in_words(place), visible(&fault.to_string())));
        }
        self.report.payments.iter().for_each(|payment| text.push_str(&payment_in_words(payment)));
        self.report.acts.iter().for_each(|act| text.push_str(&act_in_words(act)));
        if !self.report.acts.is_empty() {
            let unproved = self.report.unproved_acts();
            let proved = self.report.acts.len().saturating_sub(unproved);
            text.push_str(&format!("{proved} signed acts are proved, {unproved} are not\n"));
        }
        let unproved = self.report.unproved();
        let proved = self.report.payments.len().saturating_sub(unproved);
        text.push_str(&format!(
            "{proved} payments with signed approvals are proved, {unproved} are not; of {} others the log says that they needed \
             none\n",
            self.report.others
        ));
        text
    }

    /// Returns the members of the report.
    pub fn as_json(&self) -> [(&'static str, Value); 4] {
        let changed = self.changed.iter().map(|one| json!({ "file": one.file, "text": one.why }));
        let breaks = self.report.breaks.iter().map(|(place, fault)| at(place, json!({ "text": fault.to_string() })));
        let unproved = self.report.unproved();
        let people = json!({
            "proved": self.is_whole(),
            "provedPayments": self.report.payments.len().saturating_sub(unproved),
            "unprovedPayments": unproved,
            "otherPayments": self.report.others,
            "unprovedActs": self.report.unproved_acts(),
            "changedSets": changed.collect::<Vec<_>>(),
            "breaks": breaks.collect::<Vec<_>>(),
        });
        let payments = self.report.payments.iter().map(payment_as_json).collect();
        let acts = self.report.acts.iter().map(act_as_json).collect();
        [("people", people), ("payments", payments), ("acts", acts), ("allProved", self.is_whole().into())]
    }
}

fn place_in_words(place: &FlawPlace) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (Some(file), None) => file.clone(),
        (None, _) => "-".to_owned(),
    }
}

fn name(payment: &PaymentProof) -> String {
    let named = payment.request_id.as_ref().or(payment.hold.as_ref());
    named.map_or_else(|| format!("number {}", payment.number), |name| visible(name).into_owned())
}

fn payment_in_words(payment: &PaymentProof) -> String {
    let place = place_in_words(&payment.place);
    let amounts = payment.amounts.as_ref().map(|amounts| amounts.in_words()).unwrap_or_default();
    let of = format!("{} {}, sent at {}", visible(&payment.operation), name(payment), moment(payment.at));
    let mut text = match &payment.fault {
        Some(fault) => format!("{place}: NOT PROVED: {of}: {}\n", visible(&fault.to_string())),
        None => format!("{place}: proved: {of}: {}\n", visible(&amounts)),
    };
    if let Some(fingerprint) = payment.fingerprint.filter(|_| payment.fault.is_none()) {
        text.push_str(&format!("  bytes {fingerprint}, set {}\n", payment.policy));
        payment.reasons.iter().for_each(|reason| text.push_str(&format!("  shown: {}\n", visible(reason))));
    }
    for signer in &payment.signers {
        let (person, passkey) = (visible(&signer.person), visible(&signer.passkey));
        let (at, place) = (moment(signer.at), place_in_words(&signer.place));
        text.push_str(&format!("  signed by {person} with `{passkey}` at {at} ({place})\n"));
    }
    for (place, person, fault) in &payment.refused {
        let (place, person) = (place_in_words(place), visible(person));
        text.push_str(&format!("  the vote of {person} ({place}) does not count: {}\n", visible(&fault.to_string())));
    }
    text
}

fn act_in_words(act: &ActProof) -> String {
    let (place, what) = (place_in_words(&act.place), visible(&act.act));
    let mut text = match &act.fault {
        Some(fault) => format!("{place}: NOT PROVED: {what}: {}\n", visible(&fault.to_string())),
        None => format!("{place}: proved: {what} at {}\n", moment(act.at)),
    };
    for (person, passkey) in &act.signers {
        text.push_str(&format!("  signed by {} with `{}`\n", visible(person), visible(passkey)));
    }
    text
}

fn act_as_json(act: &ActProof) -> Value {
    let signers = act.signers.iter().map(|(person, passkey)| json!({ "person": person, "passkey": passkey }));
    let told = json!({
        "proved": act.fault.is_none(),
        "reason": act.fault.as_ref().map(ToString::to_string),
        "environment": act.environment.as_str(),
        "number": act.number,
        "at": moment(act.at),
        "act": act.act,
        "signers": signers.collect::<Vec<_>>(),
    });
    at(&act.place, told)
}

fn payment_as_json(payment: &PaymentProof) -> Value {
    let signers = payment.signers.iter().map(|signer| {
        let at_moment = moment(signer.at);
        at(&signer.place, json!({ "person": signer.person, "passkey": signer.passkey, "at": at_moment }))
    });
    let refused = payment
        .refused
        .iter()
        .map(|(place, person, fault)| at(place, json!({ "person": person, "reason": fault.to_string() })));
    let told = json!({
        "proved": payment.fault.is_none(),
        "reason": payment.fault.as_ref().map(ToString::to_string),
        "environment": payment.environment.as_str(),
        "number": payment.number,
        "at": moment(payment.at),
        "operation": payment.operation,
        "requestId": payment.request_id,
        "hold": payment.hold,
        "fingerprint": payment.fingerprint.map(Fingerprint::to_hex),
        "policy": payment.policy,
        "amounts": payment.amounts,
        "shown": payment.reasons,
        "signers": signers.collect::<Vec<_>>(),
        "refusedVotes": refused.collect::<Vec<_>>(),
    });
    at(&payment.place, told)
}

/// Adds a place to an object.
fn at(place: &FlawPlace, mut told: Value) -> Value {
    if let Some(members) = told.as_object_mut() {
        members.insert("file".to_owned(), json!(place.file));
        members.insert("line".to_owned(), json!(place.line));
    }
    told
}
