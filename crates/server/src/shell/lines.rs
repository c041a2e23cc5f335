//! Puts lines together until they are statements.

/// Lines that are not a whole statement yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
}

/// What the end of a text is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    Quotes(char),
    LineComment,
    BlockComment(u32),
}

impl Lines {
    /// Whether nothing but blanks is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Adds a line; returns the statements that end on it.
    pub(super) fn push(&mut self, line: &str) -> Vec<String> {
        self.text.push_str(line);
        self.text.push('\n');
        let mut statements = Vec::new();
        while let Some(end) = statement_end(&self.text) {
            let rest = self.text.split_off(end);
            statements.push(std::mem::replace(&mut self.text, rest).trim().to_owned());
        }
        statements
    }

    /// What is left at the end of the input.
    pub(super) fn finish(self) -> Option<String> {
        let text = self.text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// The byte behind the first semicolon that ends a statement.
fn statement_end(text: &str) -> Option<usize> {
    let mut end = None;
    bare(text, |place, character| {
        if character == ';' {
            end = Some(place + 1);
        }
        end.is_none()
    });
    end
}

/// The words of a statement, in lower case, without what is in quotes, comments or
/// parentheses.
pub(super) fn bare_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0_usize;
    let mut behind = 0;
    bare(text, |place, character| {
        let apart = place > behind;
        behind = place + character.len_utf8();
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let part = depth == 0 && (character.is_alphanumeric() || "_.".contains(character));
        if apart || !part {
            words.push(String::new());
        }
        if part && let Some(word) = words.last_mut() {
            word.extend(character.to_lowercase());
        }
        true
    });
    words.retain(|word| !word.is_empty());
    words
}

/// Calls `visit` for the characters that are neither in quotes nor in comments, with
/// their places, until it returns false.
fn bare(text: &str, mut visit: impl FnMut(usize, char) -> bool) {
    let mut inside = Inside::Nothing;
    let mut characters = text.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        match (inside, character) {
            (Inside::Nothing, '\'' | '"') => inside = Inside::Quotes(character),
            (Inside::Nothing, '-') if next == Some('-') => inside = Inside::LineComment,
            (Inside::Nothing, '/') if next == Some('*') => {
                characters.next();
                inside = Inside::BlockComment(1);
            }
            // A doubled quote leaves and enters again.
            (Inside::Quotes(quote), _) if quote == character => inside = Inside::Nothing,
            (Inside::LineComment, '\n') => inside = Inside::Nothing,
            (Inside::BlockComment(depth), '/') if next == Some('*') => {
                characters.next();
                inside = Inside::BlockComment(depth + 1);
            }
            (Inside::BlockComment(depth), '*') if next == Some('/') => {
                characters.next();
                inside = if depth == 1 {
                    Inside::Nothing
                } else {
                    Inside::BlockComment(depth - 1)
                };
            }
            (Inside::Nothing, _) if !visit(place, character) => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(input: &str) -> (Vec<String>, Option<String>) {
        let mut lines = Lines::default();
        let statements = input.lines().flat_map(|line| lines.push(line)).collect();
        (statements, lines.finish())
    }

    #[test]
    fn a_statement_ends_at_its_semicolon() {
        let (whole, rest) = statements("select\n1; select 2; select\n3");
        assert_eq!(whole, ["select\n1;", "select 2;"]);
        assert_eq!(rest.as_deref(), Some("select\n3"));
    }

    #[test]
    fn semicolons_in_quotes_and_comments_end_nothing() {
        let text = "select ';', 'it''s;', \";\" -- ;\n/* ; /* ; */ ; */ ;";
        let (whole, rest) = statements(text);
        assert_eq!(whole, [text]);
        assert_eq!(rest, None);
    }
}
