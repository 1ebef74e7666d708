//! The world outside: what `ports` promises, kept with real clocks, sockets and files.

pub mod clock;
pub mod credential;
pub mod identity;
pub mod rate;
pub mod redis;
pub mod trace;
pub mod upstream;
