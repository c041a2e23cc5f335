//! Rule: unsafe code is confined to two crates, and each occurrence documents why it is
//! sound.
//!
//! The compiler forbids unsafe code elsewhere (see [`super::crate_lints`]); this rule
//! also covers code that the current configuration does not compile, and requires reasons
//! where clippy does not: for unsafe functions and traits.

use crate::finding::Finding;
use crate::source::{Source, line_of, words};
use crate::workspace::Workspace;

/// Crates that may contain unsafe code.
const ROOMS: &[&str] = &["memory", "storage"];

/// Reports unsafe code in other crates, or without a reason.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.rust_files() {
        let source = Source::split(text);
        for offset in words(&source.code, "unsafe") {
            let line = line_of(&source.code, offset);
            let allowed = Workspace::crate_of(path).is_some_and(|name| ROOMS.contains(&name));
            let rest = source.code[offset + "unsafe".len()..].trim_start();
            if !allowed {
                findings.push(Finding::new(
                    path,
                    line,
                    "unsafe code outside memory and storage",
                    "use what those crates offer, or add it there behind a safe interface",
                ));
            } else if is_type(rest) {
                // `unsafe fn(…)` as a type promises nothing by itself.
            } else if rest.starts_with("fn") || rest.starts_with("trait") {
                if !has_reason(&source, line, &["# Safety", "SAFETY:"]) {
                    findings.push(Finding::new(
                        path,
                        line,
                        "an unsafe item that does not say what its callers must hold",
                        "add a `# Safety` section to its documentation",
                    ));
                }
            } else if !has_reason(&source, line, &["SAFETY:"]) {
                findings.push(Finding::new(
                    path,
                    line,
                    "unsafe code without a reason",
                    "say above it, in a `// SAFETY:` comment, why it is sound",
                ));
            }
        }
    }
    findings
}

/// Whether the text after `unsafe` makes it the type of a function pointer.
fn is_type(rest: &str) -> bool {
    rest.strip_prefix("fn")
        .is_some_and(|rest| rest.trim_start().starts_with('('))
}

/// Whether a comment that belongs to `line` contains one of the marks: on the line, or
/// right above it, separated only by attributes and the beginning of the statement.
fn has_reason(source: &Source, line: usize, marks: &[&str]) -> bool {
    let comments: Vec<&str> = source.comments.lines().collect();
    let code: Vec<&str> = source.code.lines().collect();
    let marked = |index: usize| {
        comments
            .get(index)
            .is_some_and(|comment| marks.iter().any(|mark| comment.contains(mark)))
    };
    let index = line - 1;
    if marked(index) {
        return true;
    }
    let mut above = index;
    while above > 0 {
        above -= 1;
        if marked(above) {
            return true;
        }
        let code = code[above].trim();
        let ends_earlier_statement = code.ends_with([';', '}', '{']);
        if ends_earlier_statement {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&Workspace::of(&[(path, text)]))
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.problem))
            .collect()
    }

    #[test]
    fn none_outside_the_two_rooms() {
        assert_eq!(
            problems(
                "crates/sql/src/a.rs",
                "fn f() {\n    // SAFETY: no\n    unsafe { g() }\n}\n"
            ),
            ["3: unsafe code outside memory and storage"]
        );
        assert!(problems("crates/sql/src/a.rs", "// unsafe\nlet s = \"unsafe\";").is_empty());
    }

    #[test]
    fn a_block_and_an_impl_need_a_reason() {
        let path = "crates/memory/src/a.rs";
        assert_eq!(
            problems(
                path,
                "fn f() {\n    unsafe { g() }\n}\nunsafe impl Send for X {}\n"
            ),
            [
                "2: unsafe code without a reason",
                "4: unsafe code without a reason"
            ]
        );
        assert!(
            problems(
                path,
                "fn f() {\n    // SAFETY: g asks for nothing,\n    // really.\n    let a =\n        unsafe { g() };\n}\n\
                 // SAFETY: X holds no pointer.\nunsafe impl Send for X {}\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_reason_reaches_one_statement() {
        assert_eq!(
            problems(
                "crates/memory/src/a.rs",
                "fn f() {\n    // SAFETY: a\n    unsafe { g() };\n    unsafe { h() };\n}\n"
            ),
            ["4: unsafe code without a reason"]
        );
    }

    #[test]
    fn a_function_needs_its_section() {
        let path = "crates/storage/src/a.rs";
        assert_eq!(
            problems(path, "/// Reads.\npub unsafe fn read() {}\n").len(),
            1
        );
        assert!(
            problems(
                path,
                "/// Reads.\n///\n/// # Safety\n/// Valid.\n#[inline]\npub unsafe fn read() {}\n"
            )
            .is_empty()
        );
        assert!(problems(path, "type Call = unsafe fn(u8);\n").is_empty());
    }
}
