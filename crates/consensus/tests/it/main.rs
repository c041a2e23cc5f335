//! Tests of consensus through its public interface: whatever messages, disks and clocks
//! do, the properties hold, and when faults end, the cluster makes progress.

mod differential;
mod fuzz;
mod message_cluster;
mod planted;
mod random;
mod transcripts;
