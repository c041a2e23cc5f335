//! The scripts that every engine plays.

use std::path::Path;

use coeval_occ::{Engine, Settings};

/// An engine in memory that needs no runtime.
pub fn engine() -> Engine {
    let settings = Settings {
        sweep_interval: None,
        ..Settings::default()
    };
    Engine::ephemeral(settings).expect("sound settings")
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../txn/tests/scripts");
    crate::script::run_scripts(&folder, "occ", || Box::new(engine()));
}
