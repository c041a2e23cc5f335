//! Templates of numbers: `FM999,990.99MI`. A template is read once into its patterns and
//! what they say together; then it prints or reads numbers.

use crate::{Error, Result, SqlState};

/// A pattern of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Comma,
    Point,
    Zero,
    Nine,
    /// `D`: the locale's decimal point.
    LocalePoint,
    /// `G`: the locale's group separator.
    Group,
    /// `L`: the currency symbol.
    Currency,
    Minus,
    Plus,
    Sign,
    Roman {
        lower: bool,
    },
    Ordinal {
        lower: bool,
    },
    /// What shows in the digits beside it (`S`, `PR`, `FM`, `V`), or nowhere.
    Elsewhere,
}

/// An element of a template: a pattern, or a character that stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Pattern(Pattern),
    Character(char),
}

/// Where the sign `S` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    None,
    Before,
    After,
}

/// What the patterns of a template say together.
#[derive(Clone, Debug)]
pub(super) struct NumberTemplate {
    pub(super) elements: Vec<Element>,
    /// Digits before the decimal point.
    pub(super) before: usize,
    /// Digits behind it.
    pub(super) after: usize,
    /// Digits behind `V`, by whose power of ten the number is multiplied.
    pub(super) shift: usize,
    pub(super) anchor: Anchor,
    /// Digits in front of `S`.
    pub(super) digits_before_sign: usize,
    /// Number of the digit that is the first to show a zero, from 1; 0 if there is none.
    pub(super) zero_start: usize,
    /// Number of the last digit that shows a zero.
    pub(super) zero_end: usize,
    pub(super) has_point: bool,
    pub(super) has_zero: bool,
    pub(super) is_blank: bool,
    /// `FM`: without padding.
    pub(super) fills: bool,
    pub(super) has_sign: bool,
    pub(super) has_minus: bool,
    pub(super) has_plus: bool,
    /// `PR`: negative numbers in brackets.
    pub(super) has_brackets: bool,
    pub(super) is_roman: bool,
    pub(super) is_shifted: bool,
    pub(super) is_scientific: bool,
}

fn wrong(message: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

/// The words of templates; longer ones come before those that they begin with.
const WORDS: &[&str] = &[
    ",", ".", "0", "9", "B", "C", "D", "EEEE", "FM", "G", "L", "MI", "PL", "PR", "RN", "SG", "SP",
    "S", "TH", "V",
];

/// The word at the beginning of a text, in upper or in lower case; and whether it is lower.
fn word(text: &str) -> Option<(&'static str, bool)> {
    WORDS.iter().find_map(|word| {
        let start = text.get(..word.len())?;
        if start == *word {
            return Some((*word, false));
        }
        (start == word.to_ascii_lowercase()).then_some((*word, true))
    })
}

impl NumberTemplate {
    /// Reads a template.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut template = Self {
            elements: Vec::new(),
            before: 0,
            after: 0,
            shift: 0,
            anchor: Anchor::None,
            digits_before_sign: 0,
            zero_start: 0,
            zero_end: 0,
            has_point: false,
            has_zero: false,
            is_blank: false,
            fills: false,
            has_sign: false,
            has_minus: false,
            has_plus: false,
            has_brackets: false,
            is_roman: false,
            is_shifted: false,
            is_scientific: false,
        };
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((word, lower)) = word(rest) {
                let pattern = template.take(word, lower)?;
                template.elements.push(Element::Pattern(pattern));
                rest = &rest[word.len()..];
            } else if let Some(quoted) = rest.strip_prefix('"') {
                rest = template.quoted(quoted);
            } else {
                // A backslash quotes a quote only.
                let plain = match rest.strip_prefix('\\') {
                    Some(behind) if behind.starts_with('"') => behind,
                    _ => rest,
                };
                let mut characters = plain.chars();
                template
                    .elements
                    .extend(characters.next().map(Element::Character));
                rest = characters.as_str();
            }
        }
        Ok(template)
    }

    /// Characters up to the closing quote; returns what follows it.
    fn quoted<'a>(&mut self, text: &'a str) -> &'a str {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let shown = match character {
                '"' => break,
                '\\' => characters.next().unwrap_or('\\'),
                other => other,
            };
            self.elements.push(Element::Character(shown));
        }
        characters.as_str()
    }

    fn take(&mut self, word: &str, lower: bool) -> Result<Pattern> {
        if self.is_scientific && word != "EEEE" {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        Ok(match word {
            "9" | "0" if self.has_brackets => {
                return Err(wrong(&format!("\"{word}\" must be ahead of \"PR\"")));
            }
            "9" => {
                if self.is_shifted {
                    self.shift += 1;
                } else if self.has_point {
                    self.after += 1;
                } else {
                    self.before += 1;
                }
                Pattern::Nine
            }
            "0" => {
                if !self.has_zero && !self.has_point {
                    self.has_zero = true;
                    self.zero_start = self.before + 1;
                }
                if self.has_point {
                    self.after += 1;
                } else {
                    self.before += 1;
                }
                self.zero_end = self.before + self.after;
                Pattern::Zero
            }
            "B" => {
                self.is_blank |= self.before == 0 && self.after == 0 && !self.has_zero;
                Pattern::Elsewhere
            }
            "D" | "." => {
                if self.has_point {
                    return Err(wrong("multiple decimal points"));
                }
                if self.is_shifted {
                    return Err(wrong("cannot use \"V\" and decimal point together"));
                }
                self.has_point = true;
                match word {
                    "D" => Pattern::LocalePoint,
                    _ => Pattern::Point,
                }
            }
            "FM" => {
                self.fills = true;
                Pattern::Elsewhere
            }
            "S" => {
                if self.has_sign {
                    return Err(wrong("cannot use \"S\" twice"));
                }
                if self.has_plus || self.has_minus || self.has_brackets {
                    return Err(wrong(
                        "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together",
                    ));
                }
                self.has_sign = true;
                if self.has_point {
                    self.anchor = Anchor::After;
                } else {
                    self.anchor = Anchor::Before;
                    self.digits_before_sign = self.before;
                }
                Pattern::Elsewhere
            }
            "MI" | "PL" | "SG" if self.has_sign => {
                return Err(wrong(&format!("cannot use \"S\" and \"{word}\" together")));
            }
            "MI" => {
                self.has_minus = true;
                Pattern::Minus
            }
            "PL" => {
                self.has_plus = true;
                Pattern::Plus
            }
            "SG" => {
                self.has_minus = true;
                self.has_plus = true;
                Pattern::Sign
            }
            "PR" => {
                if self.has_sign || self.has_plus || self.has_minus {
                    return Err(wrong(
                        "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together",
                    ));
                }
                self.has_brackets = true;
                Pattern::Elsewhere
            }
            "RN" => {
                self.is_roman = true;
                Pattern::Roman { lower }
            }
            "V" => {
                if self.has_point {
                    return Err(wrong("cannot use \"V\" and decimal point together"));
                }
                self.is_shifted = true;
                Pattern::Elsewhere
            }
            "EEEE" => {
                if self.is_scientific {
                    return Err(wrong("cannot use \"EEEE\" twice"));
                }
                let others = self.is_blank
                    || self.fills
                    || self.has_sign
                    || self.has_brackets
                    || self.has_minus
                    || self.has_plus
                    || self.is_roman
                    || self.is_shifted;
                if others {
                    return Err(wrong("\"EEEE\" is incompatible with other formats").with_detail(
                        "\"EEEE\" may only be used together with digit and decimal point patterns.",
                    ));
                }
                self.is_scientific = true;
                Pattern::Elsewhere
            }
            "," => Pattern::Comma,
            "G" => Pattern::Group,
            "L" => Pattern::Currency,
            "TH" => Pattern::Ordinal { lower },
            _ => Pattern::Elsewhere,
        })
    }
}
