//! That the rivals in measurements do what they are said to.

mod jumps;
mod model;
mod validators;
