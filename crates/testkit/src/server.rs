//! Servers for tests: each runs in memory, in the test's own process.

use std::net::SocketAddr;

use coeval_server::{RunningServer, Server, Settings, Storage};

use crate::wire::Wire;

/// Settings of a server on a free local port, isolated from all other servers.
pub fn settings() -> Settings {
    Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        stop_grace_milliseconds: 100,
        ..Settings::default()
    }
}

/// Runs a test with a server in memory, then stops the server.
pub fn with_server<F: Future<Output = ()>>(test: impl FnOnce(SocketAddr) -> F) {
    with_settings(settings(), |server| test(server.address()));
}

/// [`with_server`], with settings.
pub fn with_settings<F: Future<Output = ()>>(
    settings: Settings,
    test: impl FnOnce(&RunningServer) -> F,
) {
    with_running(settings, async |server| test(server).await);
}

/// [`with_settings`], for tests that inspect the server itself while it runs.
pub fn with_running(settings: Settings, test: impl AsyncFnOnce(&RunningServer)) {
    with_stopped(settings, test, async |()| {});
}

/// [`with_running`], for tests that continue after the server has stopped, with the value
/// that the first part returned.
pub fn with_stopped<T>(
    settings: Settings,
    test: impl AsyncFnOnce(&RunningServer) -> T,
    after: impl AsyncFnOnce(T),
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        // The stack size of `coeval start`: the executor walks statements by recursion.
        .thread_stack_size(8 << 20)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = coeval_env::spawn("server", Server::start(settings, Storage::Memory));
        let server = server.await.unwrap().unwrap();
        let kept = test(&server).await;
        let stopped = coeval_env::timeout(std::time::Duration::from_secs(30), server.stop());
        stopped.await.expect("a server stops");
        after(kept).await;
    });
}

/// Checks that other sessions are undisturbed: `other` was open before, and the server
/// accepts a new one.
pub async fn assert_serves(other: &mut Wire, address: SocketAddr) {
    assert_eq!(other.value("select 40 + 2").await.as_deref(), Some("42"));
    let mut new = Wire::connect(address).await;
    assert_eq!(new.value("select 6 * 7").await.as_deref(), Some("42"));
}

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "asks the kernel about the test itself"
)]
pub fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
