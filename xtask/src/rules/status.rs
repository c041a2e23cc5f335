//! Rule: STATUS.md has a row for each system and each promise, the state in the first cell,
//! no row longer than [`MAX_ROW_CHARACTERS`], and no claim without the command that shows it.

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

/// Largest length of a row, in characters. Details belong on the pages that it links.
const MAX_ROW_CHARACTERS: usize = 200;

/// Reports rows that are missing or too long, and claims without a state or a command.
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
        if !rows.iter().any(|(_, cells)| cells.get(1) == Some(&name)) {
            findings.push(Finding::new(
                PATH,
                1,
                format!("no row for {name}"),
                "add one whose second cell is exactly that, after the state",
            ));
        }
    }
    for (line, cells) in &rows {
        let (state, name) = (cells[0], cells.get(1).copied().unwrap_or_default());
        if state == "state" || state.starts_with("--") {
            continue;
        }
        let length = text
            .lines()
            .nth(line - 1)
            .map_or(0, |row| row.chars().count());
        if length > MAX_ROW_CHARACTERS {
            findings.push(Finding::new(
                PATH,
                *line,
                format!("the row of {name} has {length} characters"),
                format!("keep {MAX_ROW_CHARACTERS} at most, and link a page for the rest"),
            ));
        }
        if !STATES.contains(&state) {
            findings.push(Finding::new(
                PATH,
                *line,
                format!("{state} claims no state"),
                format!("begin the row with one of: {}", STATES.join(", ")),
            ));
            continue;
        }
        let is_shown = cells.last().is_some_and(|cell| cell.contains('`'));
        if state != "not yet" && !is_shown {
            findings.push(Finding::new(
                PATH,
                *line,
                format!("{name} is claimed, and no command shows it"),
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
            .map(|name| format!("| not yet | {name} | |\n"))
            .collect();
        format!("| state | what | shown by |\n| --- | --- | --- |\n{rows}")
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
        let claims = complete().replace("| not yet | EMS | |", "| works | EMS | of course |");
        assert_eq!(
            problems(&claims),
            ["EMS is claimed, and no command shows it"]
        );
        let shown = complete().replace("| not yet | EMS | |", "| works | EMS | `cargo test` |");
        assert!(problems(&shown).is_empty());
        let vague = complete().replace("| not yet | EMS | |", "| soon | EMS | |");
        assert_eq!(problems(&vague), ["soon claims no state"]);
    }

    #[test]
    fn a_row_is_short() {
        let long = "x".repeat(MAX_ROW_CHARACTERS);
        let row = format!("| works | EMS | {long} `cargo test` |");
        let text = complete().replace("| not yet | EMS | |", &row);
        assert_eq!(problems(&text).len(), 1);
    }
}
