//! A call's journey: the places that join the stations to the outside world.
//!
//! | module | what it does |
//! |---|---|
//! | `absence` | the claim of a call that may be sent again |
//! | `submit` | carries a write from its checked head to its answer |
//! | `read` | carries a read: sends it, or prepares it for the engine to stream |
//! | `release` | sends what people have approved |
//! | `reconcile` | asks upstream what became of calls whose outcome is unknown |
//! | `follow` | follows payments in upstream's list to their end, and finds those that no gate sent |
//! | `foreign_payment` | tells people of a call that upstream executed otherwise than it was sent |
//! | `own_read` | a page of a list of upstream, read by the gate for itself |
//! | `judge` | the outcome of an answer, and what operators should know of it |
//! | `sent_credential` | the gate's own credential, which no answer may repeat |
//! | `egress` | the one door out: every byte to upstream passes here |

mod absence;
mod egress;
pub mod follow;
mod foreign_payment;
mod judge;
mod own_read;
pub mod read;
pub mod reconcile;
pub mod release;
mod sent_credential;
pub mod submit;

pub use egress::{Egress, LateAnswers};
pub use sent_credential::SentCredential;
