//! Who is in the dock: one server, or the nodes of a cluster.

mod alone;
mod several;

use std::io;
use std::path::Path;
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::Config;

use super::judge::Slow;
use super::{Error, Options};
use crate::chance::Chance;
use crate::faults::proxy::Policy;

use alone::Alone;
use several::Several;

/// What has happened so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// How often a server was killed.
    pub(super) kills: u32,
    /// When syncs were slow.
    pub(super) slow: Vec<Slow>,
    /// How servers are reached, for people.
    pub(super) reached: String,
    /// After each time that a node was taken away: how long it took until somebody was
    /// told of a write that began after that.
    pub(super) outages: Vec<Duration>,
}

/// See the [module](self).
pub(super) enum Ground<'options> {
    Alone(Box<Alone<'options>>),
    Several(Box<Several<'options>>),
}

impl<'options> Ground<'options> {
    /// With servers that answer.
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

    /// Does what tests plant.
    pub(super) fn plant(&self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.plant(),
            Self::Several(several) => several.plant(),
        }
    }

    /// Where clients connect.
    pub(super) fn config(&self) -> Config {
        match self {
            Self::Alone(alone) => alone.config(),
            Self::Several(several) => several.config(),
        }
    }

    /// Starts whoever does not run, and waits until all answer.
    pub(super) async fn ready(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.ready().await,
            Self::Several(several) => several.ready().await,
        }
    }

    /// Stops all in order.
    pub(super) async fn stop(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.stop().await,
            Self::Several(several) => several.stop().await,
        }
    }

    /// Lets clients work for a while.
    pub(super) async fn load(&mut self) {
        match self {
            Self::Alone(alone) => alone.load().await,
            Self::Several(several) => several.load().await,
        }
    }

    /// Does what the kind says. Then all run and answer, and nothing is wrong.
    pub(super) async fn strike(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(alone) => alone.strike().await,
            Self::Several(several) => several.strike().await,
        }
    }

    /// Nothing is wrong any more.
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

/// Lets clients work for a while.
async fn load(options: &Options, chance: &mut Chance) {
    let longest = options.load_at_most.as_micros();
    let longest = u64::try_from(longest).unwrap_or(u64::MAX).max(2);
    let micros = chance.within(longest / 2..longest);
    env::sleep(Duration::from_micros(micros)).await;
}

/// The same, in one case of four for longer than clients wait for an answer.
async fn long(options: &Options, chance: &mut Chance) {
    load(options, chance).await;
    if chance.once_in(4) {
        env::sleep(options.operation_timeout).await;
    }
}

/// Messages are late, and none are blocked: who waits until a server has met its disk's
/// fault needs clients that get through.
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
