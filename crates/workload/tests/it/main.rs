//! Tests of the workloads on the serial engine, in this process, in the real environment
//! and in a simulated one.
//!
//! The server's tests cover the workloads on `occ` and over the wire.

mod driver;
mod many;
mod planted;
mod serial;
mod simulated;
mod support;
