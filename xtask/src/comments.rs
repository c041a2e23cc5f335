//! A sample of doc comments for a reader who has not seen the code:
//! `cargo xtask comments --seed 7`.
//!
//! Forty doc comments of product code are drawn by a seed, each with the item it
//! documents. The reader judges of each whether it names who acts; at least 38 should.
//! The same seed draws the same comments from the same tree.

use crate::workspace::Workspace;

/// How many comments are drawn.
const SAMPLE: usize = 40;

/// Prints the sample.
pub fn print_sample(workspace: &Workspace, seed: u64) {
    let mut comments: Vec<Comment> = workspace
        .rust_files()
        .filter(|(path, _)| path.contains("/src/") && !path.ends_with("/tests.rs"))
        .flat_map(|(path, text)| comments(path, text))
        .collect();
    println!(
        "{} doc comments, {SAMPLE} of them drawn by seed {seed}\n",
        comments.len()
    );
    let mut state = seed;
    for number in 1..=SAMPLE.min(comments.len()) {
        let at = usize::try_from(next(&mut state) % comments.len() as u64).unwrap_or(0);
        let comment = comments.swap_remove(at);
        println!("{number}. {}:{}", comment.path, comment.line);
        println!("{}\n    {}\n", comment.text, comment.item);
    }
}

/// A doc comment and the first line of what it documents.
struct Comment {
    path: String,
    line: usize,
    text: String,
    item: String,
}

/// The `///` comments of a file, without those of its tests.
fn comments(path: &str, text: &str) -> Vec<Comment> {
    // By convention tests close a file.
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let mut comments = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    for (index, line) in text[..end].lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("///") {
            lines.push(line);
        } else if !lines.is_empty() && !trimmed.starts_with("#[") {
            comments.push(Comment {
                path: path.to_owned(),
                line: index + 1 - lines.len(),
                text: lines.join("\n"),
                item: trimmed.to_owned(),
            });
            lines.clear();
        }
    }
    comments
}

/// The next number of a SplitMix64 sequence (Steele, Lea, Flood, 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_come_with_what_they_document() {
        let text = "//! A file.\n\n/// One.\n/// Two.\n#[derive(Debug)]\nstruct A;\n\n\
                    #[cfg(test)]\nmod tests {\n    /// Not this.\n    fn b() {}\n}\n";
        let comments = comments("crates/a/src/lib.rs", text);
        assert_eq!(comments.len(), 1);
        assert_eq!(comments[0].text, "/// One.\n/// Two.");
        assert_eq!(comments[0].item, "struct A;");
        assert_eq!(comments[0].line, 4);
    }

    #[test]
    fn a_seed_decides_the_sample() {
        let draw = |mut seed: u64| [next(&mut seed), next(&mut seed)];
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
