//! A cluster whose members are named by their hosts.

use tokio::process::Command;

use crate::cluster::{Cluster, others};
use crate::process::{COEVAL, PATIENCE, in_runtime};

#[test]
fn members_named_by_their_hosts_serve_and_let_another_in() {
    in_runtime(async {
        let mut nodes = Cluster::start_by_names().await;
        let leader = nodes.leader().await;
        let (follower, _) = others(leader);
        let mut wire = nodes.connect(follower).await;
        wire.rows("create table t (id int primary key)").await;
        let (_, address) = nodes.start_another().await;
        let location = format!("localhost:{}", address.port());
        let url = format!("postgres://ada@{}/bank", nodes.address(follower));
        let mut command = Command::new(COEVAL);
        let arguments = [
            "cluster", "add", "4", &location, "--wait", "60", "--url", &url,
        ];
        let adding = command.args(arguments).output();
        let added = coeval_env::timeout(PATIENCE, adding)
            .await
            .unwrap()
            .unwrap();
        assert!(added.status.success(), "{added:?}");
        // The cluster shows the name as it was given.
        let mut wire = nodes.connect(leader).await;
        let shown = "select address from coeval.cluster_members where node = 4";
        assert_eq!(wire.value(shown).await, Some(location));
        // A node that comes back is met by its name again.
        nodes.kill(follower).await;
        nodes.start_node(follower).await;
        let mut wire = nodes.connect(follower).await;
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
    });
}
