//! What the environment promises, in each world.

#[cfg(feature = "sim")]
mod accidents;
#[cfg(feature = "sim")]
mod packets;
mod real;
#[cfg(feature = "sim")]
mod simulated;
