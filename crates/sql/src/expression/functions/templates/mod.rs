//! The SQL functions that print and read by templates: `to_char`, `to_date`,
//! `to_timestamp`, `to_number`.

mod date_print;
mod date_read;
mod date_template;
mod number_print;
mod number_read;
mod number_template;

use num_bigint::BigInt;

use super::kinds::{DATE, FLOAT4, FLOAT8, INT4, INT8, INTERVAL, MOMENT, NUMERIC, TEXT, TIMESTAMP};
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function};
use crate::value::calendar::{self, SECOND};
use crate::value::{Numeric, Value, moments};
use crate::{Error, Result, SqlState};
use date_print::Fields;
use number_print::{Digits, print, roman};
use number_template::NumberTemplate;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("to_char", &[TIMESTAMP, TEXT], TEXT, |a, context| {
        let local = a.moment(0);
        if moments::is_infinite(local) {
            return Ok(Value::Null);
        }
        show(&Fields::of_local(local, None), a.text(1), context)
    }),
    Function::new("to_char", &[MOMENT, TEXT], TEXT, |a, context| {
        let moment = a.moment(0);
        if moments::is_infinite(moment) {
            return Ok(Value::Null);
        }
        let style = context.session.style;
        let zone = Some((style.time_zone, moment));
        show(
            &Fields::of_local(style.local(moment), zone),
            a.text(1),
            context,
        )
    })
    .stable(),
    Function::new("to_char", &[INTERVAL, TEXT], TEXT, |a, context| {
        show(&Fields::of_interval(a.interval(0)), a.text(1), context)
    }),
    Function::new("to_char", &[INT4, TEXT], TEXT, to_char_of_integer),
    Function::new("to_char", &[INT8, TEXT], TEXT, to_char_of_integer),
    Function::new("to_char", &[NUMERIC, TEXT], TEXT, to_char_of_decimal),
    Function::new("to_char", &[FLOAT4, TEXT], TEXT, to_char_of_float),
    Function::new("to_char", &[FLOAT8, TEXT], TEXT, to_char_of_float),
    Function::new("to_number", &[TEXT, TEXT], NUMERIC, to_number),
    Function::new("to_date", &[TEXT, TEXT], DATE, |a, context| {
        claim(a.text(1), context)?;
        let elements = date_template::parse(a.text(1))?;
        let read = date_read::read(&elements, a.text(0), context)?;
        if !(calendar::MIN_DATE..calendar::END_DATE).contains(&read.days) {
            return Err(Error::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date out of range: \"{}\"", a.text(0)),
            ));
        }
        Ok(Value::Date(read.days as i32))
    })
    .stable(),
    Function::new("to_timestamp", &[TEXT, TEXT], MOMENT, |a, context| {
        claim(a.text(1), context)?;
        let elements = date_template::parse(a.text(1))?;
        let read = date_read::read(&elements, a.text(0), context)?;
        let zone = context.session.style.time_zone;
        let moment = date_read::local(&read).and_then(|local| match read.east {
            Some(east) => local.checked_sub(east * SECOND),
            None => Some(zone.moment_of(local)),
        });
        moment
            .and_then(calendar::in_range)
            .map(Value::TimestampTz)
            .ok_or_else(moments::out_of_range)
    })
    .stable(),
];

/// Bytes that a character of a template may take when it is read, and in what is printed.
const CLAIMED: usize = 64;

/// Claims memory for a long template.
fn claim(template: &str, context: &EvaluationContext<'_>) -> Result<()> {
    match template.len() {
        ..4096 => Ok(()),
        length => context.claim(length.saturating_mul(CLAIMED)),
    }
}

/// Prints a time by a template; nothing by an empty one.
fn show(fields: &Fields, template: &str, context: &mut EvaluationContext<'_>) -> Result<Value> {
    if template.is_empty() {
        return Ok(Value::Null);
    }
    claim(template, context)?;
    let elements = date_template::parse(template)?;
    date_print::print(&elements, fields, context).map(Value::text)
}

/// Most digits that a template of numbers may ask for.
const MOST_DIGITS: usize = 16_383;

fn template(text: &str) -> Result<NumberTemplate> {
    let template = NumberTemplate::parse(text)?;
    let digits = template.before + template.after + template.shift;
    if digits > MOST_DIGITS {
        return Err(Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "a number template has too many digits",
        ));
    }
    Ok(template)
}

fn power_of_ten(exponent: usize) -> Numeric {
    let power = BigInt::from(10_u32).pow(u32::try_from(exponent).unwrap_or(u32::MAX));
    Numeric::from_parts(power, 0).unwrap_or_else(|_| Numeric::from(1))
}

/// The digits of a number that are shown.
fn digits(number: &Numeric, scale: usize) -> Digits {
    let text = number.round(scale as i64).to_string();
    let negative = text.starts_with('-');
    let text = text.trim_start_matches('-');
    let has = text
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    let mut text = text.to_owned();
    if number.parts().is_some() && has < scale {
        if has == 0 {
            text.push('.');
        }
        text.push_str(&"0".repeat(scale - has));
    }
    Digits { negative, text }
}

/// A number in scientific notation, with a blank or its sign in front.
fn scientific(number: &Numeric, template: &NumberTemplate) -> String {
    if number.parts().is_none() {
        return not_a_number(template);
    }
    let scale = template.after;
    let sign = if number.signum() < 0 { '-' } else { ' ' };
    let Some((all, exponent)) = number.significant_digits() else {
        let zeros = if scale > 0 {
            format!(".{}", "0".repeat(scale))
        } else {
            String::new()
        };
        return format!(" 0{zeros}e+00");
    };
    // Rounds to as many digits as are shown, which may make one more of them.
    let unscaled = all
        .iter()
        .fold(BigInt::from(0), |sum, digit| sum * 10 + *digit);
    let shift = all.len() as i64 - 1;
    let mantissa = Numeric::from_parts(unscaled, shift as u32)
        .unwrap_or_else(|_| Numeric::from(0))
        .round(scale as i64);
    let carried = mantissa >= Numeric::from(10);
    let exponent = i64::from(exponent) + i64::from(carried);
    let mantissa = if carried {
        digits(&Numeric::from(1), scale)
    } else {
        digits(&mantissa, scale)
    };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{}e{exponent_sign}{:02}",
        mantissa.text,
        exponent.abs()
    )
}

/// What scientific notation shows for what is no finite number.
fn not_a_number(template: &NumberTemplate) -> String {
    let mut text: Vec<u8> = vec![b'#'; template.before + template.after + 6];
    text[0] = b' ';
    if let Some(point) = text.get_mut(template.before + 1) {
        *point = b'.';
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn to_char_of_integer(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let number = Numeric::from(a.integer(0));
    of_numeric(&number, a.text(1), context)
}

fn to_char_of_decimal(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let Some(Value::Numeric(number)) = a.values.first() else {
        return Ok(Value::Null);
    };
    of_numeric(number, a.text(1), context)
}

fn of_numeric(number: &Numeric, text: &str, context: &mut EvaluationContext<'_>) -> Result<Value> {
    claim(text, context)?;
    let template = template(text)?;
    if template.is_scientific {
        return Ok(Value::text(scientific(number, &template)));
    }
    let shown = if template.is_roman {
        let number = number.round(0).to_i64().unwrap_or(0);
        Digits {
            negative: false,
            text: roman(number),
        }
    } else if template.is_shifted {
        digits(
            &number.multiply(&power_of_ten(template.shift))?,
            template.after,
        )
    } else {
        digits(number, template.after)
    };
    print(&template, &shown, context).map(Value::text)
}

fn to_char_of_float(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    // Digits that a type has for sure.
    let (number, precise) = match a.values.first() {
        Some(Value::Float4(number)) => (f64::from(*number), 6),
        Some(Value::Float8(number)) => (*number, 15),
        _ => return Ok(Value::Null),
    };
    claim(a.text(1), context)?;
    let mut template = template(a.text(1))?;
    if template.is_scientific {
        if !number.is_finite() {
            return Ok(Value::text(not_a_number(&template)));
        }
        let shown = format!("{number:.*e}", template.after);
        let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if number.is_sign_negative() { "" } else { " " };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return Ok(Value::text(format!(
            "{sign}{mantissa}e{exponent_sign}{:02}",
            exponent.abs()
        )));
    }
    if template.is_roman {
        let shown = Digits {
            negative: false,
            text: roman(number.round_ties_even() as i64),
        };
        return print(&template, &shown, context).map(Value::text);
    }
    let number = if template.is_shifted {
        number * 10_f64.powi(i32::try_from(template.shift).unwrap_or(i32::MAX))
    } else {
        number
    };
    let shown = if number.is_finite() {
        let whole = format!("{:.0}", number.abs()).len();
        template.after = template.after.min(precise_digits(precise, whole));
        format!("{number:.*}", template.after)
    } else if number.is_nan() {
        "NaN".to_owned()
    } else {
        format!("{}Infinity", if number < 0.0 { "-" } else { "" })
    };
    let digits = Digits {
        negative: shown.starts_with('-'),
        text: shown.trim_start_matches('-').to_owned(),
    };
    print(&template, &digits, context).map(Value::text)
}

/// Digits that a float has behind the point, beside those in front of it.
fn precise_digits(precise: usize, whole: usize) -> usize {
    precise.saturating_sub(whole)
}

fn to_number(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    if a.text(1).is_empty() {
        return Ok(Value::Null);
    }
    claim(a.text(1), context)?;
    let template = template(a.text(1))?;
    let (text, scale) = number_read::read(&template, a.text(0), context)?;
    let number = Numeric::parse(&text)?.ok_or_else(|| {
        Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{text}\""),
        )
    })?;
    let precision = template.before + template.shift + scale;
    let (precision, scale) = (precision.min(1000) as u32, scale.min(1000) as u32);
    let number = match precision {
        0 => number,
        precision => number.fit(precision, scale)?,
    };
    let number = if template.is_shifted {
        // The power has sixteen digits behind its point, as PostgreSQL's has.
        let scale = template.shift.max(16);
        let power = BigInt::from(10_u32).pow((scale - template.shift) as u32);
        number.multiply(&Numeric::from_parts(power, scale as u32)?)?
    } else {
        number
    };
    Ok(Value::Numeric(Box::new(number)))
}
