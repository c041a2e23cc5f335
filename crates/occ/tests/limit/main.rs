//! The memory limit between two measurements of the process: growth ends at the limit
//! although no measurement happens.
//!
//! A separate program, because its allocator counts. The test plays the kernel and
//! reports the resident memory:
//!
//! ```text
//!   allocated 8 MiB                     and no holes
//!   1.2 MiB allocated and freed         the kernel has 1.2 MiB more than is allocated,
//!                                       which only the kernel knows
//!   growth ends at                      limit − 1.2 MiB, not at limit − reserve
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coeval_log::Settings as LogSettings;
use coeval_memory::allocator::{self, Allocator};
use coeval_memory::heap;
use coeval_occ::{Budget, Engine, Settings};
use coeval_txn::{Engine as _, Error, Isolation};
use coeval_types::IndexKind;

use support::{PRIMARY, begin, commit, definition, index, insert, lock_table, settings};

#[path = "../it/support.rs"]
#[allow(dead_code, reason = "what the other tests need besides")]
mod support;

#[global_allocator]
static ALLOCATOR: Allocator = allocator::NEW;

const LIMIT: u64 = 10 << 20;
/// Bytes allocated and freed: less than the holes that count, more than the reserve.
const HOLE: u64 = LIMIT / 8;

fn taken() -> u64 {
    heap::bytes().expect("the allocator counts")
}

/// Inserts a hundred rows in each transaction until `enough` or until the engine refuses
/// one; returns the first key that is absent.
async fn fill(engine: &Engine, first: u64, enough: impl Fn() -> bool) -> u64 {
    let mut next = first;
    while !enough() {
        let mut t = begin(engine, Isolation::ReadCommitted).await;
        lock_table(&mut *t).await.expect("nobody else");
        for key in next..next + 100 {
            if let Err(error) = insert(&mut *t, (key, 0)).await {
                assert_eq!(error, Error::OutOfMemory);
                return next;
            }
        }
        commit(&mut *t).await.expect("nobody else");
        next += 100;
        assert!(next < 10_000_000, "there is no end to it");
    }
    next
}

#[tokio::test]
async fn growth_ends_at_the_limit_whoever_looks_or_does_not() {
    allocator::start();
    let settings = Settings {
        budget: Budget::of(LIMIT, 50),
        log: LogSettings {
            ring_bytes: 1 << 20,
            frame_payload_bytes: 64 << 10,
            ..LogSettings::default()
        },
        ..settings()
    };
    let engine = Engine::ephemeral(settings).expect("sound settings");
    let indexes = vec![index(PRIMARY, IndexKind::Primary, 0)];
    engine
        .attach_storage(definition(indexes))
        .expect("a new engine has no storage");
    let (holes, asked) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let kernel = (Arc::clone(&holes), Arc::clone(&asked));
    engine.ask_resident(move || {
        kernel.1.fetch_add(1, Ordering::Relaxed);
        Some(taken() + kernel.0.load(Ordering::Relaxed))
    });
    // The only measurement of the process.
    engine.set_occupied(taken(), 0);
    let looked = asked.load(Ordering::Relaxed);

    // Far from the limit no transaction asks.
    let next = fill(&engine, 0, || taken() > LIMIT / 4 * 3 - LIMIT / 8).await;
    assert_eq!(asked.load(Ordering::Relaxed), looked);
    assert!(next > 1000, "{next}");

    // Memory that was freed and allocated again is no hole: a transaction that asks is
    // admitted.
    for _ in 0..64 {
        drop(std::hint::black_box(vec![1_u8; HOLE as usize]));
    }
    let next = fill(&engine, next, || taken() > LIMIT / 5 * 4).await;
    assert_eq!(engine.memory().refused, 0);
    let churned = asked.load(Ordering::Relaxed);
    assert!(churned > looked, "{churned}");

    // Holes that no measurement has seen count as soon as they matter.
    drop(std::hint::black_box(vec![1_u8; HOLE as usize]));
    holes.store(HOLE, Ordering::Relaxed);
    let next = fill(&engine, next, || false).await;
    let there = taken() + HOLE;
    let (least, most) = (LIMIT / 100 * 95, LIMIT / 100 * 102);
    assert!((least..most).contains(&there), "{there} of {LIMIT}");
    assert!(asked.load(Ordering::Relaxed) > churned);

    // The allocator returns the holes: growth continues at once, to the reserve.
    holes.store(0, Ordering::Relaxed);
    let again = fill(&engine, next, || false).await;
    assert!(again > next, "{again} after {next}");
    let there = taken();
    let most = LIMIT / 16 * 15 + LIMIT / 100 * 2;
    assert!(
        (LIMIT / 100 * 90..most).contains(&there),
        "{there} of {LIMIT}"
    );
}
