//! Splitter of SQL scripts, as psql reads them: lines in, statements and commands out.
//!
//! ```text
//!   line 1   -- made by pg_dump
//!   line 2   \restrict abc                ──▶ Command  line 2  "restrict abc"
//!   line 3   CREATE FUNCTION f() RETURNS trigger
//!   line 4       AS $$ begin; end; $$;    ──▶ Statement line 3  "CREATE FUNCTION … $$;"
//!   line 5   COPY t (a) FROM stdin;       ──▶ Statement line 5; the following lines are
//!   line 6   1                                data, which the caller must not push
//! ```
//!
//! A statement ends at a semicolon outside of quotes, dollar quotes, comments and
//! parentheses, and outside of the body of a function in standard SQL (`BEGIN ATOMIC …
//! END`). A backslash outside of all those begins a psql command, which extends to the
//! end of its line and ends a statement before it.
//!
//! Invariants:
//! - The splitter reads each byte once, however many lines a statement has.
//! - A statement begins with its first token: it excludes blanks and comments before
//!   that, and its line is that token's.
//! - The splitter keeps at most [`Splitter::most`] bytes and one line of a statement; a
//!   longer statement is truncated, and is too long for every server with that limit.
//!
//! Source: the lexical rules of PostgreSQL's manual, §4.1, and of psql's reference page.

mod words;

pub(crate) use words::wants_data;

/// Default maximum of a statement's length, in bytes.
const MOST: usize = 1 << 30;

/// A complete statement or command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A statement, with its semicolon if it has one.
    Statement {
        /// The statement's text.
        text: String,
        /// The line it begins on, from 1.
        line: u64,
    },
    /// A psql command, without its backslash.
    Command {
        /// The command's text.
        text: String,
        /// The command's line, from 1.
        line: u64,
    },
}

/// The lexical context at the end of the text so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    Quotes {
        quote: u8,
        /// Whether a backslash escapes the next byte.
        escapes: bool,
    },
    /// A dollar-quoted string, up to this tag, dollars included.
    Dollars(String),
    Comment(u32),
}

/// The first words of a statement, which show whether it defines a function.
#[derive(Clone, Debug, Default)]
struct Opening {
    words: Vec<String>,
    /// Whether the statement defines a function.
    function: bool,
    /// Number of BEGIN and CASE that have no END yet.
    blocks: u32,
}

/// Joins lines into statements.
#[derive(Debug)]
pub(crate) struct Splitter {
    /// The text of the current statement so far.
    text: String,
    /// The line that the statement begins on.
    line: u64,
    /// Number of lines read.
    lines: u64,
    inside: Inside,
    parentheses: u32,
    opening: Opening,
    most: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::with_most(MOST)
    }
}

impl Splitter {
    /// A splitter that keeps at most this many bytes of a statement.
    pub(crate) fn with_most(most: usize) -> Self {
        Self {
            text: String::new(),
            line: 0,
            lines: 0,
            inside: Inside::Nothing,
            parentheses: 0,
            opening: Opening::default(),
            most,
        }
    }

    /// Whether no statement has begun, and no comment is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.inside == Inside::Nothing
    }

    /// Counts a line that belongs to no statement, such as data of a COPY.
    pub(crate) fn skip_line(&mut self) {
        self.lines += 1;
    }

    /// Adds a line, without its end; returns the statements and commands that end on it.
    pub(crate) fn push(&mut self, line: &str) -> Vec<Piece> {
        self.lines += 1;
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < line.len() {
            at += match &self.inside {
                Inside::Nothing => self.bare(line, at, &mut pieces),
                Inside::Quotes { .. } => self.quoted(line, at),
                Inside::Dollars(_) => self.in_dollars(line, at),
                Inside::Comment(_) => self.in_comment(line, at),
            };
        }
        self.keep("\n");
        pieces
    }

    /// Returns the unfinished statement at the end of the input.
    pub(crate) fn finish(&mut self) -> Option<Piece> {
        let left = self.end();
        *self = Self {
            lines: self.lines,
            ..Self::with_most(self.most)
        };
        left
    }

    /// Appends to the statement, if one has begun.
    fn keep(&mut self, text: &str) {
        if !self.text.is_empty() && self.text.len() <= self.most {
            self.text.push_str(text);
        }
    }

    /// Appends to the statement; begins one here if none has begun.
    fn take(&mut self, text: &str) {
        if self.text.is_empty() {
            self.line = self.lines;
        }
        if self.text.len() <= self.most {
            self.text.push_str(text);
        }
    }

    /// Ends the statement and returns it.
    fn end(&mut self) -> Option<Piece> {
        self.parentheses = 0;
        self.opening = Opening::default();
        let text = std::mem::take(&mut self.text);
        let text = text.trim_end();
        (!text.is_empty()).then(|| Piece::Statement {
            text: text.to_owned(),
            line: self.line,
        })
    }

    /// Consumes the token at `at`, outside of quotes and comments; returns its length in
    /// bytes.
    fn bare(&mut self, line: &str, at: usize, pieces: &mut Vec<Piece>) -> usize {
        let rest = &line[at..];
        let bytes = rest.as_bytes();
        let length = match bytes[0] {
            b'-' if bytes.get(1) == Some(&b'-') => {
                self.keep(rest);
                return rest.len();
            }
            b'/' if bytes.get(1) == Some(&b'*') => {
                self.keep("/*");
                self.inside = Inside::Comment(1);
                return 2;
            }
            b'\\' => {
                pieces.extend(self.end());
                pieces.push(Piece::Command {
                    text: rest[1..].trim().to_owned(),
                    line: self.lines,
                });
                return rest.len();
            }
            quote @ (b'\'' | b'"') => {
                let escapes = quote == b'\'' && self.is_escape_string(line, at);
                self.inside = Inside::Quotes { quote, escapes };
                1
            }
            b'$' => match dollar_tag(rest) {
                Some(tag) => {
                    self.inside = Inside::Dollars(tag.to_owned());
                    tag.len()
                }
                None => 1,
            },
            b'(' => {
                self.parentheses += 1;
                1
            }
            b')' => {
                self.parentheses = self.parentheses.saturating_sub(1);
                1
            }
            b';' if self.parentheses == 0 && self.opening.blocks == 0 => {
                // A semicolon alone is no statement.
                if !self.text.is_empty() {
                    self.take(";");
                    pieces.extend(self.end());
                }
                return 1;
            }
            first if first.is_ascii_whitespace() => {
                self.keep(&rest[..1]);
                return 1;
            }
            _ => match word_length(rest) {
                0 => rest.chars().next().map_or(1, char::len_utf8),
                length => {
                    self.opening.word(&rest[..length], self.parentheses);
                    length
                }
            },
        };
        self.take(&rest[..length]);
        length
    }

    /// Whether the quote at `at` opens an escape string, `E'…'`.
    fn is_escape_string(&self, line: &str, at: usize) -> bool {
        let before = &line.as_bytes()[..at];
        matches!(before.last(), Some(b'e' | b'E'))
            && !before
                .get(at.wrapping_sub(2))
                .is_some_and(|&byte| in_word(byte))
    }

    fn quoted(&mut self, line: &str, at: usize) -> usize {
        let Inside::Quotes { quote, escapes } = self.inside else {
            return 0;
        };
        let bytes = &line.as_bytes()[at..];
        let mut end = 0;
        while end < bytes.len() {
            if bytes[end] == b'\\' && escapes {
                end += 2;
            } else if bytes[end] != quote {
                end += 1;
            } else if bytes.get(end + 1) == Some(&quote) {
                end += 2;
            } else {
                self.inside = Inside::Nothing;
                end += 1;
                break;
            }
        }
        // A backslash may be at the end of the line, or before a character of several
        // bytes.
        let end = line.ceil_char_boundary((at + end).min(line.len())) - at;
        self.take(&line[at..at + end]);
        end
    }

    fn in_dollars(&mut self, line: &str, at: usize) -> usize {
        let Inside::Dollars(tag) = &self.inside else {
            return 0;
        };
        let rest = &line[at..];
        let length = match rest.find(tag.as_str()) {
            Some(place) => {
                let length = place + tag.len();
                self.inside = Inside::Nothing;
                length
            }
            None => rest.len(),
        };
        self.take(&rest[..length]);
        length
    }

    fn in_comment(&mut self, line: &str, at: usize) -> usize {
        let Inside::Comment(depth) = self.inside else {
            return 0;
        };
        let rest = &line[at..];
        let (length, depth) = match (rest.find("/*"), rest.find("*/")) {
            (Some(open), close) if close.is_none_or(|close| open < close) => (open + 2, depth + 1),
            (_, Some(close)) => (close + 2, depth - 1),
            _ => (rest.len(), depth),
        };
        self.inside = match depth {
            0 => Inside::Nothing,
            depth => Inside::Comment(depth),
        };
        self.keep(&rest[..length]);
        length
    }
}

impl Opening {
    /// Adds one more word of the statement.
    fn word(&mut self, word: &str, parentheses: u32) {
        if self.words.len() < 4 {
            self.words.push(word.to_ascii_lowercase());
            let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
            self.function |= matches!(
                words[..],
                ["create", "function" | "procedure"]
                    | ["create", "or", "replace", "function" | "procedure"]
            );
        }
        if !self.function || parentheses > 0 {
            return;
        }
        if word.eq_ignore_ascii_case("begin")
            || word.eq_ignore_ascii_case("case") && self.blocks > 0
        {
            self.blocks += 1;
        } else if word.eq_ignore_ascii_case("end") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }
}

/// Whether this byte may be in a word after its first byte; every non-ASCII byte may.
fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

/// Length of the word at the beginning; 0 if there is none. A number counts as a word.
fn word_length(text: &str) -> usize {
    let first = text.as_bytes()[0];
    if !in_word(first) || first == b'$' {
        return 0;
    }
    text.bytes()
        .position(|byte| !in_word(byte))
        .unwrap_or(text.len())
}

/// The tag of a dollar-quoted string that begins here, dollars included. The caller
/// handles a dollar inside a word, which is part of the word.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = &text.as_bytes()[1..];
    let length = name.iter().position(|&byte| byte == b'$')?;
    let name = &name[..length];
    let good = name.iter().all(|&byte| in_word(byte))
        && !name.first().is_some_and(|first| first.is_ascii_digit());
    good.then(|| &text[..length + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(line: u64, text: &str) -> Piece {
        let text = text.to_owned();
        Piece::Statement { text, line }
    }

    fn command(line: u64, text: &str) -> Piece {
        let text = text.to_owned();
        Piece::Command { text, line }
    }

    fn split(input: &str) -> (Vec<Piece>, Option<Piece>) {
        let mut splitter = Splitter::default();
        let pieces = input.lines().flat_map(|line| splitter.push(line)).collect();
        (pieces, splitter.finish())
    }

    fn whole(input: &str) -> Vec<Piece> {
        let (pieces, left) = split(input);
        assert_eq!(left, None, "{input}");
        pieces
    }

    #[test]
    fn a_statement_ends_at_its_semicolon() {
        let (pieces, left) = split("select\n1; select 2;; select\n3");
        assert_eq!(
            pieces,
            [statement(1, "select\n1;"), statement(2, "select 2;")]
        );
        assert_eq!(left, Some(statement(2, "select\n3")));
        assert_eq!(whole("-- nothing\n ; /* here\n */ ;"), []);
    }

    #[test]
    fn semicolons_in_quotes_and_comments_end_nothing() {
        for text in [
            "select ';', 'it''s;', \";\" -- ;\n/* ; /* ; */ ; */ ;",
            "select E'\\';' ;",
            "select e'\\\n;' ;",
            "select '\\' ;",
            "select tablE'\\' ;",
            "select $$;$$, $a$; $$ ; $b$ ; $a$, $1, a$b$c ;",
            "create rule r as on insert to t do (delete from a; delete from b);",
        ] {
            assert_eq!(whole(text), [statement(1, text)], "{text}");
        }
    }

    #[test]
    fn bodies_of_functions_stay_together() {
        let body = "create or replace function f() returns int\nbegin atomic\n \
                    select case when true then 1 end; select 2;\nend;";
        assert_eq!(whole(body), [statement(1, body)]);
        let both = whole("begin; select 1; end;");
        assert_eq!(both.len(), 3, "{both:?}");
        let view = whole("create view begin as select 1; select 2;");
        assert_eq!(view.len(), 2, "{view:?}");
    }

    #[test]
    fn a_statement_begins_with_its_first_word() {
        let text = "\n-- Name: t\n\n/* a\nb */ select 1;\n  select 2;";
        assert_eq!(
            whole(text),
            [statement(5, "select 1;"), statement(6, "select 2;")]
        );
    }

    #[test]
    fn commands_go_to_the_end_of_their_lines() {
        let text = "\\connect bank ; ada\nselect 1 \\gx\nselect '\\d' as d;";
        assert_eq!(
            whole(text),
            [
                command(1, "connect bank ; ada"),
                statement(2, "select 1"),
                command(2, "gx"),
                statement(3, "select '\\d' as d;"),
            ]
        );
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let mut splitter = Splitter::with_most(20);
        let mut pieces = splitter.push("select '0123456789");
        pieces.extend(splitter.push("0123456789"));
        pieces.extend(splitter.push("0123456789'; select 2;"));
        let [Piece::Statement { text, .. }, second] = &pieces[..] else {
            panic!("{pieces:?}");
        };
        assert!(text.len() > 20 && text.len() < 40, "{text}");
        assert_eq!(*second, statement(3, "select 2;"));
    }
}
