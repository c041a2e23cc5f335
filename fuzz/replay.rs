//! Replay of fuzz inputs, on the stable toolchain and in an ordinary test: the inputs
//! that together reach all code that fuzzing has reached (`corpus`), and those that once
//! found a bug (`regressions`). Tests of crates include this file.

use std::path::Path;

/// Runs `run` on every stored input of `target`, and names the input at which it panics.
#[expect(clippy::disallowed_methods, reason = "the inputs are files beside us")]
pub fn replay(target: &str, run: fn(&[u8])) {
    let mut count = 0;
    for kept in ["corpus", "regressions"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz")
            .join(kept)
            .join(target);
        // A target without regressions has no folder.
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("a folder that can be listed").path();
            let input = std::fs::read(&path).expect("a file that can be read");
            let _named = Named(&path);
            run(&input);
            count += 1;
        }
    }
    assert!(count > 0, "{target} has no corpus");
}

/// Reports the current input if it ends with a panic.
struct Named<'path>(&'path Path);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was {}", self.0.display());
        }
    }
}
