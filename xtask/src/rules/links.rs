//! Rule: links between documents are valid, and ARCHITECTURE.md names every crate.

use crate::finding::Finding;
use crate::workspace::Workspace;

const MAP: &str = "ARCHITECTURE.md";

/// Reports broken relative links, and crates that ARCHITECTURE.md omits.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".md"))
    {
        for (index, line) in text.lines().enumerate() {
            for target in targets(line) {
                if !leads_somewhere(workspace, path, target) {
                    findings.push(Finding::new(
                        path,
                        index + 1,
                        format!("the link to {target} leads nowhere"),
                        "name a file or folder of this repository, relative to this document",
                    ));
                }
            }
        }
    }
    let map = workspace.files.get(MAP).map_or("", String::as_str);
    for package in &workspace.packages {
        if !map.contains(&format!("`{}`", package.folder)) {
            findings.push(Finding::new(
                MAP,
                1,
                format!("`{}` is not on the map", package.folder),
                "say what it is, and what it does not know",
            ));
        }
    }
    findings
}

/// Targets of inline links in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

fn leads_somewhere(workspace: &Workspace, from: &str, target: &str) -> bool {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let folder = format!("{path}/");
    workspace.paths.contains(&path)
        || workspace
            .paths
            .range(folder.clone()..)
            .next()
            .is_some_and(|first| first.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let readme =
            "[a](docs/a.md) [b](docs/) [c](https://example.org/x) [d](#here)\n[e](docs/b.md)\n";
        let nested = "[up](../README.md#top) [out](../../README.md)\n";
        let findings = check(&Workspace::of(&[
            ("README.md", readme),
            ("docs/a.md", nested),
        ]));
        let places: Vec<(&str, usize)> = findings
            .iter()
            .map(|finding| (finding.path.as_str(), finding.line))
            .collect();
        assert_eq!(places, [("README.md", 2), ("docs/a.md", 1)]);
    }

    #[test]
    fn the_map_names_every_crate() {
        let on_it = Workspace::of(&[(MAP, "`crates/sql`")]).with_package("sql", &[]);
        assert_eq!(check(&on_it), []);
        let left_out = Workspace::of(&[(MAP, "")]).with_package("sql", &[]);
        assert_eq!(check(&left_out).len(), 1);
    }
}
