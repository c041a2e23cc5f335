//! A walk over the operands of an expression.

use super::{
    Argument, Arguments, Expr, ExprKind, FrameBound, FunctionCall, Over, Quantity, Special, Step,
    Xml,
};

/// Stack for one level of an expression, and what is asked for beyond it.
const RED_ZONE: usize = 64 << 10;
const MORE_STACK: usize = 2 << 20;

impl Expr {
    /// Calls `visit` for this expression and all that it is made of, operands before the
    /// expression itself; not for what stands in subqueries.
    pub fn walk_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
            self.operands_mut(&mut |operand| operand.walk_mut(visit));
        });
        visit(self);
    }

    /// Calls `visit` for the direct operands.
    fn operands_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match &mut self.kind {
            ExprKind::Literal(_)
            | ExprKind::Column { .. }
            | ExprKind::Parameter(_)
            | ExprKind::Default
            | ExprKind::Exists(_)
            | ExprKind::Subquery(_)
            | ExprKind::ArrayQuery(_) => {}
            ExprKind::Indirection(base, steps) => {
                visit(base);
                for step in steps {
                    match step {
                        Step::Field(_) | Step::Star => {}
                        Step::Index(index) => visit(index),
                        Step::Slice(from, to) => {
                            from.iter_mut().chain(to).for_each(&mut *visit);
                        }
                    }
                }
            }
            ExprKind::Binary(first, rest) => {
                visit(first);
                rest.iter_mut().for_each(|(_, operand)| visit(operand));
            }
            ExprKind::Prefix(_, operand)
            | ExprKind::Not(operand)
            | ExprKind::Collate(operand, _) => {
                visit(operand);
            }
            ExprKind::And(all)
            | ExprKind::Or(all)
            | ExprKind::Array(all)
            | ExprKind::Grouping(all) => {
                all.iter_mut().for_each(visit);
            }
            ExprKind::Row(row) => row.fields.iter_mut().for_each(visit),
            ExprKind::Is(is) => visit(&mut is.operand),
            ExprKind::Distinct(distinct) => {
                visit(&mut distinct.left);
                visit(&mut distinct.right);
            }
            ExprKind::Like(like) => {
                visit(&mut like.operand);
                visit(&mut like.pattern);
                like.escape.iter_mut().for_each(visit);
            }
            ExprKind::Between(between) => {
                visit(&mut between.operand);
                visit(&mut between.low);
                visit(&mut between.high);
            }
            ExprKind::InList(list) => {
                visit(&mut list.operand);
                list.list.iter_mut().for_each(visit);
            }
            ExprKind::InQuery(query) => visit(&mut query.operand),
            ExprKind::Quantified(quantified) => {
                visit(&mut quantified.left);
                if let Quantity::Array(array) = &mut quantified.right {
                    visit(array);
                }
            }
            ExprKind::Overlaps(left, right) => left.iter_mut().chain(right).for_each(visit),
            ExprKind::Case(case) => {
                case.operand.iter_mut().for_each(&mut *visit);
                for (condition, result) in &mut case.branches {
                    visit(condition);
                    visit(result);
                }
                case.otherwise.iter_mut().for_each(visit);
            }
            ExprKind::Cast(cast) => visit(&mut cast.operand),
            ExprKind::AtTimeZone(time, zone) => {
                visit(time);
                visit(zone);
            }
            ExprKind::Function(call) => call.operands_mut(visit),
            ExprKind::Special(special) => special.operands_mut(visit),
        }
    }
}

fn values(arguments: &mut [Argument], visit: &mut dyn FnMut(&mut Expr)) {
    for argument in arguments {
        visit(&mut argument.value);
    }
}

impl FunctionCall {
    fn operands_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        if let Arguments::List(list) = &mut self.arguments {
            values(&mut list.arguments, visit);
            for item in &mut list.order {
                visit(&mut item.expr);
            }
        }
        for item in &mut self.within_group {
            visit(&mut item.expr);
        }
        self.filter.iter_mut().for_each(&mut *visit);
        let Some(Over::Window(window)) = &mut self.over else {
            return;
        };
        window.partition.iter_mut().for_each(&mut *visit);
        for item in &mut window.order {
            visit(&mut item.expr);
        }
        if let Some(frame) = &mut window.frame {
            for bound in std::iter::once(&mut frame.start).chain(&mut frame.end) {
                if let FrameBound::Preceding(rows) | FrameBound::Following(rows) = bound {
                    visit(rows);
                }
            }
        }
    }
}

impl Special {
    fn operands_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match self {
            Self::Value(..) => {}
            Self::Coalesce(all) | Self::Greatest(all) | Self::Least(all) | Self::Trim(_, all) => {
                all.iter_mut().for_each(visit);
            }
            Self::NullIf(left, right) | Self::Position(left, right) => {
                visit(left);
                visit(right);
            }
            Self::CollationFor(operand)
            | Self::Extract(_, operand)
            | Self::Normalize(operand, _)
            | Self::Treat(operand, _) => visit(operand),
            Self::Overlay {
                text,
                placing,
                from,
                length,
            } => {
                visit(text);
                visit(placing);
                visit(from);
                length.iter_mut().for_each(visit);
            }
            Self::Substring(call) => {
                visit(&mut call.text);
                call.from.iter_mut().for_each(&mut *visit);
                call.length.iter_mut().for_each(&mut *visit);
                if let Some((pattern, escape)) = &mut call.similar {
                    visit(pattern);
                    visit(escape);
                }
            }
            Self::Plain(_, arguments) => values(arguments, visit),
            Self::Xml(xml) => xml.operands_mut(visit),
        }
    }
}

impl Xml {
    fn operands_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match self {
            Self::Concat(all) => all.iter_mut().for_each(visit),
            Self::Element {
                attributes,
                content,
                ..
            } => {
                attributes.iter_mut().for_each(|(value, _)| visit(value));
                content.iter_mut().for_each(visit);
            }
            Self::Exists(path, document) => {
                visit(path);
                visit(document);
            }
            Self::Forest(all) => all.iter_mut().for_each(|(value, _)| visit(value)),
            Self::Parse { text, .. } => visit(text),
            Self::Instruction(_, content) => content.iter_mut().for_each(visit),
            Self::Root {
                document, version, ..
            } => {
                visit(document);
                version.iter_mut().for_each(visit);
            }
            Self::Serialize { value, .. } => visit(value),
        }
    }
}
