//! The directory of a demonstration: the nodes' data and the cluster's identity.

#![expect(
    clippy::disallowed_methods,
    reason = "a demonstration is a program around servers, of which nothing is simulated"
)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use coeval_peers::ClusterId;
use coeval_workload::server::free_port;

/// The file with the id of the cluster that the nodes' directories belong to.
const CLUSTER_ID: &str = "cluster-id";

/// A directory, and the settings that all nodes in it share.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    is_kept: bool,
    pub(super) cluster: ClusterId,
    /// The address where each node listens for the others, from node 1 on.
    pub(super) members: Vec<SocketAddr>,
}

impl Directory {
    /// Opens or makes the directory; without a path, makes one that is removed at the
    /// end.
    pub(super) async fn open(path: Option<&Path>, nodes: u64) -> Result<Self, String> {
        let is_kept = path.is_some();
        let path = path.map_or_else(
            || std::env::temp_dir().join(format!("coeval-demo-{}", std::process::id())),
            Path::to_owned,
        );
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            format!("{}: {what}: {error}", path.display())
        };
        let made = coeval_env::fs::create_dir_all(&path).await;
        made.map_err(|error| wrong("cannot be made", &error))?;
        let file = path.join(CLUSTER_ID);
        let cluster = match fs::read_to_string(&file) {
            Ok(text) => (text.trim().parse())
                .map_err(|error: coeval_peers::NotAClusterId| wrong(CLUSTER_ID, &error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut entries =
                    fs::read_dir(&path).map_err(|error| wrong("cannot be read", &error))?;
                if entries.next().is_some() {
                    let reason = "it is not empty, and no demonstration was here before; name \
                                  another directory";
                    return Err(format!("{}: {reason}", path.display()));
                }
                let cluster = ClusterId::draw();
                fs::write(&file, format!("{cluster}\n"))
                    .map_err(|error| wrong("cannot be written", &error))?;
                cluster
            }
            Err(error) => return Err(wrong(CLUSTER_ID, &error)),
        };
        let before = (1..).take_while(|node| path.join(format!("node-{node}")).exists());
        let before = before.count() as u64;
        if before > 0 && before != nodes {
            return Err(format!(
                "{}: there are {before} nodes, and their number is part of the cluster; say \
                 --nodes {before}, or name another directory",
                path.display()
            ));
        }
        let mut members = Vec::new();
        for _ in 0..nodes {
            members.extend(free::<1>().await?);
        }
        Ok(Self {
            members,
            cluster,
            is_kept,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Removes the directory, unless it is to be kept.
    pub(super) fn close(self) -> Result<(), String> {
        if self.is_kept {
            return Ok(());
        }
        let removed = fs::remove_dir_all(&self.path);
        removed.map_err(|error| format!("{}: cannot be removed: {error}", self.path.display()))
    }
}

/// Free addresses of this machine, from a range that the kernel does not assign by chance
/// while a node that has ended waits to be restarted.
pub(super) async fn free<const COUNT: usize>() -> Result<[SocketAddr; COUNT], String> {
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); COUNT];
    for address in &mut addresses {
        let port = free_port().await;
        address.set_port(port.map_err(|error| format!("there is no free port: {error}"))?);
    }
    Ok(addresses)
}
