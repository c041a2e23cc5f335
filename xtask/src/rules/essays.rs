//! A file opens by saying what it is.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Files of tests of the file beside them need no opening of their own.
const TESTS: &str = "/tests.rs";

/// Rust files that begin with something else.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace
        .rust_files()
        .filter(|(path, text)| !text.starts_with("//! ") && !path.ends_with(TESTS))
        .map(|(path, _)| {
            Finding::new(
                path,
                1,
                "the file does not open by saying what it is",
                "begin with a `//!` essay: what it is, an example, its invariants, its source",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_opening_is_found() {
        let findings = check(&Workspace::of(&[
            ("crates/a/src/lib.rs", "//! A crate.\n"),
            ("crates/a/src/b.rs", "use std::io;\n"),
            ("crates/a/src/b/tests.rs", "use super::*;\n"),
        ]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "crates/a/src/b.rs");
    }
}
