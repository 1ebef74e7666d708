//! The edge: the code between a socket and the engine.
//!
//! | module | what it owns |
//! |---|---|
//! | `listen` | bound addresses, connection counts, and how accepting ends |
//! | `handshake` | the beginning of a connection, and the memory of its TLS |
//! | `tls` | the certificates of listeners, and the checks of callers' certificates |
//! | `guard` | the wire: heads, framing and times, checked before the engine reads a byte |
//! | `arriving` | request bodies while they arrive |
//! | `buffered` | the memory of callers without a place among the calls, with one bound |
//! | `hosts` | the host names under which a listener answers |
//! | `phase` | how far the process is from its end |

pub mod arriving;
pub mod buffered;
pub mod guard;
mod handshake;
pub mod hosts;
pub mod listen;
mod phase;
pub mod tls;

pub use phase::Phase;
pub use tls::{Speaking, TlsError};
