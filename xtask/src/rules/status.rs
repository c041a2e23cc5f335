//! Rule: STATUS.md has a row for each system and each promise, and no claim without the
//! command that shows it.

use crate::finding::Finding;
use crate::workspace::Workspace;

const PATH: &str = "STATUS.md";

/// The systems, by the names of their source documents.
const SYSTEMS: &[&str] = &[
    "EMS",
    "ROCC",
    "QuorumX",
    "ESI",
    "FRS",
    "Query Fresh",
    "ALOHA-KV",
    "ALOHA-DB",
    "SCAR",
    "Hyder II",
    "Γ",
];

/// Number of promises.
const PROMISES: usize = 8;

/// The states a row may claim.
const STATES: &[&str] = &["works", "partly", "not yet"];

/// Reports rows that are missing, and claims without a command.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(text) = workspace.files.get(PATH) else {
        return vec![Finding::new(
            PATH,
            1,
            "missing",
            "write it: a row for each system and promise",
        )];
    };
    let rows: Vec<(usize, Vec<&str>)> = text
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, cells(line)?)))
        .collect();
    let promises: Vec<String> = (1..=PROMISES).map(|number| number.to_string()).collect();
    let wanted = SYSTEMS
        .iter()
        .copied()
        .chain(promises.iter().map(String::as_str));
    let mut findings = Vec::new();
    for name in wanted {
        if !rows.iter().any(|(_, cells)| cells[0] == name) {
            findings.push(Finding::new(
                PATH,
                1,
                format!("no row for {name}"),
                "add one whose first cell is exactly that",
            ));
        }
    }
    for (line, cells) in &rows {
        let Some(state) = cells.iter().find(|cell| STATES.contains(cell)) else {
            let is_head = cells.contains(&"state") || cells[0].starts_with("--");
            if !is_head {
                findings.push(Finding::new(
                    PATH,
                    *line,
                    format!("{} claims no state", cells[0]),
                    format!("give it a cell with one of: {}", STATES.join(", ")),
                ));
            }
            continue;
        };
        let shown = cells.last().is_some_and(|cell| cell.contains('`'));
        if *state != "not yet" && !shown {
            findings.push(Finding::new(
                PATH,
                *line,
                format!("{} is said to stand, and nothing shows it", cells[0]),
                "put the command that shows it into the last cell",
            ));
        }
    }
    findings
}

/// The cells of a table row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> String {
        let promises = (1..=PROMISES).map(|number| number.to_string());
        let names = SYSTEMS.iter().map(ToString::to_string).chain(promises);
        let rows: String = names
            .map(|name| format!("| {name} | not yet | |\n"))
            .collect();
        format!("| what | state | shown by |\n| --- | --- | --- |\n{rows}")
    }

    fn problems(text: &str) -> Vec<String> {
        check(&Workspace::of(&[(PATH, text)]))
            .into_iter()
            .map(|finding| finding.problem)
            .collect()
    }

    #[test]
    fn every_row_is_there() {
        assert!(problems(&complete()).is_empty());
        assert_eq!(
            problems(&complete().replace("| SCAR |", "| SCARE |")),
            ["no row for SCAR"]
        );
        assert_eq!(problems("").len(), SYSTEMS.len() + PROMISES);
    }

    #[test]
    fn a_claim_has_its_command() {
        let claims = complete().replace("| EMS | not yet | |", "| EMS | works | of course |");
        assert_eq!(
            problems(&claims),
            ["EMS is said to stand, and nothing shows it"]
        );
        let shown = complete().replace("| EMS | not yet | |", "| EMS | works | `cargo test` |");
        assert!(problems(&shown).is_empty());
        let vague = complete().replace("| EMS | not yet | |", "| EMS | soon | |");
        assert_eq!(problems(&vague), ["EMS claims no state"]);
    }
}
