//! Calls with a syntax of their own (`func_expr_common_subexpr`).

use super::Parser;
use crate::error::Parsed;
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Argument, Cast, Expr, ExprKind, NormalForm, Special, SqlValue, SubstringCall, TrimSide,
};

impl Parser<'_> {
    /// Whether the current token begins such a call.
    pub(super) fn is_special(&self) -> bool {
        match self.keyword() {
            K::CurrentDate
            | K::CurrentTime
            | K::CurrentTimestamp
            | K::Localtime
            | K::Localtimestamp
            | K::CurrentRole
            | K::CurrentUser
            | K::SessionUser
            | K::User
            | K::CurrentCatalog => true,
            K::CurrentSchema => !self.is_kind_at(1, TokenKind::Open),
            K::Collation => self.is_at(1, K::For),
            K::Cast
            | K::Coalesce
            | K::Greatest
            | K::Least
            | K::Nullif
            | K::Extract
            | K::Normalize
            | K::Overlay
            | K::Position
            | K::Substring
            | K::Treat
            | K::Trim
            | K::Xmlconcat
            | K::Xmlelement
            | K::Xmlexists
            | K::Xmlforest
            | K::Xmlparse
            | K::Xmlpi
            | K::Xmlroot
            | K::Xmlserialize => self.is_kind_at(1, TokenKind::Open),
            _ => false,
        }
    }

    pub(super) fn special(&mut self) -> Parsed<Option<ExprKind>> {
        if !self.is_special() {
            return Ok(None);
        }
        let word = self.keyword();
        self.bump();
        if let Some(value) = sql_value(word) {
            let has_precision = matches!(
                value,
                SqlValue::CurrentTime
                    | SqlValue::CurrentTimestamp
                    | SqlValue::Localtime
                    | SqlValue::Localtimestamp
            );
            let precision = if has_precision && self.kind() == TokenKind::Open {
                Some(self.in_brackets(Self::integer)?)
            } else {
                None
            };
            return Ok(Some(ExprKind::Special(Box::new(Special::Value(
                value, precision,
            )))));
        }
        if word == K::Collation {
            self.bump();
        }
        self.expect_kind(TokenKind::Open)?;
        let special = match word {
            K::Cast => {
                let operand = self.expr()?;
                self.expect(K::As)?;
                let target = self.type_name()?;
                self.expect_kind(TokenKind::Close)?;
                let cast = Cast { operand, target };
                return Ok(Some(ExprKind::Cast(Box::new(cast))));
            }
            K::Collation => Special::CollationFor(self.expr()?),
            K::Coalesce => Special::Coalesce(self.exprs()?),
            K::Greatest => Special::Greatest(self.exprs()?),
            K::Least => Special::Least(self.exprs()?),
            K::Nullif => {
                let left = self.expr()?;
                self.expect_kind(TokenKind::Comma)?;
                Special::NullIf(left, self.expr()?)
            }
            K::Extract => {
                let field = if self.kind() == TokenKind::String {
                    self.string()?
                } else {
                    self.extract_field()?
                };
                self.expect(K::From)?;
                Special::Extract(field, self.expr()?)
            }
            K::Normalize => {
                let text = self.expr()?;
                let form = if self.eat_kind(TokenKind::Comma) {
                    let form = self.normal_form().ok_or_else(|| self.error())?;
                    self.bump();
                    form
                } else {
                    NormalForm::Default
                };
                Special::Normalize(text, form)
            }
            K::Overlay => self.overlay()?,
            K::Position => {
                let part = self.restricted_expr()?;
                self.expect(K::In)?;
                Special::Position(part, self.restricted_expr()?)
            }
            K::Substring => self.substring()?,
            K::Treat => {
                let operand = self.expr()?;
                self.expect(K::As)?;
                Special::Treat(operand, self.type_name()?)
            }
            K::Trim => self.trim()?,
            _ => Special::Xml(self.xml(word)?),
        };
        self.expect_kind(TokenKind::Close)?;
        Ok(Some(ExprKind::Special(Box::new(special))))
    }

    fn extract_field(&mut self) -> Parsed<String> {
        let fits = self.kind() == TokenKind::Name
            || self.any(&[K::Year, K::Month, K::Day, K::Hour, K::Minute, K::Second]);
        if !fits {
            return Err(self.error());
        }
        Ok(self.label()?.text.into())
    }

    /// The arguments of a call with commas, of which the first may have been read.
    fn plain(&mut self, name: &'static str, first: Option<Expr>) -> Parsed<Special> {
        let mut arguments = Vec::new();
        if let Some(value) = first {
            arguments.push(Argument { name: None, value });
            while self.eat_kind(TokenKind::Comma) {
                arguments.push(self.argument()?);
            }
        } else if self.kind() != TokenKind::Close {
            arguments = self.list(Self::argument)?;
        }
        Ok(Special::Plain(name, arguments))
    }

    fn is_plain(&self) -> bool {
        self.kind() == TokenKind::Close
            || matches!(self.peek(1).kind, TokenKind::ColonEquals | TokenKind::Arrow)
    }

    fn overlay(&mut self) -> Parsed<Special> {
        if self.is_plain() {
            return self.plain("overlay", None);
        }
        let text = self.expr()?;
        if !self.eat(K::Placing) {
            return self.plain("overlay", Some(text));
        }
        let placing = self.expr()?;
        self.expect(K::From)?;
        let from = self.expr()?;
        let length = if self.eat(K::For) {
            Some(self.expr()?)
        } else {
            None
        };
        Ok(Special::Overlay {
            text,
            placing,
            from,
            length,
        })
    }

    fn substring(&mut self) -> Parsed<Special> {
        if self.is_plain() {
            return self.plain("substring", None);
        }
        let text = self.expr()?;
        let mut call = SubstringCall {
            text,
            from: None,
            length: None,
            similar: None,
        };
        if self.eat(K::Similar) {
            let pattern = self.expr()?;
            self.expect(K::Escape)?;
            call.similar = Some((pattern, self.expr()?));
        } else if self.eat(K::From) {
            call.from = Some(self.expr()?);
            if self.eat(K::For) {
                call.length = Some(self.expr()?);
            }
        } else if self.eat(K::For) {
            call.length = Some(self.expr()?);
            if self.eat(K::From) {
                call.from = Some(self.expr()?);
            }
        } else {
            return self.plain("substring", Some(call.text));
        }
        Ok(Special::Substring(call))
    }

    fn trim(&mut self) -> Parsed<Special> {
        let side = match self.keyword() {
            K::Both => TrimSide::Both,
            K::Leading => TrimSide::Leading,
            K::Trailing => TrimSide::Trailing,
            _ => return self.trim_arguments(TrimSide::Both),
        };
        self.bump();
        self.trim_arguments(side)
    }

    /// The text first, then what is trimmed off.
    fn trim_arguments(&mut self, side: TrimSide) -> Parsed<Special> {
        if self.eat(K::From) {
            return Ok(Special::Trim(side, self.exprs()?));
        }
        let mut arguments = self.exprs()?;
        if arguments.len() == 1 && self.eat(K::From) {
            let characters = arguments.pop();
            arguments = self.exprs()?;
            arguments.extend(characters);
        }
        Ok(Special::Trim(side, arguments))
    }
}

fn sql_value(word: K) -> Option<SqlValue> {
    Some(match word {
        K::CurrentDate => SqlValue::CurrentDate,
        K::CurrentTime => SqlValue::CurrentTime,
        K::CurrentTimestamp => SqlValue::CurrentTimestamp,
        K::Localtime => SqlValue::Localtime,
        K::Localtimestamp => SqlValue::Localtimestamp,
        K::CurrentRole => SqlValue::CurrentRole,
        K::CurrentUser => SqlValue::CurrentUser,
        K::SessionUser => SqlValue::SessionUser,
        K::User => SqlValue::User,
        K::CurrentCatalog => SqlValue::CurrentCatalog,
        K::CurrentSchema => SqlValue::CurrentSchema,
        _ => return None,
    })
}
