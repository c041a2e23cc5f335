//! Path extraction: the paths that a source file mentions, with `use` groups expanded.
//!
//! `use std::{fs, net::{TcpStream as T, *}};` mentions `std::fs`, `std::net::TcpStream`
//! and `std::net::*`. Names are not resolved: an item that a file reaches through another
//! crate's re-export is not noticed here, and is left to clippy's lists, which resolve
//! names but cover functions only.

use crate::source::{compact, words};

/// Every path of two or more names in `code` (see [`crate::source::Source::code`]), with
/// its byte offset.
pub fn mentioned(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut plain = code.to_owned();
    for offset in words(code, "use") {
        let Some(length) = code[offset..].find(';') else {
            continue;
        };
        let tree = &code[offset + "use".len()..offset + length];
        // Precise capturing, `impl Trait + use<'a>`, is no import.
        if tree.trim_start().starts_with('<') {
            continue;
        }
        expand("", tree, offset + "use".len(), &mut found);
        plain.replace_range(offset..offset + length, &" ".repeat(length));
    }
    inline(&plain, &mut found);
    found.sort();
    found
}

/// Expands one tree of a `use` below `prefix`.
fn expand(prefix: &str, tree: &str, offset: usize, found: &mut Vec<(usize, String)>) {
    let start = offset + (tree.len() - tree.trim_start().len());
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let close = tree.rfind('}').unwrap_or(tree.len());
        let prefix = format!("{prefix}{}", compact(&tree[..open]));
        let inner_start = start + open + 1;
        let mut depth = 0usize;
        let mut from = open + 1;
        for (at, character) in tree[..close]
            .char_indices()
            .skip_while(|(at, _)| *at <= open)
        {
            match character {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    expand(
                        &prefix,
                        &tree[from..at],
                        inner_start + from - open - 1,
                        found,
                    );
                    from = at + 1;
                }
                _ => {}
            }
        }
        expand(
            &prefix,
            &tree[from..close],
            inner_start + from - open - 1,
            found,
        );
    } else if !tree.is_empty() {
        let name = tree.split(" as ").next().unwrap_or(tree);
        let path = format!("{prefix}{}", compact(name));
        let path = path.strip_suffix("::self").unwrap_or(&path);
        found.push((start, path.trim_start_matches("::").to_owned()));
    }
}

/// Collects the paths in expressions and types.
fn inline(code: &str, found: &mut Vec<(usize, String)>) {
    let in_path =
        |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let mut start = None;
    for (at, character) in code.char_indices().chain([(code.len(), ' ')]) {
        match (start, in_path(character)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                let path = code[from..at].trim_matches(':');
                if path.contains("::") {
                    found.push((from, path.to_owned()));
                }
                start = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_out_groups() {
        let paths: Vec<String> = mentioned(
            "use std::{fs, net::{TcpStream as T, *}, time::{self, Instant}};\nfn f() { ::tokio::spawn(x); a::b() }",
        )
        .into_iter()
        .map(|(_, path)| path)
        .collect();
        assert_eq!(
            paths,
            [
                "std::fs",
                "std::net::TcpStream",
                "std::net::*",
                "std::time",
                "std::time::Instant",
                "tokio::spawn",
                "a::b"
            ]
        );
    }

    #[test]
    fn knows_where_a_name_stands() {
        let code = "use std::{\n    fs,\n    thread,\n};";
        let lines: Vec<usize> = mentioned(code)
            .into_iter()
            .map(|(offset, _)| crate::source::line_of(code, offset))
            .collect();
        assert_eq!(lines, [2, 3]);
    }
}
