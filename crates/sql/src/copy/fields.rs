//! Parser of COPY lines: splits a line into fields.

use super::options::{CopyFormat, Layout};
use crate::error::{Error, Result, SqlState};

/// The fields of one line; keeps its buffers between lines.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Text of all fields, concatenated.
    bytes: Vec<u8>,
    /// For each field, its end in `bytes` and whether it is null.
    ends: Vec<(usize, bool)>,
}

impl Fields {
    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Text of a field; `None` if it is null.
    pub(super) fn get(&self, position: usize) -> Option<&[u8]> {
        let (end, null) = self.ends[position];
        let start = match position {
            0 => 0,
            _ => self.ends[position - 1].0,
        };
        (!null).then(|| &self.bytes[start..end])
    }

    /// Splits a line into fields.
    pub(super) fn split(&mut self, line: &[u8], format: &CopyFormat) -> Result<()> {
        self.bytes.clear();
        self.ends.clear();
        match format.layout {
            Layout::Text => self.split_text(line, format),
            Layout::Csv => self.split_csv(line, format)?,
        }
        Ok(())
    }

    fn split_text(&mut self, line: &[u8], format: &CopyFormat) {
        let mut rest = line;
        loop {
            // Compares the field with the null string before unescaping it.
            let mut end = 0;
            let mut plain = true;
            while end < rest.len() && rest[end] != format.delimiter {
                if rest[end] == b'\\' {
                    plain = false;
                    end += 1;
                }
                end += 1;
            }
            let end = end.min(rest.len());
            let raw = &rest[..end];
            let null = raw == format.null.as_bytes();
            if !null {
                if plain {
                    self.bytes.extend_from_slice(raw);
                } else {
                    unescape(raw, &mut self.bytes);
                }
            }
            self.ends.push((self.bytes.len(), null));
            match rest.get(end) {
                None => return,
                Some(_) => rest = &rest[end + 1..],
            }
        }
    }

    fn split_csv(&mut self, line: &[u8], format: &CopyFormat) -> Result<()> {
        let mut at = 0;
        loop {
            let start = self.bytes.len();
            let mut quoted = false;
            let mut in_quotes = false;
            while let Some(&byte) = line.get(at) {
                if in_quotes {
                    let next = line.get(at + 1).copied();
                    let escapes = byte == format.escape
                        && next.is_some_and(|next| next == format.quote || next == format.escape);
                    if escapes {
                        self.bytes.extend(next);
                        at += 2;
                        continue;
                    }
                    if byte == format.quote {
                        in_quotes = false;
                    } else {
                        self.bytes.push(byte);
                    }
                } else if byte == format.delimiter {
                    break;
                } else if byte == format.quote {
                    quoted = true;
                    in_quotes = true;
                } else {
                    self.bytes.push(byte);
                }
                at += 1;
            }
            if in_quotes {
                return Err(Error::new(
                    SqlState::BAD_COPY_FILE_FORMAT,
                    "unterminated CSV quoted field",
                ));
            }
            let position = self.ends.len();
            let is_null_text = &self.bytes[start..] == format.null.as_bytes();
            let forced = |set: &[bool]| set.get(position).copied().unwrap_or(false);
            let null = is_null_text
                && if quoted {
                    forced(&format.force_null)
                } else {
                    !forced(&format.force_not_null)
                };
            if null {
                self.bytes.truncate(start);
            }
            self.ends.push((self.bytes.len(), null));
            if at >= line.len() {
                return Ok(());
            }
            at += 1;
        }
    }
}

/// Resolves backslash escapes.
fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < raw.len() {
        let byte = raw[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        // A backslash at the end of the field is literal.
        let Some(&next) = raw.get(at) else {
            out.push(b'\\');
            return;
        };
        at += 1;
        match next {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let mut code = u32::from(next - b'0');
                let mut digits = 1;
                while digits < 3
                    && let Some(digit @ b'0'..=b'7') = raw.get(at)
                {
                    code = code * 8 + u32::from(digit - b'0');
                    at += 1;
                    digits += 1;
                }
                out.push(code as u8);
            }
            b'x' if raw.get(at).is_some_and(u8::is_ascii_hexdigit) => {
                let mut code = 0;
                let mut digits = 0;
                while digits < 2
                    && let Some(digit) = raw.get(at).and_then(|byte| char::from(*byte).to_digit(16))
                {
                    code = code * 16 + digit;
                    at += 1;
                    digits += 1;
                }
                out.push(code as u8);
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::statement::{Argument, CopyOption};

    fn format(csv: bool, options: &[(&str, &str)]) -> CopyFormat {
        let mut list: Vec<CopyOption> = options
            .iter()
            .map(|(name, value)| CopyOption {
                name: (*name).to_owned(),
                argument: Argument::Text((*value).to_owned()),
                at: 0,
            })
            .collect();
        if csv {
            list.push(CopyOption {
                name: "format".to_owned(),
                argument: Argument::Text("csv".to_owned()),
                at: 0,
            });
        }
        CopyFormat::new(&list, true, &["a".to_owned(), "b".to_owned()], &|_| None).unwrap()
    }

    fn split(line: &str, format: &CopyFormat) -> Vec<Option<String>> {
        let mut fields = Fields::default();
        fields.split(line.as_bytes(), format).unwrap();
        (0..fields.len())
            .map(|position| {
                fields
                    .get(position)
                    .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            })
            .collect()
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn text_fields() {
        let text = format(false, &[]);
        assert_eq!(split("1\tabc", &text), some(&["1", "abc"]));
        assert_eq!(split("", &text), some(&[""]));
        assert_eq!(split("\\N\t\\\\N", &text), [None, Some("\\N".to_owned())]);
        assert_eq!(split("a\\tb\\\tc\td\\n", &text), some(&["a\tb\tc", "d\n"]));
        assert_eq!(split("\\101\\x42\\q\\", &text), some(&["ABq\\"]));
        let bar = format(false, &[("delimiter", "|"), ("null", "")]);
        assert_eq!(
            split("1||x", &bar),
            [some(&["1"]), vec![None], some(&["x"])].concat()
        );
    }

    #[test]
    fn csv_fields() {
        let csv = format(true, &[]);
        assert_eq!(split("1,\"a,\"\"b\"\"\"", &csv), some(&["1", "a,\"b\""]));
        assert_eq!(split(",\"\"", &csv), [None, Some(String::new())]);
        assert_eq!(split("a\"b\"c,", &csv), [Some("abc".to_owned()), None]);
        let escaped = format(true, &[("escape", "\\"), ("null", "NULL")]);
        assert_eq!(
            split("\"a\\\"b\\\\c\\d\",NULL", &escaped),
            [Some("a\"b\\c\\d".to_owned()), None]
        );
        let mut fields = Fields::default();
        assert!(fields.split(b"\"open", &csv).is_err());
    }

    fn text_of(record: &super::super::lines::Record<'_>) -> String {
        String::from_utf8(record.bytes.to_vec()).unwrap()
    }

    #[test]
    fn lines_are_found_wherever_data_are_cut() {
        let csv = format(true, &[]);
        let text = format(false, &[]);
        /// A record, and the number of its last line.
        type NumberedRecord<'data> = (&'data str, u64);
        let cases: [(&CopyFormat, &str, &[NumberedRecord<'_>]); 6] = [
            (
                &text,
                "a\nb\\\nc\n\nd",
                &[("a", 1), ("b\\\nc", 2), ("", 3), ("d", 4)],
            ),
            (&text, "a\r\nb\r\n", &[("a", 1), ("b", 2)]),
            (&text, "a\rb\r", &[("a", 1), ("b", 2)]),
            (
                &csv,
                "\"a\nb\",c\n\"\"\"\n\",x",
                &[("\"a\nb\",c", 1), ("\"\"\"\n\",x", 3)],
            ),
            (
                &csv,
                "a\n\"b\n\n\"\nc",
                &[("a", 1), ("\"b\n\n\"", 4), ("c", 5)],
            ),
            (&csv, "a\r\n\"b\r\n\"\r\n", &[("a", 1), ("\"b\r\n\"", 3)]),
        ];
        for (format, data, expected) in cases {
            for size in 1..=data.len() {
                let mut lines = super::super::lines::Lines::new(format);
                let mut found = Vec::new();
                for chunk in data.as_bytes().chunks(size) {
                    lines.push(chunk).unwrap();
                    while let Some(record) = lines.next(false).unwrap() {
                        found.push((text_of(&record), record.line));
                    }
                }
                while let Some(record) = lines.next(true).unwrap() {
                    found.push((text_of(&record), record.line));
                }
                let expected: Vec<_> = expected
                    .iter()
                    .map(|(text, line)| ((*text).to_owned(), *line))
                    .collect();
                assert_eq!(found, expected, "{data:?} cut every {size}");
            }
        }
    }
}
