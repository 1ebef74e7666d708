//! Sluice: a policy gateway between an organization's own services and a stablecoin payments API.
//!
//! The modules stand in reading order. Each module uses only those before it, and `tests/cases/tidy.rs` fails where
//! one does not.
//!
//! | module | what it owns |
//! |---|---|
//! | `base` | values without behaviour: money, ids, digests, strict JSON, secrets |
//! | `catalog` | the contract: operations, schemas, and how a path finds its operation |
//! | `ledger` | the language of atomic store commits: records, windows, guards, steps |
//! | `policy` | rules, limits and approvals: parsing, evaluation, analysis, differences |
//! | `audit` | the audit log's format: entries, hash chain, checkpoints, verification |
//! | `stations` | what a call passes, in order: admit, check, decide, claim, hold, forward, settle, reply |
//! | `people` | sign-in, sessions and agreements of people at the console |
//! | `notify` | notices to webhooks: events, payloads, signatures |
//! | `ports` | the traits of the outside world: clock, store, upstream, audit sink, rate limiter |
//! | `config` | settings: from the written file to checked values |
//! | `telemetry` | metrics, log lines and spans |
//! | `adapters` | the outside world: Redis, redb, files, keys, upstream connections, webhooks |
//! | `node` | one running gate: its store and audit log, holds, membership, recovery, upkeep |
//! | `journey` | a call from its checked head to its answer: submit, read, release, reconcile |
//! | `edge` | what stands between a socket and the engine: listeners, TLS, the connection guard |
//! | `gateway` | pingora's hooks for callers |
//! | `console` | the API and the page for people |
//! | `serve` | builds, starts, reloads and stops the process |
//! | `witness` | a server that signs the checkpoints of journals which only grew |
//! | `simulator` | a stand-in for the payments API |
//! | `cli` | the command line |
//!
//! `base` to `notify` are pure: no clock, randomness, environment, files, sockets or tasks.

pub mod base;
pub mod catalog;
pub mod ledger;
pub mod policy;
pub mod audit;
pub mod stations;
pub mod people;
pub mod notify;
pub mod ports;
pub mod config;
pub mod telemetry;
pub mod adapters;
pub mod node;
pub mod journey;
pub mod edge;
pub mod gateway;
pub mod console;
pub mod serve;
pub mod witness;
pub mod simulator;
pub mod cli;
