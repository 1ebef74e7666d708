//! The outside world: implements `ports` with real clocks, sockets and files.

pub mod audit;
pub mod clients;
pub mod clock;
pub mod credential;
pub mod disk_trouble;
pub mod file_stamp;
pub mod heard_dates;
pub mod inherited_sockets;
pub mod identity;
pub mod machine;
pub mod names;
pub mod offline_key;
pub mod opening;
pub mod otlp;
pub mod policies;
pub mod random;
pub mod rate;
pub mod redis;
pub mod regular_file;
pub mod store;
pub mod supervisor;
pub mod unsettled_outcomes;
pub mod upstream;
pub mod webhook;
pub mod witnesses;
