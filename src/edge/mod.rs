//! The edge: the code between a socket and the engine.
//!
//! | module | what it owns |
//! |---|---|
//! | `listen` | bound addresses, connection counts, and how accepting ends |
//! | `tls` | the certificates of listeners, and the checks of callers' certificates |
//! | `guard` | the wire: heads, framing and times, checked before the engine reads a byte |
//! | `arriving` | request bodies while they arrive |
//! | `buffered` | the memory of slow callers, with one bound |
//! | `hosts` | the host names under which a listener answers |
//! | `phase` | how far the process is from its end |

pub mod arriving;
pub mod buffered;
pub mod guard;
pub mod hosts;
pub mod listen;
mod phase;
pub mod tls;

pub use phase::Phase;
pub use tls::{Speaking, TlsError};
