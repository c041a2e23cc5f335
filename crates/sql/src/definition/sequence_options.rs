//! The options of CREATE SEQUENCE, ALTER SEQUENCE and identity columns.

use coeval_sql_syntax::tree::{Literal, Path, SequenceOption};

use crate::error::{Error, Result, SqlState};
use crate::expression::resolve_type;
use crate::sequence::{Counting, Progress, Settled};
use crate::value::DataType;

/// Options as a statement gives them.
#[derive(Debug, Default)]
pub(super) struct Options<'tree> {
    pub(super) data_type: Option<DataType>,
    increment: Option<i64>,
    /// The inner `None` is NO MAXVALUE.
    maximum: Option<Option<i64>>,
    minimum: Option<Option<i64>>,
    start: Option<i64>,
    /// The inner `None` is RESTART without a number.
    restart: Option<Option<i64>>,
    cache: Option<i64>,
    cycle: Option<bool>,
    pub(super) owned_by: Option<&'tree Path>,
    /// SEQUENCE NAME of an identity column.
    pub(super) name: Option<&'tree Path>,
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The smallest and the greatest number of a type.
fn limits(data_type: DataType) -> (i64, i64) {
    match data_type {
        DataType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn number(literal: &Literal) -> Result<i64> {
    match literal {
        Literal::Integer(number) => Ok(i64::from(*number)),
        Literal::Number(text) if text.contains(['.', 'e', 'E']) => Err(Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type bigint: \"{text}\""),
        )),
        Literal::Number(text) => text.parse().map_err(|_| {
            Error::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{text}\" is out of range for type bigint"),
            )
        }),
        _ => Err(Error::internal("an option of a sequence that is no number")),
    }
}

/// Gives an option its value, once.
fn once<T>(option: &mut Option<T>, value: T) -> Result<()> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::syntax("conflicting or redundant options")),
    }
}

impl<'tree> Options<'tree> {
    /// Reads the options of a statement; `identity` says that they are an identity column's.
    pub(super) fn read(
        options: impl IntoIterator<Item = &'tree SequenceOption>,
        identity: bool,
    ) -> Result<Self> {
        let mut read = Self::default();
        for option in options {
            match option {
                SequenceOption::As(name) => {
                    let found = resolve_type(name)?.data_type;
                    once(&mut read.data_type, found)?;
                }
                SequenceOption::Cache(value) => once(&mut read.cache, number(value)?)?,
                SequenceOption::Cycle(cycle) => once(&mut read.cycle, *cycle)?,
                SequenceOption::Increment(value) => once(&mut read.increment, number(value)?)?,
                SequenceOption::MaxValue(value) => {
                    once(&mut read.maximum, value.as_ref().map(number).transpose()?)?;
                }
                SequenceOption::MinValue(value) => {
                    once(&mut read.minimum, value.as_ref().map(number).transpose()?)?;
                }
                SequenceOption::Start(value) => once(&mut read.start, number(value)?)?,
                SequenceOption::Restart(value) => {
                    once(&mut read.restart, value.as_ref().map(number).transpose()?)?;
                }
                SequenceOption::OwnedBy(path) => once(&mut read.owned_by, path)?,
                SequenceOption::SequenceName(path) if identity => once(&mut read.name, path)?,
                SequenceOption::SequenceName(_) => {
                    return Err(Error::syntax("invalid sequence option SEQUENCE NAME"));
                }
                SequenceOption::Logged(_) => {
                    return Err(Error::unsupported("LOGGED or UNLOGGED of a sequence"));
                }
            }
        }
        if let Some(data_type) = read.data_type {
            check_type(data_type, identity)?;
        }
        Ok(read)
    }

    /// Whether they change how the sequence counts, or where it is.
    pub(super) fn change(&self) -> bool {
        self.data_type.is_some()
            || self.increment.is_some()
            || self.maximum.is_some()
            || self.minimum.is_some()
            || self.start.is_some()
            || self.restart.is_some()
            || self.cache.is_some()
            || self.cycle.is_some()
    }

    /// What a new sequence is made of, if `data_type` is its type unless AS says another one.
    pub(super) fn create(&self, data_type: DataType) -> Result<Settled> {
        let unset = Counting {
            start: 1,
            increment: 1,
            minimum: 1,
            maximum: 1,
            cache: 1,
            cycle: false,
        };
        self.settle(self.data_type.unwrap_or(data_type), unset, None)
    }

    /// What a sequence is made of once it is altered.
    pub(super) fn alter(&self, old: &Settled) -> Result<Settled> {
        let data_type = self.data_type.unwrap_or(old.data_type);
        self.settle(data_type, old.counting, Some(old))
    }

    /// `old` is none for a new sequence, which has no limits yet.
    fn settle(
        &self,
        data_type: DataType,
        mut counting: Counting,
        old: Option<&Settled>,
    ) -> Result<Settled> {
        let (least, most) = limits(data_type);
        // Limits that are those of the type change with the type.
        let old_limits = old.filter(|_| self.data_type.is_some());
        let old_limits = old_limits.map(|old| (limits(old.data_type), old.counting));
        let resets_maximum =
            old_limits.is_some_and(|((_, most), counting)| counting.maximum == most);
        let resets_minimum =
            old_limits.is_some_and(|((least, _), counting)| counting.minimum == least);
        counting.increment = self.increment.unwrap_or(counting.increment);
        if counting.increment == 0 {
            return Err(invalid("INCREMENT must not be zero".to_owned()));
        }
        counting.cycle = self.cycle.unwrap_or(counting.cycle);
        let ascends = counting.increment > 0;
        match self.maximum {
            Some(Some(given)) => counting.maximum = given,
            None if old.is_some() && !resets_maximum => {}
            _ if ascends || resets_maximum => counting.maximum = most,
            _ => counting.maximum = -1,
        }
        let out_of_range = |what: &str, limit: i64| {
            let name = data_type.sql_name();
            let message = format!("{what} ({limit}) is out of range for sequence data type {name}");
            Err(invalid(message))
        };
        if !(least..=most).contains(&counting.maximum) {
            return out_of_range("MAXVALUE", counting.maximum);
        }
        match self.minimum {
            Some(Some(given)) => counting.minimum = given,
            None if old.is_some() && !resets_minimum => {}
            _ if !ascends || resets_minimum => counting.minimum = least,
            _ => counting.minimum = 1,
        }
        if !(least..=most).contains(&counting.minimum) {
            return out_of_range("MINVALUE", counting.minimum);
        }
        let (minimum, maximum) = (counting.minimum, counting.maximum);
        if minimum >= maximum {
            let message = format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})");
            return Err(invalid(message));
        }
        counting.start = match (self.start, old) {
            (Some(start), _) => start,
            (None, Some(_)) => counting.start,
            (None, None) if ascends => minimum,
            (None, None) => maximum,
        };
        check_within("START", counting.start, &counting)?;
        let mut progress = match (self.restart, old) {
            (Some(restart), _) => Progress {
                last: restart.unwrap_or(counting.start),
                ..counting.begin()
            },
            (None, Some(old)) => old.progress,
            (None, None) => counting.begin(),
        };
        progress.reserved = 0;
        check_within("RESTART", progress.last, &counting)?;
        counting.cache = self.cache.unwrap_or(counting.cache);
        if counting.cache <= 0 {
            let cache = counting.cache;
            return Err(invalid(format!(
                "CACHE ({cache}) must be greater than zero"
            )));
        }
        Ok(Settled {
            data_type,
            counting,
            progress,
        })
    }
}

fn check_within(what: &str, number: i64, counting: &Counting) -> Result<()> {
    let (minimum, maximum) = (counting.minimum, counting.maximum);
    if number < minimum {
        return Err(invalid(format!(
            "{what} value ({number}) cannot be less than MINVALUE ({minimum})"
        )));
    }
    if number > maximum {
        return Err(invalid(format!(
            "{what} value ({number}) cannot be greater than MAXVALUE ({maximum})"
        )));
    }
    Ok(())
}

/// Fails for a type that a sequence, or an identity column, cannot have.
pub(super) fn check_type(data_type: DataType, identity: bool) -> Result<()> {
    if matches!(data_type, DataType::Int2 | DataType::Int4 | DataType::Int8) {
        return Ok(());
    }
    let what = if identity {
        "identity column"
    } else {
        "sequence"
    };
    Err(invalid(format!(
        "{what} type must be smallint, integer, or bigint"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(options: &[SequenceOption], data_type: DataType) -> Result<Settled> {
        Options::read(options, false)?.create(data_type)
    }

    #[test]
    fn limits_are_those_of_the_type_unless_they_are_given() {
        let up = created(&[], DataType::Int4).unwrap();
        assert_eq!(
            (up.counting.minimum, up.counting.maximum),
            (1, 2_147_483_647)
        );
        assert_eq!((up.counting.start, up.progress.is_called), (1, false));
        let down = [SequenceOption::Increment(Literal::Integer(-1))];
        let down = created(&down, DataType::Int2).unwrap();
        assert_eq!(
            (down.counting.minimum, down.counting.maximum),
            (-32_768, -1)
        );
        assert_eq!(down.counting.start, -1);
        let wider = Options {
            data_type: Some(DataType::Int8),
            ..Options::default()
        };
        let wider = wider.alter(&up).unwrap();
        assert_eq!(wider.counting.maximum, i64::MAX);
        assert_eq!(wider.counting.minimum, 1);
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        use SequenceOption as O;
        let integer = |number| Literal::Integer(number);
        for (options, message) in [
            (vec![O::Increment(integer(0))], "INCREMENT must not be zero"),
            (
                vec![O::MinValue(Some(integer(9))), O::MaxValue(Some(integer(9)))],
                "MINVALUE (9) must be less than MAXVALUE (9)",
            ),
            (
                vec![O::Start(integer(0))],
                "START value (0) cannot be less than MINVALUE (1)",
            ),
            (
                vec![O::Cache(integer(0))],
                "CACHE (0) must be greater than zero",
            ),
            (
                vec![O::Cycle(true), O::Cycle(false)],
                "conflicting or redundant options",
            ),
            (
                vec![O::MaxValue(Some(integer(40_000)))],
                "MAXVALUE (40000) is out of range for sequence data type smallint",
            ),
        ] {
            let error = created(&options, DataType::Int2).unwrap_err();
            assert_eq!(error.report().message, message);
        }
    }
}
