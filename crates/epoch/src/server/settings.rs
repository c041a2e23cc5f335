//! Settings of a node, as plain data.

use std::net::SocketAddr;
use std::path::PathBuf;

use coeval_env::Location;
use coeval_peers::Security;

use crate::client::{Role, Secret};
use crate::manager::Rhythm;

/// Settings of one node. What all nodes of a cluster have in common stands in
/// [`Founding`](super::Founding).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data directory, in which a node was founded.
    pub directory: PathBuf,
    /// Where to listen for other nodes, if not at the node's address among the members.
    pub listen: Option<SocketAddr>,
    /// How connections between nodes, and with clients, are secured. Beyond loopback only TLS is
    /// let through.
    pub security: Security,
    /// Where to listen for clients.
    pub clients: Option<SocketAddr>,
    /// Where to listen for administrators, on this machine: health and metrics over HTTP.
    pub admin: Option<SocketAddr>,
    /// What clients have to know, beside a certificate where there is TLS, to do everything.
    pub secret: Option<Secret>,
    /// Roles of clients, which may do less. With any, who has neither a role nor the secret is not let
    /// in.
    pub roles: Vec<Role>,
    /// Length of a tick of the clock. Every tenth, what was not answered is said again.
    pub tick_milliseconds: u64,
    /// How long epochs are at least, in ticks, if this node manages.
    pub rhythm: Rhythm,
    /// After how long without a connection a node that was there is dead.
    pub lost_milliseconds: u64,
    /// After how long a node that never was there since this one has started is dead.
    pub absent_milliseconds: u64,
    /// Bytes of log after which a checkpoint replaces it.
    pub checkpoint_bytes: u64,
    /// Disk space that is given up when the disk is full, so that epochs are still closed; at most a
    /// sixteenth of the disk, 0 for none.
    pub disk_reserve_bytes: u64,
    /// Most bytes of versions and operations in memory: above it no value is taken; 0 for no limit.
    pub memory_bytes: u64,
    /// Most bytes of requests that are under way: more wait, and so do their connections.
    pub request_bytes: u32,
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {name}: {reason}")]
pub struct SettingError {
    /// Its name.
    pub name: &'static str,
    /// What it must be.
    pub reason: &'static str,
}

impl Settings {
    /// The usual settings, for the node in a directory: a tick of 10 ms, epochs of one tick at
    /// least, a dead node after one second, or after thirty at a start.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            listen: None,
            security: Security::Plain,
            clients: None,
            admin: None,
            secret: None,
            roles: Vec::new(),
            tick_milliseconds: 10,
            rhythm: Rhythm::Unified { minimum_ticks: 1 },
            lost_milliseconds: 1000,
            absent_milliseconds: 30_000,
            checkpoint_bytes: 64 << 20,
            disk_reserve_bytes: 16 << 20,
            memory_bytes: 0,
            request_bytes: 64 << 20,
        }
    }

    /// Rejects the first setting that cannot be.
    ///
    /// # Errors
    /// Its name, and what it must be.
    pub fn check(&self) -> Result<(), SettingError> {
        let refuse = |name, reason| Err(SettingError { name, reason });
        if !(1..=1000).contains(&self.tick_milliseconds) {
            return refuse("tick_milliseconds", "must be from 1 to 1000");
        }
        for (name, milliseconds) in [
            ("lost_milliseconds", self.lost_milliseconds),
            ("absent_milliseconds", self.absent_milliseconds),
        ] {
            if !(self.tick_milliseconds..=86_400_000).contains(&milliseconds) {
                return refuse(name, "must be from one tick to 86400000");
            }
        }
        if let Rhythm::Tuned {
            minimum_ticks,
            maximum_ticks,
        } = self.rhythm
            && maximum_ticks < minimum_ticks
        {
            return refuse(
                "rhythm",
                "must have as many ticks at most as at least, or more",
            );
        }
        if self.checkpoint_bytes < 1 << 10 {
            return refuse("checkpoint_bytes", "must be 1024 or more");
        }
        if self.memory_bytes != 0 && self.memory_bytes < 1 << 20 {
            return refuse("memory_bytes", "must be 1048576 or more, or 0 for no limit");
        }
        match (1 << 20..=1 << 30).contains(&self.request_bytes) {
            true => Ok(()),
            false => refuse("request_bytes", "must be from 1048576 to 1073741824"),
        }
    }

    /// Where the node listens for others.
    pub(super) fn listens(&self, own: Option<&Location>) -> Option<SocketAddr> {
        self.listen.or_else(|| own?.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let settings = Settings::new("/tmp".into());
        settings.check().unwrap();
        type Alter = fn(&mut Settings);
        let cases: [(&str, Alter); 7] = [
            ("tick_milliseconds", |settings| {
                settings.tick_milliseconds = 0
            }),
            ("lost_milliseconds", |settings| {
                settings.lost_milliseconds = 9
            }),
            ("absent_milliseconds", |settings| {
                settings.absent_milliseconds = u64::MAX;
            }),
            ("rhythm", |settings| {
                settings.rhythm = Rhythm::Tuned {
                    minimum_ticks: 3,
                    maximum_ticks: 2,
                };
            }),
            ("checkpoint_bytes", |settings| settings.checkpoint_bytes = 0),
            ("memory_bytes", |settings| settings.memory_bytes = 1),
            ("request_bytes", |settings| settings.request_bytes = 1),
        ];
        for (name, alter) in cases {
            let mut altered = settings.clone();
            alter(&mut altered);
            assert_eq!(altered.check().unwrap_err().name, name);
        }
    }
}
