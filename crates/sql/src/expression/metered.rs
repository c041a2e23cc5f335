//! Primitives over long values that call the work meter: chunks and searches of text,
//! and a stable sort.
//!
//! Functions on strings are written with these. A chunk takes well below a millisecond,
//! so a function that is canceled ends soon, and one whose time slice is over gives its
//! thread away.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::EvaluationContext;
use super::meter::ROW;
use crate::Result;

/// Length of a chunk of text, in bytes.
const CHUNK: usize = 16 << 10;

/// The last character boundary at or before a position.
fn boundary(text: &str, position: usize) -> usize {
    let mut position = position.min(text.len());
    while !text.is_char_boundary(position) {
        position -= 1;
    }
    position
}

/// Pieces of a text of about [`CHUNK`] bytes, from the left.
pub(super) fn chunks(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let count = text.len().div_ceil(CHUNK);
    (0..count).map(move |number| {
        let start = boundary(text, number * CHUNK);
        &text[start..boundary(text, (number + 1) * CHUNK)]
    })
}

/// Number of characters of a text.
pub(super) fn count_characters(text: &str, context: &mut EvaluationContext<'_>) -> Result<usize> {
    let mut count = 0;
    for chunk in chunks(text) {
        context.work(chunk.len())?;
        count += chunk.chars().count();
    }
    Ok(count)
}

/// Byte position of a character, counted from 0; the end of the text if it has no more
/// than that many.
pub(super) fn position_of(
    text: &str,
    character: usize,
    context: &mut EvaluationContext<'_>,
) -> Result<usize> {
    let (mut left, mut at) = (character, 0);
    for chunk in chunks(text) {
        context.work(chunk.len())?;
        let own = chunk.chars().count();
        if left < own {
            return Ok(at + chunk.char_indices().nth(left).map_or(0, |(at, _)| at));
        }
        left -= own;
        at += chunk.len();
    }
    Ok(at)
}

/// Converts a text a chunk at a time.
pub(super) fn convert(
    text: &str,
    context: &mut EvaluationContext<'_>,
    mut convert: impl FnMut(&str, &mut String),
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    for chunk in chunks(text) {
        context.work(chunk.len())?;
        convert(chunk, &mut out);
    }
    Ok(out)
}

/// A character in upper case, where that is one character: `ß` stays as it is.
pub(super) fn upper(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => character,
    }
}

/// A character in lower case, without the marks that another character would be.
pub(super) fn lower(character: char) -> char {
    character.to_lowercase().next().unwrap_or(character)
}

/// Lower case, character by character: a letter does not depend on those around it.
pub(super) fn to_lower_case(text: &str, context: &mut EvaluationContext<'_>) -> Result<String> {
    convert(text, context, |chunk, out| {
        out.extend(chunk.chars().map(lower))
    })
}

/// Visits the occurrences of a text in another from the left, none overlapping the one
/// before, until `visit` breaks.
pub(super) fn each_occurrence(
    text: &str,
    wanted: &str,
    context: &mut EvaluationContext<'_>,
    visit: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<()> {
    // A search prepares in proportion to the text it looks for.
    let window = CHUNK + 4 * wanted.len();
    let mut from = 0;
    loop {
        let end = boundary(text, from + window);
        let mut next = from;
        for (at, _) in text[from..end].match_indices(wanted) {
            if visit(from + at).is_break() {
                return Ok(());
            }
            next = from + at + wanted.len();
        }
        context.work(end - from)?;
        if end == text.len() {
            return Ok(());
        }
        // An occurrence may begin in this window and end in the next.
        from = next.max(boundary(text, (end + 1).saturating_sub(wanted.len())));
    }
}

/// The first occurrence of a text in another.
pub(super) fn find(
    text: &str,
    wanted: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Option<usize>> {
    let mut found = None;
    each_occurrence(text, wanted, context, &mut |at| {
        found = Some(at);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Replaces all occurrences of a text that is not empty; claims memory for the result.
pub(super) fn replace(
    text: &str,
    wanted: &str,
    with: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<String> {
    let mut count = 0_usize;
    each_occurrence(text, wanted, context, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    let bytes =
        (text.len() - count * wanted.len()).saturating_add(count.saturating_mul(with.len()));
    context.claim(bytes)?;
    let mut out = String::with_capacity(bytes);
    let mut copied = 0;
    each_occurrence(text, wanted, context, &mut |at| {
        out.push_str(&text[copied..at]);
        out.push_str(with);
        copied = at + wanted.len();
        ControlFlow::Continue(())
    })?;
    out.push_str(&text[copied..]);
    Ok(out)
}

/// Appends a text so many times.
pub(super) fn push_times(
    out: &mut String,
    text: &str,
    times: usize,
    context: &mut EvaluationContext<'_>,
) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let at_once = (CHUNK / text.len()).clamp(1, times.max(1));
    let piece = text.repeat(at_once);
    let mut left = times;
    while left > 0 {
        let now = left.min(at_once);
        context.work(now * text.len())?;
        out.push_str(&piece[..now * text.len()]);
        left -= now;
    }
    Ok(())
}

/// Number of elements that are sorted at once.
const RUN: usize = 2048;

/// Sorts elements; equal ones keep their order. Sorts runs, then merges pairs of them.
pub(crate) fn sort<T>(
    elements: Vec<T>,
    context: &mut EvaluationContext<'_>,
    compare: &dyn Fn(&T, &T) -> Ordering,
) -> Result<Vec<T>> {
    let mut elements = elements;
    if elements.len() <= RUN {
        context.work(elements.len() * ROW)?;
        elements.sort_by(compare);
        return Ok(elements);
    }
    let mut runs = Vec::with_capacity(elements.len().div_ceil(RUN));
    let mut rest = elements.into_iter();
    loop {
        let mut run: Vec<T> = rest.by_ref().take(RUN).collect();
        if run.is_empty() {
            break;
        }
        context.work(run.len() * ROW)?;
        run.sort_by(compare);
        runs.push(run);
    }
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(left, right, context, compare)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<T>(
    mut left: Vec<T>,
    right: Vec<T>,
    context: &mut EvaluationContext<'_>,
    compare: &dyn Fn(&T, &T) -> Ordering,
) -> Result<Vec<T>> {
    if let (Some(last), Some(first)) = (left.last(), right.first())
        && compare(last, first).is_le()
    {
        context.work(right.len() * ROW)?;
        left.extend(right);
        return Ok(left);
    }
    let mut out = Vec::with_capacity(left.len() + right.len());
    let mut left = left.into_iter().peekable();
    let mut right = right.into_iter().peekable();
    while let (Some(one), Some(two)) = (left.peek(), right.peek()) {
        context.work(ROW)?;
        if compare(one, two).is_le() {
            out.extend(left.next());
        } else {
            out.extend(right.next());
        }
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::golden::Bench;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn long_texts_are_as_the_library_has_them(
            piece in "[abAΣσς.äжʰ ]{1,6}",
            wanted in "[ab ä]{1,3}",
            skip in 0_usize..40_000,
        ) {
            let text = piece.repeat(70_000 / piece.len());
            let bench = Bench::new();
            bench.with_context(|context| {
                assert_eq!(count_characters(&text, context).unwrap(), text.chars().count());
                let at = position_of(&text, skip, context).unwrap();
                assert_eq!(text[at..], text.chars().skip(skip).collect::<String>());
                let lowered: String = text.chars().map(lower).collect();
                assert_eq!(to_lower_case(&text, context).unwrap(), lowered);
                let replaced = replace(&text, &wanted, "xyz", context).unwrap();
                assert_eq!(replaced, text.replace(&wanted, "xyz"));
                assert_eq!(find(&text, &wanted, context).unwrap(), text.find(&wanted));
                assert_eq!(chunks(&text).collect::<String>(), text);
            });
        }

        #[test]
        fn sorting_is_stable(numbers in prop::collection::vec(0_u8..20, 0..9000)) {
            let mut expected: Vec<(u8, usize)> =
                numbers.iter().copied().enumerate().map(|(at, number)| (number, at)).collect();
            let bench = Bench::new();
            let sorted = bench.with_context(|context| {
                sort(expected.clone(), context, &|left, right| left.0.cmp(&right.0)).unwrap()
            });
            expected.sort_by_key(|each| each.0);
            assert_eq!(sorted, expected);
        }
    }
}
