//! Rule: no file names a path of a particular machine.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Prefixes of paths that exist on a particular machine only.
const PREFIXES: &[&str] = &["work/", "root/", "home/", "Users/", "farm/", "mnt/"];

/// Reports absolute paths below a user's own folders.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &workspace.files {
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = machine_path(line) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("{found} exists on one machine only"),
                    "use a relative path, a setting, or a temporary folder",
                ));
            }
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        // An absolute path begins a word; a relative one has a name before it.
        let begins = line[..at]
            .chars()
            .next_back()
            .is_none_or(|before| before.is_whitespace() || "\"'`(=:<>[{,".contains(before));
        let rest = &line[at + 1..];
        let prefix = PREFIXES.iter().find(|prefix| rest.starts_with(**prefix))?;
        begins.then(|| &line[at..at + 1 + prefix.len()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_of_a_machine_are_found() {
        for prefix in PREFIXES {
            let text = format!("fine\nlet a = \"/{prefix}me/file\";\n");
            let findings = check(&Workspace::of(&[("a.rs", &text)]));
            assert_eq!(findings.len(), 1, "{prefix}");
            assert_eq!(findings[0].line, 2);
        }
    }

    #[test]
    fn other_paths_pass() {
        let text = "crates/home/src ./home/x https://example.org/home/x /usr/lib/postgresql /tmp/x a/root/b\n";
        assert_eq!(check(&Workspace::of(&[("a.md", text)])), []);
    }
}
