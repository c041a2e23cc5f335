//! Conversion of line and column into an offset in a query string.

use sqlparser::tokenizer::Location;

/// Offsets of the lines of a query string.
#[derive(Debug)]
pub(super) struct Text {
    /// Number of characters and of bytes before each line.
    lines: Box<[(u32, usize)]>,
}

impl Text {
    pub(super) fn new(query: &str) -> Self {
        Self::within(query, 0)
    }

    /// Line offsets for a part of a query string, preceded by `characters` characters.
    pub(super) fn within(query: &str, characters: u32) -> Self {
        let mut lines = vec![(characters, 0)];
        let mut characters = characters;
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

    /// Converts a location to a position in characters, from 1. `None` for the location
    /// that the library gives to nodes it has made up.
    pub(super) fn position(&self, location: Location) -> Option<u32> {
        let (characters, _) = self.line(location)?;
        characters.checked_add(u32::try_from(location.column).ok()?)
    }
}

/// Converts locations to byte offsets, one after the other. A location after the previous
/// one costs only a scan of the text in between, so a long line of many statements is
/// scanned once and not once for each.
#[derive(Debug)]
pub(super) struct Cursor<'query> {
    query: &'query str,
    text: &'query Text,
    /// The location converted last, with its offset.
    line: u64,
    column: u64,
    offset: usize,
}

impl<'query> Cursor<'query> {
    pub(super) const fn new(query: &'query str, text: &'query Text) -> Self {
        Self {
            query,
            text,
            line: 1,
            column: 1,
            offset: 0,
        }
    }

    /// The location's offset in bytes; the end of the string for a location outside of
    /// it.
    pub(super) fn offset(&mut self, location: Location) -> usize {
        if location.line != self.line || location.column < self.column {
            let Some((_, start)) = self.text.line(location) else {
                return self.query.len();
            };
            (self.line, self.column, self.offset) = (location.line, 1, start);
        }
        let further = location.column.saturating_sub(self.column);
        let further = usize::try_from(further).unwrap_or(usize::MAX);
        match self.query[self.offset..].char_indices().nth(further) {
            Some((offset, _)) => {
                self.offset += offset;
                self.column = location.column.max(1);
                self.offset
            }
            None => self.query.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_any_order_are_found() {
        let query = "a b\nä β c\n\nd";
        let text = Text::new(query);
        let mut cursor = Cursor::new(query, &text);
        for (line, column, offset) in [
            (1, 1, 0),
            (1, 3, 2),
            (2, 1, 4),
            (2, 2, 6),
            (2, 5, 10),
            (2, 3, 7),
            (4, 1, 13),
            (1, 2, 1),
            (4, 2, 14),
            (9, 1, 14),
            (2, 3, 7),
            (0, 0, 14),
        ] {
            assert_eq!(
                cursor.offset(Location { line, column }),
                offset,
                "{line}:{column}"
            );
        }
    }
}
