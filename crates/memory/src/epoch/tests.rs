use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Counts how often it was dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn retire(guard: &Guard<'_>, dropped: &Arc<AtomicUsize>) {
    let address = Box::into_raw(Box::new(Counted(dropped.clone())));
    // SAFETY: never linked anywhere, retired once.
    unsafe { guard.retire_box(address) };
}

#[test]
fn garbage_waits_for_a_reader_that_was_there() {
    let domain = Domain::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let reader = domain.pin();
    retire(&domain.pin(), &dropped);
    let stamp = domain.stamp();
    for _ in 0..10 {
        assert!(domain.collect());
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    assert!(!domain.has_passed(stamp));
    drop(reader);
    while domain.collect() {}
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    assert!(domain.has_passed(stamp));
}

#[test]
fn a_later_reader_does_not_hold_it_back() {
    let domain = Domain::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    // The garbage belongs to the second slot; the later reader claims the first.
    let first = domain.pin();
    retire(&domain.pin(), &dropped);
    drop(first);
    domain.collect();
    domain.collect();
    let _later = domain.pin();
    domain.collect();
    domain.collect();
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn retiring_frees_without_anybody_asking() {
    let domain = Domain::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 * BAG_ITEMS {
        retire(&domain.pin(), &dropped);
    }
    assert!(dropped.load(Ordering::Relaxed) >= 5 * BAG_ITEMS);
}

#[test]
fn more_guards_than_slots() {
    let domain = Domain::new();
    let guards: Vec<_> = (0..5 * CHUNK).map(|_| domain.pin()).collect();
    assert_eq!(domain.chunks().count(), 5);
    drop(guards);
    assert!(!domain.collect());
}

#[test]
fn a_thread_that_exits_leaves_its_garbage_to_others() {
    let domain = Domain::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| retire(&domain.pin(), &dropped));
        }
    });
    while domain.collect() {}
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
}

#[test]
fn dropping_the_domain_frees_everything() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    for _ in 0..3 {
        retire(&domain.pin(), &dropped);
    }
    drop(domain);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

/// Readers follow a pointer that a writer keeps replacing; each value records whether it is
/// alive.
#[test]
fn readers_see_no_freed_memory() {
    struct Cell(AtomicUsize);
    impl Drop for Cell {
        fn drop(&mut self) {
            self.0.store(0xDEAD, Ordering::Relaxed);
        }
    }
    let rounds = if cfg!(miri) { 50 } else { 50_000 };
    let domain = Domain::new();
    let shared = std::sync::atomic::AtomicPtr::new(Box::into_raw(Box::new(Cell(1.into()))));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let _guard = domain.pin();
                    // SAFETY: reached under a guard.
                    let cell = unsafe { &*shared.load(Ordering::Acquire) };
                    assert_eq!(cell.0.load(Ordering::Relaxed), 1);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..rounds {
                let guard = domain.pin();
                let fresh = Box::into_raw(Box::new(Cell(1.into())));
                let old = shared.swap(fresh, Ordering::AcqRel);
                // SAFETY: just unlinked, by this thread alone.
                unsafe { guard.retire_box(old) };
            }
        });
    });
    // SAFETY: the threads are gone.
    drop(unsafe { Box::from_raw(shared.into_inner()) });
}
