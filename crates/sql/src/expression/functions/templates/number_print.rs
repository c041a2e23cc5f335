//! `to_char` of numbers: prints a number by a template.

use super::number_template::{Anchor, Element, NumberTemplate, Pattern};
use crate::expression::{EvaluationContext, ROW};
use crate::{Error, Result, SqlState};

/// A number as it is to be printed: its sign, and its digits with the decimal point, rounded
/// to as many as the template shows.
pub(super) struct Digits {
    pub(super) negative: bool,
    pub(super) text: String,
}

/// The suffix of an ordinal number: `1ST`, `2ND`, `11TH`.
pub(super) fn ordinal(number: &str, lower: bool) -> &'static str {
    let digits = number.as_bytes();
    let last = digits.last().copied().unwrap_or(b'0');
    let is_teen = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    match (last, lower) {
        (b'1', true) if !is_teen => "st",
        (b'1', false) if !is_teen => "ST",
        (b'2', true) if !is_teen => "nd",
        (b'2', false) if !is_teen => "ND",
        (b'3', true) if !is_teen => "rd",
        (b'3', false) if !is_teen => "RD",
        (_, true) => "th",
        (_, false) => "TH",
    }
}

/// A Roman number; `#` if there is none.
pub(super) fn roman(number: i64) -> String {
    const UNITS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..4000).contains(&number) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let mut rest = number;
    let mut text = String::new();
    for (value, letters) in UNITS {
        while rest >= value {
            text.push_str(letters);
            rest -= value;
        }
    }
    text
}

/// Width of a Roman number with its padding.
const ROMAN_WIDTH: usize = 15;

/// State of printing.
struct Printer<'a> {
    template: &'a NumberTemplate,
    negative: bool,
    anchor: Anchor,
    has_brackets: bool,
    number: &'a [u8],
    /// Next character of the number.
    next: usize,
    /// With FM: the last character that is not a trailing zero.
    last_relevant: Option<usize>,
    /// Blanks or zeros in front of the number.
    blanks: usize,
    sign_written: bool,
    /// Digits of the template so far.
    current: usize,
    count: usize,
    /// Whether the last digit of the template has shown one of the number.
    in_number: bool,
    out: String,
}

/// Prints a number whose digits fit the template, or does not and shows `#`.
pub(super) fn print(
    template: &NumberTemplate,
    digits: &Digits,
    context: &mut EvaluationContext<'_>,
) -> Result<String> {
    let before = template.before + template.shift;
    let whole = digits.text.find('.').unwrap_or(digits.text.len());
    let overflowed;
    let (text, blanks) = if template.is_roman || whole <= before {
        (&digits.text, before.saturating_sub(whole))
    } else {
        overflowed = format!("{}.{}", "#".repeat(before), "#".repeat(template.after));
        (&overflowed, 0)
    };
    let mut printer = Printer::new(template, before, digits.negative, text.as_bytes(), blanks);
    for element in &template.elements {
        context.work(ROW)?;
        match element {
            Element::Character(character) => printer.out.push(*character),
            Element::Pattern(Pattern::Ordinal { lower }) => printer.ordinal(*lower)?,
            Element::Pattern(pattern) => printer.pattern(*pattern),
        }
    }
    Ok(printer.out)
}

impl<'a> Printer<'a> {
    fn new(
        template: &'a NumberTemplate,
        before: usize,
        negative: bool,
        number: &'a [u8],
        blanks: usize,
    ) -> Self {
        let mut printer = Printer {
            template,
            negative,
            anchor: template.anchor,
            has_brackets: template.has_brackets,
            number,
            next: 0,
            last_relevant: None,
            blanks,
            sign_written: false,
            current: 0,
            count: (before + template.after).saturating_sub(1),
            in_number: false,
            out: String::new(),
        };
        if template.is_roman {
            return printer;
        }
        if template.has_plus || template.has_minus {
            // MI, PL and SG write the sign themselves; without MI a minus is the number's.
            printer.sign_written = template.has_minus;
        } else {
            printer.has_brackets &= negative || !template.fills;
            printer.sign_written = !negative && template.fills && !template.has_sign;
            if printer.anchor == Anchor::Before && before == template.digits_before_sign {
                printer.anchor = Anchor::After;
            }
        }
        if template.fills && template.has_point {
            printer.last_relevant = printer.find_last_relevant();
        }
        if !printer.sign_written && blanks == 0 {
            printer.count += 1;
        }
        printer
    }

    /// The last character behind the point that is not a zero, nor one that a `0` asks for.
    fn find_last_relevant(&self) -> Option<usize> {
        let point = self.number.iter().position(|byte| *byte == b'.')?;
        let last = self.number.iter().rposition(|byte| *byte != b'0');
        let last = last.map_or(point, |last| last.max(point));
        let zero_end = self.template.zero_end;
        if zero_end <= self.blanks {
            return Some(last);
        }
        let last_zero = (self.number.len() - 1).min(zero_end - self.blanks);
        Some(last.max(last_zero))
    }

    fn sign(&self) -> char {
        if self.negative { '-' } else { '+' }
    }

    fn pattern(&mut self, pattern: Pattern) {
        let fills = self.template.fills;
        match pattern {
            Pattern::Nine | Pattern::Zero | Pattern::Point | Pattern::LocalePoint => {
                if !self.template.is_roman {
                    self.digit(pattern);
                }
            }
            Pattern::Comma | Pattern::Group => {
                if self.in_number {
                    self.out.push(',');
                } else if !fills {
                    self.out.push(' ');
                }
            }
            Pattern::Currency => self.out.push(' '),
            Pattern::Roman { lower } => {
                let text = String::from_utf8_lossy(self.number);
                let text = if lower {
                    text.to_lowercase()
                } else {
                    text.into_owned()
                };
                if !fills {
                    let padding = ROMAN_WIDTH.saturating_sub(text.len());
                    self.out.push_str(&" ".repeat(padding));
                }
                self.out.push_str(&text);
            }
            Pattern::Minus => self.own_sign('-'),
            Pattern::Plus => self.own_sign('+'),
            Pattern::Sign => {
                let sign = self.sign();
                self.out.push(sign);
            }
            Pattern::Ordinal { .. } | Pattern::Elsewhere => {}
        }
    }

    /// The suffix of an ordinal number, unless it has none.
    fn ordinal(&mut self, lower: bool) -> Result<()> {
        let template = self.template;
        let without = template.is_roman
            || self.number.first() == Some(&b'#')
            || self.negative
            || template.has_point;
        if without {
            return Ok(());
        }
        let number = String::from_utf8_lossy(self.number);
        if !number.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(Error::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("\"{number}\" is not a number"),
            ));
        }
        self.out.push_str(ordinal(&number, lower));
        Ok(())
    }

    /// A sign at its own place, which is blank if the number has the other.
    fn own_sign(&mut self, sign: char) {
        if !self.template.is_roman && self.sign() == sign {
            self.out.push(sign);
        } else if !self.template.fills {
            self.out.push(' ');
        }
    }

    fn is_last_relevant_point(&self) -> bool {
        self.last_relevant
            .is_some_and(|last| self.number.get(last) == Some(&b'.'))
    }

    /// Whether the number's zero in front of the point is left out: `9.9` shows ` .1`.
    fn is_blank_zero(&self) -> bool {
        !self.template.has_zero
            && self.next == 0
            && self.number.first() == Some(&b'0')
            && self.template.after != 0
    }

    fn digit(&mut self, pattern: Pattern) {
        let template = self.template;
        let zero_start = template.zero_start.saturating_sub(1);
        self.in_number = false;
        let begins = self.current >= self.blanks || template.has_zero && zero_start == self.current;
        if !self.sign_written && begins && (!self.is_blank_zero() || self.is_last_relevant_point())
        {
            self.leading_sign();
        }
        if self.current < self.blanks && (zero_start > self.current || !template.has_zero) {
            if !template.fills {
                self.out.push(' ');
            }
        } else if template.has_zero && self.current < self.blanks {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.number_character(pattern);
            if self.next < self.number.len() {
                self.next += 1;
            }
        }
        let mut end = self.count + usize::from(self.blanks > 0) + usize::from(template.has_point);
        if self.last_relevant == Some(self.next) {
            end = self.current;
        }
        if self.current + 1 == end {
            self.trailing_sign();
        }
        self.current += 1;
    }

    fn leading_sign(&mut self) {
        let template = self.template;
        if template.has_sign {
            if self.anchor == Anchor::Before {
                let sign = self.sign();
                self.out.push(sign);
                self.sign_written = true;
            }
            return;
        }
        if self.has_brackets {
            self.out.push(if self.negative { '<' } else { ' ' });
        } else if self.negative {
            self.out.push('-');
        } else if !template.fills {
            self.out.push(' ');
        }
        self.sign_written = true;
    }

    fn trailing_sign(&mut self) {
        if self.sign_written && self.has_brackets {
            self.out.push(if self.negative { '>' } else { ' ' });
        } else if self.template.has_sign && self.anchor == Anchor::After {
            let sign = self.sign();
            self.out.push(sign);
        }
    }

    /// The next character of the number: its point or a digit.
    fn number_character(&mut self, pattern: Pattern) {
        let fills = self.template.fills;
        match self.number.get(self.next) {
            Some(b'.') => {
                if !self.is_last_relevant_point() || fills {
                    self.out.push('.');
                }
            }
            character => {
                let cut = self.last_relevant.is_some_and(|last| self.next > last);
                if cut && pattern != Pattern::Zero {
                    return;
                }
                if self.is_blank_zero() {
                    if !fills {
                        self.out.push(' ');
                    } else if self.is_last_relevant_point() {
                        self.out.push('0');
                    }
                    return;
                }
                if let Some(character) = character {
                    self.out.push(char::from(*character));
                }
                self.in_number = true;
            }
        }
    }
}
