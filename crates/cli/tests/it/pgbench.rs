//! `pgbench`, unmodified: no failed transactions, and balances that add up, also over
//! a kill.

use coeval_workload::pgbench::Pgbench;
use coeval_workload::server::{Launch, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn balances_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().await.unwrap();
    let Some(pgbench) = Pgbench::find(port) else {
        // CI installs it; elsewhere its absence is told and no failure.
        assert!(std::env::var_os("CI").is_none(), "pgbench is missing");
        eprintln!("pgbench is missing: not tried");
        return;
    };
    let launch = Launch::coeval(env!("CARGO_BIN_EXE_coeval").into(), folder.path(), port).unwrap();
    let mut server = launch.start().unwrap();
    server.ready().await.unwrap();
    pgbench.initialize(1).unwrap();
    for script in [&[][..], &["-N"], &["-S"]] {
        for mode in ["simple", "extended", "prepared"] {
            let mut arguments = vec!["-c", "4", "-j", "2", "-t", "25", "-M", mode];
            arguments.extend(script);
            pgbench
                .run(&arguments)
                .await
                .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        }
    }
    server.kill().unwrap();
    let mut server = launch.start().unwrap();
    server.ready().await.unwrap();
    // The next run starts from what the kill left, and adds up with it.
    pgbench
        .run(&["-c", "4", "-j", "2", "-t", "25"])
        .await
        .unwrap();
    server.stop().await.unwrap();
}
