//! Does to a world what a plan says, and takes it back.

use std::time::Duration;

use coeval_env::sim::{Latency, Link, Node, World};

use crate::plan::{Accident, Fault, LinkKind};
use crate::server::Server;

/// How long whoever watches over a server waits before it starts it again.
const REST: Duration = Duration::from_millis(200);
/// How long syncs take when nothing is wrong.
const SYNC: std::ops::Range<Duration> = Duration::ZERO..Duration::from_millis(4);

/// A fault that has begun.
struct Running {
    fault: Fault,
    until: Duration,
}

pub(crate) struct Nemesis<'world> {
    world: &'world World,
    server: Node,
    clients: Vec<Node>,
    began: Option<Duration>,
    /// Those to come, the next one last.
    plan: Vec<Fault>,
    running: Vec<Running>,
    damaged: bool,
    rests_until: Duration,
    /// Until when a server may find a reason not to start.
    excused_until: Duration,
}

impl<'world> Nemesis<'world> {
    pub(crate) fn new(
        world: &'world World,
        server: Node,
        mut clients: Vec<Node>,
        mut plan: Vec<Fault>,
    ) -> Self {
        clients.retain(|client| *client != server);
        plan.reverse();
        Self {
            world,
            server,
            clients,
            began: None,
            plan,
            running: Vec::new(),
            damaged: false,
            rests_until: Duration::ZERO,
            excused_until: Duration::ZERO,
        }
    }

    /// From now on the plan's times count.
    pub(crate) fn begin(&mut self) {
        self.began = Some(self.world.elapsed());
    }

    /// Whether something is still to come or to end.
    pub(crate) fn is_busy(&self) -> bool {
        self.began.is_some() && !(self.plan.is_empty() && self.running.is_empty())
    }

    /// Whether files were damaged.
    pub(crate) fn has_damaged(&self) -> bool {
        self.damaged
    }

    /// Whether the server is to stay down for now.
    pub(crate) fn keeps_down(&self) -> bool {
        let down =
            |running: &Running| matches!(running.fault.accident, Accident::Kill | Accident::Power);
        self.running.iter().any(down) || self.world.elapsed() < self.rests_until
    }

    /// Whoever watches over the server waits a moment.
    pub(crate) fn rest(&mut self) {
        self.rests_until = self.world.elapsed() + REST;
    }

    /// Whether a disk that fails or is full, now or a moment ago, is reason enough not
    /// to start.
    pub(crate) fn excuses(&self) -> bool {
        self.world.elapsed() <= self.excused_until
    }

    /// Ends and begins what is due.
    pub(crate) fn tick(&mut self, server: &mut Server) {
        let now = self.world.elapsed();
        for at in (0..self.running.len()).rev() {
            if self.running[at].until <= now {
                let ended = self.running.swap_remove(at);
                self.end(&ended.fault.accident);
            }
        }
        let Some(began) = self.began else { return };
        while let Some(fault) = self.plan.pop_if(|fault| began + fault.at <= now) {
            self.strike(&fault.accident, server);
            let until = now + fault.lasts;
            if hits_disk(&fault.accident) {
                self.excused_until = self.excused_until.max(until + REST);
            }
            self.running.push(Running { fault, until });
        }
    }

    /// Everything is well again.
    pub(crate) fn heal(&mut self) {
        self.plan.clear();
        for running in std::mem::take(&mut self.running) {
            self.end(&running.fault.accident);
        }
        self.excused_until = self.world.elapsed() + REST;
    }

    fn strike(&mut self, accident: &Accident, server: &mut Server) {
        let (world, node) = (self.world, self.server);
        match accident {
            Accident::Kill => {
                world.kill(node);
                server.down();
            }
            Accident::Power => {
                world.crash(node);
                server.down();
            }
            Accident::PowerAt(ahead) => {
                server.ask_for_checkpoint(world);
                world.crash_at(node, Some(world.disk_changes(node) + ahead));
            }
            Accident::Pause => world.pause(node),
            Accident::SlowSync(most) => world.set_sync_time(node, Duration::ZERO..*most),
            Accident::FailSync => world.fail_sync_at(node, Some(world.disk_syncs(node))),
            Accident::FailSyncs => world.fail_syncs(node, true),
            Accident::FailWrites => world.fail_writes(node, true),
            Accident::Full(room) => {
                let files = world.files(node);
                let used: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                world.set_capacity(node, used + room);
            }
            Accident::FlipBit(part) => {
                let flipped = world.flip_bit(node, |file| part.has(file));
                self.damaged |= flipped.is_some();
            }
            Accident::Misdirect(ahead) => {
                let at = world.disk_changes(node) + ahead;
                world.misdirect_write_at(node, Some(at));
                self.damaged = true;
            }
            Accident::Link(kind) => self.set_links(Some(link(*kind))),
            Accident::Block { requests, answers } => {
                for &client in &self.clients {
                    if *requests {
                        world.block(client, node);
                    }
                    if *answers {
                        world.block(node, client);
                    }
                }
            }
            Accident::Reset => {
                for &client in &self.clients {
                    world.break_connections(client, node);
                }
            }
            Accident::Drift(millionths) => world.set_drift(node, *millionths),
            Accident::Jump(milliseconds) => world.move_wall_clock(node, *milliseconds),
        }
    }

    fn end(&self, accident: &Accident) {
        let (world, node) = (self.world, self.server);
        match accident {
            Accident::PowerAt(_) => world.crash_at(node, None),
            Accident::Pause => world.resume(node),
            Accident::SlowSync(_) => world.set_sync_time(node, SYNC),
            Accident::FailSync => world.fail_sync_at(node, None),
            Accident::FailSyncs => world.fail_syncs(node, false),
            Accident::FailWrites => world.fail_writes(node, false),
            Accident::Full(_) => world.set_capacity(node, u64::MAX),
            Accident::Misdirect(_) => {}
            Accident::Link(_) => self.set_links(None),
            Accident::Block { .. } => {
                for &client in &self.clients {
                    world.unblock(client, node);
                    world.unblock(node, client);
                }
            }
            Accident::Drift(_) => world.set_drift(node, 0),
            Accident::Kill
            | Accident::Power
            | Accident::FlipBit(_)
            | Accident::Reset
            | Accident::Jump(_) => {}
        }
    }

    fn set_links(&self, link: Option<Link>) {
        for &client in &self.clients {
            self.world.set_link(client, self.server, link);
            self.world.set_link(self.server, client, link);
        }
    }
}

/// Whether it can keep a server from starting.
fn hits_disk(accident: &Accident) -> bool {
    matches!(
        accident,
        Accident::FailSync | Accident::FailSyncs | Accident::FailWrites | Accident::Full(_)
    )
}

fn link(kind: LinkKind) -> Link {
    let near = Latency {
        least: Duration::from_micros(50),
        spread: Duration::from_micros(100),
        ..Latency::default()
    };
    match kind {
        LinkKind::Far => Link {
            latency: Latency {
                least: Duration::from_millis(20),
                spread: Duration::from_millis(60),
                tail_per_million: 20_000,
                tail: Duration::from_secs(1),
            },
            ..Link::default()
        },
        LinkKind::Lossy => Link {
            latency: near,
            loss_per_million: 100_000,
            ..Link::default()
        },
        LinkKind::Narrow => Link {
            latency: near,
            bytes_per_second: Some(5_000),
            ..Link::default()
        },
        LinkKind::Breaking => Link {
            latency: near,
            resets_per_million: 20_000,
            ..Link::default()
        },
    }
}
