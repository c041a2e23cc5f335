//! Expressions by precedence: `a_expr` and its restricted form `b_expr`.
//!
//! Levels are those of the grammar's precedence table. An operator whose rule ends in an
//! operand takes what binds more tightly than itself; one that does not associate refuses
//! another of its level behind that operand, as the grammar does.

use smol_str::SmolStr;

use super::Parser;
use super::primary::Inside;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::lexer::too_deep;
use crate::tree::{
    Between, Cast, Comparison, Distinct, Expr, ExprKind, InList, InQuery, Is, Like, LikeKind,
    Literal, NormalForm, Operator, Quantified, Quantity, Test,
};

const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARISON: u8 = 5;
/// BETWEEN, IN, LIKE and its kin.
const RANGE: u8 = 6;
const OPERATOR: u8 = 8;
const SUM: u8 = 9;
const PRODUCT: u8 = 10;
const POWER: u8 = 11;
const AT: u8 = 12;
const COLLATE: u8 = 13;
const SIGN: u8 = 14;
const CAST: u8 = 15;

/// Which expressions are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// `a_expr`
    All,
    /// `b_expr`: where AND, IN and the like would be ambiguous.
    Restricted,
}

impl Parser<'_> {
    /// `a_expr`
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.operand(Mode::All, 0)
    }

    /// `b_expr`
    pub(super) fn restricted_expr(&mut self) -> Parsed<Expr> {
        self.operand(Mode::Restricted, 0)
    }

    /// `expr_list`
    pub(super) fn exprs(&mut self) -> Parsed<Vec<Expr>> {
        self.list(Self::expr)
    }

    /// An expression of operators of level `least` and above.
    fn operand(&mut self, mode: Mode, least: u8) -> Parsed<Expr> {
        self.nested(|parser| {
            let outside = std::mem::take(&mut parser.height);
            let left = parser.prefix(mode)?;
            parser.infix(left, mode, least, outside)
        })
    }

    fn prefix(&mut self, mode: Mode) -> Parsed<Expr> {
        let at = self.pos();
        match self.kind() {
            TokenKind::Minus => {
                self.bump();
                let operand = self.operand(mode, SIGN)?;
                Ok(negated(operand, at))
            }
            TokenKind::Plus => {
                self.bump();
                let operand = self.operand(mode, SIGN)?;
                Ok(prefixed(SmolStr::new_static("+"), operand, at))
            }
            TokenKind::Operator => {
                let symbol = self.token_text().into();
                self.bump();
                let operand = self.operand(mode, OPERATOR + 1)?;
                Ok(prefixed(symbol, operand, at))
            }
            TokenKind::Keyword => match self.keyword() {
                K::Operator if self.is_kind_at(1, TokenKind::Open) => {
                    let operator = self.qualified_operator()?;
                    let operand = self.operand(mode, OPERATOR + 1)?;
                    Ok(Expr {
                        at,
                        kind: ExprKind::Prefix(operator, Box::new(operand)),
                    })
                }
                K::Not if mode == Mode::All => {
                    self.bump();
                    let operand = self.operand(mode, NOT)?;
                    Ok(Expr {
                        at,
                        kind: ExprKind::Not(Box::new(operand)),
                    })
                }
                K::Default if mode == Mode::All => {
                    self.bump();
                    Ok(Expr {
                        at,
                        kind: ExprKind::Default,
                    })
                }
                K::Unique if mode == Mode::All && self.is_kind_at(1, TokenKind::Open) => {
                    Err(SyntaxError::new(
                        Fault::NotSupported,
                        "UNIQUE predicate is not yet implemented",
                        at,
                    ))
                }
                _ => self.primary(),
            },
            _ => self.primary(),
        }
    }

    /// The level of the operator that the current token begins, if it begins one.
    fn level(&self, mode: Mode) -> Option<u8> {
        Some(match self.kind() {
            TokenKind::Less
            | TokenKind::Greater
            | TokenKind::Equal
            | TokenKind::LessEquals
            | TokenKind::GreaterEquals
            | TokenKind::NotEquals => COMPARISON,
            TokenKind::Plus | TokenKind::Minus => SUM,
            TokenKind::Star | TokenKind::Slash | TokenKind::Percent => PRODUCT,
            TokenKind::Caret => POWER,
            TokenKind::Operator => OPERATOR,
            TokenKind::Cast => CAST,
            TokenKind::Keyword => return self.word_level(mode),
            _ => return None,
        })
    }

    fn word_level(&self, mode: Mode) -> Option<u8> {
        let all = mode == Mode::All;
        let next = self.peek(1).keyword;
        let level = match self.keyword() {
            K::Or if all => OR,
            K::And if all => AND,
            K::Is if all => IS,
            K::Is if matches!(next, K::Distinct | K::Document) => IS,
            K::Is
                if next == K::Not && matches!(self.peek(2).keyword, K::Distinct | K::Document) =>
            {
                IS
            }
            K::Isnull | K::Notnull if all => IS,
            K::Between | K::In | K::Like | K::Ilike if all => RANGE,
            K::Similar if all && next == K::To => RANGE,
            K::Not
                if all && matches!(next, K::Between | K::In | K::Like | K::Ilike | K::Similar) =>
            {
                RANGE
            }
            K::Operator if self.is_kind_at(1, TokenKind::Open) => OPERATOR,
            K::At if all && next == K::Time => AT,
            K::Collate if all => COLLATE,
            _ => return None,
        };
        // A word that nothing follows which it could apply to is a column's label.
        let ends = matches!(self.keyword(), K::Isnull | K::Notnull);
        if !ends && self.is_end_of_target(1) {
            return None;
        }
        Some(level)
    }

    pub(super) fn is_end_of_target(&self, ahead: usize) -> bool {
        let token = self.peek(ahead);
        match token.kind {
            TokenKind::Comma | TokenKind::Close | TokenKind::Semicolon | TokenKind::End => true,
            TokenKind::Keyword => matches!(
                token.keyword,
                K::From
                    | K::Where
                    | K::Group
                    | K::Having
                    | K::Window
                    | K::Union
                    | K::Intersect
                    | K::Except
                    | K::Order
                    | K::Limit
                    | K::Offset
                    | K::Fetch
                    | K::For
                    | K::Into
            ),
            _ => false,
        }
    }

    /// What stands behind a first operand. `outside` is the height of what was read before.
    pub(super) fn infix(
        &mut self,
        first: Expr,
        mode: Mode,
        least: u8,
        outside: u32,
    ) -> Parsed<Expr> {
        let mut left = first;
        let mut height = self.height + 1;
        let mut not_associative = 0;
        while let Some(level) = self.level(mode) {
            if level < least {
                break;
            }
            if level == not_associative {
                return Err(self.error());
            }
            self.height = 0;
            let shape = flat_shape(&left);
            let ends_in_operand;
            (left, ends_in_operand) = self.operator(left, mode, level)?;
            let does_not_associate = matches!(level, IS | COMPARISON | RANGE);
            not_associative = if ends_in_operand && does_not_associate {
                level
            } else {
                0
            };
            height = if shape != 0 && shape == flat_shape(&left) {
                height.max(self.height + 1)
            } else {
                height.max(self.height) + 1
            };
            if height > self.limits.depth {
                return Err(too_deep(left.at));
            }
        }
        self.height = outside.max(height);
        Ok(left)
    }

    /// One operator behind `left`, and whether its rule ends in an operand.
    fn operator(&mut self, left: Expr, mode: Mode, level: u8) -> Parsed<(Expr, bool)> {
        let at = self.pos();
        let kind = match level {
            OR => {
                self.bump();
                let right = self.operand(mode, AND)?;
                return Ok((joined(left, right, at, false), true));
            }
            AND => {
                self.bump();
                let right = self.operand(mode, NOT)?;
                return Ok((joined(left, right, at, true), true));
            }
            IS => return self.is_test(left, mode),
            RANGE => return self.range_test(left),
            COLLATE => {
                self.bump();
                ExprKind::Collate(Box::new(left), self.any_name()?)
            }
            AT => {
                self.bump();
                self.expect_all(&[K::Time, K::Zone])?;
                let zone = self.operand(mode, AT + 1)?;
                ExprKind::AtTimeZone(Box::new(left), Box::new(zone))
            }
            CAST => {
                self.bump();
                let target = self.type_name()?;
                ExprKind::Cast(Box::new(Cast {
                    operand: left,
                    target,
                }))
            }
            _ => {
                let operator = self.qualified_operator()?;
                if mode == Mode::All && self.any(&[K::Any, K::Some, K::All]) {
                    let quantified = self.quantified(left, Comparison::Operator(operator))?;
                    return Ok((
                        Expr {
                            at,
                            kind: quantified,
                        },
                        false,
                    ));
                }
                let right = self.operand(mode, level + 1)?;
                return Ok((binary(left, operator, right, at), true));
            }
        };
        Ok((Expr { at, kind }, false))
    }

    fn is_test(&mut self, operand: Expr, mode: Mode) -> Parsed<(Expr, bool)> {
        let at = self.pos();
        let word = self.keyword();
        self.bump();
        let (negated, test) = match word {
            K::Isnull => (false, Test::Null),
            K::Notnull => (true, Test::Null),
            _ => {
                let negated = self.eat(K::Not);
                if self.eat(K::Distinct) {
                    self.expect(K::From)?;
                    let right = self.operand(mode, IS + 1)?;
                    let distinct = Distinct {
                        left: operand,
                        right,
                        negated,
                    };
                    let kind = ExprKind::Distinct(Box::new(distinct));
                    return Ok((Expr { at, kind }, true));
                }
                (negated, self.test(mode)?)
            }
        };
        let kind = ExprKind::Is(Box::new(Is {
            operand,
            negated,
            test,
        }));
        Ok((Expr { at, kind }, false))
    }

    fn test(&mut self, mode: Mode) -> Parsed<Test> {
        let test = match self.keyword() {
            K::Document => Test::Document,
            _ if mode == Mode::Restricted => return Err(self.error()),
            K::Null => Test::Null,
            K::True => Test::True,
            K::False => Test::False,
            K::Unknown => Test::Unknown,
            K::Normalized => Test::Normalized(NormalForm::Default),
            _ => {
                let form = self.normal_form().ok_or_else(|| self.error())?;
                self.bump();
                if !self.is(K::Normalized) {
                    return Err(self.error());
                }
                Test::Normalized(form)
            }
        };
        self.bump();
        Ok(test)
    }

    pub(super) fn normal_form(&self) -> Option<NormalForm> {
        match self.keyword() {
            K::Nfc => Some(NormalForm::Nfc),
            K::Nfd => Some(NormalForm::Nfd),
            K::Nfkc => Some(NormalForm::Nfkc),
            K::Nfkd => Some(NormalForm::Nfkd),
            _ => None,
        }
    }

    /// BETWEEN, IN, LIKE, ILIKE and SIMILAR TO, with or without NOT.
    fn range_test(&mut self, operand: Expr) -> Parsed<(Expr, bool)> {
        let at = self.pos();
        let negated = self.eat(K::Not);
        let word = self.keyword();
        self.bump();
        let (kind, ends_in_operand) = match word {
            K::Between => (self.between(operand, negated)?, true),
            K::In => (self.in_test(operand, negated)?, false),
            K::Like | K::Ilike | K::Similar => {
                let kind = match word {
                    K::Like => LikeKind::Like,
                    K::Ilike => LikeKind::Ilike,
                    _ => {
                        self.expect(K::To)?;
                        LikeKind::SimilarTo
                    }
                };
                if kind != LikeKind::SimilarTo && self.any(&[K::Any, K::Some, K::All]) {
                    (
                        self.quantified(operand, Comparison::Like(kind, negated))?,
                        false,
                    )
                } else {
                    (self.like(operand, kind, negated)?, true)
                }
            }
            _ => return Err(self.error()),
        };
        Ok((Expr { at, kind }, ends_in_operand))
    }

    fn between(&mut self, operand: Expr, negated: bool) -> Parsed<ExprKind> {
        let symmetric = self.eat(K::Symmetric);
        if !symmetric {
            self.eat(K::Asymmetric);
        }
        let low = self.restricted_expr()?;
        self.expect(K::And)?;
        let high = self.operand(Mode::All, RANGE + 1)?;
        Ok(ExprKind::Between(Box::new(Between {
            operand,
            negated,
            symmetric,
            low,
            high,
        })))
    }

    fn in_test(&mut self, operand: Expr, negated: bool) -> Parsed<ExprKind> {
        self.expect_kind(TokenKind::Open)?;
        let inside = self.inside()?;
        self.expect_kind(TokenKind::Close)?;
        Ok(match inside {
            Inside::Query(query) => ExprKind::InQuery(Box::new(InQuery {
                operand,
                negated,
                query: *query,
            })),
            Inside::Exprs(list) => ExprKind::InList(Box::new(InList {
                operand,
                negated,
                list,
            })),
        })
    }

    fn like(&mut self, operand: Expr, kind: LikeKind, negated: bool) -> Parsed<ExprKind> {
        let pattern = self.operand(Mode::All, RANGE + 1)?;
        let escape = if self.eat(K::Escape) {
            Some(self.operand(Mode::All, RANGE + 1)?)
        } else {
            None
        };
        Ok(ExprKind::Like(Box::new(Like {
            kind,
            negated,
            operand,
            pattern,
            escape,
        })))
    }

    /// ANY, SOME or ALL behind an operator, and what is in the brackets behind them.
    fn quantified(&mut self, left: Expr, comparison: Comparison) -> Parsed<ExprKind> {
        let all = self.is(K::All);
        self.bump();
        self.expect_kind(TokenKind::Open)?;
        let right = match self.inside()? {
            Inside::Query(query) => Quantity::Query(query),
            Inside::Exprs(mut list) => match list.pop() {
                Some(array) if list.is_empty() => Quantity::Array(array),
                _ => return Err(self.error()),
            },
        };
        self.expect_kind(TokenKind::Close)?;
        Ok(ExprKind::Quantified(Box::new(Quantified {
            left,
            comparison,
            all,
            right,
        })))
    }
}

/// Which of the nodes it is that take another operator rather than get a node above them;
/// 0 for the others.
fn flat_shape(expr: &Expr) -> u8 {
    match expr.kind {
        ExprKind::Binary(..) => 1,
        ExprKind::And(_) => 2,
        ExprKind::Or(_) => 3,
        _ => 0,
    }
}

fn prefixed(symbol: SmolStr, operand: Expr, at: u32) -> Expr {
    let operator = Operator {
        schema: Vec::new(),
        symbol,
        at,
    };
    Expr {
        at,
        kind: ExprKind::Prefix(operator, Box::new(operand)),
    }
}

/// A minus in front of a number is the number's.
fn negated(operand: Expr, at: u32) -> Expr {
    let literal = match operand.kind {
        ExprKind::Literal(Literal::Integer(value)) => Literal::Integer(value.wrapping_neg()),
        ExprKind::Literal(Literal::Number(text)) => Literal::Number(match text.strip_prefix('-') {
            Some(positive) => positive.into(),
            None => SmolStr::from_iter(["-", &text]),
        }),
        _ => return prefixed(SmolStr::new_static("-"), operand, at),
    };
    Expr {
        at,
        kind: ExprKind::Literal(literal),
    }
}

fn binary(left: Expr, operator: Operator, right: Expr, at: u32) -> Expr {
    let kind = match left.kind {
        ExprKind::Binary(first, mut rest) => {
            rest.push((operator, right));
            ExprKind::Binary(first, rest)
        }
        kind => {
            let first = Expr { at: left.at, kind };
            ExprKind::Binary(Box::new(first), vec![(operator, right)])
        }
    };
    Expr { at, kind }
}

/// AND or OR. What already is one on the left takes one more operand.
fn joined(left: Expr, right: Expr, at: u32, and: bool) -> Expr {
    let (kind, at) = match (left.kind, and) {
        (ExprKind::And(mut items), true) => {
            items.push(right);
            (ExprKind::And(items), left.at)
        }
        (ExprKind::Or(mut items), false) => {
            items.push(right);
            (ExprKind::Or(items), left.at)
        }
        (kind, _) => {
            let items = vec![Expr { at: left.at, kind }, right];
            let kind = if and {
                ExprKind::And(items)
            } else {
                ExprKind::Or(items)
            };
            (kind, at)
        }
    };
    Expr { at, kind }
}
