//! Workloads on the serial engine, in this process, in the real world and in a simulated
//! one.
//!
//! The same on `occ` and over the wire is in the tests of the server, which names them.

mod driver;
mod many;
mod planted;
mod serial;
mod simulated;
mod support;
