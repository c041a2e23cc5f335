//! The house rules, one per file.

mod clippy_lists;
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
mod sqlstates;
mod status;
mod unsafe_code;

use crate::finding::Finding;
use crate::workspace::Workspace;

/// A rule: a function that returns its findings in a workspace.
pub type Rule = fn(&Workspace) -> Vec<Finding>;

/// Every rule that `cargo xtask check` runs.
pub const ALL: &[Rule] = &[
    clippy_lists::check,
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
    sqlstates::check,
    status::check,
    unsafe_code::check,
];
