//! Built-in SQL functions on strings.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::{ANY, BOOL, INT4, TEXT, TEXTS};
use crate::catalog::quote_identifier;
use crate::expression::EvaluationContext;
use crate::expression::context::claim;
use crate::expression::function::{Arguments, Function};
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
    Function::new("lower", &[TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).to_lowercase()))
    }),
    Function::new("upper", &[TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).to_uppercase()))
    }),
    Function::new("initcap", &[TEXT], TEXT, initcap),
    Function::new("btrim", &[TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).trim_matches(' ')))
    }),
    Function::new("btrim", &[TEXT, TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).trim_matches(one_of(a.text(1)))))
    }),
    Function::new("ltrim", &[TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).trim_start_matches(' ')))
    }),
    Function::new("ltrim", &[TEXT, TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).trim_start_matches(one_of(a.text(1)))))
    }),
    Function::new("rtrim", &[TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).trim_end_matches(' ')))
    }),
    Function::new("rtrim", &[TEXT, TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).trim_end_matches(one_of(a.text(1)))))
    }),
    Function::new("substring", &[TEXT, INT4], TEXT, substring),
    Function::new("substring", &[TEXT, INT4, INT4], TEXT, substring),
    Function::new("substring", &[TEXT, TEXT], TEXT, substring_by_regex),
    Function::new("substr", &[TEXT, INT4], TEXT, substring),
    Function::new("substr", &[TEXT, INT4, INT4], TEXT, substring),
    Function::new("strpos", &[TEXT, TEXT], INT4, |a, _| {
        match a.text(0).find(a.text(1)) {
            Some(at) => count(a.text(0)[..at].chars().count() + 1),
            None => count(0),
        }
    }),
    Function::new("position", &[TEXT, TEXT], INT4, |a, _| {
        match a.text(1).find(a.text(0)) {
            Some(at) => count(a.text(1)[..at].chars().count() + 1),
            None => count(0),
        }
    }),
    Function::new("replace", &[TEXT, TEXT, TEXT], TEXT, |a, context| {
        if a.text(1).is_empty() {
            return Ok(Value::text(a.text(0)));
        }
        let hits = a.text(0).matches(a.text(1)).count();
        context.claim(
            a.text(0)
                .len()
                .saturating_add(hits.saturating_mul(a.text(2).len())),
        )?;
        Ok(Value::text(a.text(0).replace(a.text(1), a.text(2))))
    }),
    Function::new("translate", &[TEXT, TEXT, TEXT], TEXT, translate),
    Function::new("overlay", &[TEXT, TEXT, INT4], TEXT, overlay),
    Function::new("overlay", &[TEXT, TEXT, INT4, INT4], TEXT, overlay),
    Function::new("left", &[TEXT, INT4], TEXT, |a, _| {
        let keep = kept(a.text(0), a.integer(1));
        Ok(Value::text(
            a.text(0).chars().take(keep).collect::<String>(),
        ))
    }),
    Function::new("right", &[TEXT, INT4], TEXT, |a, _| {
        let keep = kept(a.text(0), a.integer(1));
        let skip = a.text(0).chars().count() - keep;
        Ok(Value::text(
            a.text(0).chars().skip(skip).collect::<String>(),
        ))
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
        context.claim(a.text(0).len().saturating_mul(times))?;
        Ok(Value::text(a.text(0).repeat(times)))
    }),
    Function::new("reverse", &[TEXT], TEXT, |a, _| {
        Ok(Value::text(a.text(0).chars().rev().collect::<String>()))
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
        Ok(Value::text(quote_identifier(a.text(0))))
    }),
    Function::new("quote_literal", &[TEXT], TEXT, |a, context| {
        context.claim(a.text(0).len().saturating_mul(2))?;
        Ok(Value::text(quote_literal(a.text(0))))
    }),
    Function::new("quote_nullable", &[TEXT], TEXT, |a, context| {
        context.claim(a.text(0).len().saturating_mul(2))?;
        Ok(Value::text(match a.values.first() {
            Some(Value::Text(text)) => quote_literal(text),
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
    Function::new("regexp_match", &[TEXT, TEXT], TEXTS, |a, context| {
        let text = a.text(0);
        let regex = regex::compiled(a.text(1), false, context)?;
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
    }),
];

fn count(number: usize) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(number).unwrap_or(i32::MAX)))
}

fn length(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    count(a.text(0).chars().count())
}

/// Number of characters that `left` and `right` keep; a negative `wanted` drops that
/// many characters instead.
fn kept(text: &str, wanted: i64) -> usize {
    let length = text.chars().count();
    match usize::try_from(wanted) {
        Ok(wanted) => wanted.min(length),
        Err(_) => length.saturating_sub(wanted.unsigned_abs() as usize),
    }
}

fn initcap(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut out = String::with_capacity(a.text(0).len());
    let mut inside = false;
    for character in a.text(0).chars() {
        if inside {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        inside = character.is_alphanumeric();
    }
    Ok(Value::text(out))
}

fn substring(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
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
    Ok(Value::text(
        a.text(0).chars().skip(skip).take(take).collect::<String>(),
    ))
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

/// Predicate that tests whether a character is one of `characters`.
fn one_of(characters: &str) -> impl Fn(char) -> bool {
    let characters: BTreeSet<char> = characters.chars().collect();
    move |character| characters.contains(&character)
}

fn translate(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut to = a.text(2).chars();
    let mut map = BTreeMap::new();
    for from in a.text(1).chars() {
        let to = to.next();
        // For a character listed twice, the first mapping wins.
        map.entry(from).or_insert(to);
    }
    let characters = a.text(0).chars();
    let translated = characters.filter_map(|from| map.get(&from).copied().unwrap_or(Some(from)));
    Ok(Value::text(translated.collect::<String>()))
}

fn overlay(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
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
        a.text(1).chars().count() as i64
    };
    let head: String = a.text(0).chars().take((from - 1) as usize).collect();
    let tail: String = a
        .text(0)
        .chars()
        .skip(usize::try_from(from - 1 + length).unwrap_or(0))
        .collect();
    Ok(Value::text(format!("{head}{}{tail}", a.text(1))))
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
    let own = text.chars().count();
    if own >= length || fill.is_empty() {
        return Ok(Value::text(text.chars().take(length).collect::<String>()));
    }
    let padding: String = fill.chars().cycle().take(length - own).collect();
    Ok(Value::text(if left {
        format!("{padding}{text}")
    } else {
        format!("{text}{padding}")
    }))
}

fn split_part(a: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let wanted = a.integer(2);
    if wanted == 0 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "field position must not be zero",
        ));
    }
    let parts: Vec<&str> = if a.text(1).is_empty() {
        vec![a.text(0)]
    } else {
        a.text(0).split(a.text(1)).collect()
    };
    let position = if wanted > 0 {
        wanted - 1
    } else {
        parts.len() as i64 + wanted
    };
    let part = usize::try_from(position)
        .ok()
        .and_then(|position| parts.get(position));
    Ok(Value::text(part.copied().unwrap_or("")))
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
            parts.push(text);
        }
    }
    Ok(Value::text(parts.join(separator)))
}

/// Quotes text as a string literal.
pub(super) fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
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

/// SQL `regexp_replace()`.
fn regexp_replace(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let flags = a.text(3);
    let text = a.text(0);
    let regex = regex::compiled(a.text(1), flags.contains('i'), context)?;
    let pieces = pieces(a.text(2));
    let groups = pieces.iter().filter_map(|piece| match piece {
        Piece::Group(group) => Some(group + 1),
        Piece::Literal(_) => None,
    });
    let groups = groups.max().unwrap_or(1);
    let most = if flags.contains('g') { usize::MAX } else { 1 };
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
