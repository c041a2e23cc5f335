//! What the environment promises, in each world.

mod real;
mod simulated;
