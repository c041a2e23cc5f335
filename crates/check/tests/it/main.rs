//! Judges and the readers of histories, from outside.

mod definition;
mod fuzz;
mod golden;
mod history;
mod large;
mod soundness;
mod store;
