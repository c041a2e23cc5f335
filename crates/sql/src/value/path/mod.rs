//! Paths into JSON documents: the type `jsonpath`, its syntax tree and its printer.
//!
//! ```text
//!   $.items[*] ? (@.price > 10).name      as written
//!   $."items"[*]?(@."price" > 10)."name"  as PostgreSQL prints it, and as it is stored
//! ```
//!
//! A path is parsed when a value of the type is read, and again when it is evaluated.

mod parse;

use std::fmt::{self, Display, Formatter, Write};

pub(crate) use parse::parse;

use super::Numeric;

/// A path, or a condition on a document.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Whether what the path expects and the document does not have is an error.
    pub(crate) is_strict: bool,
    pub(crate) root: Node,
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    StartsWith,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Operator {
    /// The operator as it is written.
    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::StartsWith => "starts with",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }

    const fn priority(self) -> u8 {
        match self {
            Self::Or => 0,
            Self::And => 1,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessOrEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::StartsWith => 2,
            Self::Add | Self::Subtract => 3,
            Self::Multiply | Self::Divide | Self::Modulo => 4,
        }
    }

    /// Whether the result is a truth value, which only conditions have.
    pub(crate) const fn is_condition(self) -> bool {
        self.priority() <= 2
    }
}

/// A method of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Type,
    Size,
    Abs,
    Floor,
    Ceiling,
    Double,
}

impl Method {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Size => "size",
            Self::Abs => "abs",
            Self::Floor => "floor",
            Self::Ceiling => "ceiling",
            Self::Double => "double",
        }
    }
}

/// An expression of a path.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `$name`
    Variable(String),
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    /// `last`
    Last,
    /// `.key`
    Key(Box<Node>, String),
    /// `.*`
    AnyKey(Box<Node>),
    /// `[*]`
    AnyElement(Box<Node>),
    /// `[1, 2 to last]`
    Elements(Box<Node>, Vec<(Node, Option<Node>)>),
    /// `.**{1 to 2}`; `None` stands for the last level.
    AnyLevel(Box<Node>, Option<u32>, Option<u32>),
    /// `.method()`
    Method(Box<Node>, Method),
    /// `? (condition)`
    Filter(Box<Node>, Box<Node>),
    /// `-x`, or `+x` if false.
    Sign(bool, Box<Node>),
    Binary(Operator, Box<[Node; 2]>),
    Not(Box<Node>),
    IsUnknown(Box<Node>),
    Exists(Box<Node>),
    /// `x like_regex "pattern" flag "flags"`
    LikeRegex(Box<Node>, String, String),
}

impl Node {
    /// Whether the result is a truth value, which only conditions have.
    pub(crate) const fn is_condition(&self) -> bool {
        match self {
            Self::Binary(operator, _) => operator.is_condition(),
            Self::Not(_) | Self::IsUnknown(_) | Self::Exists(_) | Self::LikeRegex(..) => true,
            Self::Root
            | Self::Current
            | Self::Variable(_)
            | Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::String(_)
            | Self::Last
            | Self::Key(..)
            | Self::AnyKey(_)
            | Self::AnyElement(_)
            | Self::Elements(..)
            | Self::AnyLevel(..)
            | Self::Method(..)
            | Self::Filter(..)
            | Self::Sign(..) => false,
        }
    }

    const fn priority(&self) -> u8 {
        match self {
            Self::Binary(operator, _) => operator.priority(),
            Self::LikeRegex(..) => 2,
            Self::Sign(..) => 5,
            Self::Not(_)
            | Self::IsUnknown(_)
            | Self::Exists(_)
            | Self::Root
            | Self::Current
            | Self::Variable(_)
            | Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::String(_)
            | Self::Last
            | Self::Key(..)
            | Self::AnyKey(_)
            | Self::AnyElement(_)
            | Self::Elements(..)
            | Self::AnyLevel(..)
            | Self::Method(..)
            | Self::Filter(..) => 6,
        }
    }
}

fn quoted(text: &str, out: &mut Formatter<'_>) -> fmt::Result {
    let mut bytes = Vec::new();
    super::json::escape_into(text, &mut bytes);
    out.write_str(&String::from_utf8_lossy(&bytes))
}

/// Prints a node, in brackets if it needs them here.
fn print(node: &Node, brackets: bool, out: &mut Formatter<'_>) -> fmt::Result {
    let (open, close) = if brackets { ("(", ")") } else { ("", "") };
    // What an accessor stands behind.
    let base = |base: &Node, out: &mut Formatter<'_>| print(base, true, out);
    match node {
        Node::Root => out.write_char('$'),
        Node::Current => out.write_char('@'),
        Node::Variable(name) => {
            out.write_char('$')?;
            quoted(name, out)
        }
        Node::Null => out.write_str("null"),
        Node::Bool(truth) => write!(out, "{truth}"),
        Node::Number(number) => write!(out, "{number}"),
        Node::String(text) => quoted(text, out),
        Node::Last => out.write_str("last"),
        Node::Key(of, key) => {
            base(of, out)?;
            out.write_char('.')?;
            quoted(key, out)
        }
        Node::AnyKey(of) => {
            base(of, out)?;
            out.write_str(".*")
        }
        Node::AnyElement(of) => {
            base(of, out)?;
            out.write_str("[*]")
        }
        Node::Elements(of, list) => {
            base(of, out)?;
            out.write_char('[')?;
            for (at, (from, to)) in list.iter().enumerate() {
                if at > 0 {
                    out.write_char(',')?;
                }
                print(from, false, out)?;
                if let Some(to) = to {
                    out.write_str(" to ")?;
                    print(to, false, out)?;
                }
            }
            out.write_char(']')
        }
        Node::AnyLevel(of, first, last) => {
            base(of, out)?;
            let level = |level: &Option<u32>| {
                level.map_or_else(|| "last".to_owned(), |level| level.to_string())
            };
            match (first, last) {
                (Some(0), None) => out.write_str(".**"),
                (first, last) if first == last => write!(out, ".**{{{}}}", level(first)),
                (first, last) => write!(out, ".**{{{} to {}}}", level(first), level(last)),
            }
        }
        Node::Method(of, method) => {
            base(of, out)?;
            write!(out, ".{}()", method.name())
        }
        Node::Filter(of, condition) => {
            base(of, out)?;
            out.write_str("?(")?;
            print(condition, false, out)?;
            out.write_char(')')
        }
        Node::Sign(minus, of) => {
            write!(out, "{open}{}", if *minus { '-' } else { '+' })?;
            print(of, of.priority() <= node.priority(), out)?;
            out.write_str(close)
        }
        Node::Binary(operator, operands) => {
            let [left, right] = &**operands;
            out.write_str(open)?;
            print(left, left.priority() <= operator.priority(), out)?;
            write!(out, " {} ", operator.symbol())?;
            print(right, right.priority() <= operator.priority(), out)?;
            out.write_str(close)
        }
        Node::Not(of) => {
            out.write_str("!(")?;
            print(of, false, out)?;
            out.write_char(')')
        }
        Node::IsUnknown(of) => {
            out.write_char('(')?;
            print(of, false, out)?;
            out.write_str(") is unknown")
        }
        Node::Exists(of) => {
            out.write_str("exists (")?;
            print(of, false, out)?;
            out.write_char(')')
        }
        Node::LikeRegex(of, pattern, flags) => {
            out.write_str(open)?;
            print(of, of.priority() <= node.priority(), out)?;
            out.write_str(" like_regex ")?;
            quoted(pattern, out)?;
            if !flags.is_empty() {
                write!(out, " flag \"{flags}\"")?;
            }
            out.write_str(close)
        }
    }
}

impl Display for Path {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.is_strict {
            out.write_str("strict ")?;
        }
        print(&self.root, true, out)
    }
}
