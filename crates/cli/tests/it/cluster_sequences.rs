//! Sequences in a cluster: no number comes twice, through whichever node a client asks, also when
//! the leader is killed; and what a session was given goes along.

use std::collections::BTreeSet;

use coeval_testkit::wire::Wire;

use crate::cluster::{Cluster, others};
use crate::process::in_runtime;

/// Numbers that a kill may lose.
const AHEAD: i64 = 32;

/// The number that a query answers with; none if it fails.
async fn number(client: &mut Wire, query: &str) -> Option<i64> {
    let answers = client.query(query).await;
    let row = answers.iter().find(|answer| answer.kind == 'D')?;
    row.values()[0].as_ref()?.parse().ok()
}

/// Asks until there is an answer.
async fn insist(client: &mut Wire, query: &str) -> i64 {
    for _ in 0..600 {
        if let Some(number) = number(client, query).await {
            return number;
        }
        coeval_env::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("no answer to {query}");
}

#[test]
fn no_number_comes_twice_when_the_leader_is_killed() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (one, other) = others(leader);
        let mut first = Wire::connect(cluster.address(leader)).await;
        // Sequences wait for the cluster version that all members read.
        let made = "create sequence s; create table t (id bigint generated always as identity); \
                    select 1";
        assert_eq!(insist(&mut first, made).await, 1);
        let mut clients = [
            Wire::connect(cluster.address(one)).await,
            Wire::connect(cluster.address(other)).await,
        ];
        let mut given = BTreeSet::new();
        let mut ids = BTreeSet::new();
        let mut last = [0; 2];
        for _ in 0..40 {
            for (client, last) in clients.iter_mut().zip(&mut last) {
                *last = insist(client, "select nextval('s')").await;
                assert!(given.insert(*last), "{last} comes twice");
                let id = insist(client, "insert into t default values returning id").await;
                assert!(ids.insert(id), "{id} comes twice");
            }
        }
        let (highest, highest_id) = (given.last().copied(), ids.last().copied());
        cluster.kill(leader).await;
        for (client, last) in clients.iter_mut().zip(last) {
            assert_eq!(insist(client, "select currval('s')").await, last);
        }
        for round in 0..40 {
            for client in &mut clients {
                let number = insist(client, "select nextval('s')").await;
                assert!(given.insert(number), "{number} comes twice");
                let id = insist(client, "insert into t default values returning id").await;
                assert!(ids.insert(id), "{id} comes twice");
                if round == 0 {
                    assert!(
                        number <= highest.unwrap_or(0) + AHEAD + 2,
                        "{number} of {given:?}"
                    );
                    assert!(id <= highest_id.unwrap_or(0) + AHEAD + 2, "{id} of {ids:?}");
                }
            }
        }
        let rows = insist(&mut clients[0], "select count(*) from t").await;
        assert!(rows >= 160, "{rows} rows");
    });
}
