//! Logs of the nodes of a cluster: copies, cuts, leaders.

mod crashes;
mod damage;
mod following;
mod frames;
mod leading;
mod replaying;
