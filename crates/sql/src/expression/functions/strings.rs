//! Built-in SQL functions on strings.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::kinds::{ANY, BOOL, INT4, TEXT, TEXTS};
use crate::catalog::quote_identifier;
use crate::expression::EvaluationContext;
use crate::expression::context::claim;
use crate::expression::function::{Arguments, Function};
use crate::expression::metered;
use crate::expression::regex;
use crate::value::Value;
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("length", &[TEXT], INT4, length),
    Function::new("char_length", &[TEXT], INT4, length),
    Function::new("character_length", &[TEXT], INT4, length),
    Function::new("octet_length", &[TEXT], INT4, |a, _| count(a.text(0).len())),
    Function::new("bit_length", &[TEXT], INT4, |a, _| {
        count(a.text(0).len() * 8)
    }),
    Function::new("lower", &[TEXT], TEXT, |a, context| {
        metered::to_lower_case(a.text(0), context).map(Value::text)
    }),
    Function::new("upper", &[TEXT], TEXT, |a, context| {
        let convert = |chunk: &str, out: &mut String| out.extend(chunk.chars().map(metered::upper));
        metered::convert(a.text(0), context, convert).map(Value::text)
    }),
    Function::new("initcap", &[TEXT], TEXT, initcap),
    Function::new("btrim", &[TEXT], TEXT, |a, context| {
        trim(a.text(0), " ", true, true, context)
    }),
    Function::new("btrim", &[TEXT, TEXT], TEXT, |a, context| {
        trim(a.text(0), a.text(1), true, true, context)
    }),
    Function::new("ltrim", &[TEXT], TEXT, |a, context| {
        trim(a.text(0), " ", true, false, context)
    }),
    Function::new("ltrim", &[TEXT, TEXT], TEXT, |a, context| {
        trim(a.text(0), a.text(1), true, false, context)
    }),
    Function::new("rtrim", &[TEXT], TEXT, |a, context| {
        trim(a.text(0), " ", false, true, context)
    }),
    Function::new("rtrim", &[TEXT, TEXT], TEXT, |a, context| {
        trim(a.text(0), a.text(1), false, true, context)
    }),
    Function::new("substring", &[TEXT, INT4], TEXT, substring),
    Function::new("substring", &[TEXT, INT4, INT4], TEXT, substring),
    Function::new("substring", &[TEXT, TEXT], TEXT, substring_by_regex),
    Function::new("substr", &[TEXT, INT4], TEXT, substring),
    Function::new("substr", &[TEXT, INT4, INT4], TEXT, substring),
    Function::new("strpos", &[TEXT, TEXT], INT4, |a, context| {
        character_of(a.text(0), a.text(1), context)
    }),
    Function::new("position", &[TEXT, TEXT], INT4, |a, context| {
        character_of(a.text(1), a.text(0), context)
    }),
    Function::new("replace", &[TEXT, TEXT, TEXT], TEXT, |a, context| {
        if a.text(1).is_empty() {
            return Ok(Value::text(a.text(0)));
        }
        metered::replace(a.text(0), a.text(1), a.text(2), context).map(Value::text)
    }),
    Function::new("translate", &[TEXT, TEXT, TEXT], TEXT, translate),
    Function::new("overlay", &[TEXT, TEXT, INT4], TEXT, overlay),
    Function::new("overlay", &[TEXT, TEXT, INT4, INT4], TEXT, overlay),
    Function::new("left", &[TEXT, INT4], TEXT, |a, context| {
        let end = end_of_left(a.text(0), a.integer(1), context)?;
        Ok(Value::text(&a.text(0)[..end]))
    }),
    Function::new("right", &[TEXT, INT4], TEXT, |a, context| {
        let text = a.text(0);
        let keep = a.integer(1);
        let skip = match usize::try_from(keep) {
            Ok(keep) => metered::count_characters(text, context)?.saturating_sub(keep),
            Err(_) => usize::try_from(keep.unsigned_abs()).unwrap_or(usize::MAX),
        };
        let start = metered::position_of(text, skip, context)?;
        Ok(Value::text(&text[start..]))
    }),
    Function::new("lpad", &[TEXT, INT4], TEXT, |a, context| {
        pad(a.text(0), a.integer(1), " ", true, context)
    }),
    Function::new("lpad", &[TEXT, INT4, TEXT], TEXT, |a, context| {
        pad(a.text(0), a.integer(1), a.text(2), true, context)
    }),
    Function::new("rpad", &[TEXT, INT4], TEXT, |a, context| {
        pad(a.text(0), a.integer(1), " ", false, context)
    }),
    Function::new("rpad", &[TEXT, INT4, TEXT], TEXT, |a, context| {
        pad(a.text(0), a.integer(1), a.text(2), false, context)
    }),
    Function::new("repeat", &[TEXT, INT4], TEXT, |a, context| {
        let times = usize::try_from(a.integer(1)).unwrap_or(0);
        let bytes = a.text(0).len().saturating_mul(times);
        context.claim(bytes)?;
        let mut out = String::with_capacity(bytes);
        metered::push_times(&mut out, a.text(0), times, context)?;
        Ok(Value::text(out))
    }),
    Function::new("reverse", &[TEXT], TEXT, |a, context| {
        let mut out = String::with_capacity(a.text(0).len());
        for chunk in metered::chunks(a.text(0)).rev() {
            context.work(chunk.len())?;
            out.extend(chunk.chars().rev());
        }
        Ok(Value::text(out))
    }),
    Function::new("starts_with", &[TEXT, TEXT], BOOL, |a, _| {
        Ok(Value::Bool(a.text(0).starts_with(a.text(1))))
    }),
    Function::new("split_part", &[TEXT, TEXT, INT4], TEXT, split_part),
    Function::new("ascii", &[TEXT], INT4, |a, _| {
        Ok(Value::Int4(
            a.text(0).chars().next().map_or(0, |c| c as i32),
        ))
    }),
    Function::new("chr", &[INT4], TEXT, |a, _| {
        let character = u32::try_from(a.integer(0)).ok().and_then(char::from_u32);
        match character {
            Some('\0') => Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "null character not permitted",
            )),
            Some(character) => Ok(Value::text(character.to_string())),
            None => Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!(
                    "requested character not valid for encoding: {}",
                    a.integer(0)
                ),
            )),
        }
    }),
    Function::new("concat", &[ANY], TEXT, |a, context| {
        concat(a, 0, "", context)
    })
    .null_aware()
    .variadic()
    .stable(),
    Function::new("concat_ws", &[TEXT, ANY], TEXT, |a, context| {
        if a.values.first().is_none_or(Value::is_null) {
            return Ok(Value::Null);
        }
        concat(a, 1, a.text(0), context)
    })
    .null_aware()
    .variadic()
    .stable(),
    Function::new("quote_ident", &[TEXT], TEXT, |a, context| {
        context.claim(a.text(0).len().saturating_mul(2))?;
        context.work(a.text(0).len())?;
        Ok(Value::text(quote_identifier(a.text(0))))
    }),
    Function::new("quote_literal", &[TEXT], TEXT, |a, context| {
        context.claim(a.text(0).len().saturating_mul(2))?;
        quote_literal(a.text(0), context).map(Value::text)
    }),
    Function::new("quote_nullable", &[TEXT], TEXT, |a, context| {
        context.claim(a.text(0).len().saturating_mul(2))?;
        Ok(Value::text(match a.values.first() {
            Some(Value::Text(text)) => quote_literal(text, context)?,
            _ => "NULL".to_owned(),
        }))
    })
    .null_aware(),
    Function::new("regexp_replace", &[TEXT, TEXT, TEXT], TEXT, regexp_replace),
    Function::new(
        "regexp_replace",
        &[TEXT, TEXT, TEXT, TEXT],
        TEXT,
        regexp_replace,
    ),
    Function::new("regexp_match", &[TEXT, TEXT], TEXTS, regexp_match),
    Function::new("regexp_match", &[TEXT, TEXT, TEXT], TEXTS, regexp_match),
];

fn count(number: usize) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(number).unwrap_or(i32::MAX)))
}

fn length(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    count(metered::count_characters(a.text(0), context)?)
}

/// Where `left` ends: after `wanted` characters, or before the last ones if it is
/// negative.
fn end_of_left(text: &str, wanted: i64, context: &mut EvaluationContext<'_>) -> Result<usize> {
    let keep = match usize::try_from(wanted) {
        Ok(wanted) => wanted,
        Err(_) => {
            let dropped = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
            metered::count_characters(text, context)?.saturating_sub(dropped)
        }
    };
    metered::position_of(text, keep, context)
}

/// Number of the first character, from 1, of an occurrence of a text in another; 0
/// without one.
fn character_of(text: &str, wanted: &str, context: &mut EvaluationContext<'_>) -> Result<Value> {
    match metered::find(text, wanted, context)? {
        Some(at) => count(metered::count_characters(&text[..at], context)? + 1),
        None => count(0),
    }
}

/// Removes characters from the start, the end, or both.
fn trim(
    text: &str,
    characters: &str,
    at_start: bool,
    at_end: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let mut unwanted = BTreeSet::new();
    for chunk in metered::chunks(characters) {
        context.work(chunk.len())?;
        unwanted.extend(chunk.chars());
    }
    let unwanted = |character| unwanted.contains(&character);
    let mut start = 0;
    if at_start {
        for chunk in metered::chunks(text) {
            context.work(chunk.len())?;
            let rest = chunk.trim_start_matches(unwanted);
            start += chunk.len() - rest.len();
            if !rest.is_empty() {
                break;
            }
        }
    }
    let text = &text[start..];
    let mut end = text.len();
    if at_end {
        for chunk in metered::chunks(text).rev() {
            context.work(chunk.len())?;
            let rest = chunk.trim_end_matches(unwanted);
            end -= chunk.len() - rest.len();
            if !rest.is_empty() {
                break;
            }
        }
    }
    Ok(Value::text(&text[..end]))
}

fn initcap(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut inside = false;
    let convert = |chunk: &str, out: &mut String| {
        for character in chunk.chars() {
            if inside {
                out.push(metered::lower(character));
            } else {
                out.push(metered::upper(character));
            }
            inside = character.is_alphanumeric();
        }
    };
    metered::convert(a.text(0), context, convert).map(Value::text)
}

fn substring(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let from = a.integer(1);
    let until = if a.values.len() > 2 {
        if a.integer(2) < 0 {
            return Err(Error::new(
                SqlState::SUBSTRING_ERROR,
                "negative substring length not allowed",
            ));
        }
        from + a.integer(2)
    } else {
        i64::MAX
    };
    let skip = usize::try_from(from - 1).unwrap_or(0);
    let take = usize::try_from(until - from.max(1)).unwrap_or(0);
    let rest = &a.text(0)[metered::position_of(a.text(0), skip, context)?..];
    let end = metered::position_of(rest, take, context)?;
    Ok(Value::text(&rest[..end]))
}

fn substring_by_regex(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let text = a.text(0);
    let regex = regex::compiled(a.text(1), false, context)?;
    let found = regex.captures(text, &mut |bytes| context.work(bytes))?;
    Ok(found.map_or(Value::Null, |found| {
        part(text, found[usize::from(found.len() > 1)])
    }))
}

/// The part of the text that a group has matched.
fn part(text: &str, group: Option<(usize, usize)>) -> Value {
    group.map_or(Value::Null, |(start, end)| Value::text(&text[start..end]))
}

fn translate(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut to = a.text(2).chars();
    let mut map = BTreeMap::new();
    for chunk in metered::chunks(a.text(1)) {
        context.work(chunk.len())?;
        for from in chunk.chars() {
            let to = to.next();
            // For a character listed twice, the first mapping wins.
            map.entry(from).or_insert(to);
        }
    }
    let translate = |chunk: &str, out: &mut String| {
        let translated = |from| map.get(&from).copied().unwrap_or(Some(from));
        out.extend(chunk.chars().filter_map(translated));
    };
    metered::convert(a.text(0), context, translate).map(Value::text)
}

fn overlay(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let (text, new) = (a.text(0), a.text(1));
    let from = a.integer(2);
    if from <= 0 {
        return Err(Error::new(
            SqlState::SUBSTRING_ERROR,
            "negative substring length not allowed",
        ));
    }
    let length = if a.values.len() > 3 {
        a.integer(3)
    } else {
        metered::count_characters(new, context)? as i64
    };
    let head = metered::position_of(text, (from - 1) as usize, context)?;
    let skip = usize::try_from(from - 1 + length).unwrap_or(0);
    let tail = metered::position_of(text, skip, context)?;
    Ok(Value::text(format!(
        "{}{new}{}",
        &text[..head],
        &text[tail..]
    )))
}

fn pad(
    text: &str,
    length: i64,
    fill: &str,
    left: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let length = usize::try_from(length).unwrap_or(0);
    let each = if text.is_ascii() && fill.is_ascii() {
        1
    } else {
        4
    };
    context.claim(length.saturating_mul(each))?;
    let own = metered::count_characters(text, context)?;
    if own >= length || fill.is_empty() {
        let end = metered::position_of(text, length, context)?;
        return Ok(Value::text(&text[..end]));
    }
    let missing = length - own;
    let per_fill = metered::count_characters(fill, context)?;
    let mut out = String::new();
    if !left {
        out.push_str(text);
    }
    metered::push_times(&mut out, fill, missing / per_fill, context)?;
    let end = metered::position_of(fill, missing % per_fill, context)?;
    out.push_str(&fill[..end]);
    if left {
        out.push_str(text);
    }
    Ok(Value::text(out))
}

fn split_part(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let (text, delimiter) = (a.text(0), a.text(1));
    let wanted = a.integer(2);
    if wanted == 0 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "field position must not be zero",
        ));
    }
    if delimiter.is_empty() {
        let is_whole = wanted == 1 || wanted == -1;
        return Ok(Value::text(if is_whole { text } else { "" }));
    }
    let skip = if wanted > 0 {
        wanted - 1
    } else {
        let mut parts = 1;
        metered::each_occurrence(text, delimiter, context, &mut |_| {
            parts += 1;
            ControlFlow::Continue(())
        })?;
        parts + wanted
    };
    let Ok(mut skip) = usize::try_from(skip) else {
        return Ok(Value::text(""));
    };
    let (mut start, mut end) = (0, None);
    metered::each_occurrence(text, delimiter, context, &mut |at| {
        if skip == 0 {
            end = Some(at);
            return ControlFlow::Break(());
        }
        skip -= 1;
        start = at + delimiter.len();
        ControlFlow::Continue(())
    })?;
    let part = if skip == 0 {
        &text[start..end.unwrap_or(text.len())]
    } else {
        ""
    };
    Ok(Value::text(part))
}

fn concat(
    a: Arguments<'_>,
    from: usize,
    separator: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let mut parts = Vec::new();
    for (value, column_type) in a.values.iter().zip(a.types).skip(from) {
        if let Some(text) = value.to_text(*column_type, &context.session.style) {
            context.work(text.len())?;
            parts.push(text);
        }
    }
    Ok(Value::text(parts.join(separator)))
}

/// Quotes text as a string literal.
pub(super) fn quote_literal(text: &str, context: &mut EvaluationContext<'_>) -> Result<String> {
    let doubled = metered::replace(text, "'", "''", context)?;
    if metered::find(&doubled, "\\", context)?.is_none() {
        return Ok(format!("'{doubled}'"));
    }
    let doubled = metered::replace(&doubled, "\\", "\\\\", context)?;
    Ok(format!("E'{doubled}'"))
}

/// A piece of the replacement of `regexp_replace()`.
enum Piece {
    Literal(String),
    Group(usize),
}

/// Reads a replacement: `\1` is the first group and `\&` the whole match.
fn pieces(replacement: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            literal.push(character);
            continue;
        }
        let group = match characters.next() {
            Some('&') => 0,
            Some(digit) if digit.is_ascii_digit() => digit as usize - '0' as usize,
            Some(other) => {
                literal.push(other);
                continue;
            }
            None => {
                literal.push('\\');
                continue;
            }
        };
        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        pieces.push(Piece::Group(group));
    }
    pieces.push(Piece::Literal(literal));
    pieces
}

/// Options of a regular expression, as the functions' argument spells them.
#[derive(Default)]
struct Flags {
    global: bool,
    ignore_case: bool,
}

impl Flags {
    /// Reads the letters that PostgreSQL knows; of those that change how a pattern is
    /// read, only `c` and `i` are there. Error 22023 for other characters.
    fn parse(text: &str) -> Result<Self> {
        let mut flags = Self::default();
        for letter in text.chars() {
            match letter {
                'g' => flags.global = true,
                'i' => flags.ignore_case = true,
                'c' => flags.ignore_case = false,
                // The default syntax and newline mode.
                's' | 't' => {}
                'b' | 'e' | 'm' | 'n' | 'p' | 'q' | 'w' | 'x' => {
                    return Err(Error::unsupported(format_args!(
                        "regular expression option \"{letter}\""
                    )));
                }
                other => {
                    return Err(Error::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("invalid regular expression option: \"{other}\""),
                    ));
                }
            }
        }
        Ok(flags)
    }
}

/// SQL `regexp_match()`.
fn regexp_match(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let flags = Flags::parse(a.text(2))?;
    if flags.global {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "regexp_match() does not support the \"global\" option",
        ));
    }
    let text = a.text(0);
    let regex = regex::compiled(a.text(1), flags.ignore_case, context)?;
    let Some(found) = regex.captures(text, &mut |bytes| context.work(bytes))? else {
        return Ok(Value::Null);
    };
    let skip = usize::from(found.len() > 1);
    let groups: Vec<Value> = found
        .into_iter()
        .skip(skip)
        .map(|group| part(text, group))
        .collect();
    Ok(Value::Array(groups.into()))
}

/// SQL `regexp_replace()`.
fn regexp_replace(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let flags = Flags::parse(a.text(3))?;
    let text = a.text(0);
    let regex = regex::compiled(a.text(1), flags.ignore_case, context)?;
    let pieces = pieces(a.text(2));
    let groups = pieces.iter().filter_map(|piece| match piece {
        Piece::Group(group) => Some(group + 1),
        Piece::Literal(_) => None,
    });
    let groups = groups.max().unwrap_or(1);
    let most = if flags.global { usize::MAX } else { 1 };
    let session = context.session;
    let mut out = String::new();
    let mut claimed = 0;
    let mut copied = 0;
    // The result grows by doubling, so memory is claimed for twice its length.
    let mut push = |out: &mut String, more: &str| -> Result<()> {
        if out.len() + more.len() > claimed {
            claimed = 2 * (out.len() + more.len());
            claim(session, claimed)?;
        }
        out.push_str(more);
        Ok(())
    };
    regex.each(
        text,
        most,
        groups,
        &mut |bytes| context.work(bytes),
        &mut |found, work| {
            let Some((start, end)) = found[0] else {
                return Ok(());
            };
            let before = out.len();
            push(&mut out, &text[copied..start])?;
            for piece in &pieces {
                match piece {
                    Piece::Literal(literal) => push(&mut out, literal)?,
                    Piece::Group(group) => {
                        if let Some(Some((start, end))) = found.get(*group) {
                            push(&mut out, &text[*start..*end])?;
                        }
                    }
                }
            }
            copied = end;
            work(out.len() - before)
        },
    )?;
    push(&mut out, &text[copied..])?;
    Ok(Value::text(out))
}
