//! Locks that are waited for in a queue.
//!
//! A lock's own state lies elsewhere, where taking a free lock costs one
//! compare-and-swap: a row's in its record's lock word, a unique key's in
//! [`keys`], a table's in [`tables`]. Only a transaction that finds a lock taken
//! comes here: it leaves its waker in the lock's queue ([`queues`]) and says in
//! the wait-for graph ([`graph`]) what it waits for.
//!
//! ```text
//!   writer ── compare-and-swap ──▶ free?  yes: goes on, touches nothing else
//!                                   │ no
//!                                   ▼
//!              queue (waker)  +  wait-for graph (circle? then give way)
//!                                   │ woken by the holder's release
//!                                   ▼
//!                      compare-and-swap again, or granted on its behalf
//! ```
//!
//! **Barging.** A release frees the lock and wakes the head of the queue; a
//! transaction that is running may take the lock before the head gets a core. So
//! a hot row changes hands at the speed of memory rather than of wake-ups. A head
//! that has been passed over [`queues::PASSED_OVER_LIMIT`] times gets the lock
//! handed over: the releaser takes it on the head's behalf.

pub(crate) mod graph;
pub(crate) mod keys;
pub(crate) mod queues;
pub(crate) mod tables;
