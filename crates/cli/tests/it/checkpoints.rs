//! Checkpoints of a server as a process.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at the files of a server that is another process"
)]

use coeval_workload::server::{Launch, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn a_start_takes_the_checkpoint_and_the_log_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().await.unwrap();
    let launch = Launch::coeval(env!("CARGO_BIN_EXE_coeval").into(), folder.path(), port)
        .unwrap()
        .with(&[("log-segment-bytes", 16_384)]);
    let mut server = launch.start().unwrap();
    let connection = server.ready().await.unwrap();
    connection
        .batch_execute(
            "create table t (id int primary key, name text, unique (name));
             insert into t values (0, 'zero');
             create table gone (id int primary key);
             insert into gone values (1);
             drop table gone",
        )
        .await
        .unwrap();
    for id in 1..500 {
        let insert = format!("insert into t values ({id}, 'name {id}')");
        connection.batch_execute(&insert).await.unwrap();
    }
    connection.batch_execute("checkpoint").await.unwrap();
    assert_eq!(launch.checkpoint_files().unwrap().len(), 1);
    let log = std::fs::read_dir(folder.path().join("data/log")).unwrap();
    assert!(log.count() <= 3, "the log before it is gone");
    connection
        .batch_execute("update t set name = 'changed' where id = 7; delete from t where id = 8")
        .await
        .unwrap();
    server.kill().unwrap();

    let mut server = launch.start().unwrap();
    let connection = server.ready().await.unwrap();
    let row = connection
        .query_one("select count(*), min(name), max(id) from t", &[])
        .await
        .unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, &str>(1)),
        (499, "changed")
    );
    assert_eq!(row.get::<_, i32>(2), 499);
    let found = connection
        .query_one("select id from t where name = 'changed'", &[])
        .await
        .unwrap();
    assert_eq!(found.get::<_, i32>(0), 7);
    let twice = connection.batch_execute("insert into t values (8, 'name 9')");
    assert!(twice.await.is_err(), "the unique index is there");
    let server_log = std::fs::read_to_string(&launch.log).unwrap();
    assert!(server_log.contains("rows in a checkpoint"), "{server_log}");
    drop(connection);
    // A small database is checkpointed on a stop.
    server.stop().await.unwrap();
    let mut server = launch.start().unwrap();
    drop(server.ready().await.unwrap());
    let server_log = std::fs::read_to_string(&launch.log).unwrap();
    assert!(
        server_log.contains(" 0 commits in 0 bytes of log"),
        "{server_log}"
    );
    server.kill().unwrap();
}
