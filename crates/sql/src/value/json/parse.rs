//! Parser of JSON text. It accepts what PostgreSQL accepts, and fails with PostgreSQL's
//! messages: what was expected, and the line up to where the parser was.

use smol_str::SmolStr;

use super::super::Numeric;
use super::{DEEPEST, Json, Work, deeper, too_deep};
use crate::{Error, Result, SqlState};

/// A token of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    String,
    Number,
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    True,
    False,
    Null,
    End,
}

/// Reads a text token by token.
pub(super) struct Lexer<'a> {
    input: &'a str,
    pub(super) token: Token,
    /// Where the token begins and ends, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
    line: usize,
    line_start: usize,
    /// Whether strings are decoded, to [`Lexer::text`]. Only then are `\u0000` and surrogates
    /// that have no partner refused.
    pub(super) decodes: bool,
    /// The last string, decoded.
    pub(super) text: String,
}

/// Whether PostgreSQL shows the byte as part of the word that it cannot read.
const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(input: &'a str, decodes: bool) -> Self {
        Self {
            input,
            token: Token::Comma,
            start: 0,
            end: 0,
            line: 1,
            line_start: 0,
            decodes,
            text: String::new(),
        }
    }

    /// The text of the token.
    pub(super) fn shown(&self) -> &'a str {
        self.input.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads the next token.
    pub(super) fn next(&mut self) -> Result<()> {
        let bytes = self.input.as_bytes();
        let mut at = self.end;
        while let Some(byte) = bytes.get(at).filter(|byte| is_blank(**byte)) {
            at += 1;
            if *byte == b'\n' {
                self.line += 1;
                self.line_start = at;
            }
        }
        self.start = at;
        let Some(first) = bytes.get(at) else {
            self.end = at;
            self.token = Token::End;
            return Ok(());
        };
        let mark = match first {
            b'{' => Token::ObjectStart,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayStart,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.string(),
            b'-' => return self.number(at + 1),
            b'0'..=b'9' => return self.number(at),
            _ => return self.word(),
        };
        self.end = at + 1;
        self.token = mark;
        Ok(())
    }

    fn word(&mut self) -> Result<()> {
        let rest = &self.input.as_bytes()[self.start..];
        let length = rest.iter().take_while(|byte| is_of_word(**byte)).count();
        // A single character that begins no word is shown alone.
        self.end = self.start + length.max(1);
        self.token = match self.shown() {
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => return Err(self.invalid_token()),
        };
        Ok(())
    }

    fn number(&mut self, from: usize) -> Result<()> {
        let bytes = self.input.as_bytes();
        let digits = |at: usize| {
            bytes[at..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut at = from;
        let mut is_wrong = false;
        match bytes.get(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at += digits(at),
            _ => is_wrong = true,
        }
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            let count = digits(at);
            is_wrong |= count == 0;
            at += count;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1;
            if let Some(b'+' | b'-') = bytes.get(at) {
                at += 1;
            }
            let count = digits(at);
            is_wrong |= count == 0;
            at += count;
        }
        let behind = bytes[at..].iter().take_while(|b| is_of_word(**b)).count();
        is_wrong |= behind > 0;
        self.end = at + behind;
        if is_wrong {
            return Err(self.invalid_token());
        }
        self.token = Token::Number;
        Ok(())
    }

    fn string(&mut self) -> Result<()> {
        let bytes = self.input.as_bytes();
        self.text.clear();
        // A high surrogate that waits for its partner.
        let mut high: Option<u32> = None;
        let mut at = self.start + 1;
        loop {
            let plain = at;
            while bytes
                .get(at)
                .is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20))
            {
                at += 1;
            }
            if at > plain && self.decodes {
                if high.is_some() {
                    return Err(self.lone_low());
                }
                self.text.push_str(&self.input[plain..at]);
            }
            match bytes.get(at) {
                None => {
                    self.end = at;
                    return Err(self.invalid_token());
                }
                Some(b'"') => break,
                Some(b'\\') => at = self.escape(at + 1, &mut high)?,
                Some(byte) => {
                    self.end = at;
                    return Err(self.fail(format!(
                        "Character with value 0x{byte:02x} must be escaped."
                    )));
                }
            }
        }
        if high.is_some() {
            return Err(self.lone_low());
        }
        self.end = at + 1;
        self.token = Token::String;
        Ok(())
    }

    /// Reads an escape, from the character behind the backslash on; returns where it ends.
    fn escape(&mut self, at: usize, high: &mut Option<u32>) -> Result<usize> {
        let bytes = self.input.as_bytes();
        let behind = |at: usize| {
            let next = self.input.get(at..).and_then(|rest| rest.chars().next());
            at + next.map_or(1, char::len_utf8)
        };
        let plain = match bytes.get(at) {
            None => {
                self.end = at;
                return Err(self.invalid_token());
            }
            Some(b'u') => {
                let mut code = 0;
                for place in at + 1..at + 5 {
                    let Some(byte) = bytes.get(place) else {
                        self.end = place;
                        return Err(self.invalid_token());
                    };
                    let Some(digit) = char::from(*byte).to_digit(16) else {
                        self.end = behind(place);
                        return Err(self.fail(
                            "\"\\u\" must be followed by four hexadecimal digits.".to_owned(),
                        ));
                    };
                    code = code << 4 | digit;
                }
                if self.decodes {
                    self.code_point(code, high)?;
                }
                return Ok(at + 5);
            }
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(_) => {
                if self.decodes && high.is_some() {
                    return Err(self.lone_low());
                }
                let end = behind(at);
                self.start = at;
                self.end = end;
                let shown = self.shown();
                return Err(self.fail(format!("Escape sequence \"\\{shown}\" is invalid.")));
            }
        };
        if self.decodes {
            if high.is_some() {
                return Err(self.lone_low());
            }
            self.text.push(plain);
        }
        Ok(at + 1)
    }

    fn code_point(&mut self, code: u32, high: &mut Option<u32>) -> Result<()> {
        match (code, high.take()) {
            (0xD800..0xDC00, None) => *high = Some(code),
            (0xD800..0xDC00, Some(_)) => {
                return Err(self
                    .fail("Unicode high surrogate must not follow a high surrogate.".to_owned()));
            }
            (0xDC00..0xE000, Some(first)) => {
                let code = 0x10000 + ((first - 0xD800) << 10) + (code - 0xDC00);
                self.text.extend(char::from_u32(code));
            }
            (0xDC00..0xE000, None) | (_, Some(_)) => return Err(self.lone_low()),
            (0, None) => {
                return Err(Error::new(
                    SqlState::UNTRANSLATABLE_CHARACTER,
                    "unsupported Unicode escape sequence",
                )
                .with_detail("\\u0000 cannot be converted to text.")
                .with_context(self.context()));
            }
            (code, None) => self.text.extend(char::from_u32(code)),
        }
        Ok(())
    }

    fn lone_low(&self) -> Error {
        self.fail("Unicode low surrogate must follow a high surrogate.".to_owned())
    }

    fn invalid_token(&self) -> Error {
        self.fail(format!("Token \"{}\" is invalid.", self.shown()))
    }

    /// The error at the token, or as far as it was read.
    pub(super) fn fail(&self, detail: String) -> Error {
        Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type json",
        )
        .with_detail(detail)
        .with_context(self.context())
    }

    /// The line up to the end of the token, cut at its front to some fifty bytes.
    fn context(&self) -> String {
        let line = self
            .input
            .get(self.line_start..self.end)
            .unwrap_or_default();
        let cut = line
            .char_indices()
            .map(|(at, _)| at)
            .find(|at| line.len() - at < 50)
            .unwrap_or(line.len());
        let cut = if cut <= 3 { 0 } else { cut };
        let before = if cut > 0 { "..." } else { "" };
        let next = self.input.as_bytes().get(self.end);
        let goes_on =
            self.token != Token::End && next.is_some_and(|byte| !matches!(byte, b'\n' | b'\r'));
        let after = if goes_on { "..." } else { "" };
        format!(
            "JSON data, line {}: {before}{}{after}",
            self.line,
            &line[cut..]
        )
    }
}

/// What the parser has expected where it fails.
#[derive(Clone, Copy)]
enum Expected {
    End,
    Value,
    String,
    ArrayNext,
    ObjectFirst,
    Colon,
    ObjectNext,
}

struct Parser<'a, 'work> {
    lexer: Lexer<'a>,
    /// Whether the parser makes a tree. If not, it checks the text only, as `json` does.
    builds: bool,
    work: Work<'work>,
    /// Up to where the parser has told `work` that it was.
    told: usize,
}

/// Bytes between two calls of the work meter.
const LOOK_AFTER: usize = 1024;

impl Parser<'_, '_> {
    fn advance(&mut self) -> Result<()> {
        self.lexer.next()?;
        let read = self.lexer.end - self.told;
        if read >= LOOK_AFTER {
            self.told = self.lexer.end;
            (self.work)(read)?;
        }
        Ok(())
    }

    fn unexpected(&self, expected: Expected) -> Error {
        if self.lexer.token == Token::End {
            return self
                .lexer
                .fail("The input string ended unexpectedly.".to_owned());
        }
        let expected = match expected {
            Expected::End => "end of input",
            Expected::Value => "JSON value",
            Expected::String => "string",
            Expected::ArrayNext => "\",\" or \"]\"",
            Expected::ObjectFirst => "string or \"}\"",
            Expected::Colon => "\":\"",
            Expected::ObjectNext => "\",\" or \"}\"",
        };
        let found = self.lexer.shown();
        self.lexer
            .fail(format!("Expected {expected}, but found \"{found}\"."))
    }

    fn expect(&mut self, token: Token, expected: Expected) -> Result<()> {
        if self.lexer.token != token {
            return Err(self.unexpected(expected));
        }
        self.advance()
    }

    fn document(&mut self) -> Result<Json> {
        self.advance()?;
        let value = self.value(0)?;
        if self.lexer.token != Token::End {
            return Err(self.unexpected(Expected::End));
        }
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        let value = match self.lexer.token {
            Token::ObjectStart => return self.container(depth, Self::object),
            Token::ArrayStart => return self.container(depth, Self::array),
            Token::String => Json::String(SmolStr::new(&self.lexer.text)),
            Token::Number if self.builds => match Numeric::parse(self.lexer.shown())? {
                Some(number) => Json::Number(number),
                None => return Err(self.lexer.invalid_token()),
            },
            Token::Number | Token::Null => Json::Null,
            Token::True => Json::Bool(true),
            Token::False => Json::Bool(false),
            Token::ObjectEnd | Token::ArrayEnd | Token::Comma | Token::Colon | Token::End => {
                return Err(self.unexpected(Expected::Value));
            }
        };
        self.advance()?;
        Ok(value)
    }

    fn container(
        &mut self,
        depth: usize,
        parse: fn(&mut Self, usize) -> Result<Json>,
    ) -> Result<Json> {
        if depth >= DEEPEST {
            return Err(too_deep());
        }
        self.advance()?;
        deeper(|| parse(self, depth + 1))
    }

    fn array(&mut self, depth: usize) -> Result<Json> {
        let mut elements = Vec::new();
        if self.lexer.token != Token::ArrayEnd {
            loop {
                let element = self.value(depth)?;
                if self.builds {
                    elements.push(element);
                }
                if self.lexer.token != Token::Comma {
                    break;
                }
                self.advance()?;
            }
        }
        self.expect(Token::ArrayEnd, Expected::ArrayNext)?;
        Ok(Json::Array(elements))
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        let mut pairs = Vec::new();
        let mut expected = Expected::ObjectFirst;
        if self.lexer.token != Token::ObjectEnd {
            loop {
                if self.lexer.token != Token::String {
                    return Err(self.unexpected(expected));
                }
                expected = Expected::String;
                let key = SmolStr::new(&self.lexer.text);
                self.advance()?;
                self.expect(Token::Colon, Expected::Colon)?;
                let value = self.value(depth)?;
                if self.builds {
                    pairs.push((key, value));
                }
                if self.lexer.token != Token::Comma {
                    break;
                }
                self.advance()?;
            }
        }
        self.expect(Token::ObjectEnd, Expected::ObjectNext)?;
        Ok(Json::object(pairs))
    }
}

fn parser<'a, 'work>(text: &'a str, builds: bool, work: Work<'work>) -> Parser<'a, 'work> {
    Parser {
        lexer: Lexer::new(text, builds),
        builds,
        work,
        told: 0,
    }
}

/// Parses a text to a tree, in `jsonb`'s normal form. Errors 22P02, 22P05, 54001, and those of
/// numbers.
pub(crate) fn parse_json(text: &str, work: Work<'_>) -> Result<Json> {
    parser(text, true, work).document()
}

/// Checks that a text is JSON, as the type `json` does: what escapes stand for is not
/// looked at.
pub(crate) fn check_json(text: &str, work: Work<'_>) -> Result<()> {
    parser(text, false, work).document().map(drop)
}

/// The string that a JSON string stands for.
pub(crate) fn unescaped(text: &str) -> Result<String> {
    let mut lexer = Lexer::new(text, true);
    lexer.next()?;
    Ok(lexer.text)
}
