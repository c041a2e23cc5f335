//! Opens and closes the storage engine of a server.
//!
//! This module alone chooses the concurrency control protocol; to every other module an
//! engine is `dyn coeval_txn::Engine`.

use std::sync::Arc;

use coeval_log::{FatalHandler, RecoveryProgress};
use coeval_occ::{Engine, RecoverySummary};
use tokio::sync::watch;
use tracing::warn;

use crate::Settings;
use crate::memory;
use crate::server::{StartError, Storage};
use crate::shared::remember;

/// At a stop with no more bytes of rows than this the server takes a checkpoint: a
/// second's work at most, and the next start replays nothing.
const CHECKPOINT_ON_STOP_BYTES: u64 = 64 << 20;

/// An open engine, and the results of its recovery.
pub(crate) struct Opened {
    pub(crate) engine: Arc<Engine>,
    pub(crate) found: StartSummary,
}

/// The data that a start has found.
pub(crate) struct StartSummary {
    /// The storage location, for people.
    pub(crate) place: String,
    /// A summary of recovery, for people.
    pub(crate) recovery: String,
}

/// Opens the engine and recovers its data; `progress` is called with recovery's progress.
/// When the engine stops by itself, it sends the reason to `failure`.
pub(crate) async fn open(
    settings: &Settings,
    storage: Storage,
    failure: &watch::Sender<Option<String>>,
    progress: impl Fn(RecoveryProgress) + Send + Sync + 'static,
) -> Result<Opened, StartError> {
    let for_engine = engine_settings(settings).await;
    let opened = match storage {
        Storage::Memory => {
            let engine = Engine::ephemeral(for_engine);
            engine.map(|engine| Opened {
                engine: Arc::new(engine),
                found: StartSummary {
                    place: "memory".to_owned(),
                    recovery: "nothing to recover".to_owned(),
                },
            })
        }
        Storage::Directory => {
            let directory = &settings.data_dir;
            let opened = Engine::open_watched(directory, for_engine, progress).await;
            opened.map(|(engine, summary)| Opened {
                engine: Arc::new(engine),
                found: StartSummary {
                    place: directory.display().to_string(),
                    recovery: describe(&summary),
                },
            })
        }
    };
    let opened = opened.map_err(|error| StartError::DataDirectory {
        path: settings.data_dir.clone(),
        error,
    })?;
    let failure = failure.clone();
    let handler: FatalHandler = Box::new(move |reason| remember(&failure, reason.to_string()));
    opened.engine.log().set_fatal_handler(handler);
    Ok(opened)
}

/// The engine's settings, derived from the server's.
pub(crate) async fn engine_settings(settings: &Settings) -> coeval_occ::Settings {
    let mut engine = coeval_occ::Settings {
        budget: memory::budget(settings).await,
        ..coeval_occ::Settings::default()
    };
    engine.log.protocol = settings.cluster_protocol;
    engine.log.segment_bytes = settings.log_segment_bytes;
    engine.log.ring_bytes = settings.log_buffer_bytes;
    engine.log.log_keep_bytes = settings.log_keep_bytes;
    engine.log.reserve_bytes = settings.disk_reserve_bytes;
    engine.checkpoint_log_bytes = settings.checkpoint_log_bytes;
    engine.checkpoint_bytes_per_second = settings
        .checkpoint_megabytes_per_second
        .saturating_mul(1_000_000);
    engine.checkpoint_on_close_bytes = CHECKPOINT_ON_STOP_BYTES;
    // Each worker can have one commit that has registered and not yet been assigned a
    // commit timestamp, with at most eight slots of one range. They must all fit.
    engine.range_slots = settings.range_slots.max(8 * settings.workers());
    if settings.recovery_threads > 0 {
        engine.log.recovery_threads = settings.recovery_threads;
    }
    engine
}

fn describe(summary: &RecoverySummary) -> String {
    let after = if summary.clean {
        "after an orderly stop"
    } else {
        "after a crash, or the first start"
    };
    let mut text = match summary.checkpoint {
        Some(checkpoint) => format!(
            "{} rows in a checkpoint of {} bytes, ",
            checkpoint.records, checkpoint.bytes
        ),
        None => String::new(),
    };
    text.push_str(&format!(
        "{} commits in {} bytes of log {after}",
        summary.commits, summary.bytes
    ));
    if summary.cut_bytes > 0 {
        text.push_str(&format!(
            "; {} bytes behind the last whole commit are cut off",
            summary.cut_bytes
        ));
    }
    text
}

/// Makes everything durable and closes the engine's files.
pub(crate) async fn close(engine: &Engine) {
    if let Err(error) = engine.close().await {
        warn!(%error, "the log did not close in order; the next start recovers");
    }
}
