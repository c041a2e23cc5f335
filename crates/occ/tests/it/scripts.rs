//! The scripts that every engine plays.

use std::path::PathBuf;

use coeval_occ::{Engine, Settings, Validator};
use coeval_txn::Engine as Contract;

use crate::support::settings;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../txn/tests/scripts")
}

fn make(validator: Validator) -> Box<dyn Contract> {
    let settings = Settings {
        validator,
        ..settings()
    };
    Box::new(Engine::ephemeral(settings).expect("sound settings"))
}

#[test]
fn scripts() {
    crate::script::run_scripts(&folder(), "occ", || make(Validator::default()));
}

/// Another validator may say otherwise why it refuses. What it lets pass is the same.
#[test]
fn no_validator_shows_an_anomaly() {
    for validator in Validator::ALL {
        crate::script::play_scripts(&folder(), validator.name(), || make(*validator));
    }
}
