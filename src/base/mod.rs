//! Values without behaviour: the words that every other module uses.
//!
//! Nothing here reads a clock, the environment, a file or a socket.

pub mod csv;
pub mod digest;
pub mod ed25519;
pub mod finding;
pub mod folded;
pub mod ids;
pub mod json;
pub mod key_bytes;
pub mod keyed;
pub mod money;
pub mod normal;
pub mod pointer;
pub mod secret;
pub mod secret_search;
pub mod spanned;
pub mod traceparent;
pub mod visible;
pub mod webauthn;
pub mod word_enum;
