//! That the rivals in measurements do what they are said to.

mod frs;
mod jumps;
mod model;
mod validators;
