//! Functions, procedures, aggregates, operators and casts.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::{Category, Keyword as K};
use crate::lexer::token::TokenKind;
use crate::tree::{
    AggregateArguments, AggregateRef, AlterRoutine, CastContext, CastMethod, CreateAggregate,
    CreateCast, CreateRoutine, OperatorRef, Parameter, ParameterMode, Returns, RoutineBody,
    RoutineKind, RoutineOption, RoutineRef, StatementKind, TypeName, Volatility,
};

impl Parser<'_> {
    /// FUNCTION, PROCEDURE or ROUTINE, if one of them is here.
    pub(super) fn routine_kind(&mut self) -> Option<RoutineKind> {
        let kind = match self.keyword() {
            K::Function => RoutineKind::Function,
            K::Procedure => RoutineKind::Procedure,
            K::Routine => RoutineKind::Routine,
            _ => return None,
        };
        self.bump();
        Some(kind)
    }

    /// `function_with_argtypes`
    pub(super) fn routine_ref(&mut self) -> Parsed<RoutineRef> {
        let name = if self.is_kind_at(1, TokenKind::Open) || self.is_kind_at(1, TokenKind::Dot) {
            self.function_name()?
        } else if self.is_type_or_function_name(0) && !self.is_column_name(0) {
            crate::tree::Path(vec![self.type_or_function_name()?])
        } else {
            self.any_name()?
        };
        let parameters = if self.kind() == TokenKind::Open {
            Some(self.parameters(false)?)
        } else {
            None
        };
        Ok(RoutineRef { name, parameters })
    }

    fn parameters(&mut self, defaults: bool) -> Parsed<Vec<Parameter>> {
        self.in_brackets(|parser| {
            if parser.kind() == TokenKind::Close {
                return Ok(Vec::new());
            }
            parser.list(|parser| {
                let mut parameter = parser.parameter()?;
                if defaults && (parser.eat(K::Default) || parser.eat_kind(TokenKind::Equal)) {
                    parameter.default = Some(parser.expr()?);
                }
                Ok(parameter)
            })
        })
    }

    fn parameter_mode(&mut self) -> ParameterMode {
        if self.eat(K::In) {
            return if self.eat(K::Out) {
                ParameterMode::InOut
            } else {
                ParameterMode::In
            };
        }
        let mode = match self.keyword() {
            K::Out => ParameterMode::Out,
            K::Inout => ParameterMode::InOut,
            K::Variadic => ParameterMode::Variadic,
            _ => return ParameterMode::Default,
        };
        self.bump();
        mode
    }

    /// `func_arg`
    fn parameter(&mut self) -> Parsed<Parameter> {
        let mut mode = self.parameter_mode();
        let mut name = None;
        let is_named = self.is_type_or_function_name(0)
            && (self.is_type_start(1) || mode == ParameterMode::Default && self.is_mode(1));
        if is_named {
            name = Some(self.type_or_function_name()?);
            if mode == ParameterMode::Default {
                mode = self.parameter_mode();
            }
        }
        Ok(Parameter {
            mode,
            name,
            kind: self.function_type()?,
            default: None,
        })
    }

    fn is_mode(&self, ahead: usize) -> bool {
        matches!(
            self.peek(ahead).keyword,
            K::In | K::Out | K::Inout | K::Variadic
        )
    }

    /// Whether a type begins there, and not what only goes on with one.
    fn is_type_start(&self, ahead: usize) -> bool {
        let token = self.peek(ahead);
        match token.kind {
            TokenKind::Name => true,
            TokenKind::Keyword => match token.keyword.category() {
                Category::Unreserved | Category::TypeOrFunction => true,
                Category::ColumnName => matches!(
                    token.keyword,
                    K::Bigint
                        | K::Bit
                        | K::Boolean
                        | K::Char
                        | K::Character
                        | K::Dec
                        | K::Decimal
                        | K::Float
                        | K::Int
                        | K::Integer
                        | K::Interval
                        | K::National
                        | K::Nchar
                        | K::Numeric
                        | K::Real
                        | K::Setof
                        | K::Smallint
                        | K::Time
                        | K::Timestamp
                        | K::Varchar
                ),
                Category::Reserved => false,
            },
            _ => false,
        }
    }

    pub(super) fn aggregate_ref(&mut self) -> Parsed<AggregateRef> {
        Ok(AggregateRef {
            name: self.function_name()?,
            arguments: self.aggregate_arguments()?,
        })
    }

    fn aggregate_arguments(&mut self) -> Parsed<AggregateArguments> {
        self.in_brackets(|parser| {
            if parser.eat_kind(TokenKind::Star) {
                return Ok(AggregateArguments::Star);
            }
            let direct = if parser.is(K::Order) {
                Vec::new()
            } else {
                parser.list(Self::aggregate_parameter)?
            };
            let ordered = if parser.eat(K::Order) {
                parser.expect(K::By)?;
                Some(parser.list(Self::aggregate_parameter)?)
            } else {
                None
            };
            if let Some(ordered) = &ordered {
                check_ordered(&direct, ordered)?;
            }
            Ok(AggregateArguments::List(direct, ordered))
        })
    }

    fn aggregate_parameter(&mut self) -> Parsed<Parameter> {
        let at = self.pos();
        let parameter = self.parameter()?;
        if matches!(parameter.mode, ParameterMode::Out | ParameterMode::InOut) {
            let message = "aggregates cannot have output arguments";
            return Err(SyntaxError::new(Fault::NotSupported, message, at));
        }
        Ok(parameter)
    }

    pub(super) fn operator_ref(&mut self) -> Parsed<OperatorRef> {
        let operator = self.any_operator()?;
        let (left, right) = self.in_brackets(|parser| {
            let left = parser.operand_type()?;
            if parser.kind() == TokenKind::Close {
                let message = "missing argument";
                let mut error = SyntaxError::new(Fault::Syntax, message, parser.pos());
                error.hint = Some("Use NONE to denote the missing argument of a unary operator.");
                return Err(error);
            }
            parser.expect_kind(TokenKind::Comma)?;
            let right = parser.operand_type()?;
            if left.is_none() && right.is_none() {
                return Err(parser.error());
            }
            Ok((left, right))
        })?;
        Ok(OperatorRef {
            operator,
            left,
            right,
        })
    }

    fn operand_type(&mut self) -> Parsed<Option<TypeName>> {
        if self.eat(K::None) {
            Ok(None)
        } else {
            self.type_name().map(Some)
        }
    }

    pub(super) fn create_routine(&mut self, or_replace: bool) -> Parsed<StatementKind> {
        let procedure = self.is(K::Procedure);
        self.bump();
        let name = self.function_name()?;
        let parameters = self.parameters(true)?;
        let returns = if !procedure && self.is(K::Returns) && !self.is_at(1, K::Null) {
            self.bump();
            Some(self.returns()?)
        } else {
            None
        };
        if matches!(returns, Some(Returns::Table(_))) {
            let output = |parameter: &&Parameter| {
                matches!(parameter.mode, ParameterMode::Out | ParameterMode::InOut)
            };
            if let Some(parameter) = parameters.iter().find(output) {
                let message = "OUT and INOUT arguments aren't allowed in TABLE functions";
                return Err(SyntaxError::new(Fault::Syntax, message, parameter.kind.at));
            }
        }
        let mut options = Vec::new();
        while let Some(option) = self.routine_option(true)? {
            options.push(option);
        }
        Ok(StatementKind::CreateRoutine(Box::new(CreateRoutine {
            or_replace,
            procedure,
            name,
            parameters,
            returns,
            options,
            body: self.routine_body()?,
        })))
    }

    fn returns(&mut self) -> Parsed<Returns> {
        if !self.eat(K::Table) {
            return Ok(Returns::Type(self.function_type()?));
        }
        let columns = self.bracketed_list(|parser| {
            Ok((parser.type_or_function_name()?, parser.function_type()?))
        })?;
        Ok(Returns::Table(columns))
    }

    fn routine_option(&mut self, create: bool) -> Parsed<Option<RoutineOption>> {
        let word = self.keyword();
        let option = match word {
            K::As if create => {
                self.bump();
                let mut texts = vec![self.string()?];
                if self.eat_kind(TokenKind::Comma) {
                    texts.push(self.string()?);
                }
                RoutineOption::As(texts)
            }
            K::Language if create => {
                self.bump();
                RoutineOption::Language(self.word_or_string()?)
            }
            K::Transform if create => {
                self.bump();
                RoutineOption::Transform(self.list(|parser| {
                    parser.expect_all(&[K::For, K::Type])?;
                    parser.type_name()
                })?)
            }
            K::Window if create => {
                self.bump();
                RoutineOption::Window
            }
            K::Called => {
                self.bump();
                self.expect_all(&[K::On, K::Null, K::Input])?;
                RoutineOption::Strict(false)
            }
            K::Returns => {
                self.bump();
                self.expect_all(&[K::Null, K::On, K::Null, K::Input])?;
                RoutineOption::Strict(true)
            }
            K::Strict => {
                self.bump();
                RoutineOption::Strict(true)
            }
            K::Immutable | K::Stable | K::Volatile => {
                self.bump();
                RoutineOption::Volatility(match word {
                    K::Immutable => Volatility::Immutable,
                    K::Stable => Volatility::Stable,
                    _ => Volatility::Volatile,
                })
            }
            K::External | K::Security => {
                if self.eat(K::External) && !self.is(K::Security) {
                    return Err(self.error());
                }
                self.bump();
                let definer = self.eat(K::Definer);
                if !definer {
                    self.expect(K::Invoker)?;
                }
                RoutineOption::SecurityDefiner(definer)
            }
            K::Leakproof => {
                self.bump();
                RoutineOption::Leakproof(true)
            }
            K::Not => {
                self.bump();
                self.expect(K::Leakproof)?;
                RoutineOption::Leakproof(false)
            }
            K::Cost => {
                self.bump();
                RoutineOption::Cost(self.numeric()?)
            }
            K::Rows => {
                self.bump();
                RoutineOption::Rows(self.numeric()?)
            }
            K::Support => {
                self.bump();
                RoutineOption::Support(self.any_name()?)
            }
            K::Set | K::Reset => RoutineOption::Setting(self.set_or_reset()?),
            K::Parallel => {
                self.bump();
                RoutineOption::Parallel(self.column_name()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    fn routine_body(&mut self) -> Parsed<Option<RoutineBody>> {
        if self.eat(K::Return) {
            return Ok(Some(RoutineBody::Return(self.expr()?)));
        }
        if !self.eat(K::Begin) {
            return Ok(None);
        }
        self.expect(K::Atomic)?;
        let mut statements = Vec::new();
        while !self.eat(K::End) {
            if self.eat_kind(TokenKind::Semicolon) {
                continue;
            }
            statements.push(if self.eat(K::Return) {
                StatementKind::Return(Box::new(self.expr()?))
            } else {
                self.statement()?
            });
            self.expect_kind(TokenKind::Semicolon)?;
        }
        Ok(Some(RoutineBody::Atomic(statements)))
    }

    /// Behind the name of a routine.
    pub(super) fn alter_routine(
        &mut self,
        kind: RoutineKind,
        routine: RoutineRef,
    ) -> Parsed<StatementKind> {
        let mut options = Vec::new();
        while let Some(option) = self.routine_option(false)? {
            options.push(option);
        }
        if options.is_empty() {
            return Err(self.error());
        }
        self.eat(K::Restrict);
        Ok(StatementKind::AlterRoutine(AlterRoutine {
            kind,
            routine,
            options,
        }))
    }

    pub(super) fn create_aggregate(&mut self, or_replace: bool) -> Parsed<StatementKind> {
        self.bump();
        let name = self.function_name()?;
        // In the old form options stand in the place of the arguments.
        let is_old = self.kind() == TokenKind::Open
            && self.is_kind_at(1, TokenKind::Name)
            && self.is_kind_at(2, TokenKind::Equal);
        let arguments = if is_old {
            None
        } else {
            Some(self.aggregate_arguments()?)
        };
        Ok(StatementKind::CreateAggregate(CreateAggregate {
            or_replace,
            name,
            arguments,
            options: self.definition()?,
        }))
    }

    pub(super) fn create_cast(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let (source, target) = self.in_brackets(|parser| {
            let source = parser.type_name()?;
            parser.expect(K::As)?;
            Ok((source, parser.type_name()?))
        })?;
        let method = if self.eat(K::Without) {
            self.expect(K::Function)?;
            CastMethod::Binary
        } else {
            self.expect(K::With)?;
            if self.eat(K::Inout) {
                CastMethod::InOut
            } else {
                self.expect(K::Function)?;
                CastMethod::Function(self.routine_ref()?)
            }
        };
        let context = if !self.eat(K::As) {
            CastContext::Explicit
        } else if self.eat(K::Implicit) {
            CastContext::Implicit
        } else {
            self.expect(K::Assignment)?;
            CastContext::Assignment
        };
        Ok(StatementKind::CreateCast(Box::new(CreateCast {
            source,
            target,
            method,
            context,
        })))
    }
}

/// Arguments behind ORDER BY: a VARIADIC direct one has to come again, as the only one.
fn check_ordered(direct: &[Parameter], ordered: &[Parameter]) -> Parsed<()> {
    let Some(last) = direct
        .last()
        .filter(|last| last.mode == ParameterMode::Variadic)
    else {
        return Ok(());
    };
    let same = |parameter: &Parameter| {
        parameter.mode == ParameterMode::Variadic && parameter.kind.base_is(&last.kind)
    };
    if ordered.len() == 1 && same(&ordered[0]) {
        return Ok(());
    }
    let message = "an ordered-set aggregate with a VARIADIC direct argument must have one VARIADIC aggregated \
                   argument of the same data type";
    Err(SyntaxError::new(Fault::NotSupported, message, last.kind.at))
}
