//! Failure scenario of the frs benchmark: a leader gets log entries that no other node
//! has, and is killed.

use std::sync::Arc;
use std::time::Duration;

use coeval_consensus::{NodeId, Recovery as Method};
use coeval_measure::virtual_cluster::{Cluster, Disk, Files, Model, disk_with, log_of};

use super::{Arguments, Failure};

/// Number of terms in which the initial records were written.
const TERMS: u32 = 5;

/// Timeout of any step, in virtual time.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Initial state of all runs.
pub struct Base {
    disk: Disk,
    pub files: Arc<Files>,
    _folder: tempfile::TempDir,
}

impl Base {
    pub fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let records = arguments.records;
        let each = records / u64::from(TERMS);
        let log = Arc::new(log_of((1..=TERMS).map(|term| (term, each))));
        let parent = arguments.folder.clone();
        let folder = tempfile::Builder::new()
            .prefix("coeval-frs-")
            .tempdir_in(parent.unwrap_or_else(std::env::temp_dir))?;
        let files = Files::new(folder.path(), log.len() as u64)?;
        let commit = log.len() as u64;
        Ok(Self {
            disk: disk_with(log, commit),
            files: Arc::new(files),
            _folder: folder,
        })
    }

    /// A cluster of three nodes with the initial records and an elected leader.
    pub fn cluster(&self, method: Method) -> Result<Cluster, String> {
        let disks = std::iter::repeat_n(self.disk.clone(), 3);
        let mut cluster = Cluster::new(Model::default(), method, disks);
        for node in 1..=3 {
            cluster.start_whole(NodeId(node))?;
        }
        cluster.pass_until("a leader", LIMIT, |cluster| cluster.leader().is_some())?;
        Ok(cluster)
    }

    /// Runs `clients` writing clients, partitions the leader until another one is elected
    /// and it has noticed, and kills it. Returns the cluster and the killed node.
    pub fn failed(&self, method: Method, clients: usize) -> Result<(Cluster, NodeId), String> {
        let mut cluster = self.cluster(method)?;
        cluster.load(clients, 1);
        cluster.pass(Duration::from_millis(500))?;
        let old = cluster.leader().ok_or("there is no leader")?;
        cluster.cut_off(old);
        cluster.pass_until("another leader", LIMIT, |cluster| {
            cluster.leader().is_some_and(|leader| leader != old)
        })?;
        cluster.pass(Duration::from_secs(1))?;
        cluster.kill(old);
        cluster.reconnect(old);
        Ok((cluster, old))
    }
}
