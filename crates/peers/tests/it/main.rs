//! Integration tests of the guarantees that the crate documents.

mod announced;
mod fuzz;
mod hostile;
mod kinds;
mod members;
mod names;
mod partitions;
mod pressure;
mod streams;
mod support;
mod tls;
