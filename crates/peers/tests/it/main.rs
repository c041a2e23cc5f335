//! What nodes can rely on when they talk to each other.

mod fuzz;
mod hostile;
mod kinds;
mod members;
mod partitions;
mod pressure;
mod streams;
mod support;
mod tls;
