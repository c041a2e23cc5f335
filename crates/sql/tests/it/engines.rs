//! The engines that everything is run on.

use std::sync::Arc;

use coeval_sql::Database;
use coeval_txn::Engine;
use coeval_txn::serial::Serial;

/// One transaction at a time: the oracle.
pub fn serial() -> Arc<dyn Engine> {
    Arc::new(Serial::default())
}

/// Transactions at once, in memory.
pub fn occ() -> Arc<dyn Engine> {
    let settings = coeval_occ::Settings {
        sweep_interval: None,
        ..coeval_occ::Settings::default()
    };
    Arc::new(coeval_occ::Engine::ephemeral(settings).expect("sound settings"))
}

/// A database over an engine.
pub async fn database(engine: Arc<dyn Engine>) -> Arc<Database> {
    Database::open(engine)
        .await
        .expect("an empty database opens")
}
