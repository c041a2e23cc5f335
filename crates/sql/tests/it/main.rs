//! SQL as clients see it, over the engines there are.

mod catalogs;
mod client;
mod cluster_versions;
mod cluster_views;
mod commit_waits;
mod concurrent;
mod contention;
mod damage;
mod disclosed;
mod engines;
mod extended;
mod followed;
mod follower;
mod fuzz;
mod handover;
mod lock_matrix;
mod outcomes;
mod read_confirmation;
mod reopen;
mod row_locks;
mod sequences;
mod simulated;
mod temporary;
mod times;
mod transcript;
mod work_meter;
