//! Classification of statements by their words outside of quotes, comments and
//! parentheses.

/// The lexical context at the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    Quotes(char),
    LineComment,
    BlockComment(u32),
}

/// The words of a statement in lower case, without those in quotes, comments or
/// parentheses.
fn bare_words(text: &str) -> Vec<String> {
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

/// Calls `visit` for each character outside of quotes and comments, with its offset,
/// until it returns false.
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
            // A doubled quote leaves and reenters the string.
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

/// Whether the lines after a statement are its data.
pub(crate) fn wants_data(statement: &str) -> bool {
    let words = bare_words(statement);
    words.first().is_some_and(|word| word == "copy")
        && words.windows(2).any(|pair| pair == ["from", "stdin"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copies_from_standard_input_want_data() {
        for statement in [
            "COPY public.t (a, \"from stdin\") FROM stdin;",
            "-- rows\ncopy t from STDIN(format csv);",
            "/* ; */ copy \"T\"\nfrom\nstdin with csv",
        ] {
            assert!(wants_data(statement), "{statement}");
        }
        for statement in [
            "copy t to stdout;",
            "copy (select 1 from stdin) to stdout",
            "select 'copy t from stdin'",
            "copy t from 'stdin'",
            "-- copy t from stdin\nselect 1;",
            "",
        ] {
            assert!(!wants_data(statement), "{statement}");
        }
    }
}
