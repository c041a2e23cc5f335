//! TLS: what is encrypted, what it is bound to, and attempts to do without.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use coeval_server::RunningServer;
use coeval_testkit::scram::{begin, first, initial, last, last_bound};
use coeval_testkit::server::{with_running, with_settings};
use coeval_testkit::tls::{Certificate, Connect, connect};
use coeval_testkit::wire::{Wire, error, kinds, packet, query, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio_postgres::config::ChannelBinding as Binding;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// SSLRequest.
fn ssl_request() -> Vec<u8> {
    packet(80_877_103, b"")
}

#[test]
fn a_session_through_tls_is_like_any_other() {
    let certificate = Certificate::new();
    with_settings(certificate.settings(), |server| {
        let address = server.address();
        let tls = certificate.client();
        async move {
            let client = connect(address, tls, "ada", "", Binding::Prefer).await;
            let client = client.unwrap();
            client
                .batch_execute("create table t (a int primary key, b text)")
                .await
                .unwrap();
            // More than fits one record, both ways, in one message and in many.
            let long = "x".repeat(300_000);
            client
                .execute("insert into t values (1, $1)", &[&long])
                .await
                .unwrap();
            let row = client.query_one("select b from t", &[]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), long);
            let rows = client
                .query("select a from generate_series(1, 20000) a", &[])
                .await
                .unwrap();
            assert_eq!(rows.len(), 20_000);
            // Without TLS the door is open as before.
            let mut plain = Wire::connect(address).await;
            assert_eq!(
                plain.value("select count(*) from t").await.as_deref(),
                Some("1")
            );
        }
    });
}

#[test]
fn passwords_are_bound_to_the_certificate() {
    let certificate = Certificate::new();
    with_settings(certificate.settings(), |server| {
        let address = server.address();
        let tls = certificate.client();
        async move {
            let mut plain = Wire::connect(address).await;
            plain
                .rows("create role app login superuser password 'secret'")
                .await;
            let bound = connect(address, tls.clone(), "app", "secret", Binding::Require).await;
            bound.unwrap().batch_execute("select 1").await.unwrap();
            let without = connect(address, tls.clone(), "app", "secret", Binding::Disable).await;
            without.unwrap();
            let wrong = connect(address, tls.clone(), "app", "wrong", Binding::Require).await;
            assert_eq!(wrong.err().unwrap().code().unwrap().code(), "28P01");
            // A man in the middle with a certificate of its own.
            let mut elsewhere = tls;
            elsewhere.binding[0] ^= 1;
            let stolen = connect(address, elsewhere, "app", "secret", Binding::Require).await;
            assert_eq!(stolen.err().unwrap().code().unwrap().code(), "28000");
        }
    });
}

/// A connection through TLS, byte for byte.
async fn encrypted(address: SocketAddr, tls: &Connect) -> TlsStream<coeval_env::Stream> {
    let mut stream = coeval_env::connect(address).await.unwrap();
    stream.write_all(&ssl_request()).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'S');
    let name = ServerName::try_from("localhost").unwrap();
    tls.connector.connect(name, stream).await.unwrap()
}

#[test]
fn bytes_before_the_handshake_are_not_taken_for_encrypted_ones() {
    let certificate = Certificate::new();
    with_settings(certificate.settings(), |server| {
        let address = server.address();
        async move {
            let mut other = Wire::connect(address).await;
            other.rows("create table account (a int)").await;
            let slipped = [
                start(&[("user", "ada"), ("database", "bank")]),
                query("drop table account"),
                vec![0],
            ];
            for bytes in slipped {
                let mut wire = Wire::open(address).await;
                wire.send(&[ssl_request(), bytes].concat()).await;
                let answers = wire.until_closed().await;
                assert_eq!(kinds(&answers), "E", "no S before it");
                assert_eq!(error(&answers).sqlstate(), "08P01");
            }
            other.rows("select * from account").await;
        }
    });
}

#[test]
fn encryption_is_asked_for_once() {
    let certificate = Certificate::new();
    with_settings(certificate.settings(), |server| {
        let address = server.address();
        let tls = certificate.client();
        async move {
            let mut stream = encrypted(address, &tls).await;
            stream.write_all(&ssl_request()).await.unwrap();
            stream.flush().await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert_eq!(answer.first(), Some(&b'E'));
            // Bytes that are no handshake end the connection and affect no other.
            let mut wire = Wire::open(address).await;
            wire.send(&ssl_request()).await;
            assert_eq!(wire.stream.read_u8().await.unwrap(), b'S');
            wire.send(&start(&[("user", "ada")])).await;
            let mut rest = Vec::new();
            let _ = wire.stream.read_to_end(&mut rest).await;
            assert!(!rest.windows(2).any(|pair| pair == b"Z\0"), "no session");
            encrypted(address, &tls).await;
        }
    });
}

#[test]
fn a_rule_that_asks_for_tls_is_not_met_without() {
    let certificate = Certificate::new();
    let mut settings = certificate.settings();
    let rules = certificate.directory().join("hba");
    write(
        &rules,
        "hostssl all all all scram-sha-256\nhostssl all coeval all trust\n",
    );
    settings.hba_file.0 = Some(rules.clone());
    with_running(settings, async |server: &RunningServer| {
        let address = server.address();
        let tls = certificate.client();
        write(
            &rules,
            "hostssl all coeval all trust\nhostssl all all all scram-sha-256\n",
        );
        server.reload().await.unwrap();
        let root = connect(address, tls.clone(), "coeval", "", Binding::Prefer).await;
        let root = root.unwrap();
        root.batch_execute("create role app login password 'secret'")
            .await
            .unwrap();
        // Plain from the start, and plain because a man in the middle declined
        // encryption.
        let mut wire = Wire::open(address).await;
        wire.send(&start(&[("user", "app"), ("database", "bank")]))
            .await;
        let answers = wire.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "28000");
        assert!(
            error(&answers)
                .field(b'M')
                .unwrap()
                .contains("no encryption")
        );
        let app = connect(address, tls, "app", "secret", Binding::Require).await;
        app.unwrap().batch_execute("select 1").await.unwrap();
    });
}

#[test]
fn a_stripped_offer_of_binding_is_noticed() {
    let certificate = Certificate::new();
    with_settings(certificate.settings(), |server| {
        let address = server.address();
        let tls = certificate.client();
        async move {
            let mut other = Wire::connect(address).await;
            other
                .rows("create role app login superuser password 'secret'")
                .await;
            // Without TLS nothing can be bound, and nothing else is offered.
            let mut wire = Wire::open(address).await;
            assert_eq!(begin(&mut wire, "app").await, ["SCRAM-SHA-256"]);
            wire.send(&first()).await;
            let answer = wire.receive().await.unwrap();
            wire.send(&last_bound(&answer, "secret", b"p=tls-server-end-point,,x"))
                .await;
            assert_eq!(error(&wire.until_closed().await).sqlstate(), "28000");
            // The client says `y`: it could bind, and was told that we cannot.
            let mut stream = encrypted(address, &tls).await;
            stream
                .write_all(&start(&[("user", "app"), ("database", "bank")]))
                .await
                .unwrap();
            let stripped = initial("SCRAM-SHA-256", "y,,n=,r=0123456789abcdef");
            stream.write_all(&stripped).await.unwrap();
            stream.flush().await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            let text = String::from_utf8_lossy(&answer);
            assert!(text.contains("SCRAM-SHA-256-PLUS"), "it was offered");
            assert!(text.contains("thinks the server does not"), "{text}");
            assert!(other.value("select 1").await.is_some());
            let mut wire = Wire::open(address).await;
            begin(&mut wire, "app").await;
            wire.send(&first()).await;
            let answer = wire.receive().await.unwrap();
            wire.send(&last(&answer, "secret")).await;
            assert_eq!(wire.until('Z').await.last().unwrap().kind, 'Z');
        }
    });
}

#[test]
fn a_renewed_certificate_is_taken_when_asked_for() {
    let certificate = Certificate::new();
    with_running(certificate.settings(), async |server: &RunningServer| {
        let address = server.address();
        let old = certificate.client();
        let session = connect(address, old.clone(), "ada", "", Binding::Prefer).await;
        let session = session.unwrap();
        certificate.renew();
        let new = certificate.client();
        connect(address, old.clone(), "ada", "", Binding::Prefer)
            .await
            .unwrap();
        server.reload().await.unwrap();
        let refused = connect(address, old, "ada", "", Binding::Prefer).await;
        assert!(refused.is_err());
        connect(address, new.clone(), "ada", "", Binding::Prefer)
            .await
            .unwrap();
        session.batch_execute("select 1").await.unwrap();
        // One that is broken is not taken.
        write(&certificate.key(), "no key");
        let wrong = server.reload().await.unwrap_err().to_string();
        assert!(wrong.contains("key.pem"), "{wrong}");
        connect(address, new, "ada", "", Binding::Prefer)
            .await
            .unwrap();
    });
}

#[expect(clippy::disallowed_methods, reason = "a test writes its files")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn psql_through_tls() {
    let certificate = Certificate::new();
    with_settings(certificate.settings(), |server| {
        let address = server.address();
        let root = certificate.certificate();
        async move {
            let mut other = Wire::connect(address).await;
            other
                .rows("create role app login superuser password 'secret'")
                .await;
            let psql = async |parameters: &str, command: &str| {
                let url = format!(
                    "postgres://app@localhost:{}/bank?hostaddr=127.0.0.1&{parameters}",
                    address.port()
                );
                let output = Command::new("psql")
                    .args(["-X", "-A", "-t", "-c", command, &url])
                    .env("PGPASSWORD", "secret")
                    .env("PGCONNECT_TIMEOUT", "10")
                    .kill_on_drop(true)
                    .output()
                    .await;
                match output {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        println!("skipped: psql is not installed");
                        None
                    }
                    output => Some(output.unwrap()),
                }
            };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let verified = format!(
                "sslmode=verify-full&channel_binding=require&sslrootcert={}",
                root.display()
            );
            for parameters in ["sslmode=require", "sslmode=disable", &verified] {
                let Some(output) = psql(parameters, "select current_user").await else {
                    return;
                };
                let said = text(&output.stderr);
                assert_eq!(text(&output.stdout), "app\n", "{parameters}: {said}");
            }
            let shown = psql("sslmode=require", "\\conninfo").await.unwrap();
            assert!(text(&shown.stdout).contains("TLSv1.3"), "{shown:?}");
        }
    });
}
