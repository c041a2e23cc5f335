//! A few rounds of the crash command, on whatever this build is.

use std::time::Duration;

use coeval_workload::crash::{self, Options};
use coeval_workload::server::{Launch, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_invented() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().await.unwrap();
    let launch = Launch::coeval(env!("CARGO_BIN_EXE_coeval").into(), folder.path(), port)
        .unwrap()
        .with(&[
            ("checkpoint-log-bytes", 2_000),
            ("log-segment-bytes", 16_384),
        ]);
    let options = Options {
        rounds: 5,
        clients: 6,
        seed: 20,
        load_at_most: Duration::from_millis(400),
        ..Options::default()
    };
    let mut progress = Vec::new();
    let result = crash::run(&launch, &options, &mut progress).await;
    let progress = String::from_utf8_lossy(&progress);
    let summary = result.unwrap_or_else(|error| panic!("{error}\n{progress}"));
    assert!(summary.is_clean(), "{summary}\n{progress}");
    assert_eq!(summary.kills, 5);
}
