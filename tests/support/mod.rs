//! The harness: a gate, an upstream that does what it is told, a caller that sends bytes.
//!
//! Nothing here sleeps: everything waits on a condition, with a deadline after which the test fails.

pub mod between;
pub mod call;
pub mod canary;
pub mod caller;
pub mod clock;
pub mod command;
pub mod cluster;
pub mod counted_disk;
pub mod false_clock;
pub mod files;
pub mod gate;
pub mod redis;
pub mod scripted;
pub mod sentinels;
pub mod shape;
pub mod shared;
#[path = "../../src/base/webauthn/tests/soft_key.rs"]
pub mod soft_key;
pub mod slow_names;
pub mod split;
pub mod terminal;
pub mod tls;
pub mod token;
pub mod troubled_disk;
pub mod upstream;
pub mod wire;

pub use between::Between;
pub use call::{Call, get, post};
pub use caller::{Answer, Caller};
pub use files::copy_folder;
pub use gate::{Gate, Setup};
pub use redis::Redis;
pub use upstream::{Act, Upstream};
