//! Session activity, shown in `pg_stat_activity`: the state, statement and wait of each
//! session.
//!
//! Each session owns a page, an [`Activity`], and updates it when a statement begins and
//! when its client has been answered. Readers (`pg_stat_activity`, a metric,
//! `pg_cancel_backend`) copy the pages of all sessions.
//!
//! ```text
//!   session 7 ──writes──▶ page 7 │ active │ update t set … │ since 12:00:01
//!   session 9 ──writes──▶ page 9 │ idle in transaction     │ since 11:58:40
//!                           ▲
//!   select … from pg_stat_activity ── all pages, one after the other
//! ```
//!
//! A reader or writer holds a page's lock for as long as it takes to copy one statement's
//! text; only the page's session and readers lock it, so a session hardly ever waits for
//! it.
//!
//! Invariants:
//! - A page keeps only the first [`MAX_TEXT`] bytes of a text.
//! - A page is in the list exactly as long as its session lives.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coeval_txn::{ConflictLocation, LockObserver};

/// Maximum length of the statement text that is shown, in bytes.
pub const MAX_TEXT: usize = 1024;

/// Handle by which other sessions cancel a session's statement or terminate the session.
pub trait Interrupt: Send + Sync + fmt::Debug {
    /// Cancels the statement that runs, if any.
    fn cancel(&self);
    /// Terminates the session, and cancels the statement that runs.
    fn terminate(&self);
    /// Cancels the statement that the node of the session's client executes for it, if any.
    fn cancel_at_client(&self) {}
}

/// State of a session, as `pg_stat_activity` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionState {
    /// The session executes a statement, or waits for a resource that the statement
    /// needs.
    Active,
    /// The session waits for its client, outside of a transaction.
    Idle,
    /// The session waits for its client, inside a transaction.
    IdleInTransaction,
    /// The session waits for its client, inside a transaction that has failed.
    IdleInFailedTransaction,
}

impl SessionState {
    /// All session states, for iteration.
    pub const ALL: [Self; 4] = [
        Self::Active,
        Self::Idle,
        Self::IdleInTransaction,
        Self::IdleInFailedTransaction,
    ];

    /// Name of the state in PostgreSQL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// Reason other than a lock why a statement or its answer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerWait {
    /// The statement does not wait.
    None = 0,
    /// The commits that the answer depends on are not durable yet.
    Durable = 1,
    /// The client does not read the answer.
    Client = 2,
    /// The new transaction waits for admission, because the maximum number is running.
    Admission = 3,
    /// The commit waits for space in the log's buffer: the disk is slower than the
    /// writers.
    LogSpace = 4,
    /// The other nodes have not yet confirmed that this node still leads.
    Confirmation = 5,
    /// The leader has not yet said which commits a fresh read must include, or this node's
    /// tables do not show them yet.
    Newest = 6,
    /// The statement sleeps, as it was told.
    Sleep = 7,
}

impl AnswerWait {
    const ALL: [Self; 8] = [
        Self::None,
        Self::Durable,
        Self::Client,
        Self::Admission,
        Self::LogSpace,
        Self::Confirmation,
        Self::Newest,
        Self::Sleep,
    ];

    /// Type and name of the wait event: PostgreSQL's, where PostgreSQL has one.
    const fn names(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::None => None,
            Self::Durable => Some(("IO", "WALSync")),
            Self::Client => Some(("Client", "ClientWrite")),
            Self::Admission => Some(("IPC", "Admission")),
            Self::LogSpace => Some(("IO", "WALWrite")),
            Self::Confirmation => Some(("IPC", "LeaderConfirmation")),
            Self::Newest => Some(("IPC", "ReadIndex")),
            Self::Sleep => Some(("Timeout", "PgSleep")),
        }
    }
}

/// The activity page of one session.
#[derive(Debug)]
pub struct Activity {
    process_id: i32,
    role: u32,
    user: String,
    database: String,
    client: Option<SocketAddr>,
    /// When the session connected, in microseconds since 2000 UTC, like all times here.
    started: i64,
    interrupt: Option<Arc<dyn Interrupt>>,
    /// When the session's transaction began; 0 if none runs.
    transaction_start: AtomicI64,
    answer: AtomicU8,
    /// Kind of lock that the transaction waits for, as reported by the engine.
    lock: AtomicU8,
    /// A second observer, which is notified of the same lock waits.
    observer: Arc<dyn LockObserver>,
    page: Mutex<Page>,
}

#[derive(Debug)]
struct Page {
    application_name: String,
    state: SessionState,
    query: String,
    query_start: i64,
    state_change: i64,
}

/// A copy of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Process id of the session, as `pg_backend_pid()` returns it.
    pub process_id: i32,
    /// OID of the role that has logged in.
    pub role: u32,
    /// Name of the role that has logged in.
    pub user: String,
    /// Name of the database, as the client gave it.
    pub database: String,
    /// The client's `application_name`.
    pub application_name: String,
    /// The client's network address, if the client connected over the network.
    pub client: Option<SocketAddr>,
    /// When the client connected, in microseconds since 2000 UTC, like all times here.
    pub started: i64,
    /// When the session's transaction began, if one runs.
    pub transaction_start: Option<i64>,
    /// When the session's latest statement began, if it has run one.
    pub query_start: Option<i64>,
    /// When the session entered its present state.
    pub state_change: i64,
    /// The session's state.
    pub state: SessionState,
    /// Type and name of the wait event, in PostgreSQL's terms.
    pub wait: Option<(&'static str, &'static str)>,
    /// Text of the session's latest statement.
    pub query: String,
}

impl Activity {
    fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, text: &str, now: i64) {
        let mut page = self.page();
        page.state = SessionState::Active;
        page.query_start = now;
        page.state_change = now;
        page.query.clear();
        page.query.push_str(first_of(text));
    }

    /// OID of the role that has logged in.
    pub(crate) const fn role(&self) -> u32 {
        self.role
    }

    /// The handle that cancels the session's statement, or ends the session.
    pub(crate) const fn interrupt(&self) -> Option<&Arc<dyn Interrupt>> {
        self.interrupt.as_ref()
    }

    /// Records that a statement waits, before it is executed, for a state that is new enough.
    pub fn asks(&self, text: &str, now: i64) {
        self.begin(text, now);
        self.answer_waits(AnswerWait::Newest);
    }

    /// Whether the session runs a statement.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.page().state == SessionState::Active
    }

    pub(crate) fn rest(&self, state: SessionState, now: i64) {
        let mut page = self.page();
        page.state = state;
        page.state_change = now;
    }

    /// Records when a transaction began, or 0 when it has ended.
    #[inline]
    pub(crate) fn transaction(&self, began: i64) {
        self.transaction_start.store(began, Ordering::Relaxed);
    }

    pub(crate) fn rename(&self, application_name: &str) {
        let mut page = self.page();
        if page.application_name != application_name {
            application_name.clone_into(&mut page.application_name);
        }
    }

    /// Records what the answer waits for: called by the connection that sends it.
    pub fn answer_waits(&self, wait: AnswerWait) {
        self.answer.store(wait as u8, Ordering::Relaxed);
    }

    /// Records whether the session waits for an advisory lock.
    pub(crate) fn waits_for_advisory(&self, waits: bool) {
        let lock = if waits { ADVISORY } else { NO_LOCK };
        self.lock.store(lock, Ordering::Relaxed);
    }

    /// Copies the page.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let page = self.page();
        let began = self.transaction_start.load(Ordering::Relaxed);
        Shown {
            process_id: self.process_id,
            role: self.role,
            user: self.user.clone(),
            database: self.database.clone(),
            application_name: page.application_name.clone(),
            client: self.client,
            started: self.started,
            transaction_start: (began != 0).then_some(began),
            query_start: (page.query_start != 0).then_some(page.query_start),
            state_change: page.state_change,
            state: page.state,
            wait: self.wait(page.state),
            query: page.query.clone(),
        }
    }

    fn wait(&self, state: SessionState) -> Option<(&'static str, &'static str)> {
        if state != SessionState::Active {
            return Some(("Client", "ClientRead"));
        }
        match self.lock.load(Ordering::Relaxed) {
            ROW => return Some(("Lock", "tuple")),
            KEY => return Some(("Lock", "transactionid")),
            TABLE => return Some(("Lock", "relation")),
            ADVISORY => return Some(("Lock", "advisory")),
            _ => {}
        }
        let answer = usize::from(self.answer.load(Ordering::Relaxed));
        AnswerWait::ALL.get(answer).and_then(|wait| wait.names())
    }
}

/// The session waits for no lock.
const NO_LOCK: u8 = 0;
const ROW: u8 = 1;
const KEY: u8 = 2;
const TABLE: u8 = 3;
const ADVISORY: u8 = 4;

impl LockObserver for Activity {
    fn waits(&self, place: &ConflictLocation) {
        let lock = match place {
            ConflictLocation::Row { .. } => ROW,
            ConflictLocation::Key { .. } | ConflictLocation::Range { .. } => KEY,
            ConflictLocation::Table { .. } => TABLE,
        };
        self.lock.store(lock, Ordering::Relaxed);
        self.observer.waits(place);
    }

    fn goes_on(&self) {
        self.lock.store(NO_LOCK, Ordering::Relaxed);
        self.observer.goes_on();
    }
}

/// An observer for tests that do not observe.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Unobserved;

#[cfg(test)]
impl LockObserver for Unobserved {
    fn waits(&self, _: &ConflictLocation) {}
    fn goes_on(&self) {}
}

/// The first part of a text, of at most [`MAX_TEXT`] bytes.
fn first_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// The activity pages of all sessions.
#[derive(Debug, Default)]
pub struct Activities {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// Pages by process id; the second number distinguishes sessions that share one.
    by_session: BTreeMap<(i32, u64), Arc<Activity>>,
    last: u64,
}

impl Activities {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies of all pages, ordered by process id.
    #[must_use]
    pub fn all(&self) -> Vec<Shown> {
        let pages: Vec<_> = self.pages().by_session.values().cloned().collect();
        pages.iter().map(|page| page.shown()).collect()
    }

    /// Network address of the client of the session with this process id.
    #[must_use]
    pub fn client(&self, process_id: i32) -> Option<SocketAddr> {
        let pages = self.pages();
        let mut found = pages
            .by_session
            .range((process_id, 0)..=(process_id, u64::MAX));
        found.next().and_then(|(_, page)| page.client)
    }

    /// The page of the session with this process id.
    #[must_use]
    pub fn find(&self, process_id: i32) -> Option<Arc<Activity>> {
        let pages = self.pages();
        let mut found = pages
            .by_session
            .range((process_id, 0)..=(process_id, u64::MAX));
        found.next().map(|(_, page)| Arc::clone(page))
    }
}

/// Data with which a session enters the list.
pub(crate) struct Entrant<'a> {
    pub(crate) process_id: i32,
    pub(crate) role: u32,
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
    pub(crate) application_name: &'a str,
    pub(crate) client: Option<SocketAddr>,
    pub(crate) interrupt: Option<Arc<dyn Interrupt>>,
    /// A second observer, which is notified of the session's lock waits.
    pub(crate) observer: Arc<dyn LockObserver>,
    pub(crate) now: i64,
}

/// A session's membership in the list, for as long as the session lives.
#[derive(Debug)]
pub(crate) struct Listed {
    around: Arc<super::Instance>,
    number: u64,
    activity: Arc<Activity>,
}

impl Listed {
    pub(crate) fn enter(around: &Arc<super::Instance>, entrant: Entrant<'_>) -> Self {
        let activity = Arc::new(Activity {
            process_id: entrant.process_id,
            role: entrant.role,
            user: entrant.user.to_owned(),
            database: entrant.database.to_owned(),
            client: entrant.client,
            started: entrant.now,
            interrupt: entrant.interrupt,
            transaction_start: AtomicI64::new(0),
            answer: AtomicU8::new(AnswerWait::None as u8),
            lock: AtomicU8::new(NO_LOCK),
            observer: entrant.observer,
            page: Mutex::new(Page {
                application_name: entrant.application_name.to_owned(),
                state: SessionState::Idle,
                query: String::new(),
                query_start: 0,
                state_change: entrant.now,
            }),
        });
        let mut pages = around.activities.pages();
        pages.last += 1;
        let number = pages.last;
        pages
            .by_session
            .insert((entrant.process_id, number), Arc::clone(&activity));
        drop(pages);
        Self {
            around: Arc::clone(around),
            number,
            activity,
        }
    }

    pub(crate) fn page(&self) -> &Arc<Activity> {
        &self.activity
    }
}

/// The entry of a session in the list, kept until this value is dropped.
#[derive(Debug)]
pub struct Listing(#[expect(dead_code, reason = "it is kept for its end")] pub(crate) Arc<Listed>);

impl std::ops::Deref for Listed {
    type Target = Activity;

    fn deref(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut pages = self.around.activities.pages();
        pages
            .by_session
            .remove(&(self.activity.process_id, self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Instance;

    fn listed(around: &Arc<Instance>, process_id: i32) -> Listed {
        let entrant = Entrant {
            process_id,
            role: 10,
            user: "ada",
            database: "bank",
            application_name: "psql",
            client: None,
            interrupt: None,
            observer: Arc::new(Unobserved),
            now: 10,
        };
        Listed::enter(around, entrant)
    }

    #[test]
    fn a_page_says_what_its_session_does() {
        let around = Arc::default();
        let listed = listed(&around, 7);
        let shown = || around.activities.all().pop().unwrap();
        assert_eq!(shown().state, SessionState::Idle);
        assert_eq!(
            (shown().query_start, shown().transaction_start),
            (None, None)
        );
        listed.begin("select 1", 20);
        listed.transaction(21);
        assert_eq!((shown().query_start, shown().state_change), (Some(20), 20));
        assert_eq!((shown().query.as_str(), shown().wait), ("select 1", None));
        listed.answer_waits(AnswerWait::Durable);
        assert_eq!(shown().wait, Some(("IO", "WALSync")));
        listed.answer_waits(AnswerWait::None);
        listed.waits(&ConflictLocation::Table {
            storage: coeval_types::StorageId(1),
        });
        assert_eq!(shown().wait, Some(("Lock", "relation")));
        listed.goes_on();
        assert_eq!(shown().wait, None);
        listed.rest(SessionState::IdleInTransaction, 30);
        assert_eq!(
            (shown().transaction_start, shown().state_change),
            (Some(21), 30)
        );
        assert_eq!(shown().wait, Some(("Client", "ClientRead")));
        listed.begin(&"ä".repeat(MAX_TEXT), 40);
        assert_eq!(shown().query.len(), MAX_TEXT);
        drop(listed);
        assert!(around.activities.all().is_empty());
    }

    #[test]
    fn waits_are_noted_while_they_last() {
        use std::future::poll_fn;
        use std::pin::pin;
        use std::task::{Context, Poll, Waker};

        use crate::instance::noting;

        let around = Arc::default();
        let listed = listed(&around, 7);
        listed.begin("commit", 20);
        let wait = || around.activities.all().pop().unwrap().wait;
        let mut context = Context::from_waker(Waker::noop());
        let mut polls = 0;
        let work = poll_fn(|_| {
            polls += 1;
            match polls {
                1 | 2 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        {
            let mut noted = pin!(noting(listed.page(), AnswerWait::LogSpace, work));
            assert!(noted.as_mut().poll(&mut context).is_pending());
            assert_eq!(wait(), Some(("IO", "WALWrite")));
            // A lock wait takes precedence.
            listed.waits(&ConflictLocation::Table {
                storage: coeval_types::StorageId(1),
            });
            assert_eq!(wait(), Some(("Lock", "relation")));
            listed.goes_on();
            assert!(noted.as_mut().poll(&mut context).is_pending());
            assert_eq!(wait(), Some(("IO", "WALWrite")));
            assert!(noted.as_mut().poll(&mut context).is_ready());
        }
        assert_eq!(wait(), None);
        // A wait that is given up clears its note.
        {
            let never = std::future::pending::<()>();
            let mut given_up = pin!(noting(listed.page(), AnswerWait::Admission, never));
            assert!(given_up.as_mut().poll(&mut context).is_pending());
            assert_eq!(wait(), Some(("IPC", "Admission")));
        }
        assert_eq!(wait(), None);
    }

    #[test]
    fn sessions_that_share_a_number_have_pages_of_their_own() {
        let around = Arc::default();
        let (first, second) = (listed(&around, 7), listed(&around, 7));
        assert_eq!(around.activities.all().len(), 2);
        drop(first);
        assert!(around.activities.find(7).is_some());
        assert!(around.activities.find(6).is_none());
        drop(second);
        assert!(around.activities.find(7).is_none());
    }
}
