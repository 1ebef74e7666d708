//! What the console finds out about policies: the table of what those in force let pass, made once for each set, and the
//! room for sets that somebody tries.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;

use crate::adapters::policies::PolicyFolder;
use crate::catalog::Catalog;
use crate::policy::{KnownNames, Policies, pass_table};

/// The console's findings about policies, and the room for them.
#[derive(Clone, Debug)]
pub struct PolicyAnalyses {
    /// The table of the set that was asked for last, with its version. Whoever asks meanwhile waits for the same analysis.
    kept: Arc<Mutex<Option<KeptTable>>>,
    /// How policies are read, for a set that somebody tries.
    pub(super) folder: PolicyFolder,
    /// The room for sets that are tried at once.
    pub(super) trials: Arc<Semaphore>,
}

/// The version of a set, and its table.
type KeptTable = (String, Arc<Value>);

impl PolicyAnalyses {
    pub fn of(folder: &PolicyFolder) -> PolicyAnalyses {
        PolicyAnalyses { kept: Arc::default(), folder: folder.clone(), trials: Arc::new(Semaphore::new(1)) }
    }

    pub(super) async fn table_of(
        &self,
        policies: &Arc<Policies>,
        catalog: &Arc<Catalog>,
        issuers: &[String],
    ) -> Arc<Value> {
        let mut kept = self.kept.lock().await;
        if let Some((_, table)) = kept.as_ref().filter(|(version, _)| version == policies.version()) {
            return table.clone();
        }
        let work = (policies.clone(), catalog.clone(), issuers.to_vec());
        // The analysis takes a bounded number of steps, but no request is served meanwhile on the same thread.
        let table = spawn_blocking(move || table(&work.0, &work.1, &work.2)).await;
        let table = Arc::new(table.unwrap_or_default());
        if !table.is_null() {
            *kept = Some((policies.version().to_owned(), table.clone()));
        }
        table
    }
}

/// Makes the table of a set. The analysis takes a bounded number of steps, and a core meanwhile.
pub(super) fn table(policies: &Policies, catalog: &Catalog, issuers: &[String]) -> Value {
    let issuers: Vec<&str> = issuers.iter().map(String::as_str).collect();
    let table = pass_table(policies, &KnownNames { catalog, issuers: &issuers, can_share: true });
    let mut json = table.as_json();
    if let Some(members) = json.as_object_mut() {
        members.insert("version".to_owned(), policies.version().into());
        members.insert("words".to_owned(), table.to_string().into());
    }
    json
}
