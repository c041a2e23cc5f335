//! Tests of the judges and of the history readers through the public interface.

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
