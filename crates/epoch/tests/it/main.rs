//! Epochs under a seed: whole clusters as step functions, with a network that loses, repeats and
//! reorders, disks that lose power, and judges that replay everything on a map.

mod client;
mod disk;
mod files;
mod fuzz;
mod judge;
mod planted;
mod processes;
mod rules;
mod runs;
mod server;
mod wire;
mod world;
