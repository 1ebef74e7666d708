//! What a gate asks a person to sign, beside what was computed on the person's own machine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, anyhow};
use serde_json::Value;

use crate::base::digest::{Fingerprint, plain_sha256};
use crate::base::json::written_as::base64url;
use crate::base::json::{self as strict, Limits};
use crate::base::visible::visible;
use crate::base::webauthn::SyncedKeys;
use crate::cli::hold::list;
use crate::policy::{SignableAct, Signing, is_origin_of};
use crate::stations::claim::Owner;
use crate::stations::hold::{is_nonce, member_of};

/// The members of statements that are computed here, and what a gate that names another is told by.
const COMPUTED: [(&str, &str); 12] = [
    ("statement", "another kind of statement"),
    ("word", "another word than `approve`"),
    ("act", "another act"),
    ("hold", "another hold"),
    ("environment", "another environment"),
    ("installation", "another installation"),
    ("person", "another person's word"),
    ("fingerprint", "other bytes"),
    ("amounts", "other amounts"),
    ("causes", "other reasons"),
    ("figures", "other figures"),
    ("nonce", "another nonce"),
];
/// As many characters of a version of policies as people compare.
const SHOWN_VERSION: usize = 16;

/// What is signed with: the person, and `[signing]` of the policies in force, as the gate tells them.
#[derive(Debug)]
pub(super) struct SigningGround {
    pub person: Owner,
    pub signing: Signing,
}

/// A statement that was computed here, and the facts in it.
#[derive(Debug)]
pub(super) struct ComputedStatement {
    pub nonce: String,
    pub statement: String,
    /// The ids of the passkeys that may sign it.
    pub credentials: Vec<String>,
    pub title: String,
    /// Without invisible characters.
    pub facts: Vec<(String, String)>,
}

/// What the gate asks for.
#[derive(Debug)]
pub(super) struct AskedStatement<'a> {
    answer: &'a Value,
    text: &'a str,
    told: Value,
    pub nonce: &'a str,
}

/// The error of a gate that asks for something else than it shows.
pub(super) fn lie(what: &str) -> anyhow::Error {
    anyhow!(
        "the gate asks you to sign {what} than it shows: do not trust it, and report this to its operators; nothing was signed"
    )
}

impl SigningGround {
    /// Reads what the console tells of signing.
    pub fn read(answer: &Value) -> anyhow::Result<SigningGround> {
        let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let signing = answer.get("signing").filter(|signing| !signing.is_null());
        let signing = signing.context("nothing can be signed: the policies in force have no `[signing]`")?;
        let read = || {
            let person = text("/person")?;
            let (issuer, subject) = person.split_once(':')?;
            let acts = list(signing, "acts").filter_map(|act| SignableAct::parse(act.as_str()?)).collect();
            let origins: BTreeSet<String> =
                list(signing, "origins").filter_map(|origin| origin.as_str().map(str::to_owned)).collect();
            let (installation, rp_id) = (text("/signing/installation")?, text("/signing/rpId")?);
            // The gate knows which keys may be synced.
            let synced = SyncedKeys::Allow;
            let signing =
                Signing { installation, rp_id, origins, synced, acts, passkeys: BTreeMap::new(), recovery: None };
            Some(SigningGround { person: Owner::named(issuer, subject), signing })
        };
        read().context("the console's answer on signing cannot be read: this is not a Sluice console")
    }

    /// Fails where a signature that is made on this page would not count.
    pub fn must_take(&self, page: &str) -> anyhow::Result<()> {
        let Signing { rp_id, origins, .. } = &self.signing;
        if origins.contains(page) && is_origin_of(page, rp_id) {
            return Ok(());
        }
        let origins = origins.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(anyhow!(
            "a signature made at `{}` would not count: the policies take those made at {}, for passkeys of {}",
            visible(page),
            visible(&origins),
            visible(rp_id)
        ))
    }
}

impl<'a> AskedStatement<'a> {
    pub fn read(answer: &'a Value) -> anyhow::Result<AskedStatement<'a>> {
        let text = answer.get("statement").and_then(Value::as_str).unwrap_or_default();
        let told = strict::parse(text.as_bytes(), Limits::ANSWER).map_err(|_| lie("another form of statement"))?;
        let nonce = answer.get("nonce").and_then(Value::as_str).filter(|nonce| is_nonce(nonce));
        let nonce = nonce.ok_or_else(|| lie("another nonce"))?;
        Ok(AskedStatement { answer, text, told, nonce })
    }

    /// Returns the statement, whose free members only the gate can choose.
    pub fn told(&self) -> &Value {
        &self.told
    }

    pub fn text_of(&self, name: &str) -> String {
        self.told.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Takes the statement that was computed here, with its title and facts; fails where the gate asks for another.
    pub fn stated(
        self,
        statement: String,
        ground: &SigningGround,
        (title, mut facts): (String, Vec<(String, String)>),
    ) -> anyhow::Result<ComputedStatement> {
        let AskedStatement { answer, text, told, nonce } = &self;
        if statement != *text {
            let own = strict::parse(statement.as_bytes(), Limits::ANSWER).unwrap_or_default();
            let differs = |(name, _): &&(&str, &str)| own.get(*name) != told.get(*name);
            let what = COMPUTED.iter().find(differs).map_or("another form of statement", |(_, what)| *what);
            return Err(lie(what));
        }
        let member = |name: &str| answer.get(name).and_then(Value::as_str);
        let digest = base64url::encoded(&plain_sha256(statement.as_bytes()));
        if member("challenge") != Some(digest.as_str()) {
            return Err(lie("another challenge"));
        }
        if member("rpId") != Some(ground.signing.rp_id.as_str()) {
            return Err(lie("with passkeys of another domain"));
        }
        let credentials = list(answer, "credentials").filter_map(|id| id.as_str().map(str::to_owned)).collect();
        facts.push(("you".to_owned(), member_of(&ground.person)));
        facts.push(("rules".to_owned(), self.text_of("policy").chars().take(SHOWN_VERSION).collect()));
        let facts = facts.into_iter().map(|(name, text)| (visible(&name).into_owned(), visible(&text).into_owned()));
        let title = visible(&title).into_owned();
        Ok(ComputedStatement { nonce: (*nonce).to_owned(), statement, credentials, title, facts: facts.collect() })
    }
}

impl ComputedStatement {
    /// Returns the SHA-256 of the statement.
    pub fn digest(&self) -> Fingerprint {
        Fingerprint::of_sha256(plain_sha256(self.statement.as_bytes()))
    }

    pub fn in_words(&self) -> String {
        let facts: String = self.facts.iter().map(|(name, text)| format!("  {name:<7} {text}\n")).collect();
        format!("{}\n{facts}", self.title)
    }
}
