//! The metered search finds what the library's engine finds, within bounds.

use proptest::prelude::*;

use super::*;

fn spans(captures: &regex_automata::util::captures::Captures, groups: usize) -> Vec<Option<Span>> {
    (0..groups)
        .map(|group| captures.get_group(group).map(|span| (span.start, span.end)))
        .collect()
}

/// All matches with their groups, by the library.
fn expected(regex: &Regex, text: &str) -> Vec<Vec<Option<Span>>> {
    regex
        .engine
        .captures_iter(text)
        .map(|captures| spans(&captures, regex.groups()))
        .collect()
}

/// A way to search: lazy DFA and NFA simulation as they are, or the simulation alone.
fn found(regex: &Regex, text: &str, simulated: bool) -> Vec<Vec<Option<Span>>> {
    let mut work = |_| Ok(());
    let mut matches = Vec::new();
    let (mut from, mut last_end) = (0, None);
    loop {
        let mut find = |from: usize| {
            if !simulated {
                return regex.find(text, from, false, &mut work).unwrap();
            }
            let mut from = from;
            while from <= text.len() {
                let mut slots = vec![None; 2];
                let all = (from, text.len());
                threads::search(&regex.program, text, all, &mut slots, &mut work).unwrap();
                match whole(&slots) {
                    Some((_, end)) if !text.is_char_boundary(end) => from += 1,
                    found => return found,
                }
            }
            None
        };
        let mut next = find(from);
        if let Some((start, end)) = next
            && start == end
            && last_end == Some(end)
        {
            next = find(from + 1);
        }
        let Some(span) = next else {
            return matches;
        };
        let mut slots = vec![None; 2 * regex.groups()];
        assert!(threads::search(&regex.program, text, span, &mut slots, &mut work).unwrap());
        matches.push(
            slots
                .chunks(2)
                .map(|slots| slots[0].zip(slots[1]))
                .collect(),
        );
        (from, last_end) = (span.1, Some(span.1));
    }
}

fn compare(pattern: &str, ignore_case: bool, text: &str) {
    let Ok(regex) = Regex::new(pattern, ignore_case) else {
        return;
    };
    let expected = expected(&regex, text);
    for simulated in [false, true] {
        assert_eq!(
            found(&regex, text, simulated),
            expected,
            "{pattern:?} {text:?} {simulated}"
        );
    }
    let mut each = Vec::new();
    regex
        .each(
            text,
            usize::MAX,
            usize::MAX,
            &mut |_| Ok(()),
            &mut |groups, _| {
                each.push(groups.to_vec());
                Ok(())
            },
        )
        .unwrap();
    assert_eq!(each, expected, "{pattern:?} {text:?}");
    let earliest = regex.find(text, 0, true, &mut |_| Ok(())).unwrap();
    assert_eq!(
        earliest.is_some(),
        !expected.is_empty(),
        "{pattern:?} {text:?}"
    );
}

/// Patterns of all the syntax that reaches the program.
fn pattern() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("ab".to_owned()),
        Just("ä".to_owned()),
        Just(".".to_owned()),
        Just("[a-c]".to_owned()),
        Just("[^a]".to_owned()),
        Just("\\w".to_owned()),
        Just("\\b".to_owned()),
        Just("\\B".to_owned()),
        Just("^".to_owned()),
        Just("$".to_owned()),
        Just("(?m:^)".to_owned()),
        Just("(?m:$)".to_owned()),
        Just("(?-u:\\b)".to_owned()),
        Just("\\b{start}".to_owned()),
        Just("".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|each| format!("({each})")),
            inner.clone().prop_map(|each| format!("(?:{each})*")),
            inner.clone().prop_map(|each| format!("(?:{each})*?")),
            inner.clone().prop_map(|each| format!("(?:{each})+")),
            inner.clone().prop_map(|each| format!("(?:{each})??")),
            inner.clone().prop_map(|each| format!("(?:{each}){{0,3}}")),
            (inner.clone(), inner.clone()).prop_map(|(one, two)| format!("(?:{one}|{two})")),
            (inner.clone(), inner).prop_map(|(one, two)| format!("{one}{two}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_engine_finds_the_same(
        pattern in pattern(),
        ignore_case in any::<bool>(),
        text in "[abcAäÄ \\n]{0,24}",
    ) {
        compare(&pattern, ignore_case, &text);
    }
}

#[test]
fn long_texts_are_searched_in_chunks() {
    for (pattern, text) in [
        ("(a|b)*[ab]{0,20}c", "ab".repeat(20_000)),
        ("(a|b)+?", "ab".repeat(3_000)),
        (
            "x(a*)(b+)",
            format!("{}xaaabb{}", "ab".repeat(20_000), "b".repeat(30_000)),
        ),
        ("\\b(\\w+)$", format!("{} wörter", "wört ".repeat(4_000))),
        ("", "äöü".repeat(200)),
        ("(?i)ÄÖ|c", "äöü".repeat(5_000)),
        ("b$", "ab".repeat(30_000)),
    ] {
        let regex = Regex::new(pattern, false).unwrap();
        let expected = expected(&regex, &text);
        let mut each = Vec::new();
        let mut visit = |groups: &[Option<Span>], _: &mut Work<'_>| {
            each.push(groups.to_vec());
            Ok(())
        };
        regex
            .each(&text, usize::MAX, usize::MAX, &mut |_| Ok(()), &mut visit)
            .unwrap();
        assert_eq!(each, expected, "{pattern}");
        assert_eq!(
            regex.is_match(&text, &mut |_| Ok(())).unwrap(),
            !expected.is_empty(),
            "{pattern}"
        );
    }
}

#[test]
fn work_is_counted_in_pieces() {
    let text = "ab".repeat(100_000);
    let accented = "äb ".repeat(30_000);
    for (pattern, text) in [
        ("(a|b)*[ab]{0,200}c", &text),
        ("c", &text),
        ("\\bc\\b", &accented),
        ("(?:ä|b| )*", &accented),
    ] {
        let regex = Regex::new(pattern, false).unwrap();
        let mut calls = 0_usize;
        let mut counted = 0;
        regex
            .each(
                text,
                1,
                usize::MAX,
                &mut |bytes| {
                    calls += 1;
                    counted += bytes;
                    Ok(())
                },
                &mut |_, _| Ok(()),
            )
            .unwrap();
        assert!(counted >= text.len(), "{pattern}: {counted}");
        assert!(calls >= text.len() / (64 << 10), "{pattern}: {calls}");
        // And it stops where it is told to.
        let mut left = 2;
        let stopped = regex.each(
            text,
            1,
            usize::MAX,
            &mut |_| {
                left -= 1;
                if left == 0 {
                    Err(Error::canceled())
                } else {
                    Ok(())
                }
            },
            &mut |_, _| Ok(()),
        );
        assert!(stopped.is_err(), "{pattern}");
        assert_eq!(left, 0, "{pattern}");
    }
}

#[test]
fn patterns_are_bounded() {
    let refused = |pattern: &str| {
        let error = Regex::new(pattern, false).unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_REGULAR_EXPRESSION);
        error.report().message.clone()
    };
    let complex = "invalid regular expression: regular expression is too complex";
    assert_eq!(
        refused(&"(a|b)*".repeat(3_000_000)),
        "invalid regular expression: regular expression is too long"
    );
    assert_eq!(refused("((a{0,100}){0,100}){0,100}"), complex);
    assert_eq!(
        refused(&format!("{}a{}", "(".repeat(500), ")".repeat(500))),
        complex
    );
    assert_eq!(refused("("), "invalid regular expression");
    // Classes whose tables or folding take seconds.
    for pattern in [
        "(?i)".to_owned() + &r"[\w\W]".repeat(127),
        "(?i:".to_owned() + &r"[\w\W\d\D\s\S]".repeat(2_340) + ")",
        r"[\w]".repeat(6_000),
        r"\W".repeat(16_000),
    ] {
        assert_eq!(refused(&pattern), complex);
        assert!(Regex::new(&pattern, true).is_err());
    }
    for pattern in [r"[\W_]+x", r"(\w+\s+){3}\d+", r"^[^@\s]+@[^@\s]+\.[a-z]+$"] {
        assert!(Regex::new(pattern, true).is_ok(), "{pattern}");
    }
    assert!(Regex::new(&"a".repeat(16 << 10), false).is_ok());
    let many = Regex::new(&"(a|b)*".repeat(1_000), false).unwrap();
    assert!(many.is_match("abc", &mut |_| Ok(())).unwrap());
    let refused = many.captures("abc", &mut |_| Ok(())).unwrap_err();
    assert_eq!(refused.report().message, complex);
}
