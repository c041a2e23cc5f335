//! Tests that the rivals in measurements work as documented.

mod frs;
mod jumps;
mod model;
mod validators;
