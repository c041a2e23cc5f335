//! Certificates between nodes are replaced while the nodes run.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::cluster::{Cluster, others};
use crate::cluster_unavailable::until_serving;
use crate::process::in_runtime;

#[expect(
    clippy::disallowed_methods,
    reason = "the test plays the administrator"
)]
fn read(place: &Path, name: &str) -> String {
    std::fs::read_to_string(place.join(name)).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test plays the administrator"
)]
fn write(place: &Path, name: &str, text: &str) {
    std::fs::write(place.join(name), text).unwrap();
}

/// Waits until a node serves clients, and meanwhile has the others read their files again: no
/// answer says when one has done so.
async fn until_admitted(cluster: &Cluster, node: usize, others: [usize; 2]) {
    let reloading = async {
        loop {
            for other in others {
                cluster.signal(other, Signal::HUP);
            }
            coeval_env::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = until_serving(cluster.admin(node), |serves, _| serves) => {}
        () = reloading => {}
    }
}

#[test]
fn nodes_change_to_another_authority_without_a_restart() {
    in_runtime(async {
        let mut cluster = Cluster::start_with(true, &[]).await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut wire = cluster.connect(leader).await;
        wire.rows("create table t (id int primary key)").await;

        let renewed = tempfile::tempdir().unwrap();
        Cluster::certify_in(renewed.path()).await;
        let place = cluster.directory().to_owned();
        let old = read(&place, "authority.pem");
        let new = read(renewed.path(), "authority.pem");
        let old_pair = [1, 2, 3]
            .map(|node| ["pem", "key"].map(|kind| read(&place, &format!("node-{node}.{kind}"))));
        // A file that makes no sense changes nothing, on a node that goes on all the while.
        write(&place, "authority.pem", "no certificate");
        cluster.signal(leader, Signal::HUP);
        cluster.signal(other, Signal::HUP);
        wire.rows("insert into t values (1)").await;
        // Both authorities are trusted first, then the nodes show the new certificates.
        write(&place, "authority.pem", &format!("{old}{new}"));
        for node in ["1", "2", "3"] {
            for kind in ["pem", "key"] {
                let name = format!("node-{node}.{kind}");
                write(&place, &name, &read(renewed.path(), &name));
            }
        }
        // Its certificate is of the new authority, which the others have not known when
        // they were started.
        cluster.kill(follower).await;
        cluster.start_node(follower).await;
        until_admitted(&cluster, follower, [leader, other]).await;
        // It trusts only the new authority: they have to show their new certificates too.
        write(&place, "authority.pem", &new);
        cluster.kill(follower).await;
        cluster.start_node(follower).await;
        until_admitted(&cluster, follower, [leader, other]).await;
        let mut wire = cluster.connect(follower).await;
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("1")
        );
        // All of them trust only the new authority from their next signal on, so a connection
        // under the old one is refused: by the two that run, and by the third of them.
        for node in [leader, other] {
            cluster.signal(node, Signal::HUP);
        }
        cluster.kill(follower).await;
        write(&place, "authority.pem", &old);
        for (kind, text) in ["pem", "key"].into_iter().zip(&old_pair[follower]) {
            write(&place, &format!("node-{}.{kind}", follower + 1), text);
        }
        cluster.start_node(follower).await;
        coeval_env::sleep(Duration::from_secs(2)).await;
        until_serving(cluster.admin(follower), |serves, _| !serves).await;
        // On a busy machine it may not have tried yet.
        let mut looks = 0..600;
        loop {
            let (_, report) = coeval_testkit::http::get(cluster.admin(leader), "/cluster").await;
            if report.contains("certificate") {
                break;
            }
            assert!(looks.next().is_some(), "{report}");
            coeval_env::sleep(Duration::from_millis(100)).await;
        }
        let mut wire = cluster.connect(leader).await;
        wire.rows("insert into t values (2)").await;
        write(&place, "authority.pem", &new);
        for kind in ["pem", "key"] {
            let name = format!("node-{}.{kind}", follower + 1);
            write(&place, &name, &read(renewed.path(), &name));
        }
        // It reads its own files again, and is let in without a restart.
        cluster.signal(follower, Signal::HUP);
        until_serving(cluster.admin(follower), |serves, _| serves).await;
    });
}
