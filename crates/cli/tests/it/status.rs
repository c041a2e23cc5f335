//! `coeval status`, and the image's way to see whether a server is healthy.

use std::net::SocketAddr;
use std::process::Output;

use coeval_server::Settings;
use coeval_testkit::server::{settings, with_running, with_server};
use coeval_testkit::wire::Wire;
use tokio::process::Command;

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");
const DOCKERFILE: &str = include_str!("../../../../deploy/Dockerfile");

async fn status(address: SocketAddr) -> Output {
    let url = format!("postgres://ada@{address}/bank");
    let mut command = Command::new(COEVAL);
    command.args(["status", "--url", &url]).kill_on_drop(true);
    command.output().await.unwrap()
}

#[test]
fn one_screen_says_how_a_server_is() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t select n from generate_series(1, 1000) as g(n)")
            .await;
        wire.rows("begin isolation level repeatable read; select count(*) from t")
            .await;
        let shown = status(address).await;
        assert!(shown.status.success(), "{shown:?}");
        let screen = String::from_utf8(shown.stdout).unwrap();
        for part in [
            &format!("coeval 0.1.0 at postgres://ada@{address}/bank, up ") as &str,
            "\n  role         single node\n",
            "\n  data         ",
            " of 500: 1 active, 1 idle in transaction\n",
            " commits/s, ",
            "\n  checkpoint   none yet; none under way\n",
            "\n  log          0.0 MB to replay on a start, 0.0 MB kept\n",
            "\n  memory       ",
            ": rows 0.",
            " the oldest shows the state of ",
            "\n  problems     none\n",
            "\n  backups      none under way\n",
        ] {
            assert!(screen.contains(part), "{part:?} in {screen}");
        }
    });
}

#[tokio::test]
async fn nobody_to_ask_is_said() {
    let shown = status(([127, 0, 0, 1], 1).into()).await;
    assert_eq!(shown.status.code(), Some(1));
    let complaint = String::from_utf8(shown.stderr).unwrap();
    assert!(
        complaint.starts_with("coeval status: postgres://"),
        "{complaint}"
    );
}

/// The command by which the image looks whether its server is healthy.
fn health_check() -> Vec<String> {
    let (_, check) = DOCKERFILE.split_once("HEALTHCHECK").expect("it has one");
    let (_, command) = check.split_once("CMD ").expect("of a command");
    let line = command.lines().next().unwrap_or_default();
    serde_json::from_str(line).expect("in the form that needs no shell")
}

/// Whether the image would call the server healthy whose admin listener is here.
async fn is_healthy(admin: SocketAddr) -> bool {
    let command = health_check();
    let mut process = Command::new(&command[0]);
    process
        .args(&command[1..])
        .env("COEVAL_ADMIN_LISTEN", admin.to_string())
        .kill_on_drop(true);
    process.output().await.unwrap().status.success()
}

#[test]
fn the_image_asks_for_health() {
    let settings = Settings {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        ..settings()
    };
    let mut admin = None;
    with_running(settings, async |server| {
        let address = server.admin_address().expect("it was asked for");
        assert!(is_healthy(address).await);
        admin = Some(address);
    });
    let gone = admin.expect("it has run");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        assert!(!is_healthy(gone).await, "it has stopped");
        // A server that answers, but does not report that all is well.
        let listener = coeval_env::listen(([127, 0, 0, 1], 0).into())
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let answering = coeval_env::spawn("answers", async move {
            use tokio::io::AsyncWriteExt;
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 503 Service Unavailable\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        });
        assert!(!is_healthy(address).await, "it recovers");
        answering.await.unwrap();
    });
}
