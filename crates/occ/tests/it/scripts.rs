//! The test scripts that every engine runs.

use std::path::PathBuf;

use coeval_occ::Engine;
use coeval_txn::Engine as Contract;

use crate::support::settings;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../txn/tests/scripts")
}

fn make() -> Box<dyn Contract> {
    Box::new(Engine::ephemeral(settings()).expect("sound settings"))
}

#[test]
fn scripts() {
    crate::script::run_scripts(&folder(), "occ", make);
}
