//! A run from the plan to the report, with what was created removed in any case.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::options::Options;
use crate::plan;
use crate::record::Recorder;
use crate::report::{self, Run};
use crate::schedule::{Kept, Schedule};
use crate::store::Store;

/// Ctrl-C, or a signal to end.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> Result<Self, String> {
        let of = |kind| signal(kind).map_err(|error| format!("cannot watch for signals: {error}"));
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
        })
    }

    /// Waits until the user wants an end.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Runs the probe, and returns its exit code.
///
/// # Errors
/// When the run cannot be made or judged.
pub async fn run(options: &Options) -> Result<u8, String> {
    let mut stop = Stop::new()?;
    let store = Store::new(options)?;
    eprint!("{}", plan::plan(options, &store));
    if !options.is_agreed && !plan::countdown(options.countdown, &mut stop).await {
        return Err("ended before it began; nothing was written".to_owned());
    }
    let recorder = Recorder::start(options.history.as_deref())?;
    tokio::select! {
        connected = store.connect() => connected?,
        () = stop.asked() => return Err("ended before it began; nothing was written".to_owned()),
    }
    store.create().await?;
    // From here on something is there that has to go.
    let schedule = Schedule::new(options, &store);
    let ran = ran(&schedule, options, &store, &recorder, &mut stop).await;
    drop(schedule);
    let removed = store.remove().await;
    let recorded = recorder.finish();
    let run = ran.and_then(|kept| recorded.map(|recorded| Run { kept, recorded }));
    match (run.and_then(|run| report::report(options, run)), removed) {
        (Err(problem), Err(remains)) => Err(format!("{problem}; {remains}")),
        (Err(problem), Ok(())) | (Ok(_), Err(problem)) => Err(problem),
        (Ok(code), Ok(())) => Ok(code),
    }
}

async fn ran(
    schedule: &Schedule,
    options: &Options,
    store: &Store,
    recorder: &Recorder,
    stop: &mut Stop,
) -> Result<Kept, String> {
    let ready = async {
        schedule.load(options.keys, recorder).await?;
        store.settle(options.keys).await
    };
    tokio::select! {
        ready = ready => ready?,
        () = stop.asked() => return Err("ended while it wrote the first values".to_owned()),
    }
    Ok(schedule.run(options, recorder, stop).await)
}
