//! What the environment promises, in each world.

mod real;
#[cfg(feature = "sim")]
mod simulated;
