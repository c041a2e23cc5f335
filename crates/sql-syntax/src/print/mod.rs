//! The printer: a tree as a text, with brackets around every operand that is no atom, so that
//! the text has one reading under any precedence.
//!
//! What the parser reads from a printed text is the tree that was printed, but for positions.

mod alter;
mod change;
mod define;
mod expr;
mod object;
mod routine;
mod select;
mod statement;
mod table;
mod types;
mod utility;

use crate::keyword::Keyword;
use crate::tree::{Literal, Name, Operator, Path, Role, Statement};

/// A statement as a text, without a semicolon.
pub fn statement(statement: &Statement) -> String {
    let mut printer = Printer::default();
    printer.statement(&statement.kind);
    printer.out
}

/// An expression as a text.
pub fn expr(expr: &crate::tree::Expr) -> String {
    let mut printer = Printer::default();
    printer.expr(expr);
    printer.out
}

/// A query as a text.
pub fn query(query: &crate::tree::Query) -> String {
    let mut printer = Printer::default();
    printer.query(query);
    printer.out
}

/// A type as a text.
pub fn type_name(name: &crate::tree::TypeName) -> String {
    let mut printer = Printer::default();
    printer.type_name(name);
    printer.out
}

#[derive(Default)]
struct Printer {
    out: String,
}

impl Printer {
    /// Writes a word or a symbol, with a blank in front of it where one is due.
    fn put(&mut self, text: &str) {
        let glued = matches!(text.as_bytes().first(), Some(b',' | b')' | b']' | b';'));
        let fresh = matches!(
            self.out.as_bytes().last(),
            None | Some(b'(' | b'[' | b'.' | b' ')
        );
        if !glued && !fresh && !text.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(text);
    }

    /// Writes something directly behind what is there.
    fn glue(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn put_if(&mut self, condition: bool, text: &str) {
        if condition {
            self.put(text);
        }
    }

    fn name(&mut self, name: &Name) {
        self.identifier(&name.text);
    }

    fn identifier(&mut self, text: &str) {
        let plain = text.bytes().enumerate().all(|(at, byte)| match byte {
            b'a'..=b'z' | b'_' => true,
            b'0'..=b'9' => at > 0,
            _ => false,
        });
        if plain && !text.is_empty() && Keyword::find(text) == Keyword::NotAKeyword {
            self.put(text);
        } else {
            self.put(&format!("\"{}\"", text.replace('"', "\"\"")));
        }
    }

    fn path(&mut self, path: &Path) {
        self.list_with(&path.0, ".", Self::name);
    }

    fn string(&mut self, text: &str) {
        self.put(&format!("'{}'", text.replace('\'', "''")));
    }

    fn number(&mut self, number: &impl ToString) {
        self.put(&number.to_string());
    }

    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Integer(value) => self.number(value),
            Literal::Number(text) => {
                self.put(text);
                // A word directly behind `5.` would be a part of the number.
                self.glue(if text.ends_with('.') { " " } else { "" });
            }
            Literal::String(text) => self.string(text),
            Literal::Bits(text) => self.put(&format!("b'{text}'")),
            Literal::HexBits(text) => self.put(&format!("x'{text}'")),
            Literal::Boolean(value) => self.put(if *value { "true" } else { "false" }),
            Literal::Null => self.put("NULL"),
        }
    }

    fn list_with<T>(&mut self, items: &[T], separator: &str, mut item: impl FnMut(&mut Self, &T)) {
        for (index, one) in items.iter().enumerate() {
            if index > 0 {
                self.glue(separator);
            }
            item(self, one);
        }
    }

    fn list<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        self.list_with(items, ",", item);
    }

    fn brackets(&mut self, inside: impl FnOnce(&mut Self)) {
        self.put("(");
        inside(self);
        self.put(")");
    }

    fn bracketed<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        self.brackets(|printer| printer.list(items, item));
    }

    /// A list in brackets, or nothing if it is empty.
    fn bracketed_if_any<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        if !items.is_empty() {
            self.bracketed(items, item);
        }
    }

    fn names(&mut self, names: &[Name]) {
        self.bracketed_if_any(names, Self::name);
    }

    /// Words, and a name behind them if there is one.
    fn named(&mut self, words: &str, name: Option<&Name>) {
        if let Some(name) = name {
            self.put(words);
            self.name(name);
        }
    }

    fn role(&mut self, role: &Role) {
        match role {
            Role::Named(name) => self.name(name),
            Role::CurrentRole => self.put("CURRENT_ROLE"),
            Role::CurrentUser => self.put("CURRENT_USER"),
            Role::SessionUser => self.put("SESSION_USER"),
            Role::Public => self.put("public"),
        }
    }

    fn roles(&mut self, words: &str, roles: &[Role]) {
        if !roles.is_empty() {
            self.put(words);
            self.list(roles, Self::role);
        }
    }

    /// An operator where an expression has one.
    fn operator(&mut self, operator: &Operator) {
        if operator.schema.is_empty() {
            self.put(&operator.symbol);
        } else {
            self.put("OPERATOR(");
            self.bare_operator(operator);
            self.put(")");
        }
    }

    /// An operator with qualifiers, without OPERATOR.
    fn bare_operator(&mut self, operator: &Operator) {
        for name in &operator.schema {
            self.name(name);
            self.glue(".");
        }
        self.put(&operator.symbol);
    }

    fn cascade(&mut self, cascade: bool) {
        self.put_if(cascade, "CASCADE");
    }
}
