//! The elements of one large array, each with its place.
//!
//! Only where elements begin and end is looked for here: outside of strings, at no depth.
//! What stands between is read one after another, so that a mistake is told at its place,
//! and so that not all of a large file stands in memory twice.

use super::ReadError;

/// Every element with its offset. The text begins with `[`, behind blanks.
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

    /// Goes to the end of an element: of what is opened, or of a word.
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
        // An escape may have been the last byte.
        self.at = self.at.min(self.text.len());
        (start, &self.text[start..self.at])
    }
}
