//! The fuzz target `settings`: arbitrary text as a settings file.
//!
//! It is refused with a reason, or it makes settings that are shown as a file which
//! makes the same settings.

use std::path::Path;

use coeval_server::settings::{Effective, Origin};

/// One input.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let path = Path::new("coeval.toml");
    let mut effective = Effective::new();
    match effective.file(path, text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(()) => {
            let shown = effective.show();
            let mut again = Effective::new();
            if let Err(error) = again.file(path, &shown) {
                panic!("{error} in\n{shown}");
            }
            assert_eq!(again.settings, effective.settings, "{shown}");
            // Whether they go together is another question, and has an answer.
            if let Err(error) = effective.settings.check() {
                assert!(!error.to_string().is_empty());
            }
        }
    }
    // The same words as they come from the environment and from flags.
    let mut effective = Effective::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let variable = (format!("COEVAL_{}", name.trim()), value.trim().to_owned());
        let _ = effective.environment([variable]);
        let flag = Origin::Flag(format!("--{}", name.trim()));
        let _ = effective.set(name.trim(), value.trim(), flag);
    }
}
