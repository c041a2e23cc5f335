//! What a class of faults adds to the load of a cluster of servers: a table of its own, one client
//! that writes to it, and a reader on every node.

use coeval_txn::Isolation;

use super::beacon::Beacon;
use super::hoard::Hoard;
use super::storm::Storm;
use super::{CLIENTS, Clients};
use crate::client_session::{Failure, Session, Wire};
use crate::server::Door;
use crate::{Class, Scenario};

/// The addition.
#[derive(Debug)]
pub(super) enum Beside {
    /// Definitions change all the time.
    Storm(Storm),
    /// Long reads hold much memory.
    Hoard(Hoard),
    /// Reads take the state that their node has.
    Beacon(Beacon),
}

impl Beside {
    /// Whether the scenario has an addition.
    pub(super) fn is_in(scenario: Scenario) -> bool {
        let is_of_servers = scenario.engine.is_remote() && scenario.engine.nodes() > 1;
        is_of_servers && matches!(scenario.class, Class::Ddl | Class::Memory | Class::Away)
    }

    pub(super) fn new(scenario: Scenario) -> Option<Self> {
        let beside = match scenario.class {
            _ if !Self::is_in(scenario) => return None,
            Class::Memory => Self::Hoard(Hoard::default()),
            Class::Away => Self::Beacon(Beacon::default()),
            _ => Self::Storm(Storm::new(scenario.load)),
        };
        Some(beside)
    }

    pub(super) async fn set_up(&self, door: &Door) -> Result<(), Failure> {
        match self {
            Self::Storm(storm) => storm.set_up(door).await,
            Self::Hoard(hoard) => hoard.set_up(door).await,
            Self::Beacon(beacon) => beacon.set_up(door).await,
        }
    }

    /// Runs a client beyond those of the load until it is to stop: the first one writes.
    pub(super) async fn run(&self, clients: &Clients, door: &Door, client: usize) {
        match (self, client) {
            (Self::Storm(storm), CLIENTS) => storm.define(clients, door, client).await,
            (Self::Storm(storm), _) => storm.read(clients, door, client).await,
            (Self::Hoard(hoard), CLIENTS) => hoard.write(clients, door, client).await,
            (Self::Hoard(hoard), _) => hoard.read(clients, door, client).await,
            (Self::Beacon(beacon), CLIENTS) => beacon.write(clients, door, client).await,
            (Self::Beacon(beacon), _) => beacon.read(clients, door, client).await,
        }
    }

    pub(super) fn judge(&self) -> Vec<String> {
        match self {
            Self::Storm(storm) => storm.judge(),
            Self::Hoard(hoard) => hoard.judge(),
            Self::Beacon(beacon) => beacon.judge(),
        }
    }

    /// Number of long reads that were told that their memory was needed.
    pub(super) fn ended_reads(&self) -> u64 {
        match self {
            Self::Hoard(hoard) => hoard.ended_reads(),
            Self::Storm(_) | Self::Beacon(_) => 0,
        }
    }
}

/// A session over links; its statements outside of a block are READ COMMITTED.
pub(super) async fn wire(door: &Door) -> Result<Wire, Failure> {
    match door.open(Isolation::ReadCommitted).await? {
        Session::Wire(wire) => Ok(*wire),
        Session::Contract(_) => Err(Failure::Failed("it is over no link".to_owned())),
    }
}
