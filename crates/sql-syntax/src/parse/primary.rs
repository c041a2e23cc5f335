//! The smallest expressions (`c_expr`): constants, columns, calls, what is in brackets.

use super::Parser;
use super::expr::Mode;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::{Category, Keyword as K};
use crate::lexer::number;
use crate::lexer::token::TokenKind;
use crate::tree::{Case, Cast, Expr, ExprKind, Literal, Name, Path, Query, Row, Step};

/// What stands in brackets.
pub(super) enum Inside {
    Query(Box<Query>),
    /// One expression or several.
    Exprs(Vec<Expr>),
}

impl Parser<'_> {
    /// `c_expr`, and a row with OVERLAPS.
    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let at = self.pos();
        let literal = match self.kind() {
            TokenKind::Name => return self.named(),
            TokenKind::Keyword => return self.worded(),
            TokenKind::Open => return self.bracketed(),
            TokenKind::Integer => {
                let value = number::small(self.token_text()).unwrap_or(0);
                Literal::Integer(value)
            }
            TokenKind::Number => Literal::Number(self.token_text().into()),
            TokenKind::String => {
                let value = self.string()?;
                return Ok(literal(Literal::String(value), at));
            }
            TokenKind::BitString | TokenKind::HexString => self.bits()?,
            TokenKind::Parameter => {
                let Ok(number) = self.token_text()[1..].parse() else {
                    return Err(self.error_at(self.token(), "parameter number too large"));
                };
                self.bump();
                let parameter = Expr {
                    at,
                    kind: ExprKind::Parameter(number),
                };
                return self.indirection(parameter);
            }
            _ => return Err(self.error()),
        };
        self.bump();
        Ok(Expr {
            at,
            kind: ExprKind::Literal(literal),
        })
    }

    fn bits(&self) -> Parsed<Literal> {
        let value = crate::lexer::string::decode(self.token_text(), self.pos())?;
        Ok(if self.kind() == TokenKind::BitString {
            Literal::Bits(value)
        } else {
            Literal::HexBits(value)
        })
    }

    /// A bracket, and what it turns out to hold: a query, an expression or a row.
    fn bracketed(&mut self) -> Parsed<Expr> {
        let at = self.pos();
        self.bump();
        let inside = self.inside()?;
        self.expect_kind(TokenKind::Close)?;
        self.after_brackets(inside, at)
    }

    fn after_brackets(&mut self, inside: Inside, at: u32) -> Parsed<Expr> {
        match inside {
            Inside::Query(query) => self.indirection(Expr {
                at,
                kind: ExprKind::Subquery(query),
            }),
            Inside::Exprs(mut exprs) if exprs.len() == 1 => match exprs.pop() {
                Some(expr) => self.indirection(expr),
                None => Err(self.error()),
            },
            Inside::Exprs(fields) => self.row_or_overlaps(false, fields, at),
        }
    }

    fn row_or_overlaps(&mut self, explicit: bool, fields: Vec<Expr>, at: u32) -> Parsed<Expr> {
        if self.is(K::Overlaps) && !self.is_kind_at(1, TokenKind::Comma) {
            let operator = self.pos();
            self.bump();
            let start = self.pos();
            let right = self.row_fields()?;
            for (side, fields, at) in [("left", &fields, at), ("right", &right, start)] {
                if fields.len() != 2 {
                    let message =
                        format!("wrong number of parameters on {side} side of OVERLAPS expression");
                    return Err(SyntaxError::new(Fault::Syntax, message, at));
                }
            }
            return Ok(Expr {
                at: operator,
                kind: ExprKind::Overlaps(fields, right),
            });
        }
        Ok(Expr {
            at,
            kind: ExprKind::Row(Row { explicit, fields }),
        })
    }

    fn row_fields(&mut self) -> Parsed<Vec<Expr>> {
        let explicit = self.eat(K::Row);
        self.expect_kind(TokenKind::Open)?;
        if explicit && self.eat_kind(TokenKind::Close) {
            return Ok(Vec::new());
        }
        let fields = self.exprs()?;
        if !explicit && fields.len() == 1 {
            return Err(self.error());
        }
        self.expect_kind(TokenKind::Close)?;
        Ok(fields)
    }

    /// What is in a bracket that has been opened, up to its end. Behind more brackets a query
    /// may begin that is only the first operand of a larger query, or of an expression; so
    /// what they hold is read first, and then what stands behind it decides.
    pub(super) fn inside(&mut self) -> Parsed<Inside> {
        if self.is_query_start(0) {
            return Ok(Inside::Query(Box::new(self.query()?)));
        }
        if self.kind() == TokenKind::Open && self.is_query_behind_brackets() {
            return self.nested(Self::inside_brackets);
        }
        self.exprs().map(Inside::Exprs)
    }

    fn inside_brackets(&mut self) -> Parsed<Inside> {
        let at = self.pos();
        let outside = std::mem::take(&mut self.height);
        self.bump();
        let inside = self.inside()?;
        self.expect_kind(TokenKind::Close)?;
        let inside = match inside {
            Inside::Query(query) if self.is_query_continued() => {
                let query = self.query_behind(*query)?;
                self.height = self.height.max(outside);
                return Ok(Inside::Query(Box::new(query)));
            }
            Inside::Query(query) if self.kind() == TokenKind::Close => {
                self.height = self.height.max(outside);
                return Ok(Inside::Query(query));
            }
            inside => inside,
        };
        let first = self.after_brackets(inside, at)?;
        let mut exprs = vec![self.infix(first, Mode::All, 0, outside)?];
        while self.eat_kind(TokenKind::Comma) {
            exprs.push(self.expr()?);
        }
        Ok(Inside::Exprs(exprs))
    }

    /// Whether a query begins behind the brackets that are opened here.
    pub(super) fn is_query_behind_brackets(&mut self) -> bool {
        if !(self.opens.0..self.opens.1).contains(&self.at) {
            let mut end = self.at;
            while self.tokens[end].kind == TokenKind::Open {
                end += 1;
            }
            self.opens = (self.at, end);
        }
        self.is_query_start(self.opens.1 - self.at)
    }

    pub(super) fn is_query_start(&self, ahead: usize) -> bool {
        match self.peek(ahead).keyword {
            K::Select | K::With | K::Table => true,
            K::Values => self.is_kind_at(ahead + 1, TokenKind::Open),
            _ => false,
        }
    }

    /// Subscripts and fields of a value.
    pub(super) fn indirection(&mut self, base: Expr) -> Parsed<Expr> {
        if !matches!(self.kind(), TokenKind::Dot | TokenKind::OpenBracket) {
            return Ok(base);
        }
        let at = base.at;
        let steps = self.steps()?;
        Ok(Expr {
            at,
            kind: ExprKind::Indirection(Box::new(base), steps),
        })
    }

    pub(super) fn steps(&mut self) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            match self.kind() {
                TokenKind::Dot => {
                    self.bump();
                    if self.eat_kind(TokenKind::Star) {
                        steps.push(Step::Star);
                        return self.end_of_star().map(|()| steps);
                    }
                    steps.push(Step::Field(self.label()?));
                }
                TokenKind::OpenBracket => {
                    self.bump();
                    steps.push(self.subscript()?);
                }
                _ => return Ok(steps),
            }
        }
    }

    /// Nothing may stand behind a star. What does is read first, as the grammar does.
    fn end_of_star(&mut self) -> Parsed<()> {
        if !matches!(self.kind(), TokenKind::Dot | TokenKind::OpenBracket) {
            return Ok(());
        }
        self.nested(Self::steps)?;
        Err(self.error_at(self.token(), "improper use of \"*\""))
    }

    fn subscript(&mut self) -> Parsed<Step> {
        let lower = if self.kind() == TokenKind::Colon {
            None
        } else {
            Some(self.expr()?)
        };
        if !self.eat_kind(TokenKind::Colon) {
            self.expect_kind(TokenKind::CloseBracket)?;
            return lower.map(Step::Index).ok_or_else(|| self.error());
        }
        let upper = if self.kind() == TokenKind::CloseBracket {
            None
        } else {
            Some(self.expr()?)
        };
        self.expect_kind(TokenKind::CloseBracket)?;
        Ok(Step::Slice(lower, upper))
    }

    /// An expression that begins with a keyword.
    fn worded(&mut self) -> Parsed<Expr> {
        let at = self.pos();
        let word = self.keyword();
        let opens = self.is_kind_at(1, TokenKind::Open);
        let kind = match word {
            K::True | K::False => {
                self.bump();
                ExprKind::Literal(Literal::Boolean(word == K::True))
            }
            K::Null => {
                self.bump();
                ExprKind::Literal(Literal::Null)
            }
            K::Case => self.case()?,
            K::Array => return self.array(),
            K::Exists if opens => {
                self.bump();
                ExprKind::Exists(Box::new(self.bracketed_query()?))
            }
            K::Row if opens => {
                let fields = self.row_fields()?;
                return self.row_or_overlaps(true, fields, at);
            }
            K::Grouping if opens => {
                self.bump();
                ExprKind::Grouping(self.bracketed_list(Self::expr)?)
            }
            _ => {
                if let Some(kind) = self.special()? {
                    kind
                } else if self.is_typed_literal() {
                    self.typed_literal()?
                } else {
                    return self.named();
                }
            }
        };
        Ok(Expr { at, kind })
    }

    fn case(&mut self) -> Parsed<ExprKind> {
        self.bump();
        let operand = if self.is(K::When) {
            None
        } else {
            Some(self.expr()?)
        };
        let mut branches = Vec::new();
        self.expect(K::When)?;
        loop {
            let condition = self.expr()?;
            self.expect(K::Then)?;
            branches.push((condition, self.expr()?));
            if !self.eat(K::When) {
                break;
            }
        }
        let otherwise = if self.eat(K::Else) {
            Some(self.expr()?)
        } else {
            None
        };
        self.expect(K::End)?;
        Ok(ExprKind::Case(Box::new(Case {
            operand,
            branches,
            otherwise,
        })))
    }

    fn array(&mut self) -> Parsed<Expr> {
        let at = self.pos();
        self.bump();
        if self.kind() == TokenKind::Open {
            let query = self.bracketed_query()?;
            return Ok(Expr {
                at,
                kind: ExprKind::ArrayQuery(Box::new(query)),
            });
        }
        let mut array = self.array_elements()?;
        array.at = at;
        Ok(array)
    }

    fn array_elements(&mut self) -> Parsed<Expr> {
        self.nested(|parser| {
            let at = parser.pos();
            parser.expect_kind(TokenKind::OpenBracket)?;
            let mut elements = Vec::new();
            if parser.kind() == TokenKind::OpenBracket {
                elements = parser.list(Self::array_elements)?;
            } else if parser.kind() != TokenKind::CloseBracket {
                elements = parser.exprs()?;
            }
            parser.expect_kind(TokenKind::CloseBracket)?;
            Ok(Expr {
                at,
                kind: ExprKind::Array(elements),
            })
        })
    }

    /// A column, a function's call, or a constant behind its type.
    fn named(&mut self) -> Parsed<Expr> {
        let at = self.pos();
        let category = match self.kind() {
            TokenKind::Keyword => self.keyword().category(),
            _ => Category::Unreserved,
        };
        if category == Category::TypeOrFunction {
            let name = self.type_or_function_name()?;
            return self.call_or_literal(Path(vec![name]), at);
        }
        let mut path = vec![self.column_name()?];
        let mut star = false;
        while self.kind() == TokenKind::Dot {
            self.bump();
            if self.eat_kind(TokenKind::Star) {
                star = true;
                break;
            }
            path.push(self.label()?);
        }
        let is_function = category != Category::ColumnName || path.len() > 1;
        if !star && is_function && matches!(self.kind(), TokenKind::Open | TokenKind::String) {
            return self.call_or_literal(Path(path), at);
        }
        if star {
            self.end_of_star()?;
        }
        let column = Expr {
            at,
            kind: ExprKind::Column {
                path: Path(path),
                star,
            },
        };
        if self.kind() != TokenKind::OpenBracket {
            return Ok(column);
        }
        self.indirection(column)
    }

    fn call_or_literal(&mut self, name: Path, at: u32) -> Parsed<Expr> {
        match self.kind() {
            TokenKind::Open => self.call(name, at),
            TokenKind::String => {
                let target = Self::named_type(name, Vec::new(), at);
                let operand = literal(Literal::String(String::new()), self.pos());
                let value = self.string()?;
                let operand = Expr {
                    kind: ExprKind::Literal(Literal::String(value)),
                    ..operand
                };
                Ok(Expr {
                    at,
                    kind: ExprKind::Cast(Box::new(Cast { operand, target })),
                })
            }
            _ => Err(self.error()),
        }
    }

    /// A field name behind `NAME` in SQL/XML, which may be any word.
    pub(super) fn xml_name(&mut self) -> Parsed<Name> {
        self.expect(K::Name)?;
        self.label()
    }
}

pub(super) fn literal(value: Literal, at: u32) -> Expr {
    Expr {
        at,
        kind: ExprKind::Literal(value),
    }
}
