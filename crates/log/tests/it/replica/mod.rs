//! Tests of the logs of a cluster's nodes: copies, truncations, leaders.

mod crashes;
mod damage;
mod following;
mod frames;
mod identities;
mod installing;
mod leading;
mod replaying;
