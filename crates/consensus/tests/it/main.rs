//! Consensus as its callers see it: whatever messages, disks and clocks do, the
//! properties hold, and when they behave, the cluster goes on.

mod cluster;
mod differential;
mod fuzz;
mod planted;
mod random;
mod transcripts;
