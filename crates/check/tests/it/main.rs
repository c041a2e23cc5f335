//! Judges and the readers of histories, from outside.

mod definition;
mod duplicates;
mod fuzz;
mod golden;
mod history;
mod large;
mod levels;
mod recency;
mod soundness;
mod store;
