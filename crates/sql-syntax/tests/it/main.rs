//! What the crate promises, through its public functions.

mod fuzz;
mod golden;
mod hostile;
mod properties;
