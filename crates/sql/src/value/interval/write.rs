//! Printer of intervals, in the styles of the setting `IntervalStyle`.

use std::io::Write;

use super::{Fields, Interval, IntervalStyle};

/// Appends formatted text; writing to a vector cannot fail.
macro_rules! append {
    ($out:expr, $($format:tt)*) => {
        write!($out, $($format)*).expect("a vector takes every write")
    };
}

/// Appends an interval.
pub(in crate::value) fn write(interval: Interval, style: IntervalStyle, out: &mut Vec<u8>) {
    let fields = interval.fields();
    match style {
        IntervalStyle::Postgres => postgres(&fields, out),
        IntervalStyle::PostgresVerbose => verbose(&fields, out),
        IntervalStyle::SqlStandard => standard(&fields, out),
        IntervalStyle::Iso8601 => iso(&fields, out),
    }
}

/// Appends seconds with their fraction, without a sign.
fn seconds(fields: &Fields, two_digits: bool, out: &mut Vec<u8>) {
    let whole = fields.seconds.abs();
    if two_digits {
        append!(out, "{whole:02}");
    } else {
        append!(out, "{whole}");
    }
    if fields.micros != 0 {
        append!(out, ".{:06}", fields.micros.abs());
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends `hours:minutes:seconds` without a sign.
fn clock(fields: &Fields, pad_hours: bool, out: &mut Vec<u8>) {
    let (hours, minutes) = (fields.hours.unsigned_abs(), fields.minutes.abs());
    if pad_hours {
        append!(out, "{hours:02}:{minutes:02}:");
    } else {
        append!(out, "{hours}:{minutes:02}:");
    }
    seconds(fields, true, out);
}

impl Fields {
    fn has_time(&self) -> bool {
        self.hours != 0 || self.minutes != 0 || self.seconds != 0 || self.micros != 0
    }

    fn is_time_negative(&self) -> bool {
        self.hours < 0 || self.minutes < 0 || self.seconds < 0 || self.micros < 0
    }

    fn all(&self) -> [i64; 7] {
        [
            i64::from(self.years),
            i64::from(self.months),
            i64::from(self.days),
            self.hours,
            i64::from(self.minutes),
            i64::from(self.seconds),
            i64::from(self.micros),
        ]
    }
}

fn postgres(fields: &Fields, out: &mut Vec<u8>) {
    let mut first = true;
    // A positive part behind a negative one has its sign.
    let mut behind_negative = false;
    for (value, unit) in [
        (fields.years, "year"),
        (fields.months, "mon"),
        (fields.days, "day"),
    ] {
        if value == 0 {
            continue;
        }
        let blank = if first { "" } else { " " };
        let sign = if behind_negative && value > 0 {
            "+"
        } else {
            ""
        };
        let plural = if value == 1 { "" } else { "s" };
        append!(out, "{blank}{sign}{value} {unit}{plural}");
        behind_negative = value < 0;
        first = false;
    }
    if first || fields.has_time() {
        let blank = if first { "" } else { " " };
        let sign = match (fields.is_time_negative(), behind_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        append!(out, "{blank}{sign}");
        clock(fields, true, out);
    }
}

fn verbose(fields: &Fields, out: &mut Vec<u8>) {
    out.push(b'@');
    let mut first = true;
    // The first part says whether it is all before; later ones are relative to that.
    let mut before = false;
    for (value, unit) in [
        (i64::from(fields.years), "year"),
        (i64::from(fields.months), "mon"),
        (i64::from(fields.days), "day"),
        (fields.hours, "hour"),
        (i64::from(fields.minutes), "min"),
    ] {
        if value == 0 {
            continue;
        }
        let shown = if first {
            before = value < 0;
            value.abs()
        } else if before {
            -value
        } else {
            value
        };
        let plural = if shown == 1 { "" } else { "s" };
        append!(out, " {shown} {unit}{plural}");
        first = false;
    }
    if fields.seconds != 0 || fields.micros != 0 {
        out.push(b' ');
        if fields.seconds < 0 || fields.micros < 0 {
            if first {
                before = true;
            } else if !before {
                out.push(b'-');
            }
        } else if before {
            out.push(b'-');
        }
        seconds(fields, false, out);
        let plural = fields.seconds.abs() != 1 || fields.micros != 0;
        out.extend_from_slice(if plural { b" secs" } else { b" sec" });
        first = false;
    }
    if first {
        out.extend_from_slice(b" 0");
    }
    if before {
        out.extend_from_slice(b" ago");
    }
}

fn standard(fields: &Fields, out: &mut Vec<u8>) {
    let all = fields.all();
    let negative = all.iter().any(|part| *part < 0);
    let positive = all.iter().any(|part| *part > 0);
    let has_months = fields.years != 0 || fields.months != 0;
    let has_days = fields.days != 0;
    let has_day_time = has_days || fields.has_time();
    if !negative && !positive {
        return out.push(b'0');
    }
    let (years, months) = (fields.years.unsigned_abs(), fields.months.unsigned_abs());
    let days = fields.days.unsigned_abs();
    if negative && positive || has_months && has_day_time {
        // No value of the standard: each part has its sign, so that it can be read again.
        let sign = |negative: bool| if negative { '-' } else { '+' };
        append!(
            out,
            "{}{years}-{months} {}{days} {}",
            sign(fields.years < 0 || fields.months < 0),
            sign(fields.days < 0),
            sign(fields.is_time_negative())
        );
        return clock(fields, false, out);
    }
    if negative {
        out.push(b'-');
    }
    if has_months {
        append!(out, "{years}-{months}");
    } else {
        if has_days {
            append!(out, "{days} ");
        }
        clock(fields, false, out);
    }
}

fn iso(fields: &Fields, out: &mut Vec<u8>) {
    if fields.all().iter().all(|part| *part == 0) {
        return out.extend_from_slice(b"PT0S");
    }
    let part = |value: i64, unit: char, out: &mut Vec<u8>| {
        if value != 0 {
            append!(out, "{value}{unit}");
        }
    };
    out.push(b'P');
    part(i64::from(fields.years), 'Y', out);
    part(i64::from(fields.months), 'M', out);
    part(i64::from(fields.days), 'D', out);
    if fields.has_time() {
        out.push(b'T');
    }
    part(fields.hours, 'H', out);
    part(i64::from(fields.minutes), 'M', out);
    if fields.seconds != 0 || fields.micros != 0 {
        if fields.seconds < 0 || fields.micros < 0 {
            out.push(b'-');
        }
        seconds(fields, false, out);
        out.push(b'S');
    }
}
