//! Epochs under a seed: whole clusters as step functions, with a network that loses, repeats and
//! reorders, disks that lose power, and judges that replay everything on a map.

mod backup;
mod client;
mod comparators;
mod damage;
mod disk;
mod files;
mod fuzz;
mod judge;
mod order;
mod planted;
mod processes;
mod rules;
mod runs;
mod server;
mod wire;
mod world;
