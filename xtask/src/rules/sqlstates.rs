//! Rule: `docs/operations/errors.md` has a line of advice for every SQLSTATE that a
//! client may receive, and for no other.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::source::{Source, line_of};
use crate::workspace::Workspace;

const PAGE: &str = "docs/operations/errors.md";
/// Files in which every literal of that form is a SQLSTATE; in other files it is inside a
/// `SqlState(…)`.
const LISTS: &[&str] = &["crates/sql/src/error.rs", "crates/pgwire/src/error.rs"];
const MARK: &str = "SqlState(";

/// Reports codes that the page does not explain, and explanations of unused codes.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let used = used(workspace);
    let Some(page) = workspace.files.get(PAGE) else {
        return vec![Finding::new(PAGE, 1, "the page is missing", "write it")];
    };
    let explained = explained(page);
    let mut findings = Vec::new();
    for (code, (path, line)) in &used {
        if !explained.contains_key(code) {
            findings.push(Finding::new(
                path,
                *line,
                format!("{code} is not explained to users"),
                format!("say in {PAGE} what happened and what to do"),
            ));
        }
    }
    for (code, line) in &explained {
        if !used.contains_key(code) {
            findings.push(Finding::new(
                PAGE,
                *line,
                format!("nothing fails with {code}"),
                "remove the line",
            ));
        }
    }
    findings
}

/// Codes in the source, with their positions.
fn used(workspace: &Workspace) -> BTreeMap<String, (String, usize)> {
    let mut used = BTreeMap::new();
    for (path, text) in workspace.rust_files() {
        if !path.starts_with("crates/") || !path.contains("/src/") || path.ends_with("/tests.rs") {
            continue;
        }
        // Literals are blank in `code`, which has the same offsets.
        let source = Source::split(text).without(|attribute| attribute == "#[cfg(test)]");
        let everywhere = LISTS.contains(&path);
        for (offset, _) in source.code.match_indices('"') {
            let Some(code) = text.get(offset + 1..).and_then(code_at) else {
                continue;
            };
            if everywhere || source.code[..offset].ends_with(MARK) {
                used.entry(code.to_owned())
                    .or_insert_with(|| (path.to_owned(), line_of(text, offset)));
            }
        }
    }
    used
}

/// The SQLSTATE in a literal's contents, if they are one.
fn code_at(text: &str) -> Option<&str> {
    let code = text.get(..5)?;
    let valid = code
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let classed = code.starts_with(|first: char| first.is_ascii_digit() || first == 'X');
    (valid && classed && text[5..].starts_with('"')).then_some(code)
}

/// Codes in the first columns of the page's tables, with their line numbers.
fn explained(page: &str) -> BTreeMap<String, usize> {
    page.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let cell = line.strip_prefix("| ")?.split(" |").next()?;
            let quoted = format!("{cell}\"");
            let code = code_at(&quoted)?;
            Some((code.to_owned(), index + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERRORS: &str = "states! {\n    /// Division.\n    ZERO = \"22012\";\n}\n";

    fn problems(page: &str, more: &str) -> Vec<String> {
        let workspace = Workspace::of(&[
            ("crates/sql/src/error.rs", ERRORS),
            ("crates/server/src/a.rs", more),
            (PAGE, page),
        ]);
        check(&workspace)
            .into_iter()
            .map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.problem))
            .collect()
    }

    #[test]
    fn a_page_that_has_them_all_passes() {
        let more = "fn f() { g(SqlState(\"53300\"), \"12345\") }\n\
                    #[cfg(test)]\nmod tests { const A: SqlState = SqlState(\"99999\"); }\n";
        let page = "| SQLSTATE |\n| --- |\n| 22012 | zero |\n| 53300 | full |\n";
        assert!(
            problems(page, more).is_empty(),
            "{:?}",
            problems(page, more)
        );
    }

    #[test]
    fn what_is_missing_on_either_side_is_found() {
        let more = "\nfn f() { g(SqlState(\"53300\")) }\n";
        let page = "| 22012 | zero |\n| 22013 | none |\n";
        assert_eq!(
            problems(page, more),
            [
                "crates/server/src/a.rs:2 53300 is not explained to users",
                "docs/operations/errors.md:2 nothing fails with 22013",
            ]
        );
    }
}
