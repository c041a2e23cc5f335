//! The views of a cluster and the functions that change it, over a server that is made up.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coeval_sql::instance::{
    Changing, Cluster, ClusterChange, ClusterElection, ClusterLag, ClusterMember, ClusterProgress,
    ClusterRole, ClusterTraffic, Host, HostMetric, HostSetting, Totals,
};
use coeval_sql::session::{Login, Session, SessionOptions};
use coeval_sql::{Database, Error, SqlState};

use crate::client::{must, query, session};
use crate::engines::{database, occ};

#[derive(Clone, Debug)]
struct Made {
    /// The node that reports. The first one leads.
    node: u64,
    asked: Arc<Mutex<Vec<ClusterChange>>>,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            node: 1,
            asked: Arc::default(),
        }
    }
}

fn member(node: u64, role: ClusterRole) -> ClusterMember {
    let leads = role == ClusterRole::Leader;
    ClusterMember {
        node,
        address: Some(([127, 0, 0, 1], 7000 + node as u16).into()),
        role,
        connected: node != 3,
        connected_since: (node == 2).then_some(1_000_000),
        heard: (node == 2).then_some(0),
        fault: (node == 3).then(|| "connection refused".to_owned()),
        progress: ClusterProgress {
            sent: Some(1000),
            received: Some(0x5_0000_03E7),
            flushed: Some(1000 - node),
            committed: Some(900),
            replayed: leads.then_some(1000),
            visible: Some(1000 - 100 * node),
            // The third one has not reported since the leader was elected.
            lag: (node < 3).then(|| ClusterLag {
                bytes: 100 * (node - 1),
                time: Duration::from_micros(1500 * (node - 1)),
            }),
        },
        needs_checkpoint: false,
        reads: Some(3 - node as u32 % 2),
        announces: true,
        traffic: (!leads).then(|| ClusterTraffic {
            round_trip: Some(1500),
            ..ClusterTraffic::default()
        }),
    }
}

impl Host for Made {
    fn settings(&self) -> Vec<HostSetting> {
        Vec::new()
    }

    fn metrics(&self) -> Vec<HostMetric> {
        Vec::new()
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }

    fn started(&self) -> i64 {
        0
    }

    fn cluster(&self) -> Option<Cluster> {
        Some(Cluster {
            id: "c0".to_owned(),
            node: self.node,
            term: 7,
            leader: Some(1),
            end: 1000,
            committed: 990,
            version: 1,
            newest_version: 2,
            members: vec![
                member(1, ClusterRole::Leader),
                member(2, ClusterRole::Voter),
                member(3, ClusterRole::Voter),
            ],
            elections: vec![ClusterElection {
                term: 7,
                leader: 1,
                at: 0,
                cause: Some("the leader was silent".to_owned()),
            }],
            ..Cluster::default()
        })
    }

    fn change_cluster(&self, change: ClusterChange) -> Changing {
        self.asked.lock().unwrap().push(change.clone());
        Box::pin(async move {
            match change {
                ClusterChange::Remove { node: 2 } => Err(Error::new(
                    SqlState::OBJECT_IN_USE,
                    "another change is under way",
                )),
                ClusterChange::Remove { .. } => {
                    coeval_env::sleep(Duration::from_secs(3600)).await;
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    }
}

async fn clustered() -> (Arc<Database>, Made) {
    let database = database(occ()).await;
    let made = Made::default();
    database.instance().set_host(Box::new(made.clone()));
    (database, made)
}

#[tokio::test]
async fn the_views_say_how_the_cluster_is() {
    let (database, _) = clustered().await;
    let mut session = session(&database);
    must(&mut session, "set timezone = 'UTC'").await;
    let rows = must(
        &mut session,
        "select cluster_id, node, term, leader, committed_lsn, voters, reachable_voters, sound,
         split_part(condition, E'\n', 1), split_part(condition, E'\n', 3)
         from coeval.cluster_status",
    )
    .await;
    assert_eq!(
        rows[1],
        "  c0 | 1 | 7 | 1 | 990 | 3 | 2 | f | 2 of 3 voters reachable; one more failure stops \
         writes | node 3 is not connected: connection refused"
    );
    let rows = must(
        &mut session,
        "select node, address, role, connected, last_heard, fault, flushed_lsn,
         flushed_lag_bytes, committed_lag_bytes, replayed_lag_bytes, round_trip_ms
         from coeval.cluster_members order by node",
    )
    .await;
    assert_eq!(
        rows[1..4],
        [
            "  1 | 127.0.0.1:7001 | leader | t | ∅ | ∅ | 999 | 1 | 100 | 0 | ∅",
            "  2 | 127.0.0.1:7002 | voter | t | 2000-01-01 00:00:00+00 | ∅ | 998 | 2 | 100 | ∅ | 1.5",
            "  3 | 127.0.0.1:7003 | voter | f | ∅ | connection refused | 997 | 3 | 100 | ∅ | 1.5",
        ]
    );
    let rows = must(
        &mut session,
        "select reads_version, cluster_version from coeval.cluster_members, coeval.cluster_status
         order by cluster_members.node",
    )
    .await;
    assert_eq!(rows[1..4], ["  2 | 1", "  3 | 1", "  2 | 1"]);
    let rows = must(&mut session, "select * from coeval.cluster_elections").await;
    assert_eq!(
        rows[1],
        "  7 | 1 | 2000-01-01 00:00:00+00 | the leader was silent"
    );
}

#[tokio::test]
async fn replicas_are_shown_with_their_lag() {
    let (database, _) = clustered().await;
    let mut session = session(&database);
    let rows = must(&mut session, "select * from coeval.replicas order by node").await;
    assert_eq!(
        rows[..4],
        [
            "  node | role | received | flushed | committed | replayed | visible | lag_bytes \
             | lag_milliseconds",
            "  1 | leader | 21474837479 | 999 | 900 | 1000 | 900 | 0 | 0",
            "  2 | voter | 21474837479 | 998 | 900 | ∅ | 800 | 100 | 1.5",
            "  3 | voter | 21474837479 | 997 | 900 | ∅ | 700 | ∅ | ∅",
        ]
    );
}

/// A follower that is connected, as PostgreSQL shows one, and as a role that is no superuser
/// sees it.
#[tokio::test]
async fn followers_are_shown_as_standbys_of_postgresql() {
    let (database, made) = clustered().await;
    let mut session = session(&database);
    must(&mut session, "set timezone = 'UTC'").await;
    let all = "select * from pg_stat_replication";
    let rows = must(&mut session, all).await;
    assert_eq!(
        rows[..2],
        [
            "  pid | usesysid | usename | application_name | client_addr | client_hostname \
             | client_port | backend_start | backend_xmin | state | sent_lsn | write_lsn \
             | flush_lsn | replay_lsn | write_lag | flush_lag | replay_lag | sync_priority \
             | sync_state | reply_time",
            "  ∅ | ∅ | ∅ | 2 | 127.0.0.1 | ∅ | 7002 | 2000-01-01 00:00:01+00 | ∅ | streaming \
             | 0/3E8 | 5/3E7 | 0/3E6 | 0/320 | ∅ | ∅ | 00:00:00.0015 | 1 | quorum \
             | 2000-01-01 00:00:00+00",
        ]
    );
    let count = "select count(*) from pg_stat_replication";
    assert_eq!(must(&mut session, count).await[1], "  1");

    must(&mut session, "create role ada login").await;
    must(&mut session, "set role ada").await;
    assert_eq!(
        must(&mut session, all).await[1],
        "  ∅ | ∅ | ∅ | 2 | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅ | ∅"
    );
    must(&mut session, "reset role").await;

    // A node that does not lead sends its log to no follower, whatever it is connected to.
    let follower = Made { node: 2, ..made };
    let database = crate::engines::database(occ()).await;
    database.instance().set_host(Box::new(follower));
    let mut session = crate::client::session(&database);
    assert_eq!(must(&mut session, count).await[1], "  0");
}

#[tokio::test]
async fn a_server_alone_says_that_it_is() {
    let mut session = session(&database(occ()).await);
    let rows = must(
        &mut session,
        "select node, condition from coeval.cluster_status",
    )
    .await;
    assert_eq!(rows[1], "  ∅ | this server is no node of a cluster");
    for view in [
        "coeval.cluster_members",
        "coeval.cluster_elections",
        "coeval.replicas",
        "pg_stat_replication",
    ] {
        let rows = must(&mut session, &format!("select count(*) from {view}")).await;
        assert_eq!(rows[1], "  0");
    }
    for call in ["add(4, '127.0.0.1:7004')", "remove(4)", "transfer(4)"] {
        let said = query(&mut session, &format!("select coeval.cluster_{call}"), "").await;
        assert_eq!(
            said[1], "  ERROR 55000: this server is no node of a cluster",
            "{call}"
        );
        assert!(said[2].contains("HINT"), "{said:?}");
    }
}

#[tokio::test]
async fn what_is_asked_is_done_when_the_query_has_ended() {
    let (database, made) = clustered().await;
    let mut session = session(&database);
    let asked = || std::mem::take(&mut *made.asked.lock().unwrap());
    for location in ["[::1]:7004", "db4.example.com:7004"] {
        let statement = format!("select coeval.cluster_add(4, '{location}')");
        must(&mut session, &statement).await;
        let address = location.parse().unwrap();
        assert_eq!(asked(), [ClusterChange::Add { node: 4, address }]);
    }
    must(&mut session, "select coeval.cluster_transfer(2)").await;
    assert_eq!(asked(), [ClusterChange::Transfer { node: 2 }]);
    let said = query(&mut session, "select coeval.cluster_remove(2)", "").await;
    assert_eq!(
        said.last().unwrap(),
        "  ERROR 55006: another change is under way"
    );
    assert_eq!(asked().len(), 1);
    must(&mut session, "select 1").await;
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_in_words() {
    let (database, made) = clustered().await;
    let mut session = session(&database);
    must(&mut session, "create table t (a int)").await;
    let transfer = "select coeval.cluster_transfer(2)";
    for (text, expected) in [
        (
            "select coeval.cluster_remove(0)",
            "22023: 0 is no number of a node",
        ),
        (
            "select coeval.cluster_add(4, 'here')",
            "22023: \"here\" is not a host and a port",
        ),
        (
            "select coeval.cluster_drop(4)",
            "42883: function coeval.cluster_drop",
        ),
        ("select cluster_remove(2)", "42883: function cluster_remove"),
        (
            "explain analyze select coeval.cluster_remove(2)",
            "0A000: a change of the cluster here",
        ),
        (
            "insert into t values (1); select coeval.cluster_remove(2)",
            "25001",
        ),
        (&format!("begin; {transfer}"), "25001"),
    ] {
        let said = query(&mut session, text, "").await;
        assert!(
            said.iter().any(|line| line.contains(expected)),
            "{text}: {said:?}"
        );
    }
    must(&mut session, "rollback").await;
    assert_eq!(must(&mut session, "select count(*) from t").await[1], "  0");
    assert!(made.asked.lock().unwrap().is_empty());

    must(&mut session, "create role ada login").await;
    let ada = database.login("ada").await.unwrap().role.unwrap();
    let options = SessionOptions {
        user: "ada".to_owned(),
        role: Some(Login {
            role: ada.oid,
            superuser: false,
        }),
        ..SessionOptions::default()
    };
    let mut ada = Session::new(Arc::clone(&database), options).unwrap();
    let said = query(&mut ada, transfer, "").await;
    assert!(said[1].contains("42501"), "{said:?}");
    let seen = "select count(node), count(address), count(fault) from coeval.cluster_members";
    assert_eq!(must(&mut ada, seen).await[1], "  3 | 0 | 0");
}

#[tokio::test(start_paused = true)]
async fn who_cancels_only_stops_waiting() {
    let (database, made) = clustered().await;
    let cancel = Arc::new(AtomicBool::new(false));
    let options = SessionOptions {
        cancel: Arc::clone(&cancel),
        ..SessionOptions::default()
    };
    let mut session = Session::new(Arc::clone(&database), options).unwrap();
    let waiting = async {
        let said = query(&mut session, "select coeval.cluster_remove(3)", "").await;
        assert!(said.iter().any(|line| line.contains("57014")), "{said:?}");
        must(&mut session, "set statement_timeout = '1s'").await;
        let said = query(&mut session, "select coeval.cluster_remove(3)", "").await;
        assert!(
            said.iter().any(|line| line.contains("statement timeout")),
            "{said:?}"
        );
    };
    let canceling = async {
        coeval_env::sleep(Duration::from_secs(1)).await;
        cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    tokio::join!(waiting, canceling);
    assert_eq!(made.asked.lock().unwrap().len(), 2);
}
