//! Tests of the log's public interface: acknowledged commits survive, and damage is
//! detected.

mod checkpoints;
mod crashes;
mod damage;
mod files;
mod fuzz;
mod group_commit;
mod replica;
mod support;
mod waiting;
