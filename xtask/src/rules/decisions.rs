//! Rule: decision records, docs/decisions/NNNN-title.md, are numbered from 0001 without
//! gaps or duplicates; each begins with its own number, and the folder's README lists it
//! with its title.

use crate::finding::Finding;
use crate::workspace::Workspace;

const FOLDER: &str = "docs/decisions/";
const LIST: &str = "docs/decisions/README.md";

/// Reports decisions out of order.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    let list = workspace.files.get(LIST).map_or("", String::as_str);
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
        } else {
            let title = text.lines().next().unwrap_or_default();
            let title = title.trim_start_matches(|first: char| "# 0123456789:".contains(first));
            let entry = format!("[{}]({name}): {title}", &name[..4]);
            if !list.lines().any(|line| line.contains(&entry)) {
                findings.push(Finding::new(
                    LIST,
                    1,
                    format!("decision {} is not on the list", &name[..4]),
                    format!("add `- {entry}`"),
                ));
            }
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
        let list = (LIST, "- [0001](0001-a.md): A\n- [0002](0002-b.md): B\n");
        assert!(lines(&[first, ("docs/decisions/0002-b.md", "# 0002: B\n"), list]).is_empty());
        assert_eq!(
            lines(&[first, ("docs/decisions/0003-b.md", "# 0003: B\n"), list]).len(),
            1
        );
        assert_eq!(
            lines(&[first, ("docs/decisions/0001-b.md", "# 0001: B\n"), list]).len(),
            1
        );
        assert_eq!(lines(&[("docs/decisions/0001-a.md", "# A\n")]).len(), 1);
        assert_eq!(lines(&[("docs/decisions/a.md", "# A\n")]).len(), 1);
    }

    #[test]
    fn the_list_has_every_title() {
        let decision = ("docs/decisions/0001-a.md", "# 0001: A\n");
        assert_eq!(
            lines(&[decision, (LIST, "- [0001](0001-a.md): B\n")]).len(),
            1
        );
        assert_eq!(lines(&[decision]).len(), 1);
    }
}
