//! Names of types.

use super::Parser;
use super::primary::literal;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    BaseType, Builtin, Cast, Expr, ExprKind, IntervalFields, Literal, Path, TypeName,
};

impl Parser<'_> {
    /// `Typename`
    pub(super) fn type_name(&mut self) -> Parsed<TypeName> {
        let at = self.pos();
        let setof = self.eat(K::Setof);
        let mut name = self.simple_type_name()?;
        name.at = at;
        name.setof = setof;
        self.dimensions(&mut name)?;
        Ok(name)
    }

    fn dimensions(&mut self, name: &mut TypeName) -> Parsed<()> {
        if self.eat(K::Array) {
            let length = if self.eat_kind(TokenKind::OpenBracket) {
                let length = self.integer()?;
                self.expect_kind(TokenKind::CloseBracket)?;
                Some(length)
            } else {
                None
            };
            name.dimensions.push(length);
            return Ok(());
        }
        while self.eat_kind(TokenKind::OpenBracket) {
            let length = if self.kind() == TokenKind::CloseBracket {
                None
            } else {
                Some(self.integer()?)
            };
            self.expect_kind(TokenKind::CloseBracket)?;
            name.dimensions.push(length);
        }
        Ok(())
    }

    /// `func_type`: a type, or that of a column.
    pub(super) fn function_type(&mut self) -> Parsed<TypeName> {
        let at = self.pos();
        let setof = self.is(K::Setof);
        let mut ahead = usize::from(setof);
        if self.is_type_or_function_name(ahead) && self.is_kind_at(ahead + 1, TokenKind::Dot) {
            while self.is_kind_at(ahead + 1, TokenKind::Dot) {
                ahead += 2;
            }
            if self.is_kind_at(ahead + 1, TokenKind::Percent) && self.is_at(ahead + 2, K::Type) {
                if setof {
                    self.bump();
                }
                let first = self.type_or_function_name()?;
                let path = self.path_behind(first)?;
                self.bump();
                self.bump();
                return Ok(TypeName {
                    at,
                    setof,
                    base: BaseType::OfColumn(path),
                    dimensions: Vec::new(),
                });
            }
        }
        self.type_name()
    }

    /// `SimpleTypename`: without SETOF and dimensions.
    pub(super) fn simple_type_name(&mut self) -> Parsed<TypeName> {
        let at = self.pos();
        if self.is_builtin_type() {
            return self.builtin_type(false);
        }
        if self.is(K::Interval) {
            self.bump();
            let base = if self.kind() == TokenKind::Open {
                let precision = self.in_brackets(Self::integer)?;
                BaseType::Interval(IntervalFields::All, Some(precision))
            } else {
                self.interval_fields()?
            };
            return Ok(plain_type(base, at));
        }
        let first = self.type_or_function_name()?;
        let path = self.path_behind(first)?;
        let modifiers = if self.kind() == TokenKind::Open {
            self.bracketed_list(Self::expr)?
        } else {
            Vec::new()
        };
        Ok(Self::named_type(path, modifiers, at))
    }

    pub(super) fn named_type(path: Path, modifiers: Vec<Expr>, at: u32) -> TypeName {
        plain_type(BaseType::Named(path, modifiers), at)
    }

    fn is_builtin_type(&self) -> bool {
        match self.keyword() {
            K::Int
            | K::Integer
            | K::Smallint
            | K::Bigint
            | K::Real
            | K::Float
            | K::Decimal
            | K::Dec
            | K::Numeric
            | K::Boolean
            | K::Bit
            | K::Character
            | K::Char
            | K::Varchar
            | K::National
            | K::Nchar
            | K::Timestamp
            | K::Time => true,
            K::Double => self.is_at(1, K::Precision),
            _ => false,
        }
    }

    /// Whether a constant with one of the grammar's own types in front of it begins here,
    /// rather than a column of that name.
    pub(super) fn is_typed_literal(&self) -> bool {
        let next = self.peek(1);
        if self.is(K::Interval) {
            return matches!(next.kind, TokenKind::String | TokenKind::Open);
        }
        self.is_builtin_type()
            && (matches!(next.kind, TokenKind::String | TokenKind::Open)
                || matches!(
                    next.keyword,
                    K::Precision | K::Varying | K::Character | K::Char
                )
                || matches!(next.keyword, K::With | K::Without) && self.is_at(2, K::Time))
    }

    pub(super) fn typed_literal(&mut self) -> Parsed<ExprKind> {
        let at = self.pos();
        if self.eat(K::Interval) {
            return self.interval_literal(at);
        }
        let target = self.builtin_type(true)?;
        let operand = self.string_operand()?;
        Ok(ExprKind::Cast(Box::new(Cast { operand, target })))
    }

    fn string_operand(&mut self) -> Parsed<Expr> {
        let at = self.pos();
        let value = self.string()?;
        Ok(literal(Literal::String(value), at))
    }

    fn interval_literal(&mut self, at: u32) -> Parsed<ExprKind> {
        let precision = if self.kind() == TokenKind::Open {
            Some(self.in_brackets(Self::integer)?)
        } else {
            None
        };
        let operand = self.string_operand()?;
        let base = if precision.is_some() {
            BaseType::Interval(IntervalFields::All, precision)
        } else {
            self.interval_fields()?
        };
        let target = plain_type(base, at);
        Ok(ExprKind::Cast(Box::new(Cast { operand, target })))
    }

    /// `opt_interval`
    fn interval_fields(&mut self) -> Parsed<BaseType> {
        use IntervalFields as F;
        let first = self.keyword();
        let alone = match first {
            K::Year => F::Year,
            K::Month => F::Month,
            K::Day => F::Day,
            K::Hour => F::Hour,
            K::Minute => F::Minute,
            K::Second => F::Second,
            _ => return Ok(BaseType::Interval(F::All, None)),
        };
        self.bump();
        let fields = if alone != F::Second && alone != F::Month && self.eat(K::To) {
            let last = self.keyword();
            let fields = match (first, last) {
                (K::Year, K::Month) => F::YearToMonth,
                (K::Day, K::Hour) => F::DayToHour,
                (K::Day, K::Minute) => F::DayToMinute,
                (K::Day, K::Second) => F::DayToSecond,
                (K::Hour, K::Minute) => F::HourToMinute,
                (K::Hour, K::Second) => F::HourToSecond,
                (K::Minute, K::Second) => F::MinuteToSecond,
                _ => return Err(self.error()),
            };
            self.bump();
            fields
        } else {
            alone
        };
        let to_second = matches!(
            fields,
            F::Second | F::DayToSecond | F::HourToSecond | F::MinuteToSecond
        );
        let precision = if to_second && self.kind() == TokenKind::Open {
            Some(self.in_brackets(Self::integer)?)
        } else {
            None
        };
        Ok(BaseType::Interval(fields, precision))
    }

    /// A type that the grammar has words for. In front of a constant, `char` and `bit`
    /// without a length are of any length; elsewhere they are of one.
    fn builtin_type(&mut self, constant: bool) -> Parsed<TypeName> {
        let at = self.pos();
        let word = self.keyword();
        self.bump();
        let mut modifiers = Vec::new();
        let kind = match word {
            K::Int | K::Integer => Builtin::Integer,
            K::Smallint => Builtin::Smallint,
            K::Bigint => Builtin::Bigint,
            K::Real => Builtin::Real,
            K::Boolean => Builtin::Boolean,
            K::Float => self.float()?,
            K::Double => {
                self.expect(K::Precision)?;
                Builtin::Double
            }
            K::Decimal | K::Dec | K::Numeric => {
                if self.kind() == TokenKind::Open {
                    modifiers = self.bracketed_list(Self::expr)?;
                }
                Builtin::Numeric
            }
            K::Bit => {
                let varying = self.eat(K::Varying);
                if self.kind() == TokenKind::Open {
                    modifiers = self.bracketed_list(Self::expr)?;
                } else if !varying && !constant {
                    modifiers.push(one(at));
                }
                if varying {
                    Builtin::BitVarying
                } else {
                    Builtin::Bit
                }
            }
            K::Time | K::Timestamp => {
                if self.kind() == TokenKind::Open {
                    modifiers.push(self.length()?);
                }
                self.time_type(word == K::Time)?
            }
            _ => {
                if word == K::National && !self.eat(K::Character) {
                    self.expect(K::Char)?;
                }
                let varying = word == K::Varchar || self.eat(K::Varying);
                if self.kind() == TokenKind::Open {
                    modifiers.push(self.length()?);
                } else if !varying && !constant {
                    modifiers.push(one(at));
                }
                if varying {
                    Builtin::CharacterVarying
                } else {
                    Builtin::Character
                }
            }
        };
        Ok(plain_type(BaseType::Builtin(kind, modifiers), at))
    }

    fn length(&mut self) -> Parsed<Expr> {
        let at = self.pos() + 1;
        let length = self.in_brackets(Self::integer)?;
        Ok(literal(Literal::Integer(length), at))
    }

    fn time_type(&mut self, time: bool) -> Parsed<Builtin> {
        let with_zone = self.eat_all(&[K::With, K::Time]);
        if with_zone || self.eat_all(&[K::Without, K::Time]) {
            self.expect(K::Zone)?;
        }
        Ok(match (time, with_zone) {
            (true, false) => Builtin::Time,
            (true, true) => Builtin::TimeWithZone,
            (false, false) => Builtin::Timestamp,
            (false, true) => Builtin::TimestampWithZone,
        })
    }

    /// FLOAT, by how many bits it shall have.
    fn float(&mut self) -> Parsed<Builtin> {
        if self.kind() != TokenKind::Open {
            return Ok(Builtin::Double);
        }
        let at = self.peek(1).start;
        let refused = match self.in_brackets(Self::integer)? {
            ..1 => "precision for type float must be at least 1 bit",
            1..=24 => return Ok(Builtin::Real),
            25..=53 => return Ok(Builtin::Double),
            _ => "precision for type float must be less than 54 bits",
        };
        Err(SyntaxError::new(Fault::InvalidParameter, refused, at))
    }
}

fn one(at: u32) -> Expr {
    literal(Literal::Integer(1), at)
}

fn plain_type(base: BaseType, at: u32) -> TypeName {
    TypeName {
        at,
        setof: false,
        base,
        dimensions: Vec::new(),
    }
}
