//! What every store does.

pub mod indexes;
pub mod keeping;
pub mod outbox;
pub mod racing;
pub mod records;
pub mod time;
pub mod windows;
