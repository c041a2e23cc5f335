//! A cluster that has lost its majority for ever, and the node that goes on.

use coeval_testkit::wire::Wire;
use tokio::process::Command;

use crate::cluster::{Cluster, others};
use crate::process::{COEVAL, PATIENCE, in_runtime};

/// Runs a command of the cluster; its exit code, and what it said.
async fn cluster(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(COEVAL);
    let command = command.arg("cluster").args(arguments).kill_on_drop(true);
    let ended = coeval_env::timeout(PATIENCE, command.output()).await;
    let ended = ended.expect("it ends in time").unwrap();
    let said = [&ended.stdout[..], &ended.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (ended.status.code(), said)
}

async fn count(wire: &mut Wire) -> Option<String> {
    wire.value("select count(*) from t").await
}

#[test]
fn a_survivor_goes_on_alone_and_the_others_do_not_come_back() {
    in_runtime(async {
        let mut nodes = Cluster::start().await;
        let survivor = others(nodes.leader().await).0;
        let (first, second) = others(survivor);
        let mut wire = nodes.connect(survivor).await;
        wire.rows("create table t (id int primary key)").await;
        // Every commit from here on needs the survivor.
        nodes.kill(first).await;
        wire.rows("insert into t select g from generate_series(1, 100) g")
            .await;
        nodes.kill(second).await;
        let data = nodes.data(survivor).display().to_string();
        let number = (survivor + 1).to_string();
        let recover = ["recover", "--data-dir", &data, "--node", &number];
        let (code, said) = cluster(&recover).await;
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("another process uses"), "{said}");
        nodes.kill(survivor).await;

        let (code, said) = cluster(&recover).await;
        assert_eq!(code, Some(1), "{said}");
        for words in [
            "known to be on a majority: everything before ",
            "lost is what the others acknowledged without it",
            "removed for ever are the nodes ",
            "nothing was changed; --yes confirms",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let stranger = ["recover", "--data-dir", &data, "--node", "9", "--yes"];
        let (code, said) = cluster(&stranger).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("node 9 does not vote"), "{said}");
        let confirmed = [&recover[..], &["--yes"]].concat();
        let (code, said) = cluster(&confirmed).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("audit: cluster recovered"), "{said}");
        #[expect(
            clippy::disallowed_methods,
            reason = "reads what the command has noted"
        )]
        let record = std::fs::read_to_string(nodes.data(survivor).join("RECOVERED")).unwrap();
        assert!(record.contains("user="), "{record}");
        let (code, said) = cluster(&confirmed).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the only voter"), "{said}");

        nodes.start_node(survivor).await;
        let mut wire = nodes.connect(survivor).await;
        assert_eq!(count(&mut wire).await.as_deref(), Some("100"));
        wire.rows("insert into t values (101)").await;
        // Both old members come back with their data, and are refused.
        for old in [first, second] {
            nodes.start_node(old).await;
        }
        for old in [first, second] {
            let refused = async {
                while !nodes.health(old).await.contains("has been removed") {
                    coeval_env::sleep(std::time::Duration::from_millis(20)).await;
                }
            };
            let in_time = coeval_env::timeout(PATIENCE, refused).await;
            assert!(in_time.is_ok(), "{}", nodes.health(old).await);
        }
        let url = format!("postgres://ada@{}/bank", nodes.address(survivor));
        let (code, said) = cluster(&["status", "--url", &url]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("1 of 1 voters reachable"), "{said}");
        wire.rows("insert into t values (102)").await;
        nodes.kill(first).await;
        nodes.kill(second).await;
        // Away from the node that goes on, the two that were removed are a majority of the old
        // cluster. They remember.
        nodes.kill(survivor).await;
        for old in [first, second] {
            nodes.start_node(old).await;
        }
        // Three election timeouts.
        coeval_env::sleep(std::time::Duration::from_secs(3)).await;
        for old in [first, second] {
            let health = nodes.health(old).await;
            let expected = format!(
                "has been removed from the cluster, as node {} has said",
                survivor + 1
            );
            assert!(health.contains(&expected), "{health}");
            assert!(health.contains("\"status\":\"shut_out\""), "{health}");
            let admin = nodes.admin(old).to_string();
            let (code, said) = cluster(&["status", "--admin", &admin]).await;
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains("no node leads"), "{said}");
            assert!(said.contains(&expected), "{said}");
            nodes.kill(old).await;
        }
        nodes.start_node(survivor).await;
        let url = format!("postgres://ada@{}/bank", nodes.address(survivor));
        // An empty directory joins, under a number that was never used.
        let (_, address) = nodes.start_another().await;
        let address = address.to_string();
        let (code, said) = cluster(&["add", "4", &address, "--url", &url]).await;
        assert_eq!(code, Some(0), "{said}");
        nodes.kill(survivor).await;
        nodes.start_node(survivor).await;
        let mut wire = nodes.connect(survivor).await;
        assert_eq!(count(&mut wire).await.as_deref(), Some("102"));
    });
}
