//! Rule: decision records, docs/decisions/NNNN-title.md, are numbered from 0001 without
//! gaps or duplicates, and each begins with its own number.

use crate::finding::Finding;
use crate::workspace::Workspace;

const FOLDER: &str = "docs/decisions/";

/// Reports decisions out of order.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    for (path, text) in workspace.files.range(FOLDER.to_owned()..) {
        let Some(name) = path.strip_prefix(FOLDER) else {
            break;
        };
        if name == "README.md" {
            continue;
        }
        let number = name
            .get(..4)
            .and_then(|digits| digits.parse::<usize>().ok());
        if number != Some(expected) || !name[4..].starts_with('-') {
            findings.push(Finding::new(
                path,
                1,
                format!("decision number {expected:04} was expected here"),
                format!("name it {expected:04}-….md, and renumber those after it"),
            ));
        } else if !text.starts_with(&format!("# {expected:04}: ")) {
            findings.push(Finding::new(
                path,
                1,
                "the title does not carry the decision's number",
                format!("begin with `# {expected:04}: `"),
            ));
        }
        expected += 1;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        check(&Workspace::of(files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn numbers_run_without_gaps_and_doubles() {
        let first = ("docs/decisions/0001-a.md", "# 0001: A\n");
        assert!(lines(&[first, ("docs/decisions/0002-b.md", "# 0002: B\n")]).is_empty());
        assert_eq!(
            lines(&[first, ("docs/decisions/0003-b.md", "# 0003: B\n")]).len(),
            1
        );
        assert_eq!(
            lines(&[first, ("docs/decisions/0001-b.md", "# 0001: B\n")]).len(),
            1
        );
        assert_eq!(lines(&[("docs/decisions/0001-a.md", "# A\n")]).len(), 1);
        assert_eq!(lines(&[("docs/decisions/a.md", "# A\n")]).len(), 1);
    }
}
