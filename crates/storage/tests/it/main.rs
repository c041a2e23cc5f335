//! Tests of storage through its public interface; and, in builds for a checker, its races.

#[cfg(not(any(loom, shuttle)))]
mod entries;
#[cfg(not(any(loom, shuttle)))]
mod index;
#[cfg(not(any(loom, shuttle)))]
mod model;
#[cfg(any(loom, shuttle))]
mod races;
#[cfg(not(any(loom, shuttle)))]
mod replay;
#[cfg(not(any(loom, shuttle)))]
mod stress;
mod support;
#[cfg(not(any(loom, shuttle)))]
mod table;
