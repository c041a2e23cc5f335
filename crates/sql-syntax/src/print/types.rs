//! Printing of names of types, by their words where the grammar has words for them.

use super::Printer;
use crate::tree::{BaseType, Builtin, Expr, IntervalFields, TypeName};

impl Printer {
    pub(super) fn type_name(&mut self, name: &TypeName) {
        self.put_if(name.setof, "SETOF");
        match &name.base {
            BaseType::Builtin(kind, modifiers) => self.builtin(*kind, modifiers),
            BaseType::Interval(fields, precision) => self.interval(*fields, *precision),
            BaseType::Named(path, modifiers) => {
                self.path(path);
                self.bracketed_if_any(modifiers, Self::expr);
            }
            BaseType::OfColumn(path) => {
                self.path(path);
                self.put("% TYPE");
            }
        }
        for length in &name.dimensions {
            self.glue("[");
            if let Some(length) = length {
                self.number(length);
            }
            self.glue("]");
        }
    }

    fn builtin(&mut self, kind: Builtin, modifiers: &[Expr]) {
        let (words, behind) = match kind {
            Builtin::Smallint => ("smallint", ""),
            Builtin::Integer => ("integer", ""),
            Builtin::Bigint => ("bigint", ""),
            Builtin::Real => ("real", ""),
            Builtin::Double => ("double precision", ""),
            Builtin::Numeric => ("numeric", ""),
            Builtin::Boolean => ("boolean", ""),
            // Without a length these words would mean a length of one.
            Builtin::Bit if modifiers.is_empty() => ("pg_catalog.\"bit\"", ""),
            Builtin::Character if modifiers.is_empty() => ("pg_catalog.bpchar", ""),
            Builtin::Bit => ("bit", ""),
            Builtin::Character => ("character", ""),
            Builtin::BitVarying => ("bit varying", ""),
            Builtin::CharacterVarying => ("character varying", ""),
            Builtin::Time => ("time", ""),
            Builtin::TimeWithZone => ("time", "with time zone"),
            Builtin::Timestamp => ("timestamp", ""),
            Builtin::TimestampWithZone => ("timestamp", "with time zone"),
        };
        self.put(words);
        self.bracketed_if_any(modifiers, Self::expr);
        self.put(behind);
    }

    fn interval(&mut self, fields: IntervalFields, precision: Option<i32>) {
        use IntervalFields as F;
        self.put("interval");
        self.put(match fields {
            F::All => "",
            F::Year => "year",
            F::Month => "month",
            F::Day => "day",
            F::Hour => "hour",
            F::Minute => "minute",
            F::Second => "second",
            F::YearToMonth => "year to month",
            F::DayToHour => "day to hour",
            F::DayToMinute => "day to minute",
            F::DayToSecond => "day to second",
            F::HourToMinute => "hour to minute",
            F::HourToSecond => "hour to second",
            F::MinuteToSecond => "minute to second",
        });
        if let Some(precision) = precision {
            self.brackets(|printer| printer.number(&precision));
        }
    }
}
