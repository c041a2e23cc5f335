//! What the environment promises, in each world.

#[cfg(feature = "sim")]
mod accidents;
mod real;
#[cfg(feature = "sim")]
mod simulated;
