//! How a leader comes to have entries that nobody else has, and goes down.

use std::sync::Arc;
use std::time::Duration;

use coeval_consensus::{NodeId, Recovery as Method};
use coeval_measure::cluster::{Cluster, Disk, Files, Model, disk_with, log_of};

use super::{Arguments, Failure};

/// Terms in which the records were written that are there before anything happens.
const TERMS: u32 = 5;

/// How long anything may take on the virtual clock.
pub const LIMIT: Duration = Duration::from_secs(300);

/// What all runs begin with.
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

    /// Three nodes with the records, and one of them elected.
    pub fn cluster(&self, method: Method) -> Result<Cluster, String> {
        let disks = std::iter::repeat_n(self.disk.clone(), 3);
        let mut cluster = Cluster::new(Model::default(), method, disks);
        for node in 1..=3 {
            cluster.start_whole(NodeId(node))?;
        }
        cluster.pass_until("a leader", LIMIT, |cluster| cluster.leader().is_some())?;
        Ok(cluster)
    }

    /// So many clients write; the leader is cut off from the others until there is another
    /// and it has noticed; then it is down. Which node that is.
    pub fn failed(&self, method: Method, clients: usize) -> Result<(Cluster, NodeId), String> {
        let mut cluster = self.cluster(method)?;
        cluster.load(clients, 1);
        cluster.pass(Duration::from_millis(500))?;
        let old = cluster.leader().ok_or("nobody leads")?;
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
