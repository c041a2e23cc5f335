//! Sentences name their subject: comments, documents and messages do not say
//! *whoever*, *somebody* or *nobody* where a writer, a follower or a client acts.
//!
//! A reader who does not know the code has to guess who such a word stands for, and
//! every guess costs a look into the code. The rule reads comments of every Rust file,
//! Markdown, manifests, scripts, and string literals of code that is not a test (texts
//! for clients, operators and logs). Text between backticks is code: a role called
//! `nobody` is one.

use crate::finding::Finding;
use crate::source::Source;
use crate::workspace::Workspace;

/// What hides a subject, as words in a row.
const HIDDEN: &[&[&str]] = &[
    &["whoever"],
    &["somebody"],
    &["nobody"],
    &["anybody"],
    &["those", "who"],
    &["what", "is", "told"],
];

/// The files that are read, by the end of their names.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".sh"];

/// The list above, and texts that quote it.
const EXCEPT: &[&str] = &["xtask/src/rules/subjects.rs", "CONTRIBUTING.md"];

/// Sentences without a subject.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &workspace.files {
        let is_looked_at = ENDINGS.iter().any(|ending| path.ends_with(ending));
        if !is_looked_at || EXCEPT.contains(&path.as_str()) {
            continue;
        }
        // Telling comments from code takes a while, and few files need it.
        if hidden(text).is_empty() {
            continue;
        }
        let texts = if path.ends_with(".rs") {
            let source = Source::split(text);
            let literals = literals(path, text, &source);
            vec![without_code_spans(&source.comments), literals]
        } else if path.ends_with(".sh") {
            vec![comment_lines(text)]
        } else {
            vec![without_code_spans(&without_fences(text))]
        };
        for text in texts {
            for (line, hidden) in hidden(&text) {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("`{hidden}` hides who acts"),
                    "name the writer, the follower, the client, the caller …",
                ));
            }
        }
    }
    findings
}

/// The words of a text that hide a subject, with their lines.
fn hidden(text: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let of_line = line
            .split(|character: char| !character.is_alphanumeric() && character != '_')
            .filter(|word| !word.is_empty());
        words.extend(of_line.map(|word| (index + 1, word.to_lowercase())));
    }
    let mut found = Vec::new();
    for at in 0..words.len() {
        for phrase in HIDDEN {
            let here = words[at..].iter().map(|(_, word)| word.as_str());
            if words.len() - at >= phrase.len()
                && here.take(phrase.len()).eq(phrase.iter().copied())
            {
                found.push((words[at].0, phrase.join(" ")));
            }
        }
    }
    found
}

/// What lies between backticks becomes blank, line by line.
fn without_code_spans(text: &str) -> String {
    let mut is_code = false;
    let mut kept = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '`' => is_code = !is_code,
            '\n' => {
                is_code = false;
                kept.push('\n');
            }
            _ if is_code => kept.push(' '),
            other => kept.push(other),
        }
    }
    kept
}

/// The lines of a shell script that are comments; a user of the system may be `nobody`.
fn comment_lines(text: &str) -> String {
    text.lines()
        .map(|line| line.trim_start())
        .map(|line| if line.starts_with('#') { line } else { "" })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Markdown whose fenced blocks are blank lines.
fn without_fences(text: &str) -> String {
    let mut is_code = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// The insides of string literals that are not a test's; all else is blank.
fn literals(path: &str, text: &str, source: &Source) -> String {
    let is_product =
        path.contains("/src/") && !path.ends_with("/tests.rs") && !path.contains("/tests/");
    if !is_product {
        return String::new();
    }
    // By convention a module of tests closes its file, when it is not a file of its own.
    let end = text
        .match_indices("#[cfg(test)]\nmod ")
        .map(|(at, _)| at)
        .find(|at| {
            text[*at..]
                .lines()
                .nth(1)
                .is_some_and(|line| line.contains('{'))
        })
        .unwrap_or(text.len());
    let mut kept = String::with_capacity(end);
    for (at, character) in text[..end].char_indices() {
        let length = character.len_utf8();
        let is_blank = |of: &str| {
            of.as_bytes()[at..at + length]
                .iter()
                .all(|byte| *byte == b' ')
        };
        match character {
            '\n' => kept.push('\n'),
            other if is_blank(&source.code) && is_blank(&source.comments) => kept.push(other),
            _ => kept.push(' '),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Workspace::of(&[(path, text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn comments_name_their_subject() {
        let path = "crates/a/src/lib.rs";
        assert_eq!(lines(path, "/// Whoever asks waits.\nfn a() {}\n"), [1]);
        assert_eq!(
            lines(path, "/// Wakes those\n/// who wait.\nfn a() {}\n"),
            [1]
        );
        assert!(
            lines(
                path,
                "/// The writer waits; `nobody` is a role.\nfn nobody() {}\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn messages_name_their_subject_and_tests_may_say_what_they_like() {
        let text = "fn a() { b(\"nobody leads\") }\n";
        assert_eq!(lines("crates/a/src/lib.rs", text), [1]);
        assert!(lines("crates/a/tests/it/main.rs", text).is_empty());
        assert!(lines("crates/a/src/b/tests.rs", text).is_empty());
        let closed = "#[cfg(test)]\nmod tests { fn a() { b(\"nobody leads\") } }\n";
        assert!(lines("crates/a/src/lib.rs", closed).is_empty());
        let elsewhere = "#[cfg(test)]\nmod tests;\n\nfn a() { b(\"nobody leads\") }\n";
        assert_eq!(lines("crates/a/src/lib.rs", elsewhere), [4]);
    }

    #[test]
    fn manifests_and_scripts_are_read() {
        assert_eq!(lines("clippy.toml", "# for somebody\n"), [1]);
        assert_eq!(
            lines("bench/a.sh", "run as nobody\n  # for somebody\n"),
            [2]
        );
    }

    #[test]
    fn documents_name_their_subject() {
        assert_eq!(
            lines("docs/a.md", "Fine.\n\nIt is kept for anybody.\n"),
            [3]
        );
        assert!(lines("docs/a.md", "```text\nnobody\n```\n`nobody`\n").is_empty());
    }
}
