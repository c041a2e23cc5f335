//! Two servers of one cluster in the test's process: one leads, the other follows.

use std::time::Duration;

use coeval_env::Location;
use coeval_peers::ClusterId;
use coeval_server::settings::{ClusterMembers, OptionalClusterId};
use coeval_server::{RunningServer, Server, Settings, Storage};
use tempfile::TempDir;

/// Runs a test on threads with the stack of `coeval start`.
pub fn in_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .thread_stack_size(8 << 20)
        .build()
        .unwrap();
    runtime.block_on(test);
}

/// Two members at free ports.
pub async fn members() -> ClusterMembers {
    let mut members = ClusterMembers::default();
    for node in 1..=2 {
        let port = coeval_env::free_port().await.unwrap();
        let location = Location::new("127.0.0.1", port);
        members.0.insert(node, location.unwrap());
    }
    members
}

/// Starts them, with settings changed in this way. Returns the leader, and the follower.
pub async fn start(
    change: impl Fn(Settings) -> Settings,
) -> (RunningServer, RunningServer, [TempDir; 2]) {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let members = members().await;
    let start = |node: usize| {
        let settings = change(Settings {
            cluster_node: node as u64 + 1,
            cluster_id: OptionalClusterId(Some(ClusterId(7))),
            cluster_members: members.clone(),
            cluster_found: true,
            data_dir: directories[node].path().to_owned(),
            ..coeval_testkit::server::settings()
        });
        coeval_env::spawn("server", Server::start(settings, Storage::Directory))
    };
    let (first, second) = (start(0), start(1));
    let (first, second) = (
        first.await.unwrap().unwrap(),
        second.await.unwrap().unwrap(),
    );
    loop {
        match (first.leads(), second.leads()) {
            (true, _) => return (first, second, directories),
            (_, true) => return (second, first, directories),
            _ => coeval_env::sleep(Duration::from_millis(20)).await,
        }
    }
}
