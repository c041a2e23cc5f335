//! Functions that return rows of several columns, or sets that no operator computes: they
//! compute all of their rows at once. The list of them is passed in with the other objects
//! of the system ([`super::SystemObjects`]).

use super::coerce::{CastContext, castable};
use super::{ArgumentKind, EvaluationContext, Place};
use crate::value::DataType;
use crate::{Result, Value};

/// A built-in function that returns rows.
pub struct TableFunction {
    /// Name by which SQL calls the function.
    pub(crate) name: &'static str,
    /// Types of the parameters.
    pub(crate) arguments: &'static [ArgumentKind],
    /// Names and types of the columns.
    pub(crate) columns: &'static [(&'static str, ArgumentKind)],
    /// The nodes of a cluster that can execute it.
    pub(crate) place: Place,
    /// Computes the rows.
    pub(crate) body: TableBody,
}

/// Computes a function's rows from its arguments.
pub(crate) type TableBody = fn(&[Value], &mut EvaluationContext<'_>) -> Result<Vec<Vec<Value>>>;

/// Functions are equal if they are the same one.
impl PartialEq for TableFunction {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for TableFunction {}

impl std::fmt::Debug for TableFunction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// A call's types: those of the arguments, and names and types of the columns.
pub(crate) type TableSignature = (Vec<DataType>, Vec<(&'static str, DataType)>);

impl TableFunction {
    /// The types of a call with arguments of these types; `None` if it takes no such
    /// arguments.
    pub(crate) fn signature(&self, given: &[DataType]) -> Option<TableSignature> {
        if given.len() != self.arguments.len() {
            return None;
        }
        let mut element = None;
        let mut wanted = Vec::with_capacity(given.len());
        for (kind, given) in self.arguments.iter().zip(given) {
            wanted.push(match kind {
                ArgumentKind::Is(data_type) => {
                    let cast = castable(*given, *data_type);
                    (cast == Some(CastContext::Implicit)).then_some(*data_type)?
                }
                ArgumentKind::AnyArray => {
                    element = Some(given.element()?);
                    *given
                }
                ArgumentKind::Any | ArgumentKind::AnyElement => *given,
            });
        }
        let columns = self.columns.iter().map(|(name, kind)| {
            let data_type = match kind {
                ArgumentKind::Is(data_type) => *data_type,
                ArgumentKind::AnyElement => element.unwrap_or(DataType::Text),
                ArgumentKind::Any | ArgumentKind::AnyArray => DataType::Text,
            };
            (*name, data_type)
        });
        Some((wanted, columns.collect()))
    }
}

impl TableFunction {
    /// Position and type of the column of this name; `element` is the type of the
    /// elements of an array among the arguments.
    pub(crate) fn field(&self, name: &str, element: Option<DataType>) -> Option<(usize, DataType)> {
        let at = self.columns.iter().position(|(known, _)| *known == name)?;
        let data_type = match self.columns[at].1 {
            ArgumentKind::Is(data_type) => data_type,
            ArgumentKind::AnyElement => element?,
            ArgumentKind::Any | ArgumentKind::AnyArray => DataType::Text,
        };
        Some((at, data_type))
    }
}
