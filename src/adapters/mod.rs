//! The world outside: what `ports` promises, kept with real clocks, sockets and files.

pub mod audit;
pub mod clients;
pub mod clock;
pub mod credential;
pub mod glance;
pub mod handed_over;
pub mod identity;
pub mod machine;
pub mod otlp;
pub mod policies;
pub mod random;
pub mod rate;
pub mod redis;
pub mod store;
pub mod supervisor;
pub mod unsettled;
pub mod upstream;
pub mod webhook;
