//! Character encodings of clients. The database is in UTF-8; text is converted where it
//! comes in from a client and where it leaves for one.
//!
//! | name | what it is |
//! | --- | --- |
//! | `UTF8` | as it is kept |
//! | `SQL_ASCII` | no conversion: the client has to send and read UTF-8 |
//! | `LATIN1` | ISO 8859-1: the first 256 characters, one byte each |
//! | `WIN1252` | Windows CP1252: as LATIN1, with 27 other characters from 0x80 to 0x9F |

use std::borrow::Cow;

use crate::{Error, Result, SqlState};

/// The character encoding that a client has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// Bytes, which are taken and given as they are.
    SqlAscii,
    /// ISO 8859-1.
    Latin1,
    /// Windows CP1252.
    Win1252,
}

/// The characters of WIN1252 from 0x80 to 0x9F; NUL where there is none.
const WIN1252: [char; 32] = [
    '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0', '‘',
    '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
];

/// Names of the encodings that PostgreSQL converts to UTF-8, as it compares names: letters
/// and digits only.
const OTHERS: &[&str] = &[
    "big5",
    "eucjis2004",
    "eucjp",
    "euckr",
    "euctw",
    "euccn",
    "gb18030",
    "gbk",
    "iso88595",
    "iso88596",
    "iso88597",
    "iso88598",
    "johab",
    "koi8",
    "koi8r",
    "koi8u",
    "latin2",
    "latin3",
    "latin4",
    "latin5",
    "latin6",
    "latin7",
    "latin8",
    "latin9",
    "latin10",
    "iso88592",
    "iso88593",
    "iso88594",
    "iso88599",
    "iso885910",
    "iso885913",
    "iso885914",
    "iso885915",
    "iso885916",
    "mskanji",
    "shiftjis",
    "sjis",
    "win932",
    "windows932",
    "shiftjis2004",
    "uhc",
    "win866",
    "win874",
    "win949",
    "win950",
    "win936",
    "win1250",
    "win1251",
    "win1253",
    "win1254",
    "win1255",
    "win1256",
    "win1257",
    "win1258",
    "windows1250",
    "windows1251",
    "windows1253",
    "windows1254",
    "windows1255",
    "windows1256",
    "windows1257",
    "windows1258",
    "muleinternal",
    "abc",
    "alt",
    "tcvn",
    "tcvn5712",
    "vscii",
    "win",
];

impl Encoding {
    /// The encoding of a name, as PostgreSQL compares names: without regard to case and to
    /// what is no letter and no digit. `None` for a name that PostgreSQL does not know.
    pub fn named(name: &str) -> Option<Result<Self>> {
        let plain: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        Some(Ok(match plain.as_str() {
            "utf8" | "unicode" => Self::Utf8,
            "sqlascii" => Self::SqlAscii,
            "latin1" | "iso88591" => Self::Latin1,
            "win1252" | "windows1252" => Self::Win1252,
            other if OTHERS.contains(&other) => {
                return Some(Err(Error::unsupported(format_args!(
                    "the encoding {}",
                    name.to_uppercase()
                ))));
            }
            _ => return None,
        }))
    }

    /// Name of the encoding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF8",
            Self::SqlAscii => "SQL_ASCII",
            Self::Latin1 => "LATIN1",
            Self::Win1252 => "WIN1252",
        }
    }

    /// Number of the encoding in PostgreSQL.
    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::SqlAscii => 0,
            Self::Utf8 => 6,
            Self::Latin1 => 8,
            Self::Win1252 => 24,
        }
    }

    /// The encoding with this number in PostgreSQL.
    pub(crate) fn numbered(number: i64) -> Option<Self> {
        let all = [Self::Utf8, Self::SqlAscii, Self::Latin1, Self::Win1252];
        all.into_iter()
            .find(|each| i64::from(each.number()) == number)
    }

    /// Whether text has to be converted.
    #[must_use]
    pub const fn converts(self) -> bool {
        matches!(self, Self::Latin1 | Self::Win1252)
    }

    /// Text in UTF-8 from bytes of this encoding; bytes that need no conversion come back as
    /// they are. Error 22P05.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
        if !self.converts() || bytes.is_ascii() {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
        for &byte in bytes {
            let character = match byte {
                0x80..=0x9f if self == Self::Win1252 => WIN1252[usize::from(byte - 0x80)],
                byte => char::from(byte),
            };
            if character == '\0' && byte != 0 {
                return Err(untranslatable(&[byte], self.name(), "UTF8"));
            }
            text.push(character);
        }
        Ok(Cow::Owned(text.into_bytes()))
    }

    /// The byte of a character in this encoding, if it has one.
    fn byte(self, character: char) -> Option<u8> {
        let code = u32::from(character);
        match self {
            Self::Win1252 if (0x80..=0x9f).contains(&code) => None,
            Self::Win1252 if code > 0xff => {
                let at = WIN1252.iter().position(|each| *each == character)?;
                Some(0x80 + at as u8)
            }
            Self::Utf8 | Self::SqlAscii | Self::Latin1 | Self::Win1252 => u8::try_from(code).ok(),
        }
    }

    /// Fails with 22P05 if a text has a character that this encoding has not.
    pub fn check(self, text: &str) -> Result<()> {
        if !self.converts() || text.is_ascii() {
            return Ok(());
        }
        match text.chars().find(|each| self.byte(*each).is_none()) {
            None => Ok(()),
            Some(character) => {
                let mut bytes = [0; 4];
                let bytes = character.encode_utf8(&mut bytes).as_bytes();
                Err(untranslatable(bytes, "UTF8", self.name()))
            }
        }
    }

    /// Converts the end of a buffer, from `start` on, from UTF-8 to this encoding. A
    /// character that it has not becomes a question mark.
    pub fn encode(self, buffer: &mut Vec<u8>, start: usize) {
        if !self.converts() || buffer[start..].is_ascii() {
            return;
        }
        let text = String::from_utf8_lossy(&buffer[start..]).into_owned();
        buffer.truncate(start);
        buffer.extend(text.chars().map(|each| self.byte(each).unwrap_or(b'?')));
    }
}

/// SQLSTATE 22P05, `untranslatable_character`.
fn untranslatable(bytes: &[u8], from: &str, to: &str) -> Error {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    Error::new(
        SqlState::UNTRANSLATABLE_CHARACTER,
        format!(
            "character with byte sequence {} in encoding \"{from}\" has no equivalent in \
             encoding \"{to}\"",
            bytes.join(" ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(encoding: Encoding, text: &str) -> Vec<u8> {
        let mut buffer = b"x".to_vec();
        buffer.extend_from_slice(text.as_bytes());
        encoding.encode(&mut buffer, 1);
        buffer.split_off(1)
    }

    #[test]
    fn every_byte_goes_there_and_back() {
        for encoding in [Encoding::Latin1, Encoding::Win1252] {
            for byte in 1..=255_u8 {
                let bytes = [byte];
                let Ok(text) = encoding.decode(&bytes) else {
                    assert_eq!(encoding, Encoding::Win1252);
                    assert!([0x81, 0x8d, 0x8f, 0x90, 0x9d].contains(&byte));
                    continue;
                };
                let text = std::str::from_utf8(&text).unwrap();
                encoding.check(text).unwrap();
                assert_eq!(encoded(encoding, text), [byte]);
            }
        }
    }

    #[test]
    fn what_an_encoding_lacks_is_refused() {
        assert_eq!(encoded(Encoding::Win1252, "5 €"), b"5 \x80");
        assert_eq!(encoded(Encoding::Utf8, "5 €"), "5 €".as_bytes());
        let error = Encoding::Latin1.check("5 €").unwrap_err();
        assert_eq!(error.state(), SqlState::UNTRANSLATABLE_CHARACTER);
        assert_eq!(
            error.report().message,
            "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no equivalent \
             in encoding \"LATIN1\""
        );
        Encoding::SqlAscii.check("5 €").unwrap();
    }

    #[test]
    fn names_are_compared_as_postgresql_compares_them() {
        let named = |name| Encoding::named(name).map(|found| found.ok());
        assert_eq!(named("iso-8859_1"), Some(Some(Encoding::Latin1)));
        assert_eq!(named("Unicode"), Some(Some(Encoding::Utf8)));
        assert_eq!(named("koi8r"), Some(None));
        assert_eq!(named("nosuch"), None);
    }
}
