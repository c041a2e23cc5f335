//! The scripts that every engine plays.

use std::path::Path;

use coeval_occ::Engine;

use crate::support::settings;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../txn/tests/scripts");
    crate::script::run_scripts(&folder, "occ", || {
        Box::new(Engine::ephemeral(settings()).expect("sound settings"))
    });
}
