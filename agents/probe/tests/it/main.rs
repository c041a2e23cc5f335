//! The probe against real databases, and against one that is stale.
//!
//! Whether a run is void depends on how busy the machine is, so all tests but one permit any
//! slip. What is asserted of Γ does not depend on time: one copy has none.

mod coeval;
mod command;
mod postgres;
mod redis;
mod stale;
