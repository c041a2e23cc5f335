//! Locks with wait queues: row, key and table locks, and deadlock detection.
//!
//! A lock's own state is stored where taking a free lock costs one compare-and-swap: a
//! row's in its record's lock word, its sharers' beside it in [`rows`], a unique key's in [`keys`], a table's in [`tables`].
//! Only a transaction that finds a lock taken uses this module: it leaves its waker in
//! the lock's queue ([`queues`]) and enters its wait in the wait-for graph ([`graph`]).
//!
//! ```text
//!   writer ── compare-and-swap ──▶ free?  yes: continues, touches nothing else
//!                                   │ no
//!                                   ▼
//!              queue (waker)  +  wait-for graph (cycle? then abort as the victim)
//!                                   │ woken by the holder's release
//!                                   ▼
//!                      compare-and-swap again, or granted on its behalf
//! ```
//!
//! **Barging.** A release frees the lock and wakes the head of the queue; a running
//! transaction may take the lock before the head gets a core. So a hot row changes hands
//! at the speed of memory rather than of wake-ups. A head that has been passed over
//! [`queues::PASSED_OVER_LIMIT`] times gets the lock handed over: the releaser takes it
//! on the head's behalf.

pub(crate) mod graph;
pub(crate) mod keys;
pub(crate) mod queues;
pub(crate) mod rows;
pub(crate) mod tables;
