//! Tests of the environment's guarantees, real and simulated.

#[cfg(feature = "sim")]
mod accidents;
#[cfg(feature = "sim")]
mod packets;
mod real;
#[cfg(feature = "sim")]
mod simulated;
