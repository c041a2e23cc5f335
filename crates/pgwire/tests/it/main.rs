//! Hostile bytes, and the pgwire library in the role of the client.

mod fuzz;
mod hostile;
mod library;
