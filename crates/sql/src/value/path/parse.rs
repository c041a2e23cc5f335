//! Parser of `jsonpath`.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is no token that is expected is one that is not"
)]

use super::super::Numeric;
use super::{Method, Node, Operator, Path};
use crate::{Error, Result, SqlState};

/// Maximum depth of a path.
const DEEPEST: usize = 200;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word without quotes.
    Word(String),
    /// A string in quotes.
    String(String),
    Number(String),
    /// `$name`
    Variable(String),
    /// An operator or a mark.
    Mark(&'static str),
    End,
}

/// Marks, longer ones first.
const MARKS: [&str; 28] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", "{", "}",
    "?", "@", "$", ".", ",", "*", "+", "-", "/", "%", "=",
];

/// Splits a path into tokens, each with the place where it begins.
fn tokens(text: &str) -> Result<Vec<(Token, usize)>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            match comment.find("*/") {
                Some(end) => at += end + 4,
                None => {
                    return Err(Error::syntax(
                        "unexpected end of comment at end of jsonpath input",
                    ));
                }
            }
            continue;
        }
        let start = at;
        let token = if first == '"' {
            let (string, length) = string(rest)?;
            at += length;
            Token::String(string)
        } else if first.is_ascii_digit()
            || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            let length = number(rest);
            at += length;
            Token::Number(rest[..length].to_owned())
        } else if first == '$' && rest[1..].starts_with('"') {
            let (name, length) = string(&rest[1..])?;
            at += 1 + length;
            Token::Variable(name)
        } else if is_of_word(first) || first == '$' && rest[1..].starts_with(is_of_word) {
            let is_variable = first == '$';
            let name = &rest[usize::from(is_variable)..];
            let length = name.find(|c| !is_of_word(c)).unwrap_or(name.len());
            at += length + usize::from(is_variable);
            let name = name[..length].to_owned();
            if is_variable {
                Token::Variable(name)
            } else {
                Token::Word(name)
            }
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            at += mark.len();
            Token::Mark(mark)
        } else {
            return Err(near(&first.to_string()));
        };
        found.push((token, start));
    }
    found.push((Token::End, text.len()));
    Ok(found)
}

fn is_of_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn near(shown: &str) -> Error {
    Error::syntax(format!(
        "syntax error at or near \"{shown}\" of jsonpath input"
    ))
}

/// Length of the number that the text begins with.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |at: usize| {
        bytes[at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
        at += 1 + digits(at + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let count = digits((at + 1 + sign).min(bytes.len()));
        if count > 0 {
            at += 1 + sign + count;
        }
    }
    at
}

/// The string in quotes that the text begins with, and its length there.
fn string(text: &str) -> Result<(String, usize)> {
    let mut out = String::new();
    let mut characters = text.char_indices().skip(1);
    let unterminated = || Error::syntax("unterminated quoted string at end of jsonpath input");
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((out, at + 1)),
            '\\' => {
                let (at, escape) = characters.next().ok_or_else(unterminated)?;
                match escape {
                    'b' => out.push('\u{8}'),
                    'f' => out.push('\u{c}'),
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    'v' => out.push('\u{b}'),
                    'u' | 'x' => {
                        let length = if escape == 'u' { 4 } else { 2 };
                        let digits = text.get(at + 1..at + 1 + length).unwrap_or_default();
                        let code = u32::from_str_radix(digits, 16).ok();
                        let Some(character) = code.and_then(char::from_u32) else {
                            return Err(Error::syntax(
                                "invalid Unicode escape sequence of jsonpath input",
                            ));
                        };
                        if character == '\0' {
                            return Err(Error::new(
                                SqlState::UNTRANSLATABLE_CHARACTER,
                                "unsupported Unicode escape sequence",
                            )
                            .with_detail("\\u0000 cannot be converted to text."));
                        }
                        out.push(character);
                        for _ in 0..length {
                            characters.next();
                        }
                    }
                    other => out.push(other),
                }
            }
            other => out.push(other),
        }
    }
    Err(unterminated())
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    /// Filters and subscripts around: `@` and `last` are allowed in them.
    filters: usize,
    subscripts: usize,
}

/// Parses a path. Errors 22P02, 42601.
pub(crate) fn parse(text: &str) -> Result<Path> {
    if text.trim().is_empty() {
        return Err(Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type jsonpath: \"{text}\""),
        ));
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        filters: 0,
        subscripts: 0,
    };
    let is_strict = parser.take_word("strict");
    if !is_strict {
        parser.take_word("lax");
    }
    let root = parser.or()?;
    if *parser.token() != Token::End {
        return Err(parser.unexpected());
    }
    Ok(Path { is_strict, root })
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        self.tokens
            .get(self.at)
            .map_or(&Token::End, |(token, _)| token)
    }

    fn unexpected(&self) -> Error {
        match self.tokens.get(self.at) {
            None | Some((Token::End, _)) => Error::syntax("syntax error at end of jsonpath input"),
            Some((_, start)) => {
                let end = self
                    .tokens
                    .get(self.at + 1)
                    .map_or(self.text.len(), |next| next.1);
                near(self.text.get(*start..end).unwrap_or_default().trim_end())
            }
        }
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = matches!(self.token(), Token::Mark(here) if *here == mark);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.token(), Token::Word(here) if here.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        match self.take(mark) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    fn condition(&self, node: Node) -> Result<Node> {
        match node.is_condition() {
            true => Ok(node),
            false => Err(self.unexpected()),
        }
    }

    fn operand(&self, node: Node) -> Result<Node> {
        match node.is_condition() {
            true => Err(self.unexpected()),
            false => Ok(node),
        }
    }

    fn or(&mut self) -> Result<Node> {
        if self.depth == DEEPEST {
            return Err(Error::too_complex());
        }
        self.depth += 1;
        let mut left = self.and()?;
        while self.take("||") {
            let left_condition = self.condition(left)?;
            let right = self.and()?;
            let right = self.condition(right)?;
            left = Node::Binary(Operator::Or, Box::new([left_condition, right]));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<Node> {
        let mut left = self.comparison()?;
        while self.take("&&") {
            let left_condition = self.condition(left)?;
            let right = self.comparison()?;
            let right = self.condition(right)?;
            left = Node::Binary(Operator::And, Box::new([left_condition, right]));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Node> {
        if self.take("!") {
            if !matches!(self.token(), Token::Mark("(")) && !self.is_word("exists") {
                return Err(self.unexpected());
            }
            let inner = self.primary()?;
            let inner = self.condition(inner)?;
            return Ok(Node::Not(Box::new(inner)));
        }
        let left = self.sum()?;
        let operator = match self.token() {
            Token::Mark("==" | "=") => Operator::Equal,
            Token::Mark("!=" | "<>") => Operator::NotEqual,
            Token::Mark("<") => Operator::Less,
            Token::Mark("<=") => Operator::LessOrEqual,
            Token::Mark(">") => Operator::Greater,
            Token::Mark(">=") => Operator::GreaterOrEqual,
            Token::Word(word) if word == "starts" => {
                self.at += 1;
                if !self.take_word("with") {
                    return Err(self.unexpected());
                }
                let left = self.operand(left)?;
                let initial = match self.token().clone() {
                    Token::String(text) => Node::String(text),
                    Token::Variable(name) => Node::Variable(name),
                    _ => return Err(self.unexpected()),
                };
                self.at += 1;
                return Ok(Node::Binary(
                    Operator::StartsWith,
                    Box::new([left, initial]),
                ));
            }
            Token::Word(word) if word == "like_regex" => {
                self.at += 1;
                let left = self.operand(left)?;
                return self.like_regex(left);
            }
            _ => return Ok(left),
        };
        let left = self.operand(left)?;
        self.at += 1;
        let right = self.sum()?;
        let right = self.operand(right)?;
        Ok(Node::Binary(operator, Box::new([left, right])))
    }

    fn like_regex(&mut self, left: Node) -> Result<Node> {
        let Token::String(pattern) = self.token().clone() else {
            return Err(self.unexpected());
        };
        self.at += 1;
        let mut flags = String::new();
        if self.take_word("flag") {
            let Token::String(given) = self.token().clone() else {
                return Err(self.unexpected());
            };
            self.at += 1;
            if let Some(wrong) = given.chars().find(|flag| !"ismxq".contains(*flag)) {
                return Err(
                    Error::syntax("invalid input syntax for type jsonpath").with_detail(format!(
                        "Unrecognized flag character \"{wrong}\" in LIKE_REGEX predicate."
                    )),
                );
            }
            flags = "ismxq"
                .chars()
                .filter(|flag| given.contains(*flag))
                .collect();
        }
        Ok(Node::LikeRegex(Box::new(left), pattern, flags))
    }

    fn sum(&mut self) -> Result<Node> {
        let mut left = self.product()?;
        loop {
            let operator = match self.token() {
                Token::Mark("+") => Operator::Add,
                Token::Mark("-") => Operator::Subtract,
                _ => return Ok(left),
            };
            left = self.operand(left)?;
            self.at += 1;
            let right = self.product()?;
            let right = self.operand(right)?;
            left = Node::Binary(operator, Box::new([left, right]));
        }
    }

    fn product(&mut self) -> Result<Node> {
        let mut left = self.signed()?;
        loop {
            let operator = match self.token() {
                Token::Mark("*") => Operator::Multiply,
                Token::Mark("/") => Operator::Divide,
                Token::Mark("%") => Operator::Modulo,
                _ => return Ok(left),
            };
            left = self.operand(left)?;
            self.at += 1;
            let right = self.signed()?;
            let right = self.operand(right)?;
            left = Node::Binary(operator, Box::new([left, right]));
        }
    }

    fn signed(&mut self) -> Result<Node> {
        let mut signs = Vec::new();
        loop {
            if self.take("-") {
                signs.push(true);
            } else if self.take("+") {
                signs.push(false);
            } else {
                break;
            }
            if signs.len() > DEEPEST {
                return Err(Error::too_complex());
            }
        }
        let mut node = self.primary()?;
        for minus in signs.into_iter().rev() {
            node = match node {
                // The sign is part of a number.
                Node::Number(number) if minus => Node::Number(number.negate()),
                Node::Number(number) => Node::Number(number),
                other => Node::Sign(minus, Box::new(self.operand(other)?)),
            };
        }
        Ok(node)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token(), Token::Word(here) if here.eq_ignore_ascii_case(word))
    }

    fn primary(&mut self) -> Result<Node> {
        let token = self.token().clone();
        let node = match token {
            Token::Mark("$") => Node::Root,
            Token::Mark("@") if self.filters == 0 => {
                return Err(Error::syntax("@ is not allowed in root expressions"));
            }
            Token::Mark("@") => Node::Current,
            Token::Variable(name) => Node::Variable(name),
            Token::String(text) => Node::String(text),
            Token::Number(digits) => match Numeric::parse(&digits)? {
                Some(number) => Node::Number(number),
                None => return Err(self.unexpected()),
            },
            Token::Mark("(") => {
                self.at += 1;
                let inner = self.or()?;
                self.expect(")")?;
                if inner.is_condition() && self.is_word("is") {
                    self.at += 1;
                    if !self.take_word("unknown") {
                        return Err(self.unexpected());
                    }
                    return Ok(Node::IsUnknown(Box::new(inner)));
                }
                return self.accessors(inner);
            }
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "null" => Node::Null,
                "true" => Node::Bool(true),
                "false" => Node::Bool(false),
                "last" if self.subscripts == 0 => {
                    return Err(Error::syntax("LAST is allowed only in array subscripts"));
                }
                "last" => Node::Last,
                "exists" => {
                    self.at += 1;
                    self.expect("(")?;
                    let inner = self.or()?;
                    let inner = self.operand(inner)?;
                    self.expect(")")?;
                    return Ok(Node::Exists(Box::new(inner)));
                }
                _ => return Err(self.unexpected()),
            },
            Token::Mark(_) | Token::End => return Err(self.unexpected()),
        };
        self.at += 1;
        self.accessors(node)
    }

    /// The accessors behind a value.
    fn accessors(&mut self, node: Node) -> Result<Node> {
        let mut node = node;
        let mut count = 0;
        loop {
            count += 1;
            if count > DEEPEST {
                return Err(Error::too_complex());
            }
            let of = |node| Box::new(node);
            if self.take(".") {
                node = self.member(node)?;
            } else if self.take("[") {
                if self.take("*") {
                    self.expect("]")?;
                    node = Node::AnyElement(of(node));
                    continue;
                }
                let list = self.elements()?;
                node = Node::Elements(of(node), list);
            } else if self.take("?") {
                self.expect("(")?;
                self.filters += 1;
                let condition = self.or()?;
                let condition = self.condition(condition)?;
                self.filters -= 1;
                self.expect(")")?;
                node = Node::Filter(of(node), Box::new(condition));
            } else {
                return Ok(node);
            }
        }
    }

    fn elements(&mut self) -> Result<Vec<(Node, Option<Node>)>> {
        self.subscripts += 1;
        let mut list = Vec::new();
        loop {
            let from = self.sum()?;
            let from = self.operand(from)?;
            let to = match self.take_word("to") {
                true => {
                    let to = self.sum()?;
                    Some(self.operand(to)?)
                }
                false => None,
            };
            list.push((from, to));
            if !self.take(",") {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok(list)
    }

    /// What stands behind a dot.
    fn member(&mut self, node: Node) -> Result<Node> {
        let of = Box::new(node);
        if self.take("**") {
            return self.levels(of);
        }
        if self.take("*") {
            return Ok(Node::AnyKey(of));
        }
        let (name, is_word) = match self.token().clone() {
            Token::Word(name) => (name, true),
            Token::String(name) => (name, false),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        if is_word && self.take("(") {
            let method = match name.as_str() {
                "type" => Method::Type,
                "size" => Method::Size,
                "abs" => Method::Abs,
                "floor" => Method::Floor,
                "ceiling" => Method::Ceiling,
                "double" => Method::Double,
                "keyvalue" | "datetime" => {
                    return Err(Error::unsupported(format_args!(
                        "the jsonpath method .{name}()"
                    )));
                }
                _ => {
                    self.at -= 1;
                    return Err(self.unexpected());
                }
            };
            self.expect(")")?;
            return Ok(Node::Method(of, method));
        }
        Ok(Node::Key(of, name))
    }

    fn levels(&mut self, of: Box<Node>) -> Result<Node> {
        if !self.take("{") {
            return Ok(Node::AnyLevel(of, Some(0), None));
        }
        let first = self.level()?;
        let last = match self.take_word("to") {
            true => self.level()?,
            false => first,
        };
        self.expect("}")?;
        Ok(Node::AnyLevel(of, first, last))
    }

    fn level(&mut self) -> Result<Option<u32>> {
        let level = match self.token() {
            Token::Number(digits) => digits.parse().ok().map(Some),
            Token::Word(word) if word == "last" => Some(None),
            _ => None,
        };
        let level = level.ok_or_else(|| self.unexpected())?;
        self.at += 1;
        Ok(level)
    }
}
