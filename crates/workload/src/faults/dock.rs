//! A server process in the dock: rounds of load, fault, restart and look.
//!
//! ```text
//! start ─ look, judge ─ load through a proxy ─ the fault ─ load ─ end ─┐
//!   ▲                                                                  │
//!   └────────────── the same directory, again ─────────────────────────┘
//! ```
//!
//! Clients and judge are those of [`crate::crash`]: transfers, each with a line in a
//! ledger. A run is for one kind of fault and one isolation level. What each kind must
//! end in:
//!
//! | kind | what is done | what must follow |
//! | --- | --- | --- |
//! | kill | SIGKILL | nothing lost, invented or torn |
//! | pause | SIGSTOP, SIGCONT, then SIGKILL | the same |
//! | network | delay, jitter, throttle, stalls one way and both, cuts | the same |
//! | power | SIGKILL of a server whose unsynced writes die with it | the same |
//! | sync | every sync fails | it ends by itself, and then the same |
//! | full | files do not grow for a while | it goes on when there is room, and then the same |
//! | clock | the wall clock jumps back and forth | the same |
//! | damage | a bit flips in any file, or the file is cut off, after an orderly stop | it refuses to start, or the same |

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_check::ledger::{Invention, Ledger, Verdict};
use coeval_env as env;

use super::controls::{self, Controls};
use super::damage::Damage;
use super::proxy::{Policy, Proxy};
use crate::chance::Chance;
use crate::crash::client::{self, History};
use crate::crash::{Error, look};
use crate::server::{self, Launch, Server};

/// The balance every account opens with.
const OPENING: i64 = 1_000_000;
/// How long a server may take to end whose disk does not sync.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// What is done to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SIGKILL.
    Kill,
    /// SIGSTOP and SIGCONT.
    Pause,
    /// A bad network.
    Network,
    /// A loss of power.
    Power,
    /// Failing syncs.
    Sync,
    /// A full disk.
    Full,
    /// A wall clock that jumps.
    Clock,
    /// Edited files.
    Damage,
}

impl Kind {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Kill, "kill"),
        (Self::Pause, "pause"),
        (Self::Network, "network"),
        (Self::Power, "power"),
        (Self::Sync, "sync"),
        (Self::Full, "full"),
        (Self::Clock, "clock"),
        (Self::Damage, "damage"),
    ];

    /// Whether it is made within the server, which only a debug build allows.
    #[must_use]
    pub const fn needs_debug_build(self) -> bool {
        matches!(self, Self::Power | Self::Sync | Self::Full | Self::Clock)
    }
}

/// The isolation levels, as SQL names them.
pub const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// What to do, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is done to the server.
    pub kind: Kind,
    /// The isolation level of every transaction.
    pub level: &'static str,
    /// How often.
    pub rounds: u32,
    /// How many clients load it.
    pub clients: u32,
    /// How many accounts there are.
    pub accounts: u32,
    /// Decides the load and the faults' moments. Threads decide the rest.
    pub seed: u64,
    /// The longest time under load before a fault, and after it.
    pub load_at_most: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Rounds done.
    pub rounds: u32,
    /// Transfers whose clients were told that they had committed.
    pub acknowledged: usize,
    /// How often the server refused to start after an edit.
    pub refused: u32,
    /// The latest verdict.
    pub verdict: Verdict,
}

/// Does all rounds with a server of `binary`, in `folder`, which is to be empty; tells
/// `progress` of each. Ends early when a verdict is not clean.
///
/// # Errors
/// When no verdict was reached, or the server did not do what its fault asks for.
pub async fn run(
    binary: &Path,
    folder: &Path,
    options: &Options,
    progress: &mut (dyn Write + Send),
) -> Result<Summary, Error> {
    let mut dock = Dock::new(binary, folder, options).await?;
    for round in 1..=options.rounds {
        dock.round(round).await?;
        let summary = &dock.summary;
        let (acknowledged, verdict) = (summary.acknowledged, &summary.verdict);
        writeln!(
            progress,
            "round {round} of {}: {acknowledged} acknowledged, {verdict}",
            options.rounds
        )?;
        if !summary.verdict.is_clean() {
            return Ok(dock.summary);
        }
    }
    let mut server = dock.launch.start()?;
    dock.look(&mut server).await?;
    server.stop().await?;
    if dock.summary.verdict.is_clean() && dock.summary.acknowledged < options.rounds as usize {
        return Err(Error::Idle {
            acknowledged: dock.summary.acknowledged,
            rounds: options.rounds,
        });
    }
    Ok(dock.summary)
}

struct Dock<'options> {
    options: &'options Options,
    launch: Launch,
    data: PathBuf,
    controls: Controls,
    proxy: Proxy,
    ledger: Ledger,
    chance: Chance,
    next_sequence: u64,
    summary: Summary,
}

impl<'options> Dock<'options> {
    async fn new(binary: &Path, folder: &Path, options: &'options Options) -> Result<Self, Error> {
        let port = server::free_port().await?;
        let always: &[&str] = match options.kind {
            Kind::Power => &["unsynced lost"],
            _ => &[],
        };
        let controls = Controls::new(folder, always).map_err(Error::Io)?;
        let mut launch = Launch::coeval(binary.to_owned(), folder, port)?.with(&[
            ("checkpoint-log-bytes", 50_000),
            ("log-segment-bytes", 65_536),
        ]);
        let file = controls.path().to_owned();
        launch
            .environment
            .push((controls::VARIABLE.to_owned(), file));
        Ok(Self {
            options,
            launch,
            data: folder.join("data"),
            controls,
            proxy: Proxy::start(port, options.seed).await.map_err(Error::Io)?,
            ledger: Ledger::new(options.accounts, OPENING),
            chance: Chance::new(options.seed),
            next_sequence: 1,
            summary: Summary::default(),
        })
    }

    async fn round(&mut self, round: u32) -> Result<(), Error> {
        let mut server = self.launch.start()?;
        if round == 1 {
            let connection = server.ready().await?;
            let (accounts, clients) = (self.options.accounts, self.options.clients);
            look::create(&connection, accounts, OPENING, clients).await?;
        }
        self.look(&mut server).await?;
        if !self.summary.verdict.is_clean() {
            return Ok(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let clients = self.begin_clients(&stop);
        self.load().await;
        let server = self.strike(server).await?;
        stop.store(true, Ordering::Relaxed);
        self.proxy.set(Policy::default());
        match (self.options.kind, server) {
            (_, None) => {}
            (Kind::Damage, Some(server)) => server.stop().await?,
            (_, Some(server)) => server.kill()?,
        }
        self.proxy.cut();
        let mut histories = Vec::new();
        for client in clients {
            match client.await {
                Ok(history) => histories.push(history?),
                Err(error) => {
                    return Err(Error::Inconsistent(format!("a client ended: {error:?}")));
                }
            }
        }
        self.record(&histories);
        if self.options.kind == Kind::Damage {
            self.damage().await?;
        }
        self.summary.rounds = round;
        Ok(())
    }

    fn begin_clients(
        &mut self,
        stop: &Arc<AtomicBool>,
    ) -> Vec<env::JoinHandle<Result<History, Error>>> {
        (0..self.options.clients)
            .map(|client| {
                let plan = client::Plan {
                    client,
                    clients: self.options.clients,
                    accounts: self.options.accounts,
                    first_sequence: self.next_sequence,
                    seed: self.chance.next(),
                    level: Some(self.options.level),
                };
                let (port, stop) = (self.proxy.port(), Arc::clone(stop));
                env::spawn("dock client", reconnecting(port, plan, stop))
            })
            .collect()
    }

    async fn load(&mut self) {
        let longest = self.options.load_at_most.as_micros();
        let longest = u64::try_from(longest).unwrap_or(u64::MAX).max(2);
        let micros = self.chance.within(longest / 2..longest);
        env::sleep(Duration::from_micros(micros)).await;
    }

    /// Does what the kind says; gives the server back if it still runs.
    async fn strike(&mut self, mut server: Server) -> Result<Option<Server>, Error> {
        match self.options.kind {
            Kind::Kill | Kind::Power | Kind::Damage => {}
            Kind::Pause => {
                server.pause()?;
                self.load().await;
                server.resume()?;
                self.load().await;
            }
            Kind::Network => {
                for _ in 0..4 {
                    let policy = self.bad_network();
                    self.proxy.set(policy);
                    self.load().await;
                    if self.chance.once_in(2) {
                        self.proxy.cut();
                    }
                }
            }
            Kind::Sync => {
                self.set(&["sync fails"])?;
                let ended = server.ended(ENDS_WITHIN).await?;
                self.set(&[])?;
                return match ended {
                    Some(_) => Ok(None),
                    None => Err(Error::Inconsistent(
                        "the server goes on although its disk does not sync".to_owned(),
                    )),
                };
            }
            Kind::Full => {
                self.set(&["disk full"])?;
                self.load().await;
                self.load().await;
                self.set(&[])?;
                self.load().await;
                // It takes commits again.
                server.ready().await?;
            }
            Kind::Clock => {
                for _ in 0..4 {
                    let ahead = i64::try_from(self.chance.within(0..200_000_000)).unwrap_or(0);
                    let line = format!("clock ahead {}", ahead - 100_000_000);
                    self.set(&[&line])?;
                    self.load().await;
                }
                self.set(&[])?;
            }
        }
        Ok(Some(server))
    }

    fn set(&self, lines: &[&str]) -> Result<(), Error> {
        self.controls.set(lines).map_err(Error::Io)
    }

    fn bad_network(&mut self) -> Policy {
        let milliseconds = Duration::from_millis(self.chance.within(1..30));
        let quiet = Policy::default();
        match self.chance.within(0..6) {
            0 => Policy {
                delay: milliseconds,
                ..quiet
            },
            1 => Policy {
                jitter: milliseconds,
                ..quiet
            },
            2 => Policy {
                bytes_per_second: self.chance.within(1000..50_000),
                ..quiet
            },
            3 => Policy {
                requests_blocked: true,
                ..quiet
            },
            4 => Policy {
                answers_blocked: true,
                ..quiet
            },
            _ => Policy {
                requests_blocked: true,
                answers_blocked: true,
                ..quiet
            },
        }
    }

    /// Edits a file, sees what a start makes of it, and takes it back.
    async fn damage(&mut self) -> Result<(), Error> {
        let damage = Damage::somewhere(&self.data, &mut self.chance).map_err(Error::Io)?;
        let Some(damage) = damage else { return Ok(()) };
        let mut server = self.launch.start()?;
        match server.ready().await {
            Err(server::Error::Ended { .. }) => self.summary.refused += 1,
            Err(error) => return Err(error.into()),
            Ok(connection) => {
                let shown = look::everything(&connection).await;
                let clean = match &shown {
                    Ok(shown) => self.ledger.judge(shown).is_clean(),
                    // Damage that is found when it is read.
                    Err(Error::Statement { .. }) => true,
                    Err(_) => false,
                };
                if !clean {
                    let what = damage.what;
                    return Err(Error::Inconsistent(format!(
                        "served what is wrong after {what}: {shown:?}"
                    )));
                }
                drop(connection);
                // What it has repaired stays repaired.
                return Ok(server.stop().await?);
            }
        }
        damage.undo().map_err(Error::Io)
    }

    async fn look(&mut self, server: &mut Server) -> Result<(), Error> {
        let connection = server.ready().await?;
        let shown = look::everything(&connection).await?;
        self.summary.verdict = self.ledger.judge(&shown);
        Ok(())
    }

    fn record(&mut self, histories: &[History]) {
        for history in histories {
            for (id, transfer, told) in &history.transfers {
                self.ledger.record(*id, *transfer, *told);
                self.next_sequence = self.next_sequence.max(id.sequence.0 + 1);
            }
        }
        let seen = histories.iter().flat_map(|history| &history.seen);
        let unsent: Vec<_> = seen.filter(|id| !self.ledger.saw(**id)).collect();
        let invented = unsent.into_iter().map(|id| Invention::NeverSent(*id));
        self.summary.verdict.invented.extend(invented);
        self.summary.acknowledged = self.ledger.acknowledged();
    }
}

/// One client, on one connection after another.
async fn reconnecting(
    port: u16,
    mut plan: client::Plan,
    stop: Arc<AtomicBool>,
) -> Result<History, Error> {
    let mut all = History::default();
    while !stop.load(Ordering::Relaxed) {
        let mut history = client::run(port, plan).await?;
        if let Some((last, _, _)) = history.transfers.last() {
            plan.first_sequence = last.sequence.0 + 1;
        }
        plan.seed = plan.seed.wrapping_add(1);
        all.transfers.append(&mut history.transfers);
        all.seen.append(&mut history.seen);
        env::sleep(Duration::from_millis(5)).await;
    }
    Ok(all)
}
