//! Three nodes as three processes, and clients that stay while leaders come and go.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};

use coeval_testkit::wire::{
    Answer, Wire, bind, error, execute, kinds, message, packet, parse, query, sync,
};
use rustix::process::Signal;
use tokio::process::Command;

use crate::process::{COEVAL, PATIENCE, Running, in_runtime};

const CANCEL: u32 = 80_877_102;

/// The id of a cluster that is founded from nothing.
pub const ID: &str = "00000000000000000000000000000007";

/// How many nodes a cluster begins with.
const FOUNDERS: usize = 3;

/// A cluster in a directory.
pub struct Cluster {
    directory: tempfile::TempDir,
    members: Vec<SocketAddr>,
    /// The cluster's id.
    id: String,
    nodes: Vec<Option<Running>>,
    /// Whether nodes show certificates to each other.
    tls: bool,
    /// Whether nodes name each other's hosts, instead of addresses.
    names: bool,
    /// Whether nodes obey a file of faults (docs/decisions/0015), which they read at each
    /// call.
    obeys: bool,
    /// Further arguments that nodes are started with.
    further: Vec<String>,
}

/// Addresses that no process listens at, and that no other test is given: below the range
/// from which the kernel assigns ports, so that no process takes them meanwhile.
#[expect(
    clippy::disallowed_methods,
    reason = "asks the kernel for ports that processes will listen at"
)]
fn addresses(count: usize) -> Vec<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id();
    let ports = std::iter::repeat_with(|| {
        let place = start.wrapping_mul(97) % 12_000 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(20_000 + place % 12_000).expect("a port");
        SocketAddr::from(([127, 0, 0, 1], port))
    });
    let free = ports.filter(|address| std::net::TcpListener::bind(address).is_ok());
    free.take(count).collect()
}

impl Cluster {
    pub async fn start() -> Self {
        Self::start_with(false, &[]).await
    }

    /// With certificates between nodes, if that is asked for, and these arguments.
    pub async fn start_with(tls: bool, further: &[&str]) -> Self {
        Self::begin(tls, false, further).await
    }

    /// With members that are named by their hosts.
    pub async fn start_by_names() -> Self {
        let mut cluster = Self {
            names: true,
            ..Self::prepare(ID)
        };
        for node in 0..FOUNDERS {
            cluster.start_node(node).await;
        }
        cluster
    }

    /// With disks of which a test says what is wrong with them, and these arguments.
    pub async fn start_under_faults(further: &[&str]) -> Self {
        Self::begin(false, true, further).await
    }

    /// A cluster of which no node runs: a test puts data into its directories first.
    pub fn prepare(id: &str) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            members: addresses(FOUNDERS),
            id: id.to_owned(),
            nodes: vec![None, None, None],
            tls: false,
            names: false,
            obeys: false,
            further: Vec::new(),
        }
    }

    /// From now on nodes are started with these arguments, too.
    pub fn set_further(&mut self, further: &[&str]) {
        self.further = further.iter().map(|&word| word.to_owned()).collect();
    }

    /// All that a node that is killed has logged.
    pub async fn killed(&mut self, node: usize) -> String {
        let node = self.nodes[node].take().expect("it runs");
        node.signal(Signal::KILL);
        let early = node.early.clone();
        early + &node.last_words().await.1
    }

    async fn begin(tls: bool, obeys: bool, further: &[&str]) -> Self {
        let mut cluster = Self {
            tls,
            obeys,
            further: further.iter().map(|&word| word.to_owned()).collect(),
            ..Self::prepare(ID)
        };
        if tls {
            cluster.certify().await;
        }
        for node in 0..3 {
            cluster.start_node(node).await;
        }
        cluster
    }

    /// Makes certificates of an authority of their own, as an administrator would by hand.
    async fn certify(&self) {
        Self::certify_in(self.directory.path()).await;
    }

    /// Where the nodes' certificates are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Makes an authority in this directory, and certificates of all nodes.
    pub async fn certify_in(place: &Path) {
        let place = place.display().to_string();
        let run = async |arguments: &[&str]| {
            let mut command = Command::new(COEVAL);
            let made = command.args(["cert"]).args(arguments).output();
            let made = coeval_env::timeout(PATIENCE, made).await.unwrap().unwrap();
            assert!(made.status.success(), "{made:?}");
        };
        run(&["authority", "--cluster", "shop", "--to", &place]).await;
        for node in ["1", "2", "3"] {
            let node = ["node", "--cluster", "shop", "--node", node, "--to", &place];
            run(&node).await;
        }
    }

    /// Starts one more process, that is to join. Returns its place, and where it listens
    /// for the others.
    pub async fn start_another(&mut self) -> (usize, SocketAddr) {
        let node = self.nodes.len();
        self.members.extend(addresses(1));
        self.nodes.push(None);
        self.start_node(node).await;
        (node, self.members[node])
    }

    /// The data directory of a node.
    pub fn data(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("node-{}", node + 1))
    }

    /// Starts a node, to found the cluster if it is one of the first and has no data.
    pub async fn start_node(&mut self, node: usize) {
        self.start_node_to(node, Self::flag(node)).await;
    }

    /// Starts a node whose data is lost, to join under the number that it had.
    #[expect(clippy::disallowed_methods, reason = "the test plays the lost disk")]
    pub async fn start_wiped(&mut self, node: usize) {
        std::fs::remove_dir_all(self.data(node)).unwrap();
        self.start_node_to(node, "--cluster-join").await;
    }

    async fn start_node_to(&mut self, node: usize, flag: &str) {
        let data = self.data(node);
        let arguments = self.arguments(node, flag);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let faults = self.faults(node);
        let environment: &[(&str, &Path)] = match self.obeys {
            true => &[("DOCK_FAULTS", &faults)],
            false => &[],
        };
        self.nodes[node] = Some(Running::start_in(&data, &arguments, environment).await);
    }

    /// Starts a node that ends by itself before it serves, or soon after; what it says.
    pub async fn refused(&self, node: usize) -> String {
        self.refused_with(node, Self::flag(node)).await
    }

    /// Likewise, with this flag for its first start.
    pub async fn refused_with(&self, node: usize, flag: &str) -> String {
        let data = self.data(node).display().to_string();
        let mut command = Command::new(COEVAL);
        command
            .args(["start", "--data-dir", &data, "--listen", "127.0.0.1:0"])
            .args(self.arguments(node, flag))
            .kill_on_drop(true);
        let ended = coeval_env::timeout(PATIENCE, command.output()).await;
        let ended = ended.expect("it ends in time").unwrap();
        assert!(!ended.status.success(), "{ended:?}");
        String::from_utf8_lossy(&[&ended.stdout[..], &ended.stderr].concat()).into_owned()
    }

    fn flag(node: usize) -> &'static str {
        match node < FOUNDERS {
            true => "--cluster-found",
            false => "--cluster-join",
        }
    }

    /// The settings of a node.
    fn arguments(&self, node: usize, flag: &str) -> Vec<String> {
        let members: Vec<String> = (1..)
            .zip(&self.members)
            .map(|(id, at)| match self.names {
                true => format!("{id}=localhost:{}", at.port()),
                false => format!("{id}={at}"),
            })
            .collect();
        let id = (node + 1).to_string();
        let file = |name: String| self.directory.path().join(name).display().to_string();
        let (certificate, key) = (
            file(format!("node-{id}.pem")),
            file(format!("node-{id}.key")),
        );
        let authority = file("authority.pem".to_owned());
        let tls = [
            "--cluster-tls-name",
            "shop",
            "--cluster-tls-certificate-file",
            &certificate,
            "--cluster-tls-key-file",
            &key,
            "--cluster-tls-authority-file",
            &authority,
        ];
        let members = members.join(",");
        let mut arguments = vec![
            "--cluster-node",
            &id,
            "--cluster-id",
            &self.id,
            "--cluster-members",
            &members,
            flag,
            // Long enough for processes that share their processors with all other tests.
            "--cluster-election-timeout-milliseconds",
            "1000",
            "--admin-listen",
            "127.0.0.1:0",
        ];
        if self.tls {
            arguments.extend(tls);
        }
        arguments.extend(self.further.iter().map(String::as_str));
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn faults(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("faults-{}", node + 1))
    }

    /// From now on these are wrong with a node's disk, and nothing else.
    #[expect(clippy::disallowed_methods, reason = "the test plays the failing disk")]
    pub fn set_faults(&self, node: usize, faults: &str) {
        std::fs::write(self.faults(node), faults).unwrap();
    }

    pub fn address(&self, node: usize) -> SocketAddr {
        self.nodes[node].as_ref().expect("it runs").address
    }

    /// The address of a node's metrics.
    pub fn admin(&self, node: usize) -> SocketAddr {
        let node = self.nodes[node].as_ref().expect("it runs");
        node.admin.expect("it was told to have some")
    }

    pub async fn connect(&self, node: usize) -> Wire {
        Wire::connect(self.address(node)).await
    }

    /// Which node leads.
    pub async fn leader(&self) -> usize {
        let asking = async {
            loop {
                for (number, node) in self.nodes.iter().enumerate() {
                    if let Some(node) = node {
                        let (_, health) =
                            coeval_testkit::http::get(node.admin.unwrap(), "/health").await;
                        if health.contains("\"role\":\"leader\"") {
                            return number;
                        }
                    }
                }
                coeval_env::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let leader = coeval_env::timeout(PATIENCE, asking).await;
        leader.expect("somebody leads in time")
    }

    pub fn signal(&self, node: usize, signal: Signal) {
        self.nodes[node].as_ref().expect("it runs").signal(signal);
    }

    /// A node's own health report.
    pub async fn health(&self, node: usize) -> String {
        let node = self.nodes[node].as_ref().expect("it runs");
        coeval_testkit::http::get(node.admin.unwrap(), "/health")
            .await
            .1
    }

    /// Waits for a node that was asked to stop; says whether it ended in order.
    pub async fn ended(&mut self, node: usize) -> bool {
        let node = self.nodes[node].take().expect("it runs");
        node.ended().await.success()
    }

    /// Waits for a node that ends by itself; how it ended, and what it had logged.
    pub async fn last_words(&mut self, node: usize) -> (ExitStatus, String) {
        let node = self.nodes[node].take().expect("it runs");
        node.last_words().await
    }

    pub async fn kill(&mut self, node: usize) {
        let node = self.nodes[node].take().expect("it runs");
        node.signal(Signal::KILL);
        node.ended().await;
    }
}

/// A follower, and the other one.
pub fn others(leader: usize) -> (usize, usize) {
    ((leader + 1) % 3, (leader + 2) % 3)
}

/// Their types; a session that goes on elsewhere tells its parameters again.
pub fn told(answers: &[Answer]) -> String {
    kinds(answers).replace('S', "")
}

pub fn status(answers: &[Answer]) -> u8 {
    let ready = answers.last().expect("ReadyForQuery");
    assert_eq!(ready.kind, 'Z', "{answers:?}");
    ready.contents[0]
}

#[test]
fn every_node_serves_the_same_database() {
    in_runtime(async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        let mut wire = cluster.connect(follower).await;
        wire.rows("create table t (id int primary key, text text)")
            .await;
        wire.rows("insert into t values (1, 'one')").await;
        for node in 0..3 {
            let mut wire = cluster.connect(node).await;
            assert_eq!(
                wire.value("select text from t where id = 1")
                    .await
                    .as_deref(),
                Some("one"),
                "node {node}"
            );
            let number = wire.value("select pg_backend_pid()").await.unwrap();
            let key = i32::from_be_bytes(*wire.key.first_chunk().unwrap());
            assert_eq!(number, key.to_string());
            // An extended query, a long row, COPY in both directions.
            let answers = wire
                .ask(&[
                    parse("", "select repeat($1, 300000)", &[25]),
                    bind("", "", &[Some(b"x")]),
                    execute("", 0),
                    sync(),
                ])
                .await;
            assert_eq!(kinds(&answers), "12DCZ");
            wire.send(&query("copy t from stdin")).await;
            wire.until('G').await;
            let row = format!("{}\tcopied\n", node + 10);
            wire.send(&message(b'd', row.as_bytes())).await;
            let answers = wire.ask(&[message(b'c', b"")]).await;
            assert_eq!(kinds(&answers), "CZ");
            let answers = wire.query("copy t to stdout").await;
            assert!(kinds(&answers).starts_with("Hdd"), "{}", kinds(&answers));
            wire.send(&message(b'X', b"")).await;
            assert!(wire.until_closed().await.is_empty());
        }
    });
}

#[test]
fn a_session_outlives_its_leader() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut idle = cluster.connect(follower).await;
        idle.rows("create table t (id int primary key, n int)")
            .await;
        idle.rows("insert into t values (1, 0), (2, 0)").await;
        idle.rows("set application_name = 'outlives'").await;
        idle.rows("prepare named as select n from t where id = $1")
            .await;
        idle.ask(&[parse("s", "select $1::int + 1", &[23]), sync()])
            .await;
        let mut within = cluster.connect(other).await;
        within.rows("begin").await;
        within.rows("update t set n = 1 where id = 1").await;
        let mut waiting = cluster.connect(follower).await;
        waiting.rows("begin").await;
        waiting.rows("update t set n = 5 where id = 2").await;
        waiting
            .send(&query("update t set n = 2 where id = 1"))
            .await;
        let mut committing = cluster.connect(follower).await;
        committing
            .send(&query("update t set n = 3 where id = 1"))
            .await;
        // Both have come to the leader once they wait there.
        let mut watcher = cluster.connect(leader).await;
        let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        while watcher.value(waits).await.as_deref() != Some("2") {
            coeval_env::sleep(std::time::Duration::from_millis(20)).await;
        }
        cluster.kill(leader).await;

        // A client that waits gets the error at once; one within a transaction, at its
        // next statement.
        let answers = waiting.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "40001");
        assert_eq!(status(&answers), b'E');
        let answers = committing.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "40003");
        assert_eq!(status(&answers), b'I');
        let answers = within.query("select 1").await;
        assert_eq!(error(&answers).sqlstate(), "40001");
        assert_eq!(error(&within.query("select 1").await).sqlstate(), "25P02");
        within.rows("rollback").await;
        waiting.rows("rollback").await;
        within.rows("update t set n = 7 where id = 1").await;

        // An idle client notices nothing.
        let name = idle.value("show application_name").await;
        assert_eq!(name.as_deref(), Some("outlives"));
        assert_eq!(idle.value("execute named(1)").await.as_deref(), Some("7"));
        let answers = idle
            .ask(&[bind("", "s", &[Some(b"41")]), execute("", 0), sync()])
            .await;
        assert_eq!(told(&answers), "2DCZ");
        assert_eq!(
            waiting
                .value("select n from t where id = 2")
                .await
                .as_deref(),
            Some("0")
        );

        // The one that was killed comes back, and serves as well.
        cluster.start_node(leader).await;
        let mut back = cluster.connect(leader).await;
        assert_eq!(
            back.value("select n from t where id = 1").await.as_deref(),
            Some("7")
        );
    });
}

#[test]
fn a_leader_that_was_away_hands_its_own_clients_on() {
    in_runtime(async {
        // Nodes that show certificates to each other.
        let cluster = Cluster::start_with(true, &[]).await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        let mut idle = cluster.connect(leader).await;
        idle.rows("create table t (id int primary key)").await;
        idle.rows("set application_name = 'stays'").await;
        idle.ask(&[parse("s", "select $1::int + 1", &[23]), sync()])
            .await;
        let mut within = cluster.connect(leader).await;
        within.rows("begin").await;
        within.rows("insert into t values (1)").await;
        let mut waiting = cluster.connect(leader).await;
        waiting.rows("begin").await;
        waiting.send(&query("insert into t values (1)")).await;
        // It is away for so long that the others have a leader of their own.
        let old = cluster.nodes[leader].as_ref().unwrap();
        old.signal(Signal::STOP);
        let mut elsewhere = cluster.connect(follower).await;
        elsewhere.rows("insert into t values (2)").await;
        old.signal(Signal::CONT);

        let mut answers = waiting.until('Z').await;
        while !kinds(&answers).contains('E') {
            // It had come to it before it heard of the new leader.
            answers = waiting.query("select 1").await;
        }
        assert_eq!(error(&answers).sqlstate(), "40001");
        assert_eq!(status(&answers), b'E');
        waiting.rows("rollback").await;
        let answers = within.query("commit").await;
        assert_eq!(error(&answers).sqlstate(), "40001");
        assert_eq!(status(&answers), b'I');
        assert_eq!(
            idle.value("show application_name").await.as_deref(),
            Some("stays")
        );
        let answers = idle
            .ask(&[bind("", "s", &[Some(b"41")]), execute("", 0), sync()])
            .await;
        assert_eq!(told(&answers), "2DCZ");
        for wire in [&mut idle, &mut within, &mut waiting] {
            let ids = wire.rows("select id from t").await;
            assert_eq!(ids, [[Some("2".to_owned())]]);
        }
    });
}

#[test]
fn a_leader_that_stops_hands_over_first() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        let mut wire = cluster.connect(follower).await;
        wire.rows("create table t (id int primary key)").await;
        let mut local = cluster.connect(leader).await;
        local.rows("select 1").await;
        let old = cluster.nodes[leader].take().unwrap();
        old.signal(Signal::TERM);
        let answers = local.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "57P01");
        assert!(old.ended().await.success());
        let answers = wire.query("insert into t values (1)").await;
        assert_eq!(told(&answers), "CZ", "{answers:?}");
    });
}

#[test]
fn a_statement_is_canceled_through_a_follower() {
    in_runtime(async {
        let cluster = Cluster::start().await;
        let (follower, other) = others(cluster.leader().await);
        let mut holder = cluster.connect(follower).await;
        holder.rows("create table t (id int primary key)").await;
        holder.rows("insert into t values (1)").await;
        // On the node of the session, and on one that does not know it.
        for through in [follower, other] {
            holder.rows("begin").await;
            holder.rows("delete from t").await;
            let mut waiter = cluster.connect(follower).await;
            waiter.send(&query("delete from t")).await;
            let key = waiter.key.clone();
            let canceling = async {
                loop {
                    let mut wire = Wire::open(cluster.address(through)).await;
                    wire.send(&packet(CANCEL, &key)).await;
                    wire.until_closed().await;
                    coeval_env::sleep(std::time::Duration::from_millis(10)).await;
                }
            };
            let answers = tokio::select! {
                answers = waiter.until('Z') => answers,
                () = canceling => unreachable!(),
            };
            assert_eq!(error(&answers).sqlstate(), "57014");
            holder.rows("rollback").await;
        }
    });
}

#[test]
fn without_a_majority_nothing_is_committed_and_sessions_stay() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut wire = cluster.connect(follower).await;
        wire.rows("create table t (id int primary key)").await;
        cluster.kill(leader).await;
        cluster.kill(other).await;
        wire.send(&query("insert into t values (1)")).await;
        let meanwhile = std::time::Duration::from_millis(300);
        let soon = coeval_env::timeout(meanwhile, wire.until('Z')).await;
        cluster.start_node(other).await;
        match soon {
            // Passed on before the leader was known to be lost.
            Ok(answers) => assert_eq!(error(&answers).sqlstate(), "40003"),
            // It has waited for a majority, and goes on with one.
            Err(_) => assert_eq!(told(&wire.until('Z').await), "CZ"),
        }
        wire.value("select count(*) from t").await.unwrap();
    });
}

/// Whether a commit happened can be asked of the next leader; what the last one left open
/// has not.
#[test]
fn what_became_of_a_transaction_is_known_after_a_change_of_leader() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut wire = cluster.connect(follower).await;
        wire.rows("create table t (id int primary key)").await;
        let mut numbers = Vec::new();
        for end in ["commit", "rollback"] {
            wire.rows("begin").await;
            wire.rows("insert into t values (1)").await;
            numbers.extend(wire.value("select txid_current()").await);
            wire.rows(end).await;
            wire.rows("delete from t").await;
        }
        wire.rows("begin").await;
        wire.rows("insert into t values (2)").await;
        numbers.extend(wire.value("select txid_current()").await);
        cluster.kill(leader).await;
        let mut asking = cluster.connect(other).await;
        let mut became = Vec::new();
        for number in numbers {
            let ask = format!("select txid_status({number})");
            became.extend(asking.value(&ask).await);
        }
        assert_eq!(became, ["committed", "aborted", "aborted"]);
    });
}

/// A node that lost its data, started as on every day.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test writes the settings file")]
fn a_node_on_an_empty_directory_does_not_found_its_cluster_by_itself() {
    in_runtime(async {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let start = |further: &[&str]| {
            let mut command = Command::new(COEVAL);
            command
                .args(["start", "--listen", "127.0.0.1:0", "--data-dir"])
                .arg(&data)
                .args(["--cluster-id", "00000000000000000000000000000007"])
                .args(["--cluster-node", "3", "--cluster-members"])
                .arg("1=127.0.0.1:1,2=127.0.0.1:2,3=127.0.0.1:3")
                .args(further);
            coeval_env::timeout(PATIENCE, command.output())
        };
        let file = directory.path().join("coeval.toml");
        std::fs::write(&file, "[cluster]\nfound = true\n").unwrap();
        let file = file.to_str().unwrap();
        for (further, said) in [
            (&[][..], "holds no database"),
            (&[], "coeval cluster remove 3"),
            (&["--config", file], "first start only"),
            (
                &["--cluster-found", "--cluster-join"],
                "or joins one that is there",
            ),
        ] {
            let refused = start(further).await.unwrap().unwrap();
            let words = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && words.contains(said), "{words}");
        }
        let founded = coeval_env::fs::exists(data.join("CONTROL")).await;
        assert!(!founded.unwrap());
    });
}

/// Waits until a node's health report says this.
async fn says(cluster: &Cluster, node: usize, words: &str) {
    let asking = async {
        while !cluster.health(node).await.contains(words) {
            coeval_env::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    if coeval_env::timeout(PATIENCE, asking).await.is_err() {
        panic!("{words:?} is not in {}", cluster.health(node).await);
    }
}

/// One node is down while a row is acknowledged by the two others; of these one loses its disk,
/// and is started with the flag that founds.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test plays the lost disk")]
fn an_acknowledged_row_outlives_a_wiped_disk_and_the_flag_that_founds() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (down, lost) = others(leader);
        let mut wire = cluster.connect(leader).await;
        wire.rows("create table acc (id int primary key)").await;
        let version = "select cluster_version >= 4 from coeval.cluster_status";
        while wire.value(version).await.as_deref() != Some("t") {
            coeval_env::sleep(std::time::Duration::from_millis(20)).await;
        }
        cluster.kill(down).await;
        wire.rows("insert into acc values (1)").await;
        cluster.kill(leader).await;
        cluster.kill(lost).await;
        let data = format!("node-{}", lost + 1);
        std::fs::remove_dir_all(cluster.directory.path().join(data)).unwrap();
        cluster.start_node(lost).await;
        cluster.start_node(down).await;
        says(&cluster, lost, "\"status\":\"shut_out\"").await;
        let holds = format!("node {} holds a log of the cluster", down + 1);
        says(&cluster, lost, &holds).await;
        says(&cluster, down, "leaderless").await;
        cluster.start_node(leader).await;
        cluster.leader().await;
        let mut wire = cluster.connect(down).await;
        assert_eq!(wire.value("select id from acc").await.as_deref(), Some("1"));
        says(&cluster, lost, &holds).await;
    });
}

/// The administrator's word for a founder is audited when it takes effect, not at every start.
#[test]
fn a_founder_that_is_left_out_is_audited_once() {
    in_runtime(async {
        let mut cluster = Cluster::prepare(ID);
        cluster.set_further(&["--cluster-without", "3"]);
        for node in 0..2 {
            cluster.start_node(node).await;
        }
        let mut wire = cluster.connect(0).await;
        wire.rows("create table t (id int primary key)").await;
        drop(wire);
        for count in [1, 0] {
            for node in 0..2 {
                let log = cluster.killed(node).await;
                let lines = log.lines().filter(|line| line.contains("founds without"));
                assert_eq!(lines.count(), count, "{log}");
                cluster.start_node(node).await;
            }
            cluster.leader().await;
        }
    });
}
