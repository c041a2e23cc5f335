//! Sentences name their subject: comments, documents and messages do not say
//! *whoever*, *somebody* or *nobody* where a writer, a follower or a client acts.
//!
//! A reader who does not know the code has to guess who such a word stands for, and
//! every guess costs a look into the code. The rule looks at three kinds of text:
//! comments of every Rust file, Markdown, and string literals of code that is not a
//! test (what clients, operators and logs are shown). What stands between backticks
//! is code: a role called `nobody` is one.

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

/// The list above, and texts that quote it.
const EXCEPT: &[&str] = &["xtask/src/rules/subjects.rs", "CONTRIBUTING.md"];

/// Sentences without a subject.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &workspace.files {
        let is_looked_at = path.ends_with(".rs") || path.ends_with(".md");
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
    // By convention tests close a file.
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
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
