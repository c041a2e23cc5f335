use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{AdvisoryKey, AdvisoryMode, AdvisoryWait, Locking, SessionLocks, Span};
use crate::error::SqlState;
use crate::instance::Instance;
use crate::instance::activity::{Entrant, Listed, Unobserved};

const KEY: AdvisoryKey = AdvisoryKey::One(7);
const OTHER: AdvisoryKey = AdvisoryKey::Two(0, 7);

/// A session, with its place in the list of sessions.
struct Session {
    _listed: Listed,
    locks: Arc<SessionLocks>,
}

fn session(around: &Arc<Instance>, process_id: i32) -> Session {
    let listed = Listed::enter(
        around,
        Entrant {
            process_id,
            role: 10,
            user: "ada",
            database: "bank",
            application_name: "psql",
            client: None,
            interrupt: None,
            observer: Arc::new(Unobserved),
            now: 10,
        },
    );
    let locks = Arc::new(SessionLocks::new(
        &around.advisory,
        process_id,
        listed.page(),
    ));
    Session {
        _listed: listed,
        locks,
    }
}

fn task() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Session {
    fn try_lock(&self, key: AdvisoryKey, mode: AdvisoryMode, span: Span) -> bool {
        let taken = self.locks.lock((key, mode, span), None, &task()).unwrap();
        matches!(taken, Locking::Granted)
    }

    fn wait(&self, key: AdvisoryKey, mode: AdvisoryMode, span: Span) -> AdvisoryWait {
        match self.locks.lock((key, mode, span), Some(None), &task()) {
            Ok(Locking::Waits(wait)) => wait,
            other => panic!("{other:?} waits for nothing"),
        }
    }
}

fn is_granted(wait: &mut AdvisoryWait) -> bool {
    match wait.poll(None, &mut task()) {
        Poll::Ready(Ok(())) => true,
        Poll::Pending => false,
        Poll::Ready(Err(error)) => panic!("{error:?}"),
    }
}

/// Runs a test where there is a clock.
fn run(test: impl FnOnce(Arc<Instance>)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let around = Arc::<Instance>::default();
        test(Arc::clone(&around));
        assert_eq!(around.advisory.table().entries(), (0, 0), "nothing is left");
    });
}

#[test]
fn exclusive_locks_exclude_and_shared_ones_do_not() {
    run(|around| {
        use AdvisoryMode::{Exclusive, Shared};
        let (a, b) = (session(&around, 1), session(&around, 2));
        assert!(a.try_lock(KEY, Shared, Span::Session));
        assert!(b.try_lock(KEY, Shared, Span::Transaction));
        assert!(!b.try_lock(KEY, Exclusive, Span::Session));
        assert!(b.try_lock(OTHER, Exclusive, Span::Session));
        assert!(!a.try_lock(OTHER, Shared, Span::Session));
        assert!(a.locks.unlock(KEY, Shared));
        assert!(!a.locks.unlock(KEY, Shared), "it is given back");
        assert!(
            b.try_lock(KEY, Exclusive, Span::Session),
            "b holds it alone"
        );
        assert!(!a.try_lock(KEY, Shared, Span::Session));
        b.locks.end_transaction();
        assert!(!a.try_lock(KEY, Shared, Span::Session));
        b.locks.unlock_all();
        assert!(a.try_lock(KEY, Shared, Span::Session));
        assert!(a.try_lock(OTHER, Exclusive, Span::Session));
    });
}

#[test]
fn what_was_taken_twice_is_given_back_twice() {
    run(|around| {
        use AdvisoryMode::Exclusive;
        let (a, b) = (session(&around, 1), session(&around, 2));
        assert!(a.try_lock(KEY, Exclusive, Span::Session));
        assert!(a.try_lock(KEY, Exclusive, Span::Session));
        assert!(a.try_lock(KEY, Exclusive, Span::Transaction));
        assert!(a.locks.held_beyond_transaction() > 0);
        assert!(a.locks.unlock(KEY, Exclusive));
        assert!(a.locks.unlock(KEY, Exclusive));
        assert!(!a.locks.unlock(KEY, Exclusive));
        assert_eq!(a.locks.held_beyond_transaction(), 0);
        assert!(!b.try_lock(KEY, Exclusive, Span::Session));
        a.locks.end_transaction();
        assert!(b.try_lock(KEY, Exclusive, Span::Session));
    });
}

#[test]
fn a_rollback_to_a_savepoint_gives_back_what_came_after_it() {
    run(|around| {
        use AdvisoryMode::Exclusive;
        let (a, b) = (session(&around, 1), session(&around, 2));
        assert!(a.try_lock(KEY, Exclusive, Span::Transaction));
        let mark = a.locks.mark();
        assert!(a.try_lock(OTHER, Exclusive, Span::Transaction));
        assert!(a.try_lock(KEY, Exclusive, Span::Transaction));
        a.locks.roll_back_to(mark);
        assert!(b.try_lock(OTHER, Exclusive, Span::Session));
        assert!(!b.try_lock(KEY, Exclusive, Span::Session));
        a.locks.end_transaction();
        assert!(b.try_lock(KEY, Exclusive, Span::Session));
    });
}

#[test]
fn requests_are_granted_in_their_order() {
    run(|around| {
        use AdvisoryMode::{Exclusive, Shared};
        let sessions: Vec<_> = (1..=4).map(|pid| session(&around, pid)).collect();
        let [a, b, c, d] = &sessions[..] else {
            unreachable!()
        };
        assert!(a.try_lock(KEY, Shared, Span::Session));
        let mut second = b.wait(KEY, Exclusive, Span::Session);
        let mut third = c.wait(KEY, Shared, Span::Transaction);
        let mut fourth = d.wait(KEY, Shared, Span::Session);
        assert!(!is_granted(&mut second) && !is_granted(&mut third));
        // A holder passes those that wait for it.
        assert!(a.try_lock(KEY, Shared, Span::Transaction));
        assert_eq!(around.advisory.shown().len(), 4);
        a.locks.end_transaction();
        a.locks.unlock_all();
        assert!(!is_granted(&mut third) && !is_granted(&mut fourth));
        assert!(is_granted(&mut second));
        b.locks.unlock_all();
        assert!(is_granted(&mut third) && is_granted(&mut fourth));
        let granted = |lock: &super::ShownLock| lock.granted && lock.waits_since.is_none();
        assert!(around.advisory.shown().iter().all(granted));
    });
}

#[test]
fn a_request_that_is_given_up_holds_nobody_up() {
    run(|around| {
        use AdvisoryMode::{Exclusive, Shared};
        let (a, b, c) = (
            session(&around, 1),
            session(&around, 2),
            session(&around, 3),
        );
        assert!(a.try_lock(KEY, Shared, Span::Session));
        let first = b.wait(KEY, Exclusive, Span::Session);
        let mut second = c.wait(KEY, Shared, Span::Session);
        assert!(!is_granted(&mut second));
        drop(first);
        assert!(is_granted(&mut second));
        // One that was granted before it was given up is given back.
        let late = b.wait(KEY, Exclusive, Span::Transaction);
        a.locks.unlock_all();
        c.locks.unlock_all();
        drop(late);
        assert!(a.try_lock(KEY, Exclusive, Span::Session));
    });
}

#[test]
fn the_request_that_closes_a_circle_fails() {
    run(|around| {
        use AdvisoryMode::Exclusive;
        let (a, b) = (session(&around, 1), session(&around, 2));
        assert!(a.try_lock(KEY, Exclusive, Span::Session));
        assert!(b.try_lock(OTHER, Exclusive, Span::Transaction));
        let mut first = a.wait(OTHER, Exclusive, Span::Session);
        assert!(!is_granted(&mut first));
        let mut second = b.wait(KEY, Exclusive, Span::Session);
        let Poll::Ready(Err(error)) = second.poll(None, &mut task()) else {
            panic!("it closes a circle");
        };
        assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED);
        drop(second);
        b.locks.end_transaction();
        assert!(is_granted(&mut first));
    });
}

#[test]
fn a_session_holds_a_bounded_number_of_locks() {
    run(|around| {
        let a = session(&around, 1);
        let mut taken = 0;
        let error = loop {
            let key = AdvisoryKey::One(taken);
            let lock = (key, AdvisoryMode::Exclusive, Span::Session);
            match a.locks.lock(lock, None, &task()) {
                Ok(_) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
        assert!(taken >= 1000);
        let b = session(&around, 2);
        assert!(b.try_lock(AdvisoryKey::One(-1), AdvisoryMode::Shared, Span::Session));
    });
}

#[test]
fn locks_end_with_their_session() {
    run(|around| {
        let a = session(&around, 1);
        let b = session(&around, 2);
        assert!(a.try_lock(KEY, AdvisoryMode::Exclusive, Span::Session));
        let mut wait = b.wait(KEY, AdvisoryMode::Exclusive, Span::Session);
        assert!(!is_granted(&mut wait));
        drop(a);
        assert!(is_granted(&mut wait));
    });
}

#[test]
fn keys_are_shown_as_postgresql_shows_them() {
    assert_eq!(AdvisoryKey::One(1).numbers(), (0, 1, 1));
    assert_eq!(
        AdvisoryKey::One(-1).numbers(),
        (u32::MAX, u32::MAX, 1),
        "a bigint is two halves"
    );
    assert_eq!(AdvisoryKey::Two(3, -2).numbers(), (3, u32::MAX - 1, 2));
}
