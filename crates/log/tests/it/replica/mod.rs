//! Logs of the nodes of a cluster: copies, cuts, leaders.

mod crashes;
mod damage;
mod following;
mod frames;
mod installing;
mod leading;
mod replaying;
