//! The nemesis: injects the faults of a plan into a simulated world, and lifts them.

use std::collections::BTreeSet;
use std::time::Duration;

use coeval_env::sim::{Latency, Link, Node, World};
use coeval_types::Term;

use crate::observe::ClusterObserver;
use crate::plan::{Accident, Fault, LinkKind, Packets, Victim};
use crate::system_under_test::SystemUnderTest;

/// Delay before the supervisor restarts a server.
const REST: Duration = Duration::from_millis(200);
/// Duration of an fsync without a fault.
const SYNC: std::ops::Range<Duration> = Duration::ZERO..Duration::from_millis(4);
/// Bandwidth, in bytes per second, at which duplicated packets cause a noticeable delay.
const LINE: u64 = 20_000;
/// How long a fault waits for a follower's question.
const WAITS_FOR_QUESTION: Duration = Duration::from_millis(500);
/// Interval at which it is looked whether a question is under way: shorter than any link's
/// latency.
pub(crate) const GLANCE: Duration = Duration::from_micros(40);

/// A fault in force.
struct Running {
    fault: Fault,
    until: Duration,
    /// Indexes of the affected servers.
    on: Vec<usize>,
    /// The newest term with a leader when the fault began.
    term: Option<Term>,
}

impl Running {
    fn is_over(&self, now: Duration, term: Option<Term>) -> bool {
        self.until <= now || (self.fault.until_election && term > self.term)
    }
}

/// A fault that waits until a follower's question is under way.
struct Waiting {
    fault: Fault,
    until: Duration,
    /// Number of questions before.
    questions: u64,
}

pub(crate) struct Nemesis<'world> {
    world: &'world World,
    servers: Vec<Node>,
    clients: Vec<Node>,
    began: Option<Duration>,
    /// Future faults, the next one last.
    plan: Vec<Fault>,
    waiting: Vec<Waiting>,
    running: Vec<Running>,
    damaged: BTreeSet<usize>,
    /// Time of the next allowed restart, by server.
    rests_until: Vec<Duration>,
    /// Until this time a server may have a valid reason not to start.
    excused_until: Duration,
}

impl<'world> Nemesis<'world> {
    pub(crate) fn new(
        world: &'world World,
        servers: Vec<Node>,
        mut clients: Vec<Node>,
        mut plan: Vec<Fault>,
    ) -> Self {
        clients.retain(|client| !servers.contains(client));
        plan.reverse();
        Self {
            world,
            rests_until: vec![Duration::ZERO; servers.len()],
            servers,
            clients,
            began: None,
            plan,
            waiting: Vec::new(),
            running: Vec::new(),
            damaged: BTreeSet::new(),
            excused_until: Duration::ZERO,
        }
    }

    /// Starts the clock of the plan.
    pub(crate) fn begin(&mut self) {
        self.began = Some(self.world.elapsed());
    }

    /// Whether a fault is in force or still to come.
    pub(crate) fn is_busy(&self) -> bool {
        self.began.is_some()
            && !(self.plan.is_empty() && self.waiting.is_empty() && self.running.is_empty())
    }

    /// Whether a server's files were damaged.
    pub(crate) fn has_damaged(&self, server: usize) -> bool {
        self.damaged.contains(&server)
    }

    /// Whether a server must not be restarted for now.
    pub(crate) fn keeps_down(&self, server: usize) -> bool {
        let down = |running: &Running| {
            running.on.contains(&server)
                && matches!(
                    running.fault.accident,
                    Accident::Kill | Accident::Power | Accident::LoseDisk
                )
        };
        self.running.iter().any(down) || self.world.elapsed() < self.rests_until[server]
    }

    /// Delays the restart of a server.
    pub(crate) fn rest(&mut self, server: usize) {
        self.rests_until[server] = self.world.elapsed() + REST;
    }

    /// Whether a failing or full disk, now or a moment ago, is a valid reason not to
    /// start.
    pub(crate) fn excuses(&self) -> bool {
        self.world.elapsed() <= self.excused_until
    }

    /// Lifts and injects the faults that are due.
    pub(crate) fn tick(&mut self, system: &mut SystemUnderTest) {
        let (now, term) = (self.world.elapsed(), system.term());
        for at in (0..self.running.len()).rev() {
            if self.running[at].is_over(now, term) {
                let ended = self.running.swap_remove(at);
                self.end(&ended);
            }
        }
        for running in &mut self.running {
            // One tick after the fault has begun.
            if std::mem::take(&mut running.fault.checkpoint) {
                for &server in &running.on {
                    system.servers[server].ask_for_checkpoint(self.world);
                }
            }
        }
        let Some(began) = self.began else { return };
        while let Some(fault) = self.plan.pop_if(|fault| began + fault.at <= now) {
            if fault.when_asked {
                self.waiting.push(Waiting {
                    fault,
                    until: now + WAITS_FOR_QUESTION,
                    questions: questions(system),
                });
            } else {
                self.begin_fault(fault, system);
            }
        }
    }

    /// Whether a fault waits for a follower's question: then
    /// [`Self::strike_when_asked`] is called at every [`GLANCE`].
    pub(crate) fn waits_for_question(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Injects the faults that waited for a question that is under way.
    pub(crate) fn strike_when_asked(&mut self, system: &mut SystemUnderTest) {
        let (now, asked) = (self.world.elapsed(), questions(system));
        let is_due = |waiting: &mut Waiting| waiting.until <= now || waiting.questions < asked;
        let due: Vec<Waiting> = self.waiting.extract_if(.., is_due).collect();
        for Waiting { fault, .. } in due {
            self.begin_fault(fault, system);
        }
    }

    fn begin_fault(&mut self, mut fault: Fault, system: &mut SystemUnderTest) {
        let (now, term) = (self.world.elapsed(), system.term());
        let on = victims(fault.on, system);
        if let Accident::CutFromLeader { requests, answers } = fault.accident {
            fault.accident = Accident::Block {
                clients: on
                    .first()
                    .and_then(|at| leader_of(*at, system))
                    .into_iter()
                    .collect(),
                requests,
                answers,
            };
        }
        for &server in &on {
            self.strike(&fault.accident, server, system);
        }
        let until = now + fault.lasts;
        if hits_disk(&fault.accident) {
            self.excused_until = self.excused_until.max(until + REST);
        }
        self.running.push(Running {
            fault,
            until,
            on,
            term,
        });
    }

    /// Lifts all faults and drops the rest of the plan.
    pub(crate) fn heal(&mut self) {
        self.plan.clear();
        self.waiting.clear();
        for running in std::mem::take(&mut self.running) {
            self.end(&running);
        }
        self.excused_until = self.world.elapsed() + REST;
    }

    fn strike(&mut self, accident: &Accident, at: usize, system: &mut SystemUnderTest) {
        let (world, node) = (self.world, self.servers[at]);
        match accident {
            Accident::Kill => {
                world.kill(node);
                system.servers[at].down();
            }
            Accident::Power => {
                world.crash(node);
                system.servers[at].down();
            }
            Accident::PowerAt(ahead) => {
                system.servers[at].ask_for_checkpoint(world);
                world.crash_at(node, Some(world.disk_changes(node) + ahead));
            }
            Accident::LoseDisk => {
                world.kill(node);
                system.servers[at].down();
                if system.can_lose_a_disk() {
                    world.replace_disk(node);
                    world.set_torn_sectors(node, true);
                    system.lose_disk(at);
                }
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
                if flipped.is_some() {
                    self.has_hit(at, system);
                }
            }
            Accident::Misdirect(ahead) => {
                let change = world.disk_changes(node) + ahead;
                world.misdirect_write_at(node, Some(change));
                self.has_hit(at, system);
            }
            Accident::Link(kind, packets) => self.set_links(node, Some(link(*kind, *packets))),
            Accident::Block {
                clients,
                requests,
                answers,
            } => {
                for client in self.cut(node, clients) {
                    if *requests {
                        world.block(client, node);
                    }
                    if *answers {
                        world.block(node, client);
                    }
                }
            }
            Accident::LateAnswers(latency) => {
                let late = Link {
                    latency: Latency {
                        least: *latency,
                        ..Latency::default()
                    },
                    ..Link::default()
                };
                self.set_links_to_nodes(node, Some(late));
            }
            // It has become a block.
            Accident::CutFromLeader { .. } => {}
            Accident::Reset => {
                for client in self.neighbours(node) {
                    world.break_connections(client, node);
                }
            }
            Accident::Drift(millionths) => world.set_drift(node, *millionths),
            Accident::Jump(milliseconds) => world.move_wall_clock(node, *milliseconds),
        }
    }

    /// Notes that a server's files are damaged, or will be.
    fn has_hit(&mut self, server: usize, system: &SystemUnderTest) {
        self.damaged.insert(server);
        system.is_damaged(server);
    }

    fn end(&self, running: &Running) {
        for &server in &running.on {
            self.end_on(&running.fault.accident, self.servers[server]);
        }
    }

    fn end_on(&self, accident: &Accident, node: Node) {
        let world = self.world;
        match accident {
            Accident::PowerAt(_) => world.crash_at(node, None),
            Accident::Pause => world.resume(node),
            Accident::SlowSync(_) => world.set_sync_time(node, SYNC),
            Accident::FailSync => world.fail_sync_at(node, None),
            Accident::FailSyncs => world.fail_syncs(node, false),
            Accident::FailWrites => world.fail_writes(node, false),
            Accident::Full(_) => world.set_capacity(node, u64::MAX),
            Accident::Misdirect(_) => {}
            Accident::Link(..) => self.set_links(node, None),
            Accident::LateAnswers(_) => self.set_links_to_nodes(node, None),
            Accident::Block { clients, .. } => {
                for client in self.cut(node, clients) {
                    world.unblock(client, node);
                    world.unblock(node, client);
                }
            }
            Accident::Drift(_) => world.set_drift(node, 0),
            Accident::Kill
            | Accident::Power
            | Accident::LoseDisk
            | Accident::FlipBit(_)
            | Accident::CutFromLeader { .. }
            | Accident::Reset
            | Accident::Jump(_) => {}
        }
    }

    /// The peers of a server: first the other servers, then the clients.
    fn neighbours(&self, node: Node) -> impl Iterator<Item = Node> + Clone {
        let servers = self.servers.iter().filter(move |server| **server != node);
        servers.chain(&self.clients).copied()
    }

    /// The peers with these positions.
    fn cut(&self, node: Node, which: &[usize]) -> impl Iterator<Item = Node> {
        let neighbours = self.neighbours(node);
        which
            .iter()
            .filter_map(move |&at| neighbours.clone().nth(at))
    }

    /// Sets the links from a server to the other servers.
    fn set_links_to_nodes(&self, node: Node, link: Option<Link>) {
        for &other in self.servers.iter().filter(|other| **other != node) {
            self.world.set_link(node, other, link);
        }
    }

    fn set_links(&self, node: Node, link: Option<Link>) {
        for other in self.neighbours(node) {
            self.world.set_link(other, node, link);
            self.world.set_link(node, other, link);
        }
    }
}

/// Number of questions that the followers of a cluster have sent.
fn questions(system: &SystemUnderTest) -> u64 {
    let observer = system.observer.as_ref();
    observer.map_or(0, ClusterObserver::questions)
}

/// Position of the leader among the peers of a server, unless that leads itself.
fn leader_of(at: usize, system: &SystemUnderTest) -> Option<usize> {
    let leader = system.leader().filter(|leader| *leader != at)?;
    Some(leader - usize::from(leader > at))
}

/// Indexes of the servers that a fault affects.
fn victims(on: Option<Victim>, system: &SystemUnderTest) -> Vec<usize> {
    let count = system.servers.len();
    match on {
        None => vec![0],
        Some(Victim::All) => (0..count).collect(),
        Some(Victim::Node(node)) => vec![node % count],
        Some(Victim::Leader) => vec![system.leader().unwrap_or(0)],
        Some(Victim::Follower(behind)) => {
            vec![(system.leader().unwrap_or(0) + 1 + behind % (count - 1)) % count]
        }
    }
}

/// Whether the fault can keep a server from starting.
fn hits_disk(accident: &Accident) -> bool {
    matches!(
        accident,
        Accident::FailSync | Accident::FailSyncs | Accident::FailWrites | Accident::Full(_)
    )
}

fn link(kind: LinkKind, packets: Packets) -> Link {
    let link = plain(kind);
    match packets {
        Packets::Plain => link,
        Packets::Repeated => Link {
            repeats_per_million: 300_000,
            bytes_per_second: link.bytes_per_second.or(Some(LINE)),
            ..link
        },
        Packets::Reordered => Link {
            detours_per_million: 200_000,
            detour: Duration::from_millis(50),
            ..link
        },
    }
}

fn plain(kind: LinkKind) -> Link {
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use coeval_env::JoinHandle;
    use coeval_occ::Validator;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Engine;
    use crate::server::Server;

    const SECOND: Duration = Duration::from_secs(1);

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 7).into()
    }

    async fn serve() {
        let listener = coeval_env::listen(address()).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut read, mut write) = stream.into_split();
            coeval_env::spawn("echo", async move {
                while let Ok(byte) = read.read_u8().await {
                    write.write_u8(byte).await.unwrap();
                }
            });
        }
    }

    /// Sends one request, and another a second later; returns how long the second took.
    async fn ask() -> Duration {
        let stream = coeval_env::connect(address()).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        write.write_u8(1).await.unwrap();
        read.read_u8().await.unwrap();
        coeval_env::sleep(SECOND).await;
        let asked = coeval_env::now();
        write.write_u8(2).await.unwrap();
        assert_eq!(read.read_u8().await.unwrap(), 2);
        asked.elapsed()
    }

    /// Latency of an answer for each of three clients, some of which are partitioned for
    /// ten seconds.
    fn answers(cut: &[usize], requests: bool, answers: bool) -> Vec<Duration> {
        let world = World::new(1);
        let node = world.node();
        let clients: Vec<Node> = (0..3).map(|_| world.node()).collect();
        world.spawn(node, serve());
        let server = Server::new(Engine::Server, node, 1, None, Validator::default());
        let mut system = SystemUnderTest::alone(server);
        let accident = Accident::Block {
            clients: cut.to_vec(),
            requests,
            answers,
        };
        let fault = Fault {
            number: 0,
            at: SECOND / 2,
            lasts: 10 * SECOND,
            accident,
            on: None,
            until_election: false,
            checkpoint: false,
            when_asked: false,
        };
        let mut nemesis = Nemesis::new(&world, vec![node], clients.clone(), vec![fault]);
        world.block_on(async {
            world.wait(SECOND / 100).await;
            let asking: Vec<JoinHandle<Duration>> = clients
                .iter()
                .map(|client| world.spawn(*client, ask()))
                .collect();
            nemesis.begin();
            while nemesis.is_busy() {
                nemesis.tick(&mut system);
                world.wait(SECOND / 100).await;
            }
            let mut took = Vec::new();
            for asking in asking {
                took.push(asking.await.unwrap());
            }
            took
        })
    }

    #[test]
    fn who_is_cut_off_waits_and_nobody_else() {
        for (cut, ways) in [
            (&[1][..], (true, true)),
            (&[0, 2], (true, false)),
            (&[2], (false, true)),
            (&[0, 1, 2], (true, true)),
        ] {
            for (client, took) in answers(cut, ways.0, ways.1).into_iter().enumerate() {
                let waited = took > 5 * SECOND;
                assert_eq!(waited, cut.contains(&client), "{cut:?}: {client} {took:?}");
                assert!(took < 11 * SECOND, "{took:?}");
            }
        }
    }
}
