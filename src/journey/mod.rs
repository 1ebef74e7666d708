//! The journeys: the only places that join the stations to the world.

pub mod submit;
