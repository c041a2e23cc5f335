//! Fault harness for a single server process: its disk, its clock, and the links to its
//! clients.
//!
//! ```text
//!   clients ──▶ proxy ─────────────▶ server ──▶ files
//!           └─▶ veth, firewall ───▶    (in a namespace, for kinds that lose packets)
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "makes a real folder, reads a real file"
)]

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use coeval_env as env;
use coeval_types::planted;
use tokio_postgres::Config;

use super::super::judge::Slow;
use super::super::{Error, FaultKind, Options, within};
use super::{Tally, bad_network, late, load, long};
use crate::chance::Chance;
use crate::faults::controls::{self, Controls};
use crate::faults::namespace::{Losses, Namespace};
use crate::faults::proxy::{Policy, Proxy};
use crate::server::{self, Launch, Server};

/// Timeout for a server to exit whose disk fails to sync.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Log message of a server whose disk has no space for more log.
const FULL: &str = "the disk is full: writes are refused";

/// How clients reach the server.
enum Way {
    Proxy(Proxy),
    Namespace(Namespace),
}

/// A single server with its faults; see the [module](self).
pub(in super::super) struct Alone<'options> {
    options: &'options Options,
    launch: Launch,
    controls: Controls,
    way: Way,
    chance: Chance,
    server: Option<Server>,
    pub(in super::super) tally: Tally,
}

impl<'options> Alone<'options> {
    /// Starts a server and waits until it answers.
    pub(super) async fn new(
        binary: &Path,
        folder: &Path,
        options: &'options Options,
    ) -> Result<Self, Error> {
        std::fs::create_dir_all(folder)?;
        let controls = Controls::new(folder, options.kind.always())?;
        let mut launch = Launch::coeval(binary.to_owned(), folder, server::free_port().await?)?
            .with(&options.settings);
        let mut variable = |name: &str, value: OsString| {
            launch.environment.push((name.to_owned(), value));
        };
        variable(controls::VARIABLE, controls.path().into());
        if let Some(bug) = options.bug {
            variable(planted::VARIABLE, bug.name().into());
        }
        let namespace = match options.kind.wants_namespace() && !options.loopback {
            true => Some(Namespace::new()),
            false => None,
        };
        let mut reached = "loopback, a proxy".to_owned();
        let way = match namespace {
            Some(Ok(namespace)) => {
                launch = launch.within(&namespace);
                reached = format!("network namespace {}", namespace.name());
                Way::Namespace(namespace)
            }
            Some(Err(error)) => {
                reached = format!("loopback, a proxy (no network namespace: {error})");
                Way::Proxy(Proxy::start(launch.port, options.seed).await?)
            }
            None => Way::Proxy(Proxy::start(launch.port, options.seed).await?),
        };
        let mut ground = Self {
            options,
            launch,
            controls,
            way,
            chance: options.chance(),
            server: None,
            tally: Tally {
                reached,
                ..Tally::default()
            },
        };
        ground.ready().await?;
        Ok(ground)
    }

    /// Puts the injected faults of a self-test in force.
    pub(super) fn plant(&self) -> Result<(), Error> {
        self.set(&self.options.planted)
    }

    /// Connection parameters for the clients.
    pub(super) fn config(&self) -> Config {
        let (host, port): (IpAddr, u16) = match &self.way {
            Way::Proxy(proxy) => (Ipv4Addr::LOCALHOST.into(), proxy.port()),
            Way::Namespace(namespace) => (namespace.server().into(), self.launch.port),
        };
        let mut config = Config::new();
        config.host(host.to_string()).port(port).user("postgres");
        config
    }

    pub(super) const fn loses_nothing(&self) -> bool {
        matches!(self.way, Way::Proxy(_))
    }

    /// Starts the server if it is not running, and waits until it answers.
    pub(super) async fn ready(&mut self) -> Result<(), Error> {
        let server = match &mut self.server {
            Some(server) => server,
            none => none.insert(self.launch.start()?),
        };
        server.ready().await?;
        Ok(())
    }

    /// Shuts the server down cleanly.
    pub(super) async fn stop(&mut self) -> Result<(), Error> {
        match self.server.take() {
            Some(server) => Ok(server.stop().await?),
            None => Ok(()),
        }
    }

    fn kill(&mut self) -> Result<(), Error> {
        if let Some(server) = self.server.take() {
            self.tally.kills += 1;
            server.kill()?;
        }
        Ok(())
    }

    /// Lets clients work for a random time.
    pub(super) async fn load(&mut self) {
        load(self.options, &mut self.chance).await;
    }

    /// Lets clients work for a random time, in one case of four beyond their timeout.
    async fn long(&mut self) {
        long(self.options, &mut self.chance).await;
    }

    /// Injects a fault of the kind. When it returns, the server answers and no fault is
    /// in force.
    pub(super) async fn strike(&mut self) -> Result<(), Error> {
        let kind = match self.options.kind {
            FaultKind::Combined => self.combine().await?,
            kind => kind,
        };
        match kind {
            FaultKind::Kill => {
                self.kill()?;
                if self.chance.once_in(4) {
                    self.server = Some(self.launch.start()?);
                    env::sleep(Duration::from_millis(self.chance.within(1..60))).await;
                    self.kill()?;
                }
            }
            FaultKind::Power => self.kill()?,
            FaultKind::Stop => self.stop().await?,
            FaultKind::Pause => {
                self.running()?.pause()?;
                self.long().await;
                self.running()?.resume()?;
            }
            FaultKind::Network => {
                for _ in 0..4 {
                    let policy = bad_network(&mut self.chance);
                    self.link(policy, Losses::default())?;
                    self.load().await;
                }
            }
            FaultKind::Cut => {
                for _ in 0..4 {
                    if let Way::Proxy(proxy) = &self.way {
                        proxy.cut();
                    }
                    self.load().await;
                }
            }
            FaultKind::Partition => {
                self.lose(100, 100)?;
                self.long().await;
            }
            FaultKind::OneWay => {
                for (requests, answers) in [(100, 0), (0, 100)] {
                    self.lose(requests, answers)?;
                    self.long().await;
                    self.lose(0, 0)?;
                    self.load().await;
                }
            }
            FaultKind::Loss => {
                let percent = u8::try_from(self.chance.within(2..30)).unwrap_or(10);
                self.lose(percent, percent)?;
                self.load().await;
                self.load().await;
            }
            FaultKind::Sync => {
                self.set(&["sync fails"])?;
                let within = ENDS_WITHIN.min(self.options.patience);
                let ended = self.running()?.ended(within).await?;
                if ended.is_none() {
                    let what = "the server goes on although its disk does not sync";
                    return Err(Error::Wrong(what.to_owned()));
                }
                self.server = None;
            }
            FaultKind::Write => {
                self.set(&["write fails"])?;
                self.load().await;
                self.set(&[])?;
                // The server may exit, since its log cannot be written, or recover from
                // the error.
                if self
                    .running()?
                    .ended(Duration::from_secs(1))
                    .await?
                    .is_some()
                {
                    self.server = None;
                }
            }
            FaultKind::Slow => {
                let milliseconds = self.chance.within(20..200);
                self.set(&[&format!("sync takes {milliseconds}")])?;
                let from = env::now();
                self.load().await;
                self.load().await;
                self.tally.slow.push(Slow {
                    from,
                    until: env::now(),
                    takes: Duration::from_millis(milliseconds),
                });
            }
            FaultKind::Full => {
                let before = self.said(FULL)?;
                self.set(&["disk full"])?;
                let noticing = async {
                    while self.said(FULL)? == before {
                        env::sleep(Duration::from_millis(20)).await;
                    }
                    Ok(())
                };
                within("noticing that the disk is full", noticing).await?;
                self.load().await;
            }
            FaultKind::Clock => {
                for _ in 0..4 {
                    let ahead = i64::try_from(self.chance.within(0..200_000_000)).unwrap_or(0);
                    let line = format!("clock ahead {}", ahead - 100_000_000);
                    self.set(&[&line])?;
                    self.load().await;
                }
                if self.chance.once_in(2) {
                    self.kill()?;
                    self.ready().await?;
                    self.load().await;
                }
            }
            // `combine` has returned one of the other kinds.
            FaultKind::Combined => {}
        }
        self.calm()?;
        self.ready().await
    }

    /// Degrades the network, and in a debug build slows fsyncs; returns the kind of fault
    /// to inject in addition.
    async fn combine(&mut self) -> Result<FaultKind, Error> {
        let late = late(&mut self.chance);
        self.link(late, Losses::default())?;
        if cfg!(debug_assertions) && self.chance.once_in(3) {
            let milliseconds = self.chance.within(5..50);
            self.set(&[&format!("sync takes {milliseconds}")])?;
        }
        self.load().await;
        Ok(FaultKind::drawn(&mut self.chance))
    }

    /// Lifts all faults of disk, clock and links.
    pub(super) fn calm(&mut self) -> Result<(), Error> {
        self.set(&[])?;
        self.link(Policy::default(), Losses::default())
    }

    fn running(&mut self) -> Result<&mut Server, Error> {
        let none = || Error::Undone("there is no server".to_owned());
        self.server.as_mut().ok_or_else(none)
    }

    /// How often the server has logged this message.
    fn said(&self, what: &str) -> Result<usize, Error> {
        let log = std::fs::read(&self.launch.log)?;
        Ok(String::from_utf8_lossy(&log).matches(what).count())
    }

    fn set(&self, lines: &[&str]) -> Result<(), Error> {
        Ok(self.controls.set(lines)?)
    }

    /// Drops a percentage of requests and of answers, by proxy or firewall.
    fn lose(&self, requests: u8, answers: u8) -> Result<(), Error> {
        let policy = Policy {
            requests_blocked: requests == 100,
            answers_blocked: answers == 100,
            lost_percent: requests.max(answers) % 100,
            ..Policy::default()
        };
        self.link(policy, Losses { requests, answers })
    }

    fn link(&self, policy: Policy, losses: Losses) -> Result<(), Error> {
        match &self.way {
            Way::Proxy(proxy) => proxy.set(policy),
            Way::Namespace(namespace) => namespace.lose(losses)?,
        }
        Ok(())
    }
}
