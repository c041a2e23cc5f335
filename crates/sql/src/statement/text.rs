//! Where a place given as line and column lies in a query string.

use sqlparser::tokenizer::Location;

/// The beginnings of a query string's lines.
#[derive(Debug)]
pub(super) struct Text {
    /// For each line, characters and bytes before it.
    lines: Box<[(u32, usize)]>,
}

impl Text {
    pub(super) fn new(query: &str) -> Self {
        let mut lines = vec![(0, 0)];
        let mut characters: u32 = 0;
        for (offset, character) in query.char_indices() {
            characters = characters.saturating_add(1);
            if character == '\n' {
                lines.push((characters, offset + 1));
            }
        }
        Self {
            lines: lines.into(),
        }
    }

    fn line(&self, location: Location) -> Option<(u32, usize)> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        self.lines.get(line).copied()
    }

    /// In characters, from 1. `None` for the place the library gives to what it
    /// made up itself.
    pub(super) fn position(&self, location: Location) -> Option<u32> {
        let (characters, _) = self.line(location)?;
        characters.checked_add(u32::try_from(location.column).ok()?)
    }

    /// In bytes, from 0; the end of the string for a place outside it.
    pub(super) fn offset(&self, query: &str, location: Location) -> usize {
        let Some((_, start)) = self.line(location) else {
            return query.len();
        };
        let column = usize::try_from(location.column.saturating_sub(1)).unwrap_or(usize::MAX);
        match query[start..].char_indices().nth(column) {
            Some((offset, _)) => start + offset,
            None => query.len(),
        }
    }
}
