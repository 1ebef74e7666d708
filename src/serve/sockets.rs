//! Binds every address of a start, or takes the sockets that were handed over.

use super::start_error::StartError;
use crate::adapters::inherited_sockets::HandedOver;
use crate::config::Config;
use crate::edge::listen::BoundAddress;

/// The bound addresses.
pub(super) struct Sockets {
    /// In the order of the configuration.
    pub environments: Vec<BoundAddress>,
    pub console: Option<BoundAddress>,
    pub probes: BoundAddress,
}

impl Sockets {
    pub fn bind(config: &Config, handed: &mut HandedOver) -> Result<Sockets, StartError> {
        let mut bind = |what: &str, address| {
            let fault = |error| StartError::Bind { what: what.to_owned(), address, error };
            BoundAddress::bind(address, handed).map_err(fault)
        };
        let environments = config.environments.iter().map(|one| bind(one.environment.as_str(), one.listen));
        let sockets = Sockets {
            environments: environments.collect::<Result<_, _>>()?,
            console: config.console.as_ref().map(|console| bind("console", console.listen)).transpose()?,
            probes: bind("probes", config.probes.listen)?,
        };
        match handed.left() {
            None => Ok(sockets),
            Some(address) => Err(StartError::NotOurs(address)),
        }
    }
}
