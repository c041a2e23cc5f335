//! The sessions that a statement's calls of `pg_cancel_backend` and `pg_terminate_backend` name,
//! as far as that is known before it runs: then only the node is asked that would have one.
//!
//! ```text
//!   pg_cancel_backend(2097153)          known, and so are $1 and what the plan cache takes
//!   pg_cancel_backend(pid)              for one; a column is not
//! ```

use crate::expression::Expression;
use crate::instance::Sought;
use crate::value::Value;

/// The arguments of a statement's calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts {
    /// Constants and parameters.
    known: Vec<Expression>,
    /// Whether there are others.
    others: bool,
}

impl Interrupts {
    /// Notes the argument of a call.
    pub(crate) fn note(&mut self, argument: Option<&Expression>) {
        match argument {
            Some(Expression::Constant(_) | Expression::Parameter(_)) => {
                self.known.extend(argument.cloned());
            }
            Some(_) | None => self.others = true,
        }
    }

    /// The sessions that other nodes are asked for; `None` if this node has all of them.
    /// `is_here` says so of a number.
    pub(crate) fn sought(
        &self,
        parameters: &[Value],
        is_here: impl Fn(i32) -> bool,
    ) -> Option<Sought> {
        let mut sought = Vec::new();
        let mut others = self.others;
        for argument in &self.known {
            let value = match argument {
                Expression::Constant(value) => Some(value),
                Expression::Parameter(position) => parameters.get(*position),
                _ => None,
            };
            match value {
                Some(Value::Int4(number)) if is_here(*number) => {}
                Some(Value::Int4(number)) => sought.push(*number),
                Some(Value::Null) => {}
                Some(_) | None => others = true,
            }
        }
        match others {
            true => Some(Sought::Any),
            false => (!sought.is_empty()).then_some(Sought::These(sought)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sessions_are_sought_that_are_not_here() {
        let of = |arguments: &[Expression]| {
            let mut interrupts = Interrupts::default();
            for argument in arguments {
                interrupts.note(Some(argument));
            }
            interrupts.sought(&[Value::Int4(8), Value::Null], |number| number < 10)
        };
        let number = |number| Expression::Constant(Value::Int4(number));
        let parameter = Expression::Parameter;
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[number(9), parameter(0), parameter(1)]), None);
        assert_eq!(
            of(&[number(12), number(9), number(11)]),
            Some(Sought::These(vec![12, 11]))
        );
        assert_eq!(of(&[number(12), parameter(2)]), Some(Sought::Any));
        assert_eq!(of(&[number(9), Expression::Column(0)]), Some(Sought::Any));
    }
}
