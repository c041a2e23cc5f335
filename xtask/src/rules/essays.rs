//! Rule: every Rust file begins with a module comment that states its purpose.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Files with the tests of a neighbouring file need no module comment.
const TESTS: &str = "/tests.rs";

/// Reports Rust files that do not begin with a module comment.
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
