//! The statements of a psql script, as psql would send them: its own commands and the data
//! of COPY are left out.

/// Each statement with the line on which it begins.
pub fn statements(text: &str) -> Vec<(usize, String)> {
    let mut splitter = Splitter {
        bytes: text.as_bytes(),
        text,
        at: 0,
        start: 0,
        buffer: String::new(),
        brackets: 0,
        blocks: 0,
        words: Vec::new(),
        found: Vec::new(),
    };
    splitter.run();
    splitter.found
}

struct Splitter<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    /// Where the current statement begins.
    start: usize,
    buffer: String,
    brackets: usize,
    /// BEGIN ATOMIC and CASE that have no END yet.
    blocks: usize,
    /// The first words of the statement, in lower case.
    words: Vec<String>,
    found: Vec<(usize, String)>,
}

impl Splitter<'_> {
    fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self) {
        while self.at < self.bytes.len() {
            let from = self.at;
            match self.byte(0) {
                b'-' if self.byte(1) == b'-' => self.skip_line(),
                b'/' if self.byte(1) == b'*' => self.skip_comment(),
                b'\'' => self.skip_quoted(b'\'', self.has_escapes()),
                b'"' => self.skip_quoted(b'"', false),
                b'$' => self.skip_dollars(),
                b':' if matches!(self.byte(1), b'\'' | b'"') => {
                    // A variable of psql. Its name stands for its value.
                    self.at += 1;
                    continue;
                }
                b'\\' => {
                    self.command();
                    continue;
                }
                b';' if self.brackets == 0 && self.blocks == 0 => {
                    self.at += 1;
                    self.end();
                    continue;
                }
                b'(' => {
                    self.brackets += 1;
                    self.at += 1;
                }
                b')' => {
                    self.brackets = self.brackets.saturating_sub(1);
                    self.at += 1;
                }
                byte if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 => self.word(),
                _ => self.at += 1,
            }
            self.buffer.push_str(&self.text[from..self.at]);
            if self.buffer.trim().is_empty() {
                self.buffer.clear();
                self.start = self.at;
            }
        }
        self.end();
    }

    fn has_escapes(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).map_or(b' ', |at| self.bytes[at]);
        matches!(before(1), b'e' | b'E')
            && !(before(2).is_ascii_alphanumeric() || before(2) == b'_')
    }

    fn skip_line(&mut self) {
        while self.at < self.bytes.len() && self.byte(0) != b'\n' {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.bytes.len() {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    fn skip_quoted(&mut self, quote: u8, escapes: bool) {
        self.at += 1;
        while self.at < self.bytes.len() {
            let byte = self.byte(0);
            self.at += 1;
            if byte == b'\\' && escapes {
                self.at += 1;
            } else if byte == quote {
                return;
            }
        }
        self.at = self.bytes.len();
    }

    fn skip_dollars(&mut self) {
        let rest = &self.text[self.at + 1..];
        let tag = rest.find(|character: char| !(character.is_alphanumeric() || character == '_'));
        let Some(tag) = tag.filter(|tag| rest.as_bytes()[*tag] == b'$') else {
            self.at += 1;
            return;
        };
        if rest.as_bytes()[0].is_ascii_digit() {
            self.at += 1;
            return;
        }
        let delimiter = &self.text[self.at..=self.at + 1 + tag];
        let behind = self.at + delimiter.len();
        self.at = match self.text[behind..].find(delimiter) {
            Some(length) => behind + length + delimiter.len(),
            None => self.bytes.len(),
        };
    }

    fn word(&mut self) {
        let from = self.at;
        while self.byte(0).is_ascii_alphanumeric() || self.byte(0) == b'_' || self.byte(0) >= 0x80 {
            self.at += 1;
        }
        let word = self.text[from..self.at].to_ascii_lowercase();
        if self.words.len() < 4 {
            self.words.push(word.clone());
        }
        let is = |at: usize, expected: &[&str]| {
            self.words
                .get(at)
                .is_some_and(|word| expected.contains(&&word[..]))
        };
        let routine = ["function", "procedure"];
        let makes_routine =
            is(0, &["create"]) && (is(1, &routine) || is(1, &["or"]) && is(3, &routine));
        if makes_routine && self.brackets == 0 {
            match word.as_str() {
                "begin" => self.blocks += 1,
                "case" if self.blocks > 0 => self.blocks += 1,
                "end" => self.blocks = self.blocks.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// A command of psql. Some of them send what stands before them.
    fn command(&mut self) {
        if self.byte(1) == b';' {
            self.buffer.push(';');
            self.at += 2;
            return;
        }
        let from = self.at + 1;
        self.skip_line();
        let name: String = self.text[from..self.at]
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .collect();
        if matches!(
            name.as_str(),
            "g" | "gx" | "gset" | "gexec" | "gdesc" | "crosstabview" | "watch"
        ) {
            self.end();
        } else if name == "r" {
            self.reset();
        }
    }

    fn reset(&mut self) {
        self.buffer.clear();
        self.words.clear();
        self.brackets = 0;
        self.blocks = 0;
        self.start = self.at;
    }

    fn end(&mut self) {
        let statement = std::mem::take(&mut self.buffer);
        let line = self.text[..self.start].matches('\n').count() + 1;
        let words = statement.to_ascii_lowercase();
        if !self.words.is_empty() || statement.contains('(') {
            self.found.push((line, statement));
        }
        self.reset();
        let words = words.split_ascii_whitespace().collect::<Vec<_>>();
        let from_stdin = words
            .windows(2)
            .any(|pair| pair[0] == "from" && pair[1].trim_end_matches(';') == "stdin");
        if words.first() == Some(&"copy") && from_stdin {
            self.skip_data();
        }
    }

    /// The rows of a COPY, up to the line that ends them.
    fn skip_data(&mut self) {
        self.skip_line();
        while self.at < self.bytes.len() {
            self.at += 1;
            let from = self.at;
            self.skip_line();
            if self.text[from..self.at].trim_end() == "\\." {
                break;
            }
        }
        self.start = self.at;
    }
}

#[cfg(test)]
mod tests {
    use super::statements;

    fn split(text: &str) -> Vec<String> {
        let found = statements(text).into_iter();
        found
            .map(|(_, statement)| statement.trim().to_owned())
            .collect()
    }

    #[test]
    fn semicolons_end_statements_outside_of_quotes_and_brackets() {
        assert_eq!(
            split("select 1; select ';', \";\", $$;$$, E'\\';'"),
            ["select 1", "select ';', \";\", $$;$$, E'\\';'"]
        );
        assert_eq!(
            split("create rule r as on insert to t do (select 1; select 2);"),
            ["create rule r as on insert to t do (select 1; select 2)"]
        );
        let atomic =
            "create function f() begin atomic select case when true then 1 end; select 2; end";
        assert_eq!(split(&format!("{atomic}; select 3")), [atomic, "select 3"]);
    }

    #[test]
    fn commands_and_data_are_left_out() {
        assert_eq!(
            split("\\d t\nselect 1 \\gset\nselect 2 \\; select 3;"),
            ["select 1", "select 2 ; select 3"]
        );
        assert_eq!(
            split("copy t from stdin;\n1\t;\n\\.\nselect 1;"),
            ["copy t from stdin", "select 1"]
        );
        assert_eq!(split("select :'x';"), ["select 'x'"]);
    }
}
