//! The embedded store of this machine: its file, the gate that serves from it, and its content where none does.

use std::sync::Arc;

use super::money::check_money;
use super::report::DoctorReport;
use super::seal_keys::{sealed, seals};
use super::surroundings::DAMAGED;
use super::{START_ONE, console_listener, hold_room, report_fault, running, seal_keys, surroundings};
use crate::adapters::clock::SystemClock;
use crate::adapters::store::embedded::{Embedded, FILE, OpenError, Options};
use crate::config::Config;

/// The remedy where the file is there, and its content is not.
const REBUILD: &str =
    "start the gate: it builds the store anew from its journal; check the disk, and whoever copied the file";

pub(super) async fn check(config: &Config, policies: Option<&str>, report: &mut DoctorReport) -> anyhow::Result<()> {
    report.kind = "embedded";
    let folder = &config.store.folder;
    if !folder.join(FILE).exists() {
        check_missing(config, policies, report).await;
        return Ok(());
    }
    let options = Options { seals: seals(config)?, ..Options::default() };
    let is_right = seal_keys::are_right(config, report)?;
    match Embedded::open_existing(folder, Arc::new(SystemClock), options) {
        Ok(_) if !is_right => {
            report.store = format!("`{}`, not read: `store.seal_key` is another key", folder.display());
            report.environments.clone().into_iter().for_each(|environment| report.money(environment, false));
        }
        Ok(store) => {
            let state = surroundings::check_content(&store, report);
            let killed = "; its gate was killed, so its last calls may be in the journal alone";
            let behind = if store.needs_journal() { killed } else { "" };
            report.store = format!("`{}`, {state}; no gate serves from it{behind}", folder.display());
            report.find("no gate serves from this store: no call is answered", START_ONE);
            let sealed = sealed(Arc::new(store), config)?;
            for environment in report.environments.clone() {
                if state == DAMAGED {
                    report.money(environment, false);
                    continue;
                }
                let checked = check_money(&sealed, environment, report).await;
                report_fault(checked.map(|_| ()), environment, report);
                report.money(environment, false);
                let checked = hold_room::check(&sealed, environment, &config.limits, report).await;
                report_fault(checked, environment, report);
            }
        }
        Err(OpenError::Locked(_)) => {
            report.store = format!("`{}`, a gate serves from it", folder.display());
            running::check(config, policies, report).await;
            console_listener::check(config, report).await;
        }
        Err(error @ (OpenError::Damaged(_) | OpenError::Empty(_))) => {
            report.store = format!("`{}`, {DAMAGED}; no gate serves from it", folder.display());
            match error {
                OpenError::Damaged(why) => surroundings::find_damage(&why, report),
                error => report.find(&error.to_string(), REBUILD),
            }
            report.environments.clone().into_iter().for_each(|environment| report.money(environment, false));
        }
        Err(error) if error.may_pass() => {
            surroundings::find_trouble(&error, report);
            running::check(config, policies, report).await;
        }
        Err(error) => {
            report.store = "cannot be opened".to_owned();
            report.find(
                &error.to_string(),
                "restore the right store; with an empty store, the gate does not know what was paid",
            );
        }
    }
    surroundings::check_disks(config, report);
    Ok(())
}

/// Tells a store that nobody created from one whose file is gone while its gate goes on with it.
async fn check_missing(config: &Config, policies: Option<&str>, report: &mut DoctorReport) {
    let folder = config.store.folder.display();
    if !running::is_there(config).await {
        report.store = format!("no store in `{folder}` yet");
        report.find(
            "there is no store yet",
            "create it once with `sluice store create`; if this gate has served before, this is the wrong folder",
        );
        return;
    }
    report.store = format!("`{folder}` lacks its file `{FILE}`, although a gate runs");
    report.find(
        &format!("the file of the store is gone: `{}`", config.store.folder.join(FILE).display()),
        "create no store: the gate goes on with the file that it has open, and its journal has all of it; if the file was moved, or \
         its disk is not mounted, bring it back; otherwise restart the gate, which builds it anew from its journal",
    );
    running::check(config, policies, report).await;
    console_listener::check(config, report).await;
    surroundings::check_disks(config, report);
}
