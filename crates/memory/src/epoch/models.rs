//! Model checks of epoch-based reclamation under loom and shuttle.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::sync::{Fault, thread};

/// A shared object that records whether it is alive. Leaked, so that a test can still read
/// it after its death.
struct Cell {
    alive: AtomicBool,
}

fn cell() -> *mut Cell {
    Box::into_raw(Box::new(Cell {
        alive: AtomicBool::new(true),
    }))
}

fn assert_alive(cell: *mut Cell) {
    // SAFETY: cells are leaked.
    let alive = unsafe { (*cell).alive.load(std::sync::atomic::Ordering::SeqCst) };
    assert!(alive, "a reader sees freed memory");
}

/// Marks a cell as freed.
///
/// # Safety
/// `cell` is a `*mut Cell`.
unsafe fn kill(cell: *mut ()) {
    // SAFETY: cells are leaked.
    unsafe {
        (*cell.cast::<Cell>())
            .alive
            .store(false, std::sync::atomic::Ordering::SeqCst)
    };
}

/// A reader reads a cell twice while a writer replaces it, retires it, and advances the
/// epoch.
fn read_replace_collect() {
    let domain = Arc::new(Domain::new());
    let shared = Arc::new(AtomicPtr::new(cell()));
    let reader = {
        let (domain, shared) = (domain.clone(), shared.clone());
        thread::spawn(move || {
            let _guard = domain.pin();
            let cell = shared.load(Ordering::Acquire);
            assert_alive(cell);
            // A load of shared memory, where the checker can switch to other threads.
            shared.load(Ordering::Relaxed);
            assert_alive(cell);
        })
    };
    {
        let guard = domain.pin();
        let old = shared.swap(cell(), Ordering::AcqRel);
        // SAFETY: just unlinked, by this thread alone; `kill` keeps the memory.
        unsafe { guard.retire(old.cast(), kill) };
        // Never linked: fills the bag, which is sealed when the guard is dropped.
        // SAFETY: as above.
        unsafe { guard.retire(cell().cast(), kill) };
    }
    domain.collect();
    reader.join().unwrap();
}

#[test]
fn readers_keep_what_they_see() {
    Fault::none(read_replace_collect);
}

#[test]
#[should_panic(expected = "a reader sees freed memory")]
fn one_epoch_less_is_found_out() {
    FREED_EARLY.put_back(read_replace_collect);
}

/// Two threads find all slots taken and allocate more at the same time.
#[test]
fn slots_grow_under_contention() {
    Fault::none(|| {
        let domain = Arc::new(Domain::new());
        let _all: Vec<_> = (0..CHUNK).map(|_| domain.pin()).collect();
        let other = {
            let domain = domain.clone();
            thread::spawn(move || drop(domain.pin()))
        };
        drop(domain.pin());
        other.join().unwrap();
        assert_eq!(domain.chunks().count(), 2);
    });
}
