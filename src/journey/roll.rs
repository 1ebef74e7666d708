//! A node among the others that share a store: on its roll, watching that the store forgets nothing, and, where it did,
//! closing money and giving back what this node's own audit chain knows.
//!
//! Money is closed by every node that finds less in the store than it knows, in one commit, which waits for each node
//! that was ever heard of. It opens by itself when each has told what its chain holds above what the store knew of it;
//! or a person opens it. What nobody who lives has seen, and no chain at hand tells, nobody can miss: see `README.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::books::{Drained, TRIES};
use super::remember::{NotRemembered, remember};
use super::{Books, InForce};
use crate::adapters::random::nonce;
use crate::adapters::store::redis::{Heard, Life, RedisStore, Verdict};
use crate::base::ids::Environment;
use crate::chain::Highest;
use crate::commit::{Commit, CommitError, Content, Outstanding, StoreFault};
use crate::ports::Store;
use crate::stations::claim::{self, Forgotten, Freeze};

/// From one beat to the next.
const BEAT: Duration = Duration::from_secs(1);
/// While something is waited for.
const SOON: Duration = Duration::from_millis(100);
/// How long a start waits until it may be one of the nodes: longer than another's heart is waited for.
const JOINS: Duration = Duration::from_secs(12);
const WHY: (&str, &str) = ("sluice serve", "the store has forgotten what nodes know of it");

/// A node's place among others.
#[derive(Debug)]
pub struct Roll {
    /// As this node knows it.
    pub store: Arc<RedisStore>,
    /// As it stands, whatever it has forgotten.
    pub as_it_stands: Arc<dyn Store>,
    pub instance: String,
    /// An earlier process of this node, which has ended.
    pub former: Option<String>,
    /// Where its chain is.
    pub audit_folder: PathBuf,
    /// What this node decides by: others see whether they do, too.
    pub in_force: Arc<InForce>,
}

/// Why this node is not one of the nodes.
#[derive(Debug)]
pub enum NotJoined {
    /// Another process bears its name.
    Taken,
    /// Others are waited for.
    Alone,
    Store(StoreFault),
}

impl fmt::Display for NotJoined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotJoined::Taken => f.write_str(
                "another gate of the name in `store.node` runs on this store: give each gate a name of its own, and its \
                 own `audit.folder`",
            ),
            NotJoined::Alone => f.write_str("other gates are waited for, and the store is not open yet: try again"),
            NotJoined::Store(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for NotJoined {}

impl Roll {
    /// Before anything else is asked of the store. `stood`: the highest numbers in this node's chain.
    pub async fn join(&self, books: &Books, stood: &Highest) -> Result<(), NotJoined> {
        for (environment, highest) in stood {
            self.store.knows(*environment, *highest);
        }
        let until = books.clock.elapsed().saturating_add(JOINS);
        for environment in Environment::ALL {
            let mut its_beat = None;
            loop {
                let heard = self.beat(books, environment).await;
                let why = match &heard {
                    Ok(Heard { verdict: Verdict::Well, .. }) => break,
                    Ok(heard) if heard.verdict == Verdict::Taken => {
                        let beat = heard.members.iter().find(|one| one.node == books.node).map(|one| one.beat);
                        // It lives.
                        if *its_beat.get_or_insert(beat) < beat {
                            return Err(NotJoined::Taken);
                        }
                        NotJoined::Taken
                    }
                    Ok(_) => NotJoined::Alone,
                    Err(fault @ StoreFault::Broken(_)) => return Err(NotJoined::Store(fault.clone())),
                    Err(fault) => NotJoined::Store(fault.clone()),
                };
                if books.clock.elapsed() > until {
                    return Err(why);
                }
                tokio::time::sleep(SOON).await;
            }
        }
        Ok(())
    }

    /// As long as the process lives; it returns when another one has taken the name of this node.
    pub async fn stay(self: Arc<Roll>, books: Arc<Books>) {
        let mut connections = self.store.connections();
        loop {
            let mut pause = BEAT;
            for environment in Environment::ALL {
                match self.beat(&books, environment).await.map(|heard| heard.verdict) {
                    Ok(Verdict::Well) => {}
                    Ok(Verdict::Taken) => {
                        tracing::error!("{}; this one ends", NotJoined::Taken);
                        return;
                    }
                    Ok(Verdict::Meeting | Verdict::Gathering | Verdict::Lost) => pause = SOON,
                    Err(fault) => books.told_of(&fault),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.store.doubted() => {}
                _ = connections.changed() => {}
            }
        }
    }

    /// Gives back to the store what it forgot and this node's chain did not, as long as the process lives.
    pub async fn keep_remembering(self: Arc<Roll>, books: Arc<Books>) {
        loop {
            for environment in Environment::ALL {
                self.recover(&books, environment).await;
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Nobody needs to wait for this node any more.
    pub async fn leave(&self, books: &Books) {
        let life = self.life(books);
        for environment in Environment::ALL {
            if let Err(fault) = self.store.leave(environment, &life).await {
                books.told_of(&fault);
            }
        }
    }

    async fn beat(&self, books: &Books, environment: Environment) -> Result<Heard, StoreFault> {
        let life = self.life(books);
        let heard = self.store.beat(environment, &life).await?;
        if heard.verdict == Verdict::Lost {
            self.close(books, environment, &heard).await?;
            self.store.closed(environment, &life).await?;
        }
        Ok(heard)
    }

    fn life(&self, books: &Books) -> Life {
        let now = self.in_force.now();
        let told = json!({
            "software": env!("CARGO_PKG_VERSION"),
            "policies": now.policies.version(),
            "contract": now.catalog.digest().to_hex(),
            "clockMicros": books.clock.now().as_microsecond(),
        });
        Life { instance: self.instance.clone(), former: self.former.clone(), fresh: nonce().0, told: told.to_string() }
    }

    /// In one commit, until each node has told what it knows.
    async fn close(&self, books: &Books, environment: Environment, heard: &Heard) -> Result<(), StoreFault> {
        let mut nodes = BTreeMap::new();
        // Who was heard of before is known to the store for nothing, if it is not there any more.
        for member in self.store.remembered(environment) {
            nodes.insert(member.node, 0);
        }
        nodes.insert(books.node.clone(), 0);
        // What another store knows of the same names is not what these nodes know.
        let is_the_same = self.store.has_met(environment, heard);
        for member in &heard.members {
            let known = if is_the_same { member.highest.as_u64() } else { 0 };
            nodes.insert(member.node.clone(), known);
        }
        for _ in 0..TRIES {
            let (before, _) = self.as_it_stands.read(&Freeze::Restored.key(environment)).await?;
            let before = before.map(|record| (record.version, forgotten(&record.content)));
            let commit = claim::forgot(environment, before, &nodes, WHY, &books.node);
            match self.commit(books, commit).await {
                Ok(()) => {
                    tracing::error!(
                        %environment,
                        nodes = nodes.len(),
                        "the store was set back, emptied, or is another: money is closed until every node has given back what \
                         its audit chain knows, or a person opens it (`sluice unfreeze --restored`)"
                    );
                    return Ok(());
                }
                Err(CommitError::Stood { .. }) => {}
                Err(CommitError::Fault(fault)) => return Err(fault),
            }
        }
        Err(StoreFault::Away("its freeze changed again and again".to_owned()))
    }

    /// In the store as it stands.
    async fn commit(&self, books: &Books, commit: Commit) -> Result<(), CommitError> {
        let (environment, node, entry) = (commit.environment, commit.node.clone(), commit.entry.clone());
        let committed = self.as_it_stands.commit(commit).await?;
        let outstanding = Outstanding { environment, number: committed.number, at: committed.at, node, entry };
        books.drain.try_send(Drained::Waiting(outstanding)).ok();
        Ok(())
    }

    /// Where this node has to tell what it knows, it does, once all that it knows is in its files.
    async fn recover(&self, books: &Arc<Books>, environment: Environment) {
        let waits = match books.store.read(&Freeze::Restored.key(environment)).await {
            Ok((Some(record), _)) => forgotten(&record.content),
            Ok((None, _)) => return,
            Err(fault) => return books.told_of(&fault),
        };
        let Some(from) = waits.nodes.get(&books.node) else { return };
        match remember(books, environment, *from, &self.audit_folder).await {
            Ok(claims) => {
                tracing::warn!(%environment, claims, from, "the store has been given back what this node's audit chain knows");
            }
            Err(NotRemembered::Store(fault)) => books.told_of(&fault),
            Err(NotRemembered::Files(error)) => {
                tracing::error!(%environment, %error, "this node's audit chain cannot be read; money stays closed");
            }
        }
    }
}

fn forgotten(content: &Content) -> Forgotten {
    match content {
        Content::Whole(bytes) => Forgotten::read(bytes),
        Content::Spent => Forgotten::read(b""),
    }
}
