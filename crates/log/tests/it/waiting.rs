//! Tests of waiting for ring space and for the disk, step by step.

use std::future::{Future, poll_fn};
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use coeval_log::{Log, SpaceWait};
use coeval_types::Rid;

use crate::support::{STORAGE, open, real, row, small};

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counter {
    fn new() -> (Arc<Self>, Waker) {
        let counter = Arc::new(Self::default());
        (counter.clone(), counter.into())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A builder whose commit frame has about this many bytes.
fn entries(log: &Log, bytes: usize) -> coeval_log::EntryBuilder {
    let mut entries = log.entry_builder();
    entries.patch(
        STORAGE,
        Rid(1),
        coeval_types::Timestamp::ZERO,
        &vec![1; bytes],
    );
    entries
}

#[test]
fn the_installed_prefix_waits_for_the_first_and_wakes_those_it_reaches() {
    let log = Log::ephemeral(small()).unwrap();
    let (_, noop) = Counter::new();
    let mut context = Context::from_waker(&noop);
    let mut builder = entries(&log, 100);
    let mut reserve = || {
        let Poll::Ready(credit) =
            log.poll_prepare(&mut builder, &mut SpaceWait::new(), &mut context)
        else {
            panic!("there is room");
        };
        log.reserve(credit.unwrap())
    };
    let (first, second, third) = (reserve(), reserve(), reserve());
    let order = [first.timestamp(), second.timestamp(), third.timestamp()];
    assert!(order.is_sorted());
    let start = log.installed();
    assert!(start < order[0]);

    let (counters, wakers): (Vec<_>, Vec<_>) = (0..3).map(|_| Counter::new()).unzip();
    for _ in 0..2 {
        for (timestamp, waker) in order.iter().zip(&wakers) {
            let mut context = Context::from_waker(waker);
            assert!(log.poll_durable(*timestamp, &mut context).is_pending());
        }
    }
    let counts = || {
        counters
            .iter()
            .map(|counter| counter.count())
            .collect::<Vec<_>>()
    };
    let committed = entries(&log, 100);
    second.commit(&committed).installed();
    assert_eq!(log.installed(), start, "the first is not in place");
    assert_eq!(counts(), [0, 0, 0]);
    first.commit(&committed).installed();
    assert!(log.installed() >= order[1] && log.installed() < order[2]);
    assert_eq!(counts(), [1, 1, 0], "each once, and only who was reached");
    third.skip();
    assert_eq!(counts(), [1, 1, 1]);
    assert!(
        log.poll_durable(order[2], &mut Context::from_waker(&noop))
            .is_ready()
    );
}

#[test]
fn room_is_handed_out_in_the_order_of_asking() {
    let log = Log::ephemeral(small()).unwrap();
    let (_, noop) = Counter::new();
    let mut context = Context::from_waker(&noop);
    let mut fill = entries(&log, 400);
    let mut held = Vec::new();
    let mut full = SpaceWait::new();
    while let Poll::Ready(credit) = log.poll_prepare(&mut fill, &mut full, &mut context) {
        held.push(credit.unwrap());
    }
    drop(full);
    let at_first = held.len();
    let (large_counter, large_waker) = Counter::new();
    let (small_counter, small_waker) = Counter::new();
    let (mut large, mut little) = (entries(&log, 480), entries(&log, 8));
    {
        let mut gone = pin!(log.prepare(&mut fill));
        assert!(gone.as_mut().poll(&mut context).is_pending());
        let mut large = pin!(log.prepare(&mut large));
        let mut little = pin!(log.prepare(&mut little));
        let mut of_large = Context::from_waker(&large_waker);
        let mut of_small = Context::from_waker(&small_waker);
        assert!(large.as_mut().poll(&mut of_large).is_pending());
        assert!(little.as_mut().poll(&mut of_small).is_pending());
        // There is space for the small commit, whose turn it is not.
        drop(held.pop());
        assert!(little.as_mut().poll(&mut of_small).is_pending());
        assert_eq!((large_counter.count(), small_counter.count()), (0, 0));
        drop(held.pop());
        drop(held.pop());
        assert_eq!((large_counter.count(), small_counter.count()), (1, 1));
        assert!(little.as_mut().poll(&mut of_small).is_ready());
        assert!(large.as_mut().poll(&mut of_large).is_ready());
    }
    // Granted and never taken: the space is returned.
    drop(held);
    let mut taken = Vec::new();
    while let Poll::Ready(credit) = log.poll_prepare(&mut fill, &mut SpaceWait::new(), &mut context)
    {
        taken.push(credit.unwrap());
    }
    assert_eq!(taken.len(), at_first);
}

/// A dropped reservation would hold back every later commit for ever. Tested in a process of
/// its own, because it aborts the process.
#[test]
fn giving_up_a_reserved_place_ends_the_process() {
    const CHILD: &str = "COEVAL_LOG_TEST_GIVE_UP";
    if let Ok(what) = std::env::var(CHILD) {
        let log = Log::ephemeral(small()).unwrap();
        let mut builder = entries(&log, 10);
        let (_, noop) = Counter::new();
        let mut context = Context::from_waker(&noop);
        let mut wait = SpaceWait::new();
        let Poll::Ready(Ok(credit)) = log.poll_prepare(&mut builder, &mut wait, &mut context)
        else {
            panic!("there is room");
        };
        let reservation = log.reserve(credit);
        match what.as_str() {
            "reservation" => drop(reservation),
            "copied" => drop(reservation.commit(&builder)),
            // Not the entries that the credit was taken for.
            "panic" => drop(reservation.commit(&entries(&log, 100))),
            _ => reservation.commit(&builder).installed(),
        }
        return;
    }
    for (what, end) in [
        ("reservation", End::Aborted),
        ("copied", End::Aborted),
        ("panic", End::Aborted),
        ("nothing", End::Well),
    ] {
        let name = "waiting::giving_up_a_reserved_place_ends_the_process";
        assert_eq!(end_in_a_child(name, &[(CHILD, what)]), end, "{what}");
    }
}

/// Outcome of a process. A test that only panics would end with an error code instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    WithAnError,
    Aborted,
}

/// Runs the named test with these variables in a process of its own, and returns how it ends.
fn end_in_a_child(test: &str, variables: &[(&str, &str)]) -> End {
    const SIGABRT: i32 = 6;
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("running 1 test"),
        "{output:?}"
    );
    match output.status.signal() {
        _ if output.status.success() => End::Well,
        Some(SIGABRT) => End::Aborted,
        _ => End::WithAnError,
    }
}

/// A row of another length than announced would overwrite the following bytes in the log, or
/// leave a hole. Tested in a process of its own, as above.
#[test]
fn a_row_that_is_not_the_one_noted_ends_the_process() {
    const CHILD: &str = "COEVAL_LOG_TEST_ROW";
    const DIRECTORY: &str = "COEVAL_LOG_TEST_DIRECTORY";
    const ROW: usize = 300;
    if let Ok(what) = std::env::var(CHILD) {
        let directory = std::env::var_os(DIRECTORY).unwrap();
        real(async {
            let (log, ..) = open(directory.as_ref(), small()).await.unwrap();
            let mut entries = log.entry_builder();
            // The first part is written ahead as a chunk.
            for number in 0..2 {
                entries.image_to_come(STORAGE, Rid(1), number, ROW);
            }
            let bytes = row(&[7; ROW]);
            let right = &bytes[..ROW];
            let (shorter, longer) = (&right[1..], &bytes[..=ROW]);
            let rows = match what.as_str() {
                "chunk shorter" => [shorter, right],
                "commit shorter" => [right, shorter],
                "commit longer" => [right, longer],
                _ => [right, right],
            };
            let mut wait = SpaceWait::new();
            let credit = poll_fn(|context| {
                log.poll_prepare_with(&mut entries, |number| rows[number], &mut wait, context)
            });
            let reservation = log.reserve(credit.await.unwrap());
            let copied = match what.as_str() {
                "commit without" => reservation.commit(&entries),
                _ => reservation.commit_with(&entries, |number| rows[number]),
            };
            copied.installed();
            log.close().await.unwrap();
        });
        return;
    }
    for (what, end) in [
        ("chunk shorter", End::Aborted),
        ("commit shorter", End::Aborted),
        ("commit longer", End::Aborted),
        ("commit without", End::Aborted),
        ("nothing", End::Well),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let variables = [
            (CHILD, what),
            (DIRECTORY, directory.path().to_str().unwrap()),
        ];
        let name = "waiting::a_row_that_is_not_the_one_noted_ends_the_process";
        assert_eq!(end_in_a_child(name, &variables), end, "{what}");
    }
}
