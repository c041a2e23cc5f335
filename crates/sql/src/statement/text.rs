//! Conversion of bytes of a query string into positions, which count characters.

/// Bytes of a block of a text that is not ASCII.
const BLOCK: usize = 256;

/// Where the text of one statement is in its query string.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// First byte of the statement in the text that was parsed.
    start: u32,
    /// Number of characters of the query string before the statement.
    characters: u32,
    /// Number of characters of the statement before each block of bytes; empty if every
    /// character is a byte.
    blocks: Box<[u32]>,
}

impl Text {
    /// The statement `own`, which begins at byte `start` and behind `characters` characters.
    pub(super) fn new(own: &str, start: u32, characters: u32) -> Self {
        let mut blocks = Vec::new();
        if !own.is_ascii() {
            let mut count = 0_u32;
            for (at, byte) in own.bytes().enumerate() {
                if at % BLOCK == 0 {
                    blocks.push(count);
                }
                count += u32::from(is_first(byte));
            }
        }
        Self {
            start,
            characters,
            blocks: blocks.into(),
        }
    }

    /// The position of a byte of the parsed text, in characters from 1. `own` is the text of
    /// the statement; none for a byte that is not in it.
    pub(super) fn position(&self, own: &str, at: u32) -> Option<u32> {
        let byte = at.checked_sub(self.start)?;
        let offset = usize::try_from(byte).ok()?;
        if offset > own.len() {
            return None;
        }
        let within = match self.blocks.get(offset / BLOCK) {
            None => byte,
            Some(before) => {
                let rest = &own.as_bytes()[offset / BLOCK * BLOCK..offset];
                before + characters_of(rest)
            }
        };
        self.characters.checked_add(within)?.checked_add(1)
    }
}

/// Whether a byte is the first one of a character.
const fn is_first(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

/// Number of characters that begin in these bytes.
pub(super) fn characters_of(bytes: &[u8]) -> u32 {
    let count = bytes.iter().filter(|&&byte| is_first(byte)).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_the_position_of_its_character() {
        for own in [
            "select 1".to_owned(),
            "ä".repeat(3 * BLOCK),
            format!("select '{}ö', 'x'", "a".repeat(BLOCK)),
        ] {
            let text = Text::new(&own, 7, 20);
            for (count, (byte, _)) in own.char_indices().enumerate() {
                let position = text.position(&own, 7 + byte as u32);
                assert_eq!(position, Some(20 + count as u32 + 1), "{own} {byte}");
            }
            assert_eq!(text.position(&own, 6), None);
            assert_eq!(text.position(&own, 8 + own.len() as u32), None);
        }
    }
}
