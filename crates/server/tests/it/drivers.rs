//! tokio-postgres: binary formats, pipelining, COPY, cancel, as drivers use them.

use std::net::SocketAddr;

use coeval_testkit::server::with_server;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

async fn connect(address: SocketAddr) -> Client {
    let config = format!("postgres://ada@{address}/bank");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    coeval_env::spawn("connection", async move {
        let _ = connection.await;
    });
    client
}

#[test]
fn values_in_binary_format_both_ways() {
    with_server(|address| async move {
        let client = connect(address).await;
        client
            .batch_execute(
                "create table t (s smallint, i int, b bigint, f boolean, t text, v varchar(9))",
            )
            .await
            .unwrap();
        let changed = client
            .execute(
                "insert into t values ($1, $2, $3, $4, $5, $6)",
                &[
                    &i16::MIN,
                    &i32::MAX,
                    &i64::MIN,
                    &true,
                    &"täxt",
                    &None::<String>,
                ],
            )
            .await
            .unwrap();
        assert_eq!(changed, 1);
        let row = client
            .query_one("select s, i, b, f, t, v from t", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i16>(0), i16::MIN);
        assert_eq!(row.get::<_, i32>(1), i32::MAX);
        assert_eq!(row.get::<_, i64>(2), i64::MIN);
        assert!(row.get::<_, bool>(3));
        assert_eq!(row.get::<_, &str>(4), "täxt");
        assert_eq!(row.get::<_, Option<&str>>(5), None);
    });
}

#[test]
fn many_queries_at_once_on_one_connection() {
    with_server(|address| async move {
        let client = connect(address).await;
        let statement = client.prepare("select $1::int * 2").await.unwrap();
        let client = std::sync::Arc::new(client);
        let asking: Vec<_> = (0..200)
            .map(|number: i32| {
                let (client, statement) = (client.clone(), statement.clone());
                coeval_env::spawn("query", async move {
                    let row = client.query_one(&statement, &[&number]).await.unwrap();
                    assert_eq!(row.get::<_, i32>(0), number * 2);
                })
            })
            .collect();
        for query in asking {
            query.await.unwrap();
        }
    });
}

#[test]
fn transactions_commit_and_roll_back() {
    with_server(|address| async move {
        let mut client = connect(address).await;
        client
            .batch_execute("create table t (id int primary key)")
            .await
            .unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction
            .execute("insert into t values (1)", &[])
            .await
            .unwrap();
        drop(transaction);
        let transaction = client.transaction().await.unwrap();
        transaction
            .execute("insert into t values (2)", &[])
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        let rows = client.query("select id from t", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [2]);
        let refused = client
            .execute("insert into t values (2)", &[])
            .await
            .unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert_eq!(*refused.code(), SqlState::UNIQUE_VIOLATION);
        assert_eq!(refused.constraint(), Some("t_pkey"));
    });
}

#[test]
fn a_portal_in_pieces() {
    with_server(|address| async move {
        let mut client = connect(address).await;
        client
            .batch_execute("create table t (id int primary key)")
            .await
            .unwrap();
        client
            .batch_execute("insert into t values (1), (2), (3)")
            .await
            .unwrap();
        let transaction = client.transaction().await.unwrap();
        let portal = transaction
            .bind("select id from t order by id", &[])
            .await
            .unwrap();
        assert_eq!(transaction.query_portal(&portal, 2).await.unwrap().len(), 2);
        assert_eq!(transaction.query_portal(&portal, 2).await.unwrap().len(), 1);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_cancel_token_cancels() {
    with_server(|address| async move {
        let holder = connect(address).await;
        let setup = "create table t (id int primary key); insert into t values (1); \
                     begin; delete from t where id = 1";
        // The first two have to be committed before the transaction begins.
        for statement in setup.split("; ") {
            holder.batch_execute(statement).await.unwrap();
        }
        let waiter = connect(address).await;
        let token = waiter.cancel_token();
        let canceling = async {
            loop {
                token.cancel_query(NoTls).await.unwrap();
                coeval_env::yield_now().await;
            }
        };
        let refused = tokio::select! {
            biased;
            ended = waiter.execute("delete from t where id = 1", &[]) => ended.unwrap_err(),
            () = canceling => unreachable!("it goes on for ever"),
        };
        assert_eq!(refused.code(), Some(&SqlState::QUERY_CANCELED));
    });
}
