//! What sessions keep between statements, and messages that never end, are bounded.

use coeval_testkit::server::{settings, with_settings};
use coeval_testkit::wire::{
    Answer, Wire, bind, close, error, execute, kinds, message, parse, sync,
};
use tokio::io::AsyncWriteExt;

/// A statement of 29 kB whose plan takes a hundred times that.
fn wide() -> String {
    let columns = vec!["coalesce(v, 'x0') || 'y'"; 1200].join(", ");
    format!("select {columns} from big where id = $1")
}

async fn prepared(wire: &mut Wire, name: &str, text: &str) -> Vec<Answer> {
    wire.ask(&[parse(name, text, &[]), sync()]).await
}

/// Prepares statements until one is refused: how many were taken, and the refusal.
async fn fill(wire: &mut Wire, text: &str) -> (usize, Answer) {
    for number in 0..10_000 {
        let answers = prepared(wire, &format!("s{number}"), text).await;
        if kinds(&answers) != "1Z" {
            return (number, error(&answers).clone());
        }
    }
    panic!("there is no limit");
}

fn assert_refused(refused: &Answer, setting: &str) {
    assert_eq!(refused.sqlstate(), "53200");
    assert!(
        refused.field(b'H').unwrap().contains(setting),
        "{refused:?}"
    );
}

#[test]
fn a_session_keeps_only_so_much() {
    let settings = coeval_server::Settings {
        // What a whole number of these statements leaves of it has room for the text of one.
        max_session_memory_bytes: (16 << 20) + (512 << 10),
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let (mut wire, mut other) =
                (Wire::connect(address).await, Wire::connect(address).await);
            wire.rows("create table big (id int primary key, v text)")
                .await;
            let (taken, refused) = fill(&mut wire, &wide()).await;
            assert_refused(&refused, "max_session_memory_bytes");
            assert!((2..100).contains(&taken), "{taken}");
            // PREPARE asks too, statements without a name and other sessions go on.
            let answers = wire.query(&format!("prepare p as {}", wide())).await;
            assert_refused(error(&answers), "max_session_memory_bytes");
            let asked = [
                parse("", &wide(), &[]),
                sync(),
                bind("", "", &[Some(b"1")]),
                execute("", 0),
                sync(),
            ];
            wire.send(&asked.concat()).await;
            assert_eq!(kinds(&wire.until('Z').await), "1Z");
            assert_eq!(kinds(&wire.until('Z').await), "2CZ");
            assert_eq!(kinds(&prepared(&mut other, "s", &wide()).await), "1Z");
            // One goes, another fits, once.
            wire.ask(&[close(b'S', "s0"), sync()]).await;
            assert_eq!(kinds(&prepared(&mut wire, "again", &wide()).await), "1Z");
            let answers = prepared(&mut wire, "more", &wide()).await;
            assert_refused(error(&answers), "max_session_memory_bytes");
            wire.rows("deallocate all").await;
            assert_eq!(fill(&mut wire, &wide()).await.0, taken);
        }
    });
}

#[test]
fn portals_with_names_are_counted() {
    let settings = coeval_server::Settings {
        max_session_memory_bytes: 1 << 20,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wire = Wire::connect(address).await;
            let value = vec![b'x'; 300 << 10];
            prepared(&mut wire, "s", "select $1::text").await;
            wire.rows("begin").await;
            let mut refused = None;
            for number in 0..10 {
                let bound = bind(&format!("p{number}"), "s", &[Some(&value)]);
                let answers = wire.ask(&[bound, sync()]).await;
                if kinds(&answers) != "2Z" {
                    refused = Some((number, error(&answers).clone()));
                    break;
                }
            }
            let (taken, refused) = refused.expect("there is a limit");
            assert_refused(&refused, "max_session_memory_bytes");
            assert!((1..4).contains(&taken), "{taken}");
            wire.rows("rollback").await;
            // They ended with their transaction.
            wire.rows("begin").await;
            let bound = bind("p", "s", &[Some(&value)]);
            assert_eq!(kinds(&wire.ask(&[bound, sync()]).await), "2Z");
        }
    });
}

#[test]
fn all_sessions_keep_a_quarter_of_the_memory() {
    let settings = coeval_server::Settings {
        memory_limit_megabytes: 128,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let (mut one, mut two) = (Wire::connect(address).await, Wire::connect(address).await);
            one.rows("create table big (id int primary key, v text)")
                .await;
            let (_, refused) = fill(&mut one, &wide()).await;
            assert_refused(&refused, "memory_limit_megabytes");
            let answers = prepared(&mut two, "s", &wide()).await;
            assert_refused(error(&answers), "memory_limit_megabytes");
            // With its session it goes.
            one.send(&message(b'X', b"")).await;
            assert!(one.until_closed().await.is_empty());
            loop {
                let answers = prepared(&mut two, "s", &wide()).await;
                if kinds(&answers) == "1Z" {
                    break;
                }
                assert_refused(error(&answers), "memory_limit_megabytes");
            }
        }
    });
}

#[test]
fn messages_that_never_end_are_bounded_together() {
    let settings = coeval_server::Settings {
        memory_limit_megabytes: 128,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wires = Vec::new();
            let mut refused = 0;
            for _ in 0..6 {
                let mut wire = Wire::connect(address).await;
                // A query of 60 MB, of which 12 are sent: two of them have room.
                let mut part = vec![b'Q'];
                part.extend_from_slice(&(60_i32 << 20).to_be_bytes());
                part.resize(12 << 20, b' ');
                // A connection that is refused takes no more, and its answer may be lost then.
                if wire.stream.write_all(&part).await.is_err() {
                    refused += 1;
                    let answers = wire.until_closed().await;
                    if !answers.is_empty() {
                        assert_refused(error(&answers), "memory_limit_megabytes");
                    }
                }
                wires.push(wire);
            }
            assert!(refused > 0, "72 MB have found room in a quarter of 128");
            // Short statements go on.
            let mut other = Wire::connect(address).await;
            assert_eq!(other.value("select 1").await.as_deref(), Some("1"));
        }
    });
}
