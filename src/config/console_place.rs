//! Where the console listens, read from a configuration whose rest may be faulty.
//!
//! Commands for people need nothing else of the file: a freeze must not fail because of a setting that it does not use, or
//! a secret that the person cannot read.

use std::net::SocketAddr;

use super::ConfigWorld;
use super::document::{self, FoundValue, RawValue};
use super::environment;
use super::fault::SettingFault;
use super::settings::Section;
use crate::base::finding::Finding;

/// Where the console listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsolePlace {
    pub listen: SocketAddr,
    pub is_tls: bool,
}

/// Reads where the console listens from the configuration file called `file`; `None` where it has no console. The
/// findings are those that prevent it.
pub fn console_place(text: &str, file: &str, world: &ConfigWorld<'_>) -> Result<Option<ConsolePlace>, Vec<Finding>> {
    let document = document::document(text, file);
    if document.is_broken {
        return Err(document.findings);
    }
    let Some(section) = Section::named("console") else { return Ok(None) };
    let heading = section.heading();
    let found = |name: &str| -> Option<FoundValue> {
        let setting = section.setting(name)?;
        let in_file = || document.found.get(&(heading.clone(), setting.name)).cloned();
        environment::found(&heading, setting, world).or_else(in_file)
    };
    let Some(listen) = found("listen") else { return Ok(None) };
    let address = match &listen.raw {
        RawValue::Text(text) => text.parse().ok(),
        _ => None,
    };
    let Some(listen) = address else {
        let fault = SettingFault::new("`console.listen` is no address with a port, such as `127.0.0.1:8083`");
        return Err(vec![fault.error(file, &listen.place)]);
    };
    Ok(Some(ConsolePlace { listen, is_tls: found("tls_certificate").is_some() }))
}
