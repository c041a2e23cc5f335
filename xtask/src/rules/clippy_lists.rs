//! Rule: the lists in clippy.toml forbid functions that bypass the environment
//! abstraction, and name replacements.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::workspace::Workspace;

const PATH: &str = "clippy.toml";

/// Functions that must be on the list: the most obvious bypasses.
const REQUIRED: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::fs::File::open",
    "std::fs::OpenOptions::open",
    "std::net::TcpListener::bind",
    "std::net::TcpStream::connect",
    "tokio::spawn",
    "tokio::time::sleep",
    "tokio::task::spawn_blocking",
    "tokio::net::TcpListener::bind",
    "tokio::net::TcpStream::connect",
    "std::collections::HashMap::new",
    "std::collections::HashSet::new",
];

/// Reports entries that are missing, or name no replacement.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(text) = workspace.files.get(PATH) else {
        return vec![Finding::new(
            PATH,
            1,
            "missing",
            "list the side doors of coeval-env in it",
        )];
    };
    let lists = match text.parse::<Table>() {
        Ok(lists) => lists,
        Err(error) => return vec![Finding::new(PATH, 1, error.to_string(), "mend the syntax")],
    };
    let entries: Vec<&Value> = lists
        .get("disallowed-methods")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let mut findings = Vec::new();
    let path_of = |entry: &Value| {
        entry
            .as_str()
            .or_else(|| entry.get("path").and_then(Value::as_str))
            .unwrap_or_default()
            .to_owned()
    };
    for required in REQUIRED {
        if !entries.iter().any(|entry| path_of(entry) == *required) {
            findings.push(Finding::new(
                PATH,
                1,
                format!("{required} is not disallowed"),
                "add it under disallowed-methods with what to use instead",
            ));
        }
    }
    for entry in entries {
        let path = path_of(entry);
        let reason = entry
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !reason.split_whitespace().any(|word| word == "use") {
            let line = text
                .lines()
                .position(|line| line.contains(&format!("\"{path}\"")))
                .map_or(1, |index| index + 1);
            findings.push(Finding::new(
                PATH,
                line,
                format!("{path} is disallowed, and nothing named instead"),
                "give it a reason of the form \"use …\"",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &str) -> Vec<Finding> {
        let required: String = REQUIRED
            .iter()
            .map(|path| format!("{{ path = \"{path}\", reason = \"use the env\" }},\n"))
            .collect();
        let text = format!("disallowed-methods = [\n{required}{entries}]\n");
        check(&Workspace::of(&[(PATH, &text)]))
    }

    #[test]
    fn each_entry_names_its_replacement() {
        assert_eq!(list(""), []);
        assert_eq!(list("\"a::b\",\n").len(), 1);
        let findings = list("{ path = \"a::b\", reason = \"never\" },\n");
        assert_eq!(findings[0].line, REQUIRED.len() + 2);
    }

    #[test]
    fn the_first_ways_are_closed() {
        let findings = check(&Workspace::of(&[(PATH, "disallowed-methods = []\n")]));
        assert_eq!(findings.len(), REQUIRED.len());
        assert_eq!(check(&Workspace::default()).len(), 1);
    }
}
