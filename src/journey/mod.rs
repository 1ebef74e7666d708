//! The journeys: the only places that join the stations to the world.

mod books;
mod candidate;
mod exchange;
mod facts;
mod in_force;
mod outlets;
mod remember;
mod road;

pub mod approve;
pub mod activate;
pub mod explain;
pub mod deliver;
pub mod fetch;
pub mod holds;
pub mod lookout;
pub mod operate;
pub mod promised;
pub mod rates;
pub mod reconcile;
pub mod release;
pub mod remind;
pub mod roll;
pub mod sessions;
pub mod setback;
pub mod stand_ins;
pub mod submit;
pub mod upkeep;

pub use books::{Books, Drained};
pub use candidate::Candidate;
pub use exchange::{Exchange, tell_decided};
pub use in_force::{InForce, Snapshot};
pub use outlets::Outlets;
pub use road::Road;
