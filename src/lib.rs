//! Sluice: the gate between an organization's own services and a stablecoin payments API.
//!
//! The modules stand in reading order; each knows only those before it, and `tests` holds them to it.
//! `base`, `catalog`, `commit`, `policy`, `chain` and `stations` are pure. `journey` joins the stations to the world that
//! `ports` describes and `adapters` provide; `gateway` is the shell around it, made of pingora's hooks; `console` is for
//! people; `simulator` stands in for upstream; `cli` wires everything.

pub mod base;
pub mod catalog;
pub mod commit;
pub mod policy;
pub mod chain;
pub mod stations;
pub mod ports;
pub mod config;
pub mod telemetry;
pub mod adapters;
pub mod journey;
pub mod gateway;
pub mod console;
pub mod simulator;
pub mod cli;
