//! What is shown, a module per theme.

mod passage;
