//! The log as its users see it: what is acknowledged survives, what is damaged is
//! found.

mod checkpoints;
mod crashes;
mod damage;
mod files;
mod fuzz;
mod gathering;
mod replica;
mod support;
mod waiting;
