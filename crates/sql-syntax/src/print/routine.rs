//! Printing of functions, procedures, aggregates, operators and casts.

use super::Printer;
use crate::tree::{
    AggregateArguments, AggregateRef, AlterRoutine, CastContext, CastMethod, CreateAggregate,
    CreateCast, CreateRoutine, OperatorRef, Parameter, ParameterMode, Returns, RoutineBody,
    RoutineKind, RoutineOption, RoutineRef, TypeName, Volatility,
};

impl Printer {
    pub(super) fn routine_kind(&mut self, kind: RoutineKind) {
        self.put(match kind {
            RoutineKind::Function => "FUNCTION",
            RoutineKind::Procedure => "PROCEDURE",
            RoutineKind::Routine => "ROUTINE",
        });
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.put(match parameter.mode {
            ParameterMode::Default => "",
            ParameterMode::In => "IN",
            ParameterMode::Out => "OUT",
            ParameterMode::InOut => "INOUT",
            ParameterMode::Variadic => "VARIADIC",
        });
        self.named("", parameter.name.as_ref());
        self.type_name(&parameter.kind);
        self.clause("DEFAULT", parameter.default.as_ref());
    }

    pub(super) fn routine_ref(&mut self, routine: &RoutineRef) {
        self.path(&routine.name);
        if let Some(parameters) = &routine.parameters {
            self.bracketed(parameters, Self::parameter);
        }
    }

    fn aggregate_arguments(&mut self, arguments: &AggregateArguments) {
        self.brackets(|printer| match arguments {
            AggregateArguments::Star => printer.put("*"),
            AggregateArguments::List(direct, ordered) => {
                printer.list(direct, Self::parameter);
                if let Some(ordered) = ordered {
                    printer.put("ORDER BY");
                    printer.list(ordered, Self::parameter);
                }
            }
        });
    }

    pub(super) fn aggregate_ref(&mut self, aggregate: &AggregateRef) {
        self.path(&aggregate.name);
        self.aggregate_arguments(&aggregate.arguments);
    }

    pub(super) fn operator_ref(&mut self, operator: &OperatorRef) {
        self.bare_operator(&operator.operator);
        self.brackets(|printer| {
            printer.type_or_none(operator.left.as_ref());
            printer.put(",");
            printer.type_or_none(operator.right.as_ref());
        });
    }

    fn type_or_none(&mut self, kind: Option<&TypeName>) {
        match kind {
            Some(kind) => self.type_name(kind),
            None => self.put("NONE"),
        }
    }

    pub(super) fn create_routine(&mut self, routine: &CreateRoutine) {
        self.put("CREATE");
        self.put_if(routine.or_replace, "OR REPLACE");
        self.put(if routine.procedure {
            "PROCEDURE"
        } else {
            "FUNCTION"
        });
        self.path(&routine.name);
        self.bracketed(&routine.parameters, Self::parameter);
        match &routine.returns {
            None => {}
            Some(Returns::Type(kind)) => {
                self.put("RETURNS");
                self.type_name(kind);
            }
            Some(Returns::Table(columns)) => {
                self.put("RETURNS TABLE");
                self.bracketed(columns, |printer, (name, kind)| {
                    printer.name(name);
                    printer.type_name(kind);
                });
            }
        }
        for option in &routine.options {
            self.routine_option(option);
        }
        match &routine.body {
            None => {}
            Some(RoutineBody::Return(value)) => self.clause("RETURN", Some(value)),
            Some(RoutineBody::Atomic(statements)) => {
                self.put("BEGIN ATOMIC");
                for statement in statements {
                    self.statement(statement);
                    self.glue(";");
                }
                self.put("END");
            }
        }
    }

    fn routine_option(&mut self, option: &RoutineOption) {
        match option {
            RoutineOption::As(texts) => {
                self.put("AS");
                self.list(texts, |printer, text| printer.string(text));
            }
            RoutineOption::Language(name) => {
                self.put("LANGUAGE");
                self.string(name);
            }
            RoutineOption::Transform(types) => {
                self.put("TRANSFORM");
                self.list(types, |printer, kind| {
                    printer.put("FOR TYPE");
                    printer.type_name(kind);
                });
            }
            RoutineOption::Window => self.put("WINDOW"),
            RoutineOption::Strict(true) => self.put("STRICT"),
            RoutineOption::Strict(false) => self.put("CALLED ON NULL INPUT"),
            RoutineOption::Volatility(Volatility::Immutable) => self.put("IMMUTABLE"),
            RoutineOption::Volatility(Volatility::Stable) => self.put("STABLE"),
            RoutineOption::Volatility(Volatility::Volatile) => self.put("VOLATILE"),
            RoutineOption::SecurityDefiner(true) => self.put("SECURITY DEFINER"),
            RoutineOption::SecurityDefiner(false) => self.put("SECURITY INVOKER"),
            RoutineOption::Leakproof(true) => self.put("LEAKPROOF"),
            RoutineOption::Leakproof(false) => self.put("NOT LEAKPROOF"),
            RoutineOption::Cost(number) => {
                self.put("COST");
                self.literal(number);
            }
            RoutineOption::Rows(number) => {
                self.put("ROWS");
                self.literal(number);
            }
            RoutineOption::Support(name) => {
                self.put("SUPPORT");
                self.path(name);
            }
            RoutineOption::Setting(setting) => self.setting(setting),
            RoutineOption::Parallel(name) => self.named("PARALLEL", Some(name)),
        }
    }

    pub(super) fn alter_routine(&mut self, alter: &AlterRoutine) {
        self.put("ALTER");
        self.routine_kind(alter.kind);
        self.routine_ref(&alter.routine);
        for option in &alter.options {
            self.routine_option(option);
        }
    }

    pub(super) fn create_aggregate(&mut self, aggregate: &CreateAggregate) {
        self.put("CREATE");
        self.put_if(aggregate.or_replace, "OR REPLACE");
        self.put("AGGREGATE");
        self.path(&aggregate.name);
        if let Some(arguments) = &aggregate.arguments {
            self.aggregate_arguments(arguments);
        }
        self.listed("", &aggregate.options);
    }

    pub(super) fn create_cast(&mut self, cast: &CreateCast) {
        self.put("CREATE CAST (");
        self.type_name(&cast.source);
        self.put("AS");
        self.type_name(&cast.target);
        self.put(")");
        match &cast.method {
            CastMethod::Function(routine) => {
                self.put("WITH FUNCTION");
                self.routine_ref(routine);
            }
            CastMethod::Binary => self.put("WITHOUT FUNCTION"),
            CastMethod::InOut => self.put("WITH INOUT"),
        }
        self.put(match cast.context {
            CastContext::Explicit => "",
            CastContext::Assignment => "AS ASSIGNMENT",
            CastContext::Implicit => "AS IMPLICIT",
        });
    }
}
