//! Splits one large JSON array into its elements, each with its offset in the text.
//!
//! The scanner only finds where elements begin and end: outside strings, at depth zero. The
//! caller then parses each element by itself, so that errors are reported at the right
//! position, and a large file is not held in memory twice.

use super::ReadError;

/// All elements with their offsets. The text begins with `[`, after whitespace.
pub(super) fn elements(text: &[u8]) -> Result<Vec<(usize, &[u8])>, ReadError> {
    let mut scan = Scan { text, at: 0 };
    scan.blanks();
    scan.at += 1;
    scan.blanks();
    let mut elements = Vec::new();
    if scan.peek() == Some(b']') {
        scan.at += 1;
    } else {
        loop {
            elements.push(scan.element());
            scan.blanks();
            match scan.peek() {
                Some(b',') => scan.at += 1,
                Some(b']') => break,
                Some(other) => {
                    let what = "between two elements of the array there is a comma";
                    return Err(scan.wrong(&format!("{what}, not {:?}", char::from(other))));
                }
                None => return Err(scan.wrong("the array does not end")),
            }
            scan.blanks();
        }
        scan.at += 1;
    }
    scan.blanks();
    match scan.peek() {
        None => Ok(elements),
        Some(other) => {
            let what = "behind the array there is nothing";
            Err(scan.wrong(&format!("{what}, not {:?}", char::from(other))))
        }
    }
}

struct Scan<'text> {
    text: &'text [u8],
    at: usize,
}

impl<'text> Scan<'text> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn wrong(&self, problem: &str) -> ReadError {
        ReadError::at(self.text, self.at, problem)
    }

    /// Skips to the end of an element: of an array, an object, a string or a word.
    fn element(&mut self) -> (usize, &'text [u8]) {
        let start = self.at;
        let mut depth = 0_usize;
        let mut in_string = false;
        while let Some(byte) = self.peek() {
            if in_string {
                match byte {
                    b'\\' => self.at += 1,
                    b'"' => in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => in_string = true,
                    b'[' | b'{' => depth += 1,
                    b',' | b']' | b'}' if depth == 0 => break,
                    b']' | b'}' => {
                        depth -= 1;
                        if depth == 0 {
                            self.at += 1;
                            break;
                        }
                    }
                    _ => {}
                }
            }
            self.at += 1;
        }
        // A backslash may have been the last byte.
        self.at = self.at.min(self.text.len());
        (start, &self.text[start..self.at])
    }
}
