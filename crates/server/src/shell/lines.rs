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
    let mut inside = Inside::Nothing;
    let mut characters = text.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        match (inside, character) {
            (Inside::Nothing, ';') => return Some(place + 1),
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
            _ => {}
        }
    }
    None
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
