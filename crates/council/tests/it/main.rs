//! Councils in a simulated world: machines with disks that lose power, links that break, and the
//! properties of consensus checked after every step.

mod faults;
mod judge;
mod network;
mod rules;
mod world;
