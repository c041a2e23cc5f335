//! Calls of functions, and windows.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Argument, ArgumentList, Arguments, Cast, Exclude, Expr, ExprKind, Frame, FrameBound, FrameUnit,
    FunctionCall, Literal, Over, Path, Window,
};

impl Parser<'_> {
    /// A call, or a constant behind a type with modifiers: `name(…) 'constant'`.
    pub(super) fn call(&mut self, name: Path, at: u32) -> Parsed<Expr> {
        let mut call = self.application(name)?;
        if self.kind() == TokenKind::String {
            return self.literal_of_call(call, at);
        }
        self.clauses_of_call(&mut call)?;
        Ok(Expr {
            at,
            kind: ExprKind::Function(Box::new(call)),
        })
    }

    /// `func_application`
    pub(super) fn application(&mut self, name: Path) -> Parsed<FunctionCall> {
        self.expect_kind(TokenKind::Open)?;
        let arguments = if self.kind() == TokenKind::Star && self.is_kind_at(1, TokenKind::Close) {
            self.bump();
            Arguments::Star
        } else {
            Arguments::List(self.argument_list()?)
        };
        self.expect_kind(TokenKind::Close)?;
        Ok(FunctionCall {
            name,
            arguments,
            within_group: Vec::new(),
            filter: None,
            over: None,
        })
    }

    fn argument_list(&mut self) -> Parsed<ArgumentList> {
        let mut list = ArgumentList {
            distinct: false,
            arguments: Vec::new(),
            variadic: false,
            order: Vec::new(),
        };
        if self.kind() == TokenKind::Close {
            return Ok(list);
        }
        list.distinct = self.eat(K::Distinct);
        let quantified = list.distinct || self.eat(K::All);
        loop {
            if !quantified && self.eat(K::Variadic) {
                list.variadic = true;
                list.arguments.push(self.argument()?);
                break;
            }
            list.arguments.push(self.argument()?);
            if !self.eat_kind(TokenKind::Comma) {
                break;
            }
        }
        list.order = self.optional_order()?;
        Ok(list)
    }

    /// `func_arg_expr`
    pub(super) fn argument(&mut self) -> Parsed<Argument> {
        let named = matches!(self.peek(1).kind, TokenKind::ColonEquals | TokenKind::Arrow);
        if named && self.is_type_or_function_name(0) {
            let name = self.type_or_function_name()?;
            self.bump();
            return Ok(Argument {
                name: Some(name),
                value: self.expr()?,
            });
        }
        Ok(Argument {
            name: None,
            value: self.expr()?,
        })
    }

    fn literal_of_call(&mut self, call: FunctionCall, at: u32) -> Parsed<Expr> {
        let Arguments::List(list) = call.arguments else {
            return Err(self.error());
        };
        if list.distinct || list.variadic || list.arguments.is_empty() {
            return Err(self.error());
        }
        let mut modifiers = Vec::new();
        for argument in list.arguments {
            if let Some(name) = argument.name {
                let message = "type modifier cannot have parameter name";
                return Err(SyntaxError::new(Fault::Syntax, message, name.at));
            }
            modifiers.push(argument.value);
        }
        if !list.order.is_empty() {
            let message = "type modifier cannot have ORDER BY";
            return Err(SyntaxError::new(Fault::Syntax, message, at));
        }
        let target = Self::named_type(call.name, modifiers, at);
        let operand = Expr {
            at: self.pos(),
            kind: ExprKind::Literal(Literal::String(self.string()?)),
        };
        Ok(Expr {
            at,
            kind: ExprKind::Cast(Box::new(Cast { operand, target })),
        })
    }

    /// WITHIN GROUP, FILTER and OVER.
    fn clauses_of_call(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        let at = self.pos();
        if self.eat_all(&[K::Within, K::Group]) {
            call.within_group = self.in_brackets(|parser| {
                parser.expect_all(&[K::Order, K::By])?;
                parser.list(Self::sort_item)
            })?;
            let refused = match &call.arguments {
                Arguments::List(list) if !list.order.is_empty() => {
                    Some("cannot use multiple ORDER BY clauses with WITHIN GROUP")
                }
                Arguments::List(list) if list.distinct => {
                    Some("cannot use DISTINCT with WITHIN GROUP")
                }
                Arguments::List(list) if list.variadic => {
                    Some("cannot use VARIADIC with WITHIN GROUP")
                }
                _ => None,
            };
            if let Some(message) = refused {
                return Err(SyntaxError::new(Fault::Syntax, message, at));
            }
        }
        if self.is(K::Filter) && self.is_kind_at(1, TokenKind::Open) {
            self.bump();
            call.filter = Some(self.in_brackets(|parser| {
                parser.expect(K::Where)?;
                parser.expr()
            })?);
        }
        if self.eat(K::Over) {
            call.over = Some(if self.kind() == TokenKind::Open {
                Over::Window(Box::new(self.window()?))
            } else {
                Over::Named(self.column_name()?)
            });
        }
        Ok(())
    }

    /// `window_specification`
    pub(super) fn window(&mut self) -> Parsed<Window> {
        self.in_brackets(|parser| {
            let is_clause = parser.any(&[K::Partition, K::Range, K::Rows, K::Groups]);
            let base = if !is_clause && parser.is_column_name(0) {
                Some(parser.column_name()?)
            } else {
                None
            };
            let partition = if parser.eat(K::Partition) {
                parser.expect(K::By)?;
                parser.exprs()?
            } else {
                Vec::new()
            };
            Ok(Window {
                base,
                partition,
                order: parser.optional_order()?,
                frame: parser.frame()?,
            })
        })
    }

    fn frame(&mut self) -> Parsed<Option<Frame>> {
        let unit = match self.keyword() {
            K::Range => FrameUnit::Range,
            K::Rows => FrameUnit::Rows,
            K::Groups => FrameUnit::Groups,
            _ => return Ok(None),
        };
        self.bump();
        let between = self.eat(K::Between);
        let at = self.pos();
        let start = self.frame_bound()?;
        let end = if between {
            self.expect(K::And)?;
            Some(self.frame_bound()?)
        } else {
            None
        };
        if let Some(message) = refused_frame(&start, end.as_ref()) {
            return Err(SyntaxError::new(Fault::Windowing, message, at));
        }
        let exclude = if self.eat(K::Exclude) {
            self.exclusion()?
        } else {
            Exclude::Nothing
        };
        Ok(Some(Frame {
            unit,
            start,
            end,
            exclude,
        }))
    }

    fn exclusion(&mut self) -> Parsed<Exclude> {
        if self.eat(K::Current) {
            self.expect(K::Row)?;
            return Ok(Exclude::CurrentRow);
        }
        if self.eat(K::Group) {
            return Ok(Exclude::Group);
        }
        if self.eat(K::Ties) {
            return Ok(Exclude::Ties);
        }
        self.expect_all(&[K::No, K::Others])?;
        Ok(Exclude::Nothing)
    }

    fn frame_bound(&mut self) -> Parsed<FrameBound> {
        if self.eat_all(&[K::Unbounded, K::Preceding]) {
            return Ok(FrameBound::UnboundedPreceding);
        }
        if self.eat_all(&[K::Unbounded, K::Following]) {
            return Ok(FrameBound::UnboundedFollowing);
        }
        if self.eat_all(&[K::Current, K::Row]) {
            return Ok(FrameBound::CurrentRow);
        }
        let offset = self.expr()?;
        if self.eat(K::Preceding) {
            return Ok(FrameBound::Preceding(offset));
        }
        self.expect(K::Following)?;
        Ok(FrameBound::Following(offset))
    }
}

fn refused_frame(start: &FrameBound, end: Option<&FrameBound>) -> Option<&'static str> {
    use FrameBound::{CurrentRow, Following, Preceding, UnboundedFollowing, UnboundedPreceding};
    Some(match (start, end) {
        (UnboundedFollowing, _) => "frame start cannot be UNBOUNDED FOLLOWING",
        (Following(_), None) => "frame starting from following row cannot end with current row",
        (_, Some(UnboundedPreceding)) => "frame end cannot be UNBOUNDED PRECEDING",
        (CurrentRow, Some(Preceding(_))) => {
            "frame starting from current row cannot have preceding rows"
        }
        (Following(_), Some(Preceding(_) | CurrentRow)) => {
            "frame starting from following row cannot have preceding rows"
        }
        _ => return None,
    })
}
