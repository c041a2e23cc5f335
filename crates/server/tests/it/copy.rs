//! COPY in both directions.

use coeval_testkit::server::with_server;
use coeval_testkit::wire::{Wire, bind, error, execute, kinds, message, parse, query, sync};

async fn table(address: std::net::SocketAddr) -> Wire {
    let mut wire = Wire::connect(address).await;
    wire.rows("create table t (id int primary key, name text)")
        .await;
    wire
}

fn data(bytes: &[u8]) -> Vec<u8> {
    message(b'd', bytes)
}

fn done() -> Vec<u8> {
    message(b'c', b"")
}

#[test]
fn lines_may_be_cut_anywhere() {
    with_server(|address| async move {
        let mut wire = table(address).await;
        let text = "1\tone\n2\t\\N\n3\tdrei \u{1f980}\n";
        for piece in 1..text.len() {
            wire.send(&query("copy t from stdin")).await;
            assert_eq!(kinds(&wire.until('G').await), "G");
            for bytes in text.as_bytes().chunks(piece) {
                wire.send(&data(bytes)).await;
            }
            let answers = wire.ask(&[done()]).await;
            assert_eq!(kinds(&answers), "CZ");
            assert_eq!(answers[0].tag(), "COPY 3");
            let rows = wire.rows("select id, name from t order by id").await;
            assert_eq!(rows[2][1].as_deref(), Some("drei \u{1f980}"));
            assert_eq!(rows[1][1], None);
            wire.rows("delete from t").await;
        }
    });
}

#[test]
fn to_stdout_gives_what_from_stdin_takes() {
    with_server(|address| async move {
        let mut wire = table(address).await;
        wire.rows("insert into t values (1, E'tab\\tline\\n'), (2, null), (3, 'a,\"b')")
            .await;
        for options in ["", " with (format csv)"] {
            let answers = wire.query(&format!("copy t to stdout{options}")).await;
            assert_eq!(kinds(&answers), "HdddcCZ", "{options}");
            let lines: Vec<u8> = answers
                .iter()
                .filter(|answer| answer.kind == 'd')
                .flat_map(|answer| answer.contents.clone())
                .collect();
            let before = wire.rows("select id, name from t order by id").await;
            wire.rows("delete from t").await;
            wire.send(&query(&format!("copy t from stdin{options}")))
                .await;
            wire.until('G').await;
            let answers = wire.ask(&[data(&lines), done()]).await;
            assert_eq!(kinds(&answers), "CZ", "{answers:?}");
            assert_eq!(
                wire.rows("select id, name from t order by id").await,
                before
            );
        }
    });
}

#[test]
fn a_failed_copy_leaves_nothing_and_the_session_goes_on() {
    with_server(|address| async move {
        let mut wire = table(address).await;
        for (bytes, sqlstate) in [
            (&b"1\tone\nx\ttwo\n"[..], "22P02"),
            (b"1\tone\n1\tagain\n", "23505"),
            (b"1\tone\textra\n", "22P04"),
            (b"1\n", "22P04"),
            (b"1\t\xff\n", "22021"),
            (b"1\ta\0b\n", "22021"),
        ] {
            wire.send(&query("copy t from stdin")).await;
            wire.until('G').await;
            let answers = wire.ask(&[data(bytes), done()]).await;
            assert_eq!(error(&answers).sqlstate(), sqlstate, "{bytes:?}");
            assert_eq!(
                wire.value("select count(*) from t").await.as_deref(),
                Some("0")
            );
        }
        wire.send(&query("copy t from stdin")).await;
        wire.until('G').await;
        let answers = wire
            .ask(&[data(b"1\tone\n"), message(b'f', b"changed my mind\0")])
            .await;
        assert_eq!(error(&answers).sqlstate(), "57014");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
    });
}

#[test]
fn a_message_that_does_not_belong_ends_the_copy() {
    with_server(|address| async move {
        let mut wire = table(address).await;
        wire.send(&query("copy t from stdin")).await;
        wire.until('G').await;
        let answers = wire.ask(&[data(b"1\tone\n"), query("select 1")]).await;
        assert_eq!(error(&answers).sqlstate(), "08P01");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
    });
}

#[test]
fn in_the_extended_protocol_the_sync_before_the_data_is_ignored() {
    with_server(|address| async move {
        let mut wire = table(address).await;
        let ask = [
            parse("", "copy t from stdin", &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        wire.send(&ask.concat()).await;
        assert_eq!(kinds(&wire.until('G').await), "12G");
        let answers = wire.ask(&[data(b"1\tone\n"), done(), sync()]).await;
        assert_eq!(kinds(&answers), "CZ");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("1")
        );
        // Failing, it skips what is still coming, up to the Sync.
        wire.send(&ask.concat()).await;
        wire.until('G').await;
        let answers = wire.ask(&[data(b"1\tone\n"), done(), sync()]).await;
        assert_eq!(kinds(&answers), "EZ");
    });
}

#[test]
fn statements_behind_a_copy_run_after_it() {
    with_server(|address| async move {
        let mut wire = table(address).await;
        wire.send(&query("copy t from stdin; select count(*) from t"))
            .await;
        wire.until('G').await;
        let answers = wire.ask(&[data(b"1\tone\n2\ttwo\n"), done()]).await;
        assert_eq!(kinds(&answers), "CTDCZ");
        assert_eq!(answers[2].values(), [Some("2".into())]);
    });
}
