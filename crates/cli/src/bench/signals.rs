//! Signal handling of a run: the first signal ends it in order, the second at once.
//!
//! The signals have a thread of their own, so that a long final check does not delay the
//! second.

use std::io;
use std::process::exit;
use std::sync::{Arc, OnceLock};

use coeval_env as env;
use coeval_workload::driver::Stop;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// A shell reports a process that was ended by a signal as this plus the signal's number.
const KILLED: u8 = 128;

/// The first signal, if one arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct First(Arc<OnceLock<SignalKind>>);

impl First {
    /// The exit code of a run that the signal has ended.
    pub(super) fn code(&self) -> Option<u8> {
        self.0.get().map(|kind| code(*kind))
    }
}

fn code(kind: SignalKind) -> u8 {
    let number = u8::try_from(kind.as_raw_value()).unwrap_or(0);
    KILLED.saturating_add(number)
}

/// Ends the run at the first SIGINT or SIGTERM, so that it is checked and written as
/// usual; at the second the process ends.
pub(super) async fn end_at_the_first(stop: Stop) -> io::Result<First> {
    let (ready, readiness) = oneshot::channel();
    let first = First::default();
    let noted = first.clone();
    let _ends_with_the_process = env::spawn_dedicated("signals", move || async move {
        let kinds = (SignalKind::interrupt(), SignalKind::terminate());
        let (mut interrupt, mut terminate) = match (signal(kinds.0), signal(kinds.1)) {
            (Ok(interrupt), Ok(terminate)) => {
                let _ = ready.send(Ok(()));
                (interrupt, terminate)
            }
            (Err(error), _) | (_, Err(error)) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let kind = either(&mut interrupt, &mut terminate).await;
        noted.0.get_or_init(|| kind);
        stop.stop();
        let second = either(&mut interrupt, &mut terminate).await;
        exit(code(second).into());
    });
    let lost = |_| io::Error::other("the thread that waits for signals has ended");
    readiness.await.map_err(lost)??;
    Ok(first)
}

/// Waits for the next signal of either kind.
async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> SignalKind {
    tokio::select! {
        _ = interrupt.recv() => SignalKind::interrupt(),
        _ = terminate.recv() => SignalKind::terminate(),
    }
}
