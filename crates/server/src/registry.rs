//! The registry of sessions: counts them against their limits, and finds one by its
//! number to cancel or end it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coeval_pgwire::startup::Protocol;
use coeval_sql::instance::activity::Interrupt;
use coeval_sql::instance::{Interruption, SessionElsewhere};
use coeval_sql::{Error, SqlState};
use tokio::sync::watch;

use crate::session::signal::Signal;

/// All sessions of a server.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The session numbers of this node.
    numbers: Range<i32>,
    limit: usize,
    /// How many of them are reserved for superusers.
    reserved: usize,
    sessions: Mutex<Sessions>,
    /// The number of sessions.
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_process_id: BTreeMap<i32, Reachable>,
    last: i32,
    stays: u64,
    /// Whether the registry refuses new sessions.
    closed: bool,
}

/// The role that a session is counted for, and its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionRequest {
    /// The number of the role that was let in.
    pub(crate) role: u32,
    /// Maximum number of the role's sessions; `None` for any number.
    pub(crate) limit: Option<usize>,
    /// Whether the session may take a reserved slot of superusers.
    pub(crate) privileged: bool,
}

#[derive(Debug)]
struct Reachable {
    /// The number of the role that was let in.
    role: u32,
    secret: Vec<u8>,
    signal: Arc<Signal>,
    /// Distinguishes successive sessions that had the same number.
    stay: u64,
}

/// Number of bits of a session's number on one node. The node's number is in the bits
/// above, so that a session keeps its number on every node.
const NODE_BITS: u32 = 20;

/// The node of the client whose session has this number.
pub(crate) fn node_of(process_id: i32) -> u64 {
    u64::try_from(process_id >> NODE_BITS).unwrap_or(0)
}

/// The largest id of a node whose clients' sessions have numbers of their own.
const LAST_NODE: i32 = 2000;

/// The numbers of the sessions of this node's clients; node 0 is a server without a cluster.
pub(crate) fn numbers_of(node: u64) -> Range<i32> {
    match i32::try_from(node) {
        Ok(node @ 1..=LAST_NODE) => node << NODE_BITS..(node + 1) << NODE_BITS,
        _ => 1..i32::MAX,
    }
}

/// The numbers of the sessions of all other nodes' clients, for a node of a cluster.
pub(crate) fn numbers_of_others(node: u64) -> [Range<i32>; 2] {
    let own = numbers_of(node);
    [
        1 << NODE_BITS..own.start,
        own.end..(LAST_NODE + 1) << NODE_BITS,
    ]
}

/// Whether the clients of this node have sessions of this number.
pub(crate) fn is_number_of(node: u64, process_id: i32) -> bool {
    numbers_of(node).contains(&process_id)
}

impl Registry {
    pub(crate) fn new(limit: usize, reserved: usize, node: u64) -> Arc<Self> {
        Arc::new(Self {
            numbers: numbers_of(node),
            limit,
            reserved,
            sessions: Mutex::default(),
            count: watch::Sender::new(0),
        })
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new session of a role and gives it a number, unless the server's or
    /// the role's limit is reached. The number is taken until the entry is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        signal: &Arc<Signal>,
        protocol: Protocol,
        role: &SessionRequest,
    ) -> Result<Entry, Error> {
        let length = match protocol {
            Protocol::V3_0 => 4,
            Protocol::V3_2 => 32,
        };
        let mut secret = vec![0; length];
        coeval_env::random_bytes(&mut secret);
        self.enter_with(signal, role, None, secret)
    }

    /// Registers a session of another node's client, under the number that it has there.
    /// If the same session is still registered, from before its connection was lost, that
    /// one ends.
    pub(crate) fn enter_from_elsewhere(
        self: &Arc<Self>,
        signal: &Arc<Signal>,
        role: &SessionRequest,
        (process_id, secret): (i32, &[u8]),
    ) -> Result<Entry, Error> {
        self.enter_with(signal, role, Some(process_id), secret.to_vec())
    }

    fn enter_with(
        self: &Arc<Self>,
        signal: &Arc<Signal>,
        role: &SessionRequest,
        number: Option<i32>,
        secret: Vec<u8>,
    ) -> Result<Entry, Error> {
        let mut sessions = self.sessions();
        if let Some(number) = number
            && let Some(before) = sessions.by_process_id.remove(&number)
        {
            before.signal.depose();
        }
        if sessions.closed {
            let stopping = "the database system is shutting down";
            return Err(Error::new(SqlState("57P03"), stopping));
        }
        if sessions.by_process_id.len() >= self.limit {
            let full = Error::new(
                SqlState::TOO_MANY_CONNECTIONS,
                "sorry, too many clients already",
            );
            return Err(full.with_hint(format!(
                "There are {} connections. Close some, or raise the server's setting \
                 max_connections.",
                self.limit
            )));
        }
        if !role.privileged && sessions.by_process_id.len() + self.reserved >= self.limit {
            let full = "remaining connection slots are reserved for roles with the \
                        SUPERUSER attribute";
            return Err(
                Error::new(SqlState::TOO_MANY_CONNECTIONS, full).with_hint(format!(
                    "Of {} connections {} are reserved. Close some, or raise the server's \
                 setting max_connections.",
                    self.limit, self.reserved
                )),
            );
        }
        if let Some(limit) = role.limit {
            let others = sessions.by_process_id.values();
            if others.filter(|other| other.role == role.role).count() >= limit {
                let full = "too many connections for role";
                return Err(Error::new(SqlState::TOO_MANY_CONNECTIONS, full)
                    .with_hint("Close connections, or raise the role's CONNECTION LIMIT."));
            }
        }
        let process_id = number.unwrap_or_else(|| {
            let Range { start, end } = self.numbers;
            // A node has far more numbers than sessions, so the loop ends.
            loop {
                let process_id = start + sessions.last;
                sessions.last = (sessions.last + 1) % (end - start);
                if !sessions.by_process_id.contains_key(&process_id) {
                    break process_id;
                }
            }
        });
        sessions.stays += 1;
        let stay = sessions.stays;
        let reachable = Reachable {
            role: role.role,
            secret: secret.clone(),
            signal: Arc::clone(signal),
            stay,
        };
        sessions.by_process_id.insert(process_id, reachable);
        self.count.send_replace(sessions.by_process_id.len());
        drop(sessions);
        Ok(Entry {
            registry: Arc::clone(self),
            process_id,
            secret,
            stay,
        })
    }

    /// Cancels the statement of a session, if the secret is its own. Returns whether
    /// there is a session with that number.
    pub(crate) fn cancel(&self, process_id: i32, secret: &[u8]) -> bool {
        let sessions = self.sessions();
        let Some(session) = sessions.by_process_id.get(&process_id) else {
            return false;
        };
        if same(&session.secret, secret) {
            session.signal.cancel();
        }
        true
    }

    /// The sessions of this node's clients, wherever they run.
    pub(crate) fn of_clients(&self) -> Vec<SessionElsewhere> {
        let sessions = self.sessions();
        let sessions = sessions.by_process_id.range(self.numbers.clone());
        let told = sessions.map(|(process_id, session)| SessionElsewhere {
            process_id: *process_id,
            role: session.role,
            stay: session.stay,
        });
        told.collect()
    }

    /// Interrupts a session of this node's client, if it is still the one with this stay.
    pub(crate) fn interrupt(&self, process_id: i32, stay: u64, how: Interruption) {
        let sessions = self.sessions();
        let session = sessions.by_process_id.get(&process_id);
        if let Some(session) = session.filter(|session| session.stay == stay) {
            match how {
                Interruption::Cancel => session.signal.cancel(),
                Interruption::Terminate => session.signal.terminate(),
            }
        }
    }

    /// Has every session leave the engine, because this node leads no more.
    pub(crate) fn depose(&self) {
        for session in self.sessions().by_process_id.values() {
            session.signal.depose();
        }
    }

    /// Refuses new sessions, and asks every session to end after its current statement.
    pub(crate) fn close(&self) {
        let mut sessions = self.sessions();
        sessions.closed = true;
        for session in sessions.by_process_id.values() {
            session.signal.close();
        }
    }

    /// Whether new sessions are refused.
    pub(crate) fn is_closed(&self) -> bool {
        self.sessions().closed
    }

    /// Cancels the statement of every session.
    pub(crate) fn cancel_all(&self) {
        for session in self.sessions().by_process_id.values() {
            session.signal.cancel();
        }
    }

    /// Waits until the last session has ended.
    pub(crate) async fn empty(&self) {
        let mut count = self.count.subscribe();
        // The sender lives as long as `self`.
        let _ = count.wait_for(|&count| count == 0).await;
    }

    /// The number of sessions.
    pub(crate) fn len(&self) -> usize {
        *self.count.borrow()
    }
}

/// Compares two secrets in constant time, so that the duration does not show where they
/// differ.
fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b));
    left.len() == right.len() && differences == 0
}

/// A session's registration, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    registry: Arc<Registry>,
    process_id: i32,
    secret: Vec<u8>,
    stay: u64,
}

impl Entry {
    /// Counts the session as one of this role's from now on.
    pub(crate) fn belongs_to(&self, role: u32) {
        let mut sessions = self.registry.sessions();
        if let Some(session) = sessions.by_process_id.get_mut(&self.process_id)
            && session.stay == self.stay
        {
            session.role = role;
        }
    }

    pub(crate) fn process_id(&self) -> i32 {
        self.process_id
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut sessions = self.registry.sessions();
        let session = sessions.by_process_id.get(&self.process_id);
        if session.is_some_and(|session| session.stay == self.stay) {
            sessions.by_process_id.remove(&self.process_id);
        }
        self.registry
            .count
            .send_replace(sessions.by_process_id.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(role: u32, limit: Option<usize>) -> SessionRequest {
        SessionRequest {
            role,
            limit,
            privileged: false,
        }
    }

    fn enter(registry: &Arc<Registry>) -> (Arc<Signal>, Result<Entry, Error>) {
        let signal = Arc::new(Signal::default());
        let entry = registry.enter(&signal, Protocol::V3_0, &role(10, None));
        (signal, entry)
    }

    #[test]
    fn a_number_is_of_one_node() {
        let registry = Registry::new(10, 0, 3);
        let signal = Arc::new(Signal::default());
        let entry = registry.enter(&signal, Protocol::V3_0, &role(10, None));
        let number = entry.unwrap().process_id();
        assert_eq!(node_of(number), 3);
        let owners = (0..=2000).filter(|node| *node > 0 && is_number_of(*node, number));
        assert_eq!(owners.collect::<Vec<u64>>(), [3]);
        for strange in [0, -1, i32::MIN, number + (1 << NODE_BITS)] {
            assert!(!is_number_of(3, strange), "{strange}");
        }
        for node in 1..=2000 {
            let of_others = numbers_of_others(node);
            let others = |number| of_others.iter().any(|range| range.contains(&number));
            assert_eq!(others(number), node != 3, "{node}");
            assert!(!others((1 << NODE_BITS) - 1));
        }
    }

    #[test]
    fn a_role_has_a_limit_of_its_own() {
        let registry = Registry::new(10, 0, 0);
        let signal = Arc::new(Signal::default());
        let enter = |(number, limit)| registry.enter(&signal, Protocol::V3_0, &role(number, limit));
        let first = enter((20, Some(1))).unwrap();
        assert_eq!(enter((20, Some(1))).unwrap_err().state().0, "53300");
        let other = enter((21, Some(1)));
        drop(first);
        enter((20, Some(1))).unwrap();
        assert!(other.is_ok());
    }

    #[test]
    fn no_more_than_the_limit_at_once() {
        let registry = Registry::new(2, 0, 0);
        let (_, first) = enter(&registry);
        let (_, second) = enter(&registry);
        assert_eq!(enter(&registry).1.unwrap_err().state().0, "53300");
        drop(first);
        let (_, third) = enter(&registry);
        assert_ne!(third.unwrap().process_id(), second.unwrap().process_id());
    }

    #[test]
    fn the_last_places_are_for_superusers() {
        let registry = Registry::new(3, 1, 0);
        let (_, _first) = enter(&registry);
        let (_, second) = enter(&registry);
        let refused = enter(&registry).1.unwrap_err();
        assert_eq!(refused.state().0, "53300");
        assert!(refused.report().message.contains("SUPERUSER"));
        let superuser = |registry: &Arc<Registry>| {
            let signal = Arc::new(Signal::default());
            let place = SessionRequest {
                privileged: true,
                ..role(10, None)
            };
            registry.enter(&signal, Protocol::V3_0, &place)
        };
        let third = superuser(&registry).unwrap();
        assert!(superuser(&registry).is_err());
        drop((second, third));
        enter(&registry).1.unwrap();
    }

    #[test]
    fn cancel_needs_the_secret() {
        let registry = Registry::new(2, 0, 0);
        let (signal, entry) = enter(&registry);
        let entry = entry.unwrap();
        let mut wrong = entry.secret().to_vec();
        wrong[3] ^= 1;
        registry.cancel(entry.process_id(), &wrong);
        registry.cancel(entry.process_id(), &entry.secret()[..3]);
        registry.cancel(entry.process_id() + 1, entry.secret());
        assert!(!signal.is_canceled());
        registry.cancel(entry.process_id(), entry.secret());
        assert!(signal.is_canceled());
    }

    #[test]
    fn an_interruption_is_of_one_stay() {
        let registry = Registry::new(3, 0, 2);
        let (signal, entry) = enter(&registry);
        let entry = entry.unwrap();
        // The session of another node's client is not told.
        let place = role(10, None);
        let foreign = registry.enter_from_elsewhere(&signal, &place, (3 << NODE_BITS, b"none"));
        let all = registry.of_clients();
        let [told] = all[..] else { panic!("{all:?}") };
        assert_eq!((told.process_id, told.role), (entry.process_id(), 10));
        let stay = told.stay;
        registry.interrupt(told.process_id, stay + 1, Interruption::Terminate);
        registry.interrupt(told.process_id + 1, stay, Interruption::Terminate);
        assert!(!signal.is_canceled() && !signal.is_terminated());
        registry.interrupt(told.process_id, stay, Interruption::Cancel);
        assert!(signal.is_canceled() && !signal.is_terminated());
        registry.interrupt(told.process_id, stay, Interruption::Terminate);
        assert!(signal.is_terminated());
        drop((entry, foreign));
        assert_eq!(registry.of_clients(), []);
    }

    #[test]
    fn closing_ends_those_inside_and_keeps_others_out() {
        let registry = Registry::new(2, 0, 0);
        let (signal, entry) = enter(&registry);
        registry.close();
        assert!(signal.is_terminated());
        assert_eq!(enter(&registry).1.unwrap_err().state().0, "57P03");
        assert_eq!(registry.len(), 1);
        drop(entry);
        assert_eq!(registry.len(), 0);
    }
}
