//! Sluice: the gate between an organization's own services and a stablecoin payments API.

pub mod adapters;
pub mod base;
pub mod catalog;
pub mod ports;
pub mod simulator;
