//! The journeys: the only places that join the stations to the world.

mod road;

pub mod fetch;
pub mod rates;
pub mod submit;

pub use road::Road;
