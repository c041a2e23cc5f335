//! Rule: no Rust file is too long to be read in one sitting.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Maximum number of lines in a Rust file.
const LIMIT: usize = 800;

/// Reports Rust files that are too long.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace
        .rust_files()
        .filter_map(|(path, text)| {
            let lines = text.lines().count();
            (lines > LIMIT).then(|| {
                Finding::new(
                    path,
                    LIMIT + 1,
                    format!("{lines} lines, more than {LIMIT}"),
                    "split it by what its parts do",
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_limit() {
        let fits = "\n".repeat(LIMIT);
        let long = "\n".repeat(LIMIT + 1);
        let findings = check(&Workspace::of(&[
            ("a.rs", &fits),
            ("b.rs", &long),
            ("c.md", &long),
        ]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "b.rs");
    }
}
