//! State shared by the tasks of a node's connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_env::{JoinHandle, Location};
use tokio::sync::mpsc;

use crate::counters::{Connection, Door};
use crate::dialler;
use crate::frame::Kinds;
use crate::identity::{Identity, Members, NodeId};
use crate::inbox::Inlet;
use crate::peer::Peer;
use crate::refusal::{Reason, Refusal};
use crate::security::Security;
use crate::settings::Settings;
use crate::stream::Arrived;

/// A member, and the tasks of its connections, which end when it is dropped.
#[derive(Debug)]
struct Member {
    peer: Arc<Peer>,
    dialler: JoinHandle<()>,
    server: Option<JoinHandle<()>>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.dialler.abort();
        self.peer.streams.cut.cut_for_good();
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

#[derive(Debug, Default)]
struct State {
    known: Members,
    members: BTreeMap<NodeId, Member>,
    security: Security,
    /// Where streams opened by other nodes go; `None` after the end.
    streams: Option<mpsc::UnboundedSender<Arrived>>,
    /// Set at the end: no member is added any more.
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) own: Identity,
    /// Address of the listener.
    pub(crate) address: SocketAddr,
    pub(crate) settings: Settings,
    kinds: Kinds,
    pub(crate) inlet: Inlet,
    pub(crate) door: Door,
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn new(
        own: Identity,
        address: SocketAddr,
        settings: Settings,
        security: Security,
        kinds: Kinds,
        (inlet, streams): (Inlet, mpsc::UnboundedSender<Arrived>),
    ) -> Self {
        let state = State {
            security,
            streams: Some(streams),
            ..State::default()
        };
        Self {
            own,
            address,
            settings,
            kinds,
            inlet,
            door: Door::default(),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    pub(crate) fn security(&self) -> Security {
        self.state().security.clone()
    }

    pub(crate) fn set_security(&self, security: Security) {
        self.state().security = security;
    }

    /// Where this node announces that it listens: its own location among the members, or else
    /// the listener's address.
    pub(crate) fn listens(&self) -> Location {
        let told = self.with_members(|members| members.addresses.get(&self.own.node).cloned());
        told.unwrap_or_else(|| self.address.into())
    }

    pub(crate) fn with_members<T>(&self, look: impl FnOnce(&Members) -> T) -> T {
        look(&self.state().known)
    }

    pub(crate) fn peer(&self, node: NodeId) -> Option<Arc<Peer>> {
        let state = self.state();
        let member = state.members.get(&node);
        member.map(|member| Arc::clone(&member.peer))
    }

    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        let state = self.state();
        let members = state.members.values();
        members.map(|member| Arc::clone(&member.peer)).collect()
    }

    /// Connects to new members, and ends the connections of removed ones.
    pub(crate) fn set_members(self: &Arc<Self>, members: Members) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        let others = members.addresses.iter();
        let others = others.filter(|(node, _)| **node != self.own.node);
        state.members.retain(|node, _| {
            members.addresses.contains_key(node) || members.expected.contains(node)
        });
        // The hello of this node says other things from now on.
        let is_renewed = state.known.newcomer.is_some() && members.newcomer.is_none()
            || (state.known.founds, state.known.founders_digest)
                != (members.founds, members.founders_digest);
        for (node, member) in &mut state.members {
            if is_renewed {
                member.peer.renewed.notify_one();
                member.peer.awake.notify_one();
            }
            // A newcomer that has become known as a voter is no longer accepted.
            if members.voters.contains(node)
                && member.peer.counters.notes().newcomer.is_some()
                && let Some(server) = member.server.take()
            {
                server.abort();
            }
            // Nor is one that is not the member that this node has learned of.
            let (announced, stands) = {
                let notes = member.peer.counters.notes();
                let stands = matches!(notes.connection, Connection::Standing(_));
                (notes.announced, stands || member.server.is_some())
            };
            if stands
                && members
                    .judge(*node, self.own.node, announced.as_ref())
                    .is_err()
            {
                member.peer.renewed.notify_one();
                if let Some(server) = member.server.take() {
                    server.abort();
                }
            }
        }
        for (&node, address) in others {
            if let Some(member) = state.members.get(&node) {
                member.peer.move_to(address);
                continue;
            }
            state
                .members
                .insert(node, self.member(node, address.clone()));
        }
        state.known = members;
    }

    /// A new member, with a dialler that connects to it from now on.
    fn member(self: &Arc<Self>, node: NodeId, address: Location) -> Member {
        let peer = Arc::new(Peer::new(node, address, &self.settings, self.kinds));
        let dialling = dialler::dial(Arc::clone(self), Arc::clone(&peer));
        Member {
            peer,
            dialler: coeval_env::spawn("connect to a node", dialling),
            server: None,
        }
    }

    /// A node has connected and announces an address, which counts if none was known.
    /// Returns `None` for a node that is no member any more.
    pub(crate) fn meet(
        self: &Arc<Self>,
        node: NodeId,
        address: Option<Location>,
    ) -> Result<Option<Arc<Peer>>, Refusal> {
        let mut state = self.state();
        let is_expected = state.known.expected.contains(&node)
            && !state.known.addresses.contains_key(&node)
            && !state.ended;
        if is_expected {
            let refuse = |words: String| Err(Refusal::new(Reason::Address, words));
            let Some(address) = address else {
                return refuse(format!("node {node} does not say where it listens"));
            };
            if let Err(unguarded) = state.security.check(&address, self.settings.insecure) {
                return refuse(format!("node {node} listens at {address}: {unguarded}"));
            }
            match state.members.get(&node) {
                Some(member) => member.peer.move_to(&address),
                None => {
                    tracing::info!(%node, %address, "a member says where it listens");
                    let member = self.member(node, address);
                    state.members.insert(node, member);
                }
            }
        }
        let member = state.members.get(&node);
        Ok(member.map(|member| Arc::clone(&member.peer)))
    }

    /// Registers the task that serves a connection of `peer`. The task of an earlier
    /// connection is aborted: the node would not have opened another if that one still
    /// worked.
    pub(crate) fn serves(&self, peer: &Arc<Peer>, server: JoinHandle<()>) {
        let mut state = self.state();
        match state.members.get_mut(&peer.node) {
            Some(member) if Arc::ptr_eq(&member.peer, peer) => {
                if let Some(before) = member.server.replace(server) {
                    before.abort();
                }
            }
            _ => server.abort(),
        }
    }

    /// Delivers a stream that another node has opened; drops it if there is no receiver.
    pub(crate) fn arrives(&self, stream: Arrived) {
        if let Some(streams) = &self.state().streams {
            // The receiver may have gone.
            let _ = streams.send(stream);
        }
    }

    /// Ends every connection.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.streams = None;
        state.members.clear();
    }
}
