//! `to_number`: reads a number by a template.

use super::number_template::{Anchor, Element, NumberTemplate, Pattern};
use crate::expression::{EvaluationContext, ROW};
use crate::{Error, Result, SqlState};

/// State of reading.
struct Reader<'a> {
    template: &'a NumberTemplate,
    anchor: Anchor,
    text: &'a [u8],
    at: usize,
    sign: Option<char>,
    digits: String,
    before: usize,
    after: usize,
    has_point: bool,
}

/// Reads the number; returns its text, and how many digits it has behind the point.
pub(super) fn read(
    template: &NumberTemplate,
    text: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<(String, usize)> {
    let refused = |pattern: &str| {
        let message = format!("\"{pattern}\" not supported for input");
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    };
    if template.is_scientific {
        return Err(refused("EEEE"));
    }
    if template.is_roman {
        return Err(refused("RN"));
    }
    let mut reader = Reader {
        template,
        anchor: template.anchor,
        text: text.as_bytes(),
        at: 0,
        sign: None,
        digits: String::new(),
        before: 0,
        after: 0,
        has_point: false,
    };
    for element in &template.elements {
        context.work(ROW)?;
        if reader.is_over() {
            break;
        }
        match element {
            // A character stands for any one of the text.
            Element::Character(_) => reader.skip(),
            Element::Pattern(pattern) => reader.pattern(*pattern),
        }
    }
    let digits = reader.digits.strip_suffix('.').unwrap_or(&reader.digits);
    let sign = reader.sign.unwrap_or(' ');
    Ok((format!("{sign}{digits}"), reader.after))
}

impl Reader<'_> {
    fn is_over(&self) -> bool {
        self.at >= self.text.len()
    }

    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Skips one character, of whatever length.
    fn skip(&mut self) {
        self.at += 1;
        while !self.is_over() && self.peek() & 0xC0 == 0x80 {
            self.at += 1;
        }
    }

    /// Skips up to so many characters that no number has.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            if self.is_over() || b"0123456789.,+-".contains(&self.peek()) {
                break;
            }
            self.skip();
        }
    }

    fn pattern(&mut self, pattern: Pattern) {
        match pattern {
            Pattern::Nine | Pattern::Zero | Pattern::Point | Pattern::LocalePoint => {
                self.digit(pattern);
                self.at += 1;
            }
            Pattern::Comma | Pattern::Group => {
                if self.peek() == b',' && !self.template.fills {
                    self.at += 1;
                }
            }
            Pattern::Currency => self.skip_others(1),
            Pattern::Ordinal { .. } => {
                if !self.template.has_point {
                    self.skip_others(2);
                }
            }
            Pattern::Minus => self.own_sign(b"-"),
            Pattern::Plus => self.own_sign(b"+"),
            Pattern::Sign => self.own_sign(b"-+"),
            Pattern::Roman { .. } | Pattern::Elsewhere => {}
        }
    }

    fn own_sign(&mut self, signs: &[u8]) {
        let next = self.peek();
        if signs.contains(&next) {
            self.sign = Some(char::from(next));
            self.at += 1;
        } else {
            self.skip_others(1);
        }
    }

    /// Reads a digit or the point, with a sign beside it; the caller steps over it.
    fn digit(&mut self, pattern: Pattern) {
        if self.peek() == b' ' {
            self.at += 1;
        }
        if self.is_over() {
            return;
        }
        let is_digit = matches!(pattern, Pattern::Nine | Pattern::Zero);
        if self.sign.is_none() && is_digit && self.before + self.after == 0 {
            self.leading_sign();
            if self.is_over() {
                return;
            }
        }
        let mut has_read = false;
        let next = self.peek();
        if next.is_ascii_digit() {
            if self.has_point && self.after == self.template.after {
                return;
            }
            self.digits.push(char::from(next));
            if self.has_point {
                self.after += 1;
            } else {
                self.before += 1;
            }
            has_read = true;
        } else if self.template.has_point && !self.has_point && next == b'.' {
            self.digits.push('.');
            self.has_point = true;
            has_read = true;
        }
        if self.sign.is_none() && self.before + self.after > 0 {
            self.trailing_sign(has_read);
        }
    }

    fn leading_sign(&mut self) {
        let next = self.peek();
        let locale = self.template.has_sign && self.anchor == Anchor::Before;
        let negative = next == b'-' || next == b'<' && self.template.has_brackets && !locale;
        if negative {
            self.sign = Some('-');
            self.at += 1;
        } else if next == b'+' {
            self.sign = Some('+');
            self.at += 1;
        }
    }

    /// A sign behind the last digit.
    fn trailing_sign(&mut self, has_read: bool) {
        let template = self.template;
        if template.has_sign {
            let next = self.text.get(self.at + 1).copied();
            if has_read && let Some(sign @ (b'-' | b'+')) = next {
                self.sign = Some(char::from(sign));
                self.at += 1;
            }
        } else if !has_read && (template.has_plus || template.has_minus) {
            let next = self.peek();
            if matches!(next, b'-' | b'+') {
                self.sign = Some(char::from(next));
            }
        }
    }
}
