//! Fault harness for a cluster: each node is a process, and every link between two nodes
//! goes through a proxy.
//!
//! ```text
//!   client 1 ──▶ node 1 ──proxy──▶ node 2       each node reaches each other one by a
//!   client 2 ──▶ node 2 ──proxy──▶ node 3       proxy of its own, so that a link can be
//!   client 3 ──▶ node 3 ──proxy──▶ node 1 …     down in one direction only
//! ```
//!
//! Clients are bound to no node: each connection goes to the next one.
#![expect(clippy::disallowed_methods, reason = "makes real folders")]

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use coeval_env as env;
use coeval_types::planted;
use tokio_postgres::Config;

use super::super::judge::Slow;
use super::super::{Error, FaultKind, Options, PATIENCE, Whom, within};
use super::{Tally, bad_network, late, load, long};
use crate::chance::Chance;
use crate::cluster::{self, Ways};
use crate::faults::controls::{self, Controls};
use crate::faults::proxy::{Policy, Proxy};
use crate::server::{self, Launch, Server};

/// Timeout for a node to exit whose disk fails to sync, or is full.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Timeout of a test write on one node.
const LOOK: Duration = Duration::from_millis(250);

/// A node of the cluster, with its faults and links.
struct Member {
    launch: Launch,
    controls: Controls,
    server: Option<Server>,
    /// Proxies through which the node reaches each of the others.
    ways: Ways,
    /// Proxy through which clients reach the node, if their links are to be degraded.
    front: Option<Proxy>,
}

/// A cluster with its faults; see the [module](self).
pub(in super::super) struct Several<'options> {
    options: &'options Options,
    /// The nodes, beginning with node 1.
    members: Vec<Member>,
    chance: Chance,
    /// Number of rows that test writes have inserted.
    looks: u64,
    pub(super) tally: Tally,
}

impl<'options> Several<'options> {
    pub(super) async fn new(
        binary: &Path,
        folder: &Path,
        options: &'options Options,
    ) -> Result<Self, Error> {
        let mut between = Vec::new();
        for _ in 0..options.nodes {
            between.push(server::free_port().await?);
        }
        let mut members = Vec::new();
        for node in 0..options.nodes {
            let folder = folder.join(format!("node-{}", node + 1));
            members.push(member(binary, &folder, options, node, &between).await?);
        }
        let mut several = Self {
            options,
            members,
            chance: options.chance(),
            looks: 0,
            tally: Tally {
                reached: format!("{} nodes on loopback, proxies between them", options.nodes),
                ..Tally::default()
            },
        };
        several.ready().await?;
        several.prepare_looks().await?;
        Ok(several)
    }

    pub(super) fn plant(&self) -> Result<(), Error> {
        self.set_all(&self.options.planted)
    }

    pub(super) fn config(&self) -> Config {
        let mut config = Config::new();
        for member in &self.members {
            config.host(member.launch.host.to_string());
            let front = member.front.as_ref();
            config.port(front.map_or(member.launch.port, Proxy::port));
        }
        config.user("postgres");
        config
    }

    pub(super) async fn ready(&mut self) -> Result<(), Error> {
        // All nodes are started first, because none answers without a majority.
        for member in &mut self.members {
            if member.server.is_none() {
                member.server = Some(member.launch.start()?);
            }
        }
        for member in &mut self.members {
            if let Some(server) = &mut member.server {
                server.ready().await?;
            }
        }
        Ok(())
    }

    pub(super) async fn stop(&mut self) -> Result<(), Error> {
        for member in &mut self.members {
            if let Some(server) = member.server.take() {
                server.stop().await?;
            }
        }
        Ok(())
    }

    pub(super) async fn load(&mut self) {
        load(self.options, &mut self.chance).await;
    }

    async fn long(&mut self) {
        long(self.options, &mut self.chance).await;
    }

    pub(super) async fn strike(&mut self) -> Result<(), Error> {
        let kind = match self.options.kind {
            FaultKind::Combined => self.combine().await?,
            kind => kind,
        };
        let victims = self.victims().await?;
        let began = env::now();
        match kind {
            FaultKind::Kill => {
                self.kill(&victims)?;
                self.gone(&victims, began).await?;
                if self.chance.once_in(4) {
                    for victim in &victims {
                        let member = &mut self.members[*victim];
                        member.server = Some(member.launch.start()?);
                    }
                    env::sleep(Duration::from_millis(self.chance.within(1..60))).await;
                    self.kill(&victims)?;
                }
            }
            FaultKind::Power => {
                self.kill(&victims)?;
                self.gone(&victims, began).await?;
            }
            FaultKind::Stop => {
                for victim in &victims {
                    if let Some(server) = self.members[*victim].server.take() {
                        server.stop().await?;
                    }
                }
                self.gone(&victims, began).await?;
            }
            FaultKind::Pause => {
                for victim in &victims {
                    self.running(*victim)?.pause()?;
                }
                self.long().await;
                for victim in &victims {
                    self.running(*victim)?.resume()?;
                }
            }
            FaultKind::Network => {
                for _ in 0..4 {
                    let policy = bad_network(&mut self.chance);
                    self.links(&victims, policy, policy);
                    self.load().await;
                }
            }
            FaultKind::Cut => {
                for _ in 0..4 {
                    self.each_link(&victims, |way, _| way.cut());
                    self.load().await;
                }
            }
            FaultKind::Partition => {
                self.links(&victims, lost(100, 100), lost(100, 100));
                self.long().await;
            }
            FaultKind::OneWay => {
                for (out, back) in [(100, 0), (0, 100)] {
                    // A node's traffic goes out through its own proxies as requests, and
                    // through the others' proxies as answers.
                    self.links(&victims, lost(out, back), lost(back, out));
                    self.long().await;
                    self.links(&victims, lost(0, 0), lost(0, 0));
                    self.load().await;
                }
            }
            FaultKind::Loss => {
                let percent = u8::try_from(self.chance.within(2..30)).unwrap_or(10);
                self.links(&victims, lost(percent, percent), lost(percent, percent));
                self.load().await;
                self.load().await;
            }
            FaultKind::Sync => {
                self.set(&victims, &["sync fails"])?;
                self.end(&victims, "does not sync").await?;
            }
            FaultKind::Full if self.options.whom == Whom::Follower => {
                self.set(&victims, &["disk full"])?;
                if self.ends_unless_it_leads(&victims, "is full").await? {
                    // The follower cannot store the log it receives; the others commit
                    // without it.
                    self.gone(&victims, env::now()).await?;
                    self.load().await;
                } else {
                    self.load().await;
                    self.load().await;
                    self.set(&victims, &[])?;
                    self.may_have_ended(&victims).await?;
                }
            }
            FaultKind::Write | FaultKind::Full => {
                let fault = match kind {
                    FaultKind::Write => "write fails",
                    _ => "disk full",
                };
                self.set(&victims, &[fault])?;
                self.load().await;
                self.load().await;
                self.set(&victims, &[])?;
                self.may_have_ended(&victims).await?;
            }
            FaultKind::Slow => {
                let milliseconds = self.chance.within(20..200);
                self.set(&victims, &[&format!("sync takes {milliseconds}")])?;
                let from = env::now();
                self.load().await;
                self.load().await;
                // A majority of nodes with fast disks does not wait for the slow ones.
                if 2 * victims.len() > self.members.len() {
                    self.tally.slow.push(Slow {
                        from,
                        until: env::now(),
                        takes: Duration::from_millis(milliseconds),
                    });
                }
            }
            FaultKind::Clock => {
                for _ in 0..4 {
                    let ahead = i64::try_from(self.chance.within(0..200_000_000)).unwrap_or(0);
                    let line = format!("clock ahead {}", ahead - 100_000_000);
                    self.set(&victims, &[&line])?;
                    self.load().await;
                }
                if self.chance.once_in(2) {
                    self.kill(&victims)?;
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

    pub(super) fn calm(&mut self) -> Result<(), Error> {
        self.set_all(&[])?;
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.links(&all, Policy::default(), Policy::default());
        for front in self
            .members
            .iter()
            .filter_map(|member| member.front.as_ref())
        {
            front.set(Policy::default());
        }
        Ok(())
    }

    /// Degrades the links, and in a debug build slows fsyncs; returns the kind of fault
    /// to inject in addition.
    async fn combine(&mut self) -> Result<FaultKind, Error> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        let late = late(&mut self.chance);
        self.links(&all, late, late);
        if cfg!(debug_assertions) && self.chance.once_in(3) {
            let milliseconds = self.chance.within(5..50);
            self.set_all(&[&format!("sync takes {milliseconds}")])?;
        }
        for front in self
            .members
            .iter()
            .filter_map(|member| member.front.as_ref())
        {
            front.set(late);
            if self.chance.once_in(3) {
                front.cut();
            }
        }
        self.load().await;
        Ok(FaultKind::drawn(&mut self.chance))
    }

    /// The nodes that the fault hits.
    async fn victims(&mut self) -> Result<Vec<usize>, Error> {
        let leader = match self.options.whom {
            Whom::All => return Ok((0..self.members.len()).collect()),
            Whom::Leader | Whom::Follower => self.leader().await?,
        };
        if self.options.whom == Whom::Leader {
            return Ok(vec![leader]);
        }
        let others = self.members.len() - 1;
        let others = self.chance.within(0..u64::try_from(others).unwrap_or(1));
        let behind = 1 + usize::try_from(others).unwrap_or(0);
        Ok(vec![(leader + behind) % self.members.len()])
    }

    /// The leader, according to the first node that answers.
    async fn leader(&self) -> Result<usize, Error> {
        let asking = async {
            loop {
                let launches = self.members.iter().map(|member| &member.launch);
                let leader = cluster::ask_who_leads(launches).await;
                if let Some(node) = leader.filter(|node| *node < self.members.len()) {
                    return Ok(node);
                }
                env::sleep(Duration::from_millis(5)).await;
            }
        };
        within("finding out who leads", asking).await
    }

    async fn prepare_looks(&self) -> Result<(), Error> {
        const TABLE: &str = "CREATE TABLE IF NOT EXISTS looks (id bigint PRIMARY KEY)";
        let wrong = |error: &dyn std::fmt::Display| Error::Wrong(format!("{TABLE}: {error}"));
        let Launch { host, port, .. } = self.members[0].launch;
        let connection = crate::connect_to(host, port).await;
        let connection = connection.map_err(|error| wrong(&error))?;
        let made = connection.batch_execute(TABLE).await;
        made.map_err(|error| wrong(&error))
    }

    /// Measures the write outage since these nodes were taken away, if the others are a
    /// majority.
    async fn gone(&mut self, victims: &[usize], since: env::Instant) -> Result<(), Error> {
        if 2 * victims.len() >= self.members.len() {
            return Ok(());
        }
        let writing = async {
            loop {
                for at in (0..self.members.len()).filter(|at| !victims.contains(at)) {
                    self.looks += 1;
                    let write = format!("INSERT INTO looks VALUES ({})", self.looks);
                    let Launch { host, port, .. } = self.members[at].launch;
                    let written = env::timeout(LOOK, async {
                        let connection = crate::connect_to(host, port).await.ok()?;
                        connection.batch_execute(&write).await.ok()
                    });
                    if matches!(written.await, Ok(Some(()))) {
                        return Ok(since.elapsed());
                    }
                }
                env::sleep(Duration::from_millis(2)).await;
            }
        };
        let patience = self.options.patience.min(PATIENCE);
        let outage = env::timeout(patience, writing).await;
        let outage: Result<Duration, Error> = outage.unwrap_or(Err(Error::Endless(
            "a write on the remaining nodes",
            patience,
        )));
        self.tally.outages.push(outage?);
        Ok(())
    }

    fn kill(&mut self, victims: &[usize]) -> Result<(), Error> {
        for victim in victims {
            if let Some(server) = self.members[*victim].server.take() {
                self.tally.kills += 1;
                server.kill()?;
            }
        }
        Ok(())
    }

    /// Waits until these nodes have exited by themselves because of their disks; or until
    /// too few are left for a majority: then the others write nothing, and do not notice
    /// their disks' faults.
    async fn end(&mut self, victims: &[usize], disk: &str) -> Result<(), Error> {
        let began = env::now();
        let within = ENDS_WITHIN.min(self.options.patience);
        loop {
            for victim in victims {
                let member = &mut self.members[*victim];
                if let Some(server) = &mut member.server
                    && server.ended(LOOK).await?.is_some()
                {
                    member.server = None;
                }
            }
            let runs = |at: &usize| self.members[*at].server.is_some();
            let Some(goes_on_at) = victims.iter().copied().find(runs) else {
                return Ok(());
            };
            let running = self.members.iter().filter(|member| member.server.is_some());
            if 2 * running.count() <= self.members.len() {
                return Ok(());
            }
            if began.elapsed() > within {
                return Err(goes_on(goes_on_at, disk));
            }
        }
    }

    /// Waits until these nodes have exited by themselves, or one of them is the leader:
    /// it was a follower when it was chosen, and a leader refuses commits instead of
    /// exiting. Returns whether they exited.
    async fn ends_unless_it_leads(&mut self, victims: &[usize], disk: &str) -> Result<bool, Error> {
        let began = env::now();
        let within = ENDS_WITHIN.min(self.options.patience);
        for victim in victims {
            while self.running(*victim)?.ended(LOOK).await?.is_none() {
                if victims.contains(&self.leader().await?) {
                    return Ok(false);
                }
                if began.elapsed() > within {
                    return Err(goes_on(*victim, disk));
                }
            }
            self.members[*victim].server = None;
        }
        Ok(true)
    }

    /// Handles nodes whose log could not be written: they may have exited, or recovered
    /// from the error.
    async fn may_have_ended(&mut self, victims: &[usize]) -> Result<(), Error> {
        for victim in victims {
            let member = &mut self.members[*victim];
            if let Some(server) = &mut member.server
                && server.ended(Duration::from_secs(1)).await?.is_some()
            {
                member.server = None;
            }
        }
        Ok(())
    }

    fn running(&mut self, node: usize) -> Result<&mut Server, Error> {
        let none = || Error::Undone(format!("node {} does not run", node + 1));
        self.members[node].server.as_mut().ok_or_else(none)
    }

    fn set(&self, victims: &[usize], lines: &[&str]) -> Result<(), Error> {
        for victim in victims {
            self.members[*victim].controls.set(lines)?;
        }
        Ok(())
    }

    fn set_all(&self, lines: &[&str]) -> Result<(), Error> {
        for member in &self.members {
            member.controls.set(lines)?;
        }
        Ok(())
    }

    /// Sets the policy of these nodes' proxies to `own`, and of the others' proxies to
    /// these nodes to `theirs`.
    fn links(&self, victims: &[usize], own: Policy, theirs: Policy) {
        self.each_link(victims, |way, is_own| {
            way.set(if is_own { own } else { theirs })
        });
    }

    fn each_link(&self, victims: &[usize], change: impl Fn(&Proxy, bool)) {
        for (from, member) in self.members.iter().enumerate() {
            for (to, way) in &member.ways {
                if victims.contains(&from) {
                    change(way, true);
                } else if victims.contains(to) {
                    change(way, false);
                }
            }
        }
    }
}

fn goes_on(node: usize, disk: &str) -> Error {
    Error::Wrong(format!("node {} goes on, whose disk {disk}", node + 1))
}

fn lost(requests: u8, answers: u8) -> Policy {
    Policy {
        requests_blocked: requests == 100,
        answers_blocked: answers == 100,
        lost_percent: requests.max(answers) % 100,
        ..Policy::default()
    }
}

/// Prepares a node without starting it; the nodes accept each other's connections on
/// these ports.
async fn member(
    binary: &Path,
    folder: &Path,
    options: &Options,
    node: usize,
    between: &[u16],
) -> Result<Member, Error> {
    std::fs::create_dir_all(folder)?;
    let controls = Controls::new(folder, options.kind.always())?;
    let placed = cluster::place(binary, folder, node, between, Some(options.seed));
    let (launch, ways) = placed.await?;
    let mut launch = launch.with(&options.settings);
    let mut variable = |name: &str, value: OsString| {
        launch.environment.push((name.to_owned(), value));
    };
    variable(controls::VARIABLE, controls.path().into());
    if let Some(bug) = options.bug {
        variable(planted::VARIABLE, bug.name().into());
    }
    let front = match options.kind {
        FaultKind::Combined => Some(Proxy::start(launch.port, options.seed).await?),
        _ => None,
    };
    Ok(Member {
        launch,
        controls,
        server: None,
        ways,
        front,
    })
}
