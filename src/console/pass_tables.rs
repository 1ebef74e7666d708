//! The table of what the policies in force let pass, made once for each set.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::catalog::Catalog;
use crate::policy::{KnownNames, Policies, pass_table};

/// The table of the set that was asked for last, with its version. Whoever asks meanwhile waits for the same analysis.
#[derive(Clone, Debug, Default)]
pub struct PassTables(Arc<Mutex<Option<KeptTable>>>);

/// The version of a set, and its table.
type KeptTable = (String, Arc<Value>);

impl PassTables {
    pub(super) async fn of(&self, policies: &Arc<Policies>, catalog: &Arc<Catalog>, issuers: &[String]) -> Arc<Value> {
        let mut kept = self.0.lock().await;
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

fn table(policies: &Policies, catalog: &Catalog, issuers: &[String]) -> Value {
    let issuers: Vec<&str> = issuers.iter().map(String::as_str).collect();
    let table = pass_table(policies, &KnownNames { catalog, issuers: &issuers, can_share: true });
    let mut json = table.as_json();
    if let Some(members) = json.as_object_mut() {
        members.insert("version".to_owned(), policies.version().into());
        members.insert("words".to_owned(), table.to_string().into());
    }
    json
}
