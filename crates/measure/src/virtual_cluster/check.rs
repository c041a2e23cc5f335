//! Consistency check of a simulated cluster: the nodes' logs agree, and contain every
//! acknowledged write.

use coeval_consensus::{Content, NodeId};
use coeval_types::Lsn;

use super::Cluster;
use super::clients::payload;

impl Cluster {
    /// Checks the disks of all running nodes. Returns the length of their common log.
    ///
    /// # Errors
    /// If two logs differ below the lower commit point, or a log that is long enough
    /// lacks an acknowledged write.
    pub fn check(&self) -> Result<Lsn, String> {
        let running = self.machines.iter();
        let running: Vec<_> = running
            .filter_map(|(node, machine)| Some((*node, &machine.disk, machine.node.as_ref()?)))
            .collect();
        let commit = |node: &coeval_consensus::Consensus| node.status().commit;
        let mut common = Lsn(u64::MAX);
        for (first, disk, node) in &running {
            for (second, other, other_node) in &running {
                let committed = commit(node).min(commit(other_node));
                let ends = disk.end().min(other.end());
                let parts = disk.parts_from(other);
                if parts < committed.min(ends) {
                    return Err(format!(
                        "the logs of node {first} and node {second} part at place {parts}, and are \
                         committed up to {committed}"
                    ));
                }
                common = common.min(parts);
            }
            self.check_acknowledged(*first)?;
        }
        Ok(common)
    }

    fn check_acknowledged(&self, node: NodeId) -> Result<(), String> {
        let disk = &self.machines[&node].disk;
        for (place, number) in &self.clients.acknowledged {
            let Some(entry) = disk.entry(place.0) else {
                continue;
            };
            if entry.content != Content::Payload(payload(*number)) {
                return Err(format!(
                    "the write {number}, acknowledged at place {place}, is not in the log of \
                     node {node}"
                ));
            }
        }
        Ok(())
    }
}
