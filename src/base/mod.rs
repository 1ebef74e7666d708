//! Values with no behaviour of their own: what every other part speaks in.
//!
//! Nothing here reads a clock, the environment, a file or a socket.

pub mod digest;
pub mod finding;
pub mod ids;
pub mod json;
pub mod keyed;
pub mod money;
pub mod normal;
pub mod pointer;
pub mod secret;
pub mod spanned;
pub mod traceparent;
