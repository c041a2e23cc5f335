//! The house rules, one per file.

mod clippy_lists;
mod commands;
mod crate_lints;
mod dead_files;
mod decisions;
mod env_door;
mod essays;
mod file_length;
mod layering;
mod links;
mod machine_paths;
mod module_pairs;
mod overloaded_names;
mod protocols;
mod renames;
mod sqlstates;
mod status;
mod subjects;
mod unsafe_code;
mod waypoints;

use crate::finding::Finding;
use crate::workspace::Workspace;

/// A rule: a function that returns its findings in a workspace.
pub type Rule = fn(&Workspace) -> Vec<Finding>;

/// Every rule that `cargo xtask check` runs.
pub const ALL: &[Rule] = &[
    clippy_lists::check,
    commands::check,
    crate_lints::check,
    dead_files::check,
    decisions::check,
    env_door::check,
    essays::check,
    file_length::check,
    layering::check,
    links::check,
    machine_paths::check,
    module_pairs::check,
    overloaded_names::check,
    protocols::check,
    renames::check,
    sqlstates::check,
    status::check,
    subjects::check,
    unsafe_code::check,
    waypoints::check,
];
