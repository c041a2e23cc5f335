//! A lexer for Rust source that separates code from comments and literals.
//!
//! The rules search for words in code and for reasons in comments. A compiler's parser
//! would discard the comments, and a search of the raw text would find words in strings.
//! So the lexer splits a file into two texts with the same lines: in one everything
//! except code is blank, in the other everything except comments. Byte offsets in both
//! are those of the file.
//!
//! ```text
//! file       let a = "unsafe"; // SAFETY: none
//! code       let a = "      ";
//! comments                     // SAFETY: none
//! ```

/// A source file, split.
#[derive(Debug)]
pub struct Source {
    /// The code; comments and the contents of literals are blank.
    pub code: String,
    /// The comments; everything else is blank.
    pub comments: String,
}

#[derive(Clone, Copy)]
enum Region {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Quoted { by: char },
    RawString { hashes: usize },
}

impl Source {
    /// Splits the text of a file.
    pub fn split(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut code = String::with_capacity(text.len());
        let mut comments = String::with_capacity(text.len());
        let mut region = Region::Code;
        let mut at = 0;
        // Copies characters to one of the two texts and blanks to the other.
        let mut emit = |characters: &[char], to_code: bool, to_comments: bool| {
            for &character in characters {
                for (text, kept) in [(&mut code, to_code), (&mut comments, to_comments)] {
                    if kept || character == '\n' {
                        text.push(character);
                    } else {
                        // One blank per byte, so that offsets stay the same.
                        text.extend(std::iter::repeat_n(' ', character.len_utf8()));
                    }
                }
            }
        };
        while at < characters.len() {
            let rest = &characters[at..];
            let step = match region {
                Region::Code => {
                    let (length, next, is_comment) = leave_code(rest, previous(&characters, at));
                    region = next;
                    emit(&rest[..length], !is_comment, is_comment);
                    length
                }
                Region::LineComment => {
                    if rest[0] == '\n' {
                        region = Region::Code;
                    }
                    emit(&rest[..1], false, true);
                    1
                }
                Region::BlockComment { depth } => {
                    let length = if rest.starts_with(&['/', '*']) {
                        region = Region::BlockComment { depth: depth + 1 };
                        2
                    } else if rest.starts_with(&['*', '/']) {
                        region = if depth == 1 {
                            Region::Code
                        } else {
                            Region::BlockComment { depth: depth - 1 }
                        };
                        2
                    } else {
                        1
                    };
                    emit(&rest[..length], false, true);
                    length
                }
                Region::Quoted { by } => {
                    if rest[0] == '\\' {
                        let length = rest.len().min(2);
                        emit(&rest[..length], false, false);
                        length
                    } else {
                        if rest[0] == by {
                            region = Region::Code;
                        }
                        emit(&rest[..1], rest[0] == by, false);
                        1
                    }
                }
                Region::RawString { hashes } => {
                    let closes = rest[0] == '"'
                        && rest.len() > hashes
                        && rest[1..=hashes].iter().all(|&character| character == '#');
                    let length = if closes { hashes + 1 } else { 1 };
                    if closes {
                        region = Region::Code;
                    }
                    emit(&rest[..length], closes, false);
                    length
                }
            };
            at += step;
        }
        Self { code, comments }
    }

    /// Blanks every item out of the code whose attribute satisfies `is_such`. The
    /// attribute is passed without white space and without the contents of its literals,
    /// as `#[cfg(test)]`.
    pub fn without(mut self, is_such: impl Fn(&str) -> bool) -> Self {
        let mut from = 0;
        while let Some(found) = self.code[from..].find("#[") {
            let start = from + found;
            let inside = start + attribute_length(&self.code[start..]);
            if !is_such(&compact(&self.code[start..inside])) {
                from = start + "#[".len();
                continue;
            }
            let end = item_end(&self.code, inside);
            let blank: String = self.code[start..end]
                .chars()
                .flat_map(|character| {
                    let blank = if character == '\n' { '\n' } else { ' ' };
                    std::iter::repeat_n(blank, character.len_utf8())
                })
                .collect();
            self.code.replace_range(start..end, &blank);
            from = end;
        }
        self
    }
}

/// Length of the attribute at the start of `code`.
fn attribute_length(code: &str) -> usize {
    let mut depth = 0usize;
    for (offset, character) in code.char_indices() {
        match character {
            '[' => depth += 1,
            ']' if depth == 1 => return offset + 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

fn previous(characters: &[char], at: usize) -> Option<char> {
    at.checked_sub(1).map(|before| characters[before])
}

/// How many characters of `rest` to consume in one step of code, the region after them,
/// and whether they begin a comment.
fn leave_code(rest: &[char], previous: Option<char>) -> (usize, Region, bool) {
    if rest.starts_with(&['/', '/']) {
        return (2, Region::LineComment, true);
    }
    if rest.starts_with(&['/', '*']) {
        return (2, Region::BlockComment { depth: 1 }, true);
    }
    if rest[0] == '"' {
        return (1, Region::Quoted { by: '"' }, false);
    }
    let begins_word = !previous.is_some_and(|before| before.is_alphanumeric() || before == '_');
    if begins_word && let Some((length, hashes)) = raw_string(rest) {
        return (length, Region::RawString { hashes }, false);
    }
    // A lifetime has no closing quote where a character literal has one.
    if rest[0] == '\'' && (rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')) {
        return (1, Region::Quoted { by: '\'' }, false);
    }
    (1, Region::Code, false)
}

/// Length of the opening of a raw string (`r"`, `br#"`, `cr##"`), and its number of
/// hashes.
fn raw_string(rest: &[char]) -> Option<(usize, usize)> {
    let prefix = match rest {
        ['r', ..] => 1,
        ['b' | 'c', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[prefix..]
        .iter()
        .take_while(|&&character| character == '#')
        .count();
    (rest.get(prefix + hashes) == Some(&'"')).then_some((prefix + hashes + 1, hashes))
}

/// End of the item that starts at or after `start`: after its closing brace, or after its
/// semicolon if that comes first.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (offset, character) in code[start..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start + offset + 1;
                }
            }
            ';' if depth == 0 => return start + offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// A text without its white space.
pub fn compact(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_whitespace())
        .collect()
}

/// Line number, from 1, of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Byte offsets of `word` as a whole word, not as a part of a longer name.
pub fn words<'text>(text: &'text str, word: &'text str) -> impl Iterator<Item = usize> + 'text {
    let in_name = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).filter_map(move |(offset, _)| {
        let before = text[..offset].chars().next_back();
        let after = text[offset + word.len()..].chars().next();
        (!before.is_some_and(in_name) && !after.is_some_and(in_name)).then_some(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_code_from_comments_and_literals() {
        let text = "let a = \"unsafe // no\"; // unsafe\nlet b = r#\"x\"y\"#; /* ä /* b */ c */ f('\"', 'a');\n";
        let source = Source::split(text);
        assert_eq!(
            source.code,
            "let a = \"            \"; \x20        \nlet b = r#\"   \"#;                    f(' ', ' ');\n"
        );
        assert!(source.comments.contains("// unsafe\n"));
        assert!(source.comments.contains("/* ä /* b */ c */"));
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.comments.len(), text.len());
    }

    #[test]
    fn a_lifetime_opens_no_literal() {
        let source = Source::split("fn f<'a>(x: &'a str) -> &'a str { \"q\" } // end");
        assert_eq!(
            source.code.trim_end(),
            "fn f<'a>(x: &'a str) -> &'a str { \" \" }"
        );
    }

    #[test]
    fn blanks_test_items_only() {
        let source = Source::split("fn a() {}\n#[cfg(test)]\nmod t { fn b() { c } }\nfn d() {}\n");
        let code = source.without(|attribute| attribute == "#[cfg(test)]").code;
        assert!(code.contains("fn a") && code.contains("fn d"));
        assert!(!code.contains("fn b"));
        let text = "#[expect(a, reason = \"[{;\")]\nfn a() { b(); c() }\nfn d() {}";
        let code = Source::split(text)
            .without(|attribute| attribute.starts_with("#[expect(a,"))
            .code;
        assert!(!code.contains("fn a") && !code.contains('c') && code.contains("fn d"));
    }

    #[test]
    fn finds_words_that_stand_alone() {
        assert_eq!(
            words("unsafe unsafe_code (unsafe)", "unsafe").collect::<Vec<_>>(),
            [0, 20]
        );
    }
}
