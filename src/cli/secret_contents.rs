//! Secrets that are none: what `sluice init` wrote in their place, and one secret for two purposes.

use std::collections::BTreeMap;

use super::Loaded;
use crate::adapters::regular_file::read_regular;
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::config::is_loopback;

/// A placeholder for a token that only upstream can issue; the simulator accepts it.
pub(super) const PLACEHOLDER: &str = "put-here-the-token-that-upstream-gave-you";

/// Returns a finding for every file whose secret is a placeholder, or stands in another file as well.
pub(super) fn secret_contents(loaded: &Loaded) -> Vec<Finding> {
    let production = loaded.config.environments.iter().find(|of| of.environment == Environment::Production);
    // A simulator on this machine moves no money.
    if production.is_none_or(|of| is_loopback(&of.upstream.host)) {
        return Vec::new();
    }
    let mut files_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in &loaded.secret_files {
        let text = read_regular(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let secret = text.as_deref().map(str::trim).filter(|secret| !secret.is_empty());
        if let Some(secret) = secret {
            files_of.entry(secret.to_owned()).or_default().push(path.display().to_string());
        }
    }
    let finding = |(secret, files): (&String, &Vec<String>)| {
        let (first, others) = files.split_first()?;
        if secret == PLACEHOLDER {
            let text = "it has the placeholder that `sluice init` wrote, and no token";
            return Some(Finding::insecure(first, text).remedy("put the token into it that the payments API gave you"));
        }
        let text = format!("it has the same secret as {}: whoever gets one has both", others.join(", "));
        (!others.is_empty()).then(|| Finding::insecure(first, text).remedy("use another secret for each purpose"))
    };
    files_of.iter().filter_map(finding).collect()
}
