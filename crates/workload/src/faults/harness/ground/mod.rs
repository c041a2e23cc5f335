//! The system under test of the fault harness: one server, or the nodes of a cluster.

mod alone;
mod several;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::judge::Slow;
use super::{Error, Options};
use crate::chance::Chance;
use crate::faults::proxy::Policy;

use alone::Alone;
use several::Several;

/// Counts and times of the faults injected so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// How often a server was killed.
    pub(super) kills: u32,
    /// Periods in which fsyncs were slow.
    pub(super) slow: Vec<Slow>,
    /// How clients reach the servers, for people.
    pub(super) reached: String,
    /// Write outages: for each time that a node was taken away, the time until a later
    /// write was acknowledged.
    pub(super) outages: Vec<Duration>,
}

/// One server or a cluster; see the [module](self).
pub(super) enum Ground<'options> {
    Alone(Box<Alone<'options>>),
    Several(Box<Several<'options>>),
}

impl<'options> Ground<'options> {
    /// Starts the servers and waits until they answer.
    pub(super) async fn new(
        binary: &Path,
        folder: &Path,
        options: &'options Options,
    ) -> Result<Self, Error> {
        Ok(match options.nodes {
            1 => Self::Alone(Box::new(Alone::new(binary, folder, options).await?)),
            _ => Self::Several(Box::new(Several::new(binary, folder, options).await?)),
        })
    }

    /// Puts the injected faults of a self-test in force.
    pub(super) fn plant(&self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.plant(),
            Self::Several(several) => several.plant(),
        }
    }

    /// Connection parameters for the clients.
    pub(super) fn config(&self) -> Config {
        match self {
            Self::Alone(alone) => alone.config(),
            Self::Several(several) => several.config(),
        }
    }

    /// Where clients reach the servers.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let config = self.config();
        let hosts = config.get_hosts().iter().zip(config.get_ports());
        let address = |(host, &port): (&Host, &u16)| match host {
            Host::Tcp(host) => Some(SocketAddr::new(host.parse().ok()?, port)),
            #[cfg(unix)]
            Host::Unix(_) => None,
        };
        hosts.filter_map(address).collect()
    }

    /// Whether every byte reaches its client in the end, and every end of a connection:
    /// a proxy holds them back, a firewall drops packets, among them the last one of a
    /// connection.
    pub(super) fn loses_nothing(&self) -> bool {
        match self {
            Self::Alone(alone) => alone.loses_nothing(),
            Self::Several(_) => true,
        }
    }

    /// Starts the servers that are not running, and waits until all answer.
    pub(super) async fn ready(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.ready().await,
            Self::Several(several) => several.ready().await,
        }
    }

    /// Shuts all servers down cleanly.
    pub(super) async fn stop(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.stop().await,
            Self::Several(several) => several.stop().await,
        }
    }

    /// Lets clients work for a random time.
    pub(super) async fn load(&mut self) {
        match self {
            Self::Alone(alone) => alone.load().await,
            Self::Several(several) => several.load().await,
        }
    }

    /// Injects a fault of the kind. When it returns, all servers answer and no fault is
    /// in force.
    pub(super) async fn strike(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.strike().await,
            Self::Several(several) => several.strike().await,
        }
    }

    /// Lifts all faults of disk, clock and links.
    pub(super) fn calm(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.calm(),
            Self::Several(several) => several.calm(),
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        match self {
            Self::Alone(alone) => &alone.tally,
            Self::Several(several) => &several.tally,
        }
    }
}

/// Lets clients work for a random time.
async fn load(options: &Options, chance: &mut Chance) {
    let longest = options.load_at_most.as_micros();
    let longest = u64::try_from(longest).unwrap_or(u64::MAX).max(2);
    let micros = chance.within(longest / 2..longest);
    env::sleep(Duration::from_micros(micros)).await;
}

/// Lets clients work for a random time, in one case of four beyond their timeout.
async fn long(options: &Options, chance: &mut Chance) {
    load(options, chance).await;
    if chance.once_in(4) {
        env::sleep(options.operation_timeout).await;
    }
}

/// A policy that delays messages and blocks none: a server hits its disk's fault only if
/// its clients get through.
fn late(chance: &mut Chance) -> Policy {
    Policy {
        delay: Duration::from_millis(chance.within(0..5)),
        jitter: Duration::from_millis(chance.within(0..10)),
        ..Policy::default()
    }
}

fn bad_network(chance: &mut Chance) -> Policy {
    let milliseconds = Duration::from_millis(chance.within(1..30));
    let quiet = Policy::default();
    match chance.within(0..4) {
        0 => Policy {
            delay: milliseconds,
            ..quiet
        },
        1 => Policy {
            jitter: milliseconds,
            ..quiet
        },
        2 => Policy {
            bytes_per_second: chance.within(1000..50_000),
            ..quiet
        },
        _ => Policy {
            requests_blocked: true,
            answers_blocked: chance.once_in(2),
            ..quiet
        },
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
