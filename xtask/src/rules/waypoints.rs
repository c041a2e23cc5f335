//! Rule: maps lead somewhere. A code span `file.rs::name` in ARCHITECTURE.md, docs/glossary.md
//! or docs/internals/howto.md names a file of this workspace, and a name of that file.
//!
//! Paths are relative to the workspace or to `crates/`.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Pages held to the rule.
fn is_map(path: &str) -> bool {
    path == "ARCHITECTURE.md" || path == "docs/glossary.md" || path == "docs/internals/howto.md"
}

/// Waypoints that are not there.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (page, text) in workspace.files.iter().filter(|(path, _)| is_map(path)) {
        for (index, line) in text.lines().enumerate() {
            for span in line.split('`').skip(1).step_by(2) {
                if let Some(problem) = problem(workspace, span) {
                    findings.push(Finding::new(
                        page,
                        index + 1,
                        problem,
                        "say where it stands now",
                    ));
                }
            }
        }
    }
    findings
}

/// What is wrong with a code span, if it is a waypoint.
fn problem(workspace: &Workspace, span: &str) -> Option<String> {
    let (path, name) = match span.split_once("::") {
        Some((path, name)) if path.ends_with(".rs") => (path, Some(name)),
        _ if span.ends_with(".rs") && span.contains('/') => (span, None),
        _ => return None,
    };
    if path.contains(|character: char| character.is_whitespace() || "*…<".contains(character)) {
        return None;
    }
    let text = workspace
        .files
        .get(path)
        .or_else(|| workspace.files.get(&format!("crates/{path}")));
    let Some(text) = text else {
        return Some(format!("there is no file {path}"));
    };
    let name = name?.rsplit("::").next().unwrap_or_default();
    let name = name.trim_end_matches("()");
    let is_there = [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "const",
        "static",
        "mod",
        "macro_rules!",
    ]
    .iter()
    .any(|keyword| {
        let definition = format!("{keyword} {name}");
        text.match_indices(&definition).any(|(at, _)| {
            let rest = text[at + definition.len()..].chars().next();
            !rest.is_some_and(|next| next.is_alphanumeric() || next == '_')
        })
    });
    (!is_there).then(|| format!("{path} defines no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(map: &str) -> usize {
        check(&Workspace::of(&[
            ("ARCHITECTURE.md", map),
            ("crates/a/src/b.rs", "pub struct C;\nfn open_all() {}\n"),
        ]))
        .len()
    }

    #[test]
    fn waypoints_exist() {
        assert_eq!(
            problems("`a/src/b.rs::open_all`, `crates/a/src/b.rs::C`, `a/src/b.rs`\n"),
            0
        );
        assert_eq!(problems("`a/src/b.rs::open`\n"), 1);
        assert_eq!(problems("`a/src/c.rs::open_all`\n"), 1);
        assert_eq!(problems("`lib.rs` and `std::io`\n"), 0);
    }
}
