//! The world outside: what `ports` promises, kept with real clocks, sockets and files.

pub mod clients;
pub mod clock;
pub mod credential;
pub mod identity;
pub mod trace;
pub mod upstream;
