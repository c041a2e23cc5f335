//! The metered search finds what the library's engine finds, within bounds.

use proptest::prelude::*;

use super::*;

fn spans(captures: &regex_automata::util::captures::Captures, groups: usize) -> Vec<Option<Span>> {
    (0..groups)
        .map(|group| captures.get_group(group).map(|span| (span.start, span.end)))
        .collect()
}

/// All matches with their groups, by the library, or by the simulation alone if the longest
/// one is wanted.
fn expected(regex: &Regex, text: &str) -> Vec<Vec<Option<Span>>> {
    let mut matches = Vec::new();
    let mut captures = regex.engine.create_captures();
    let mut from = 0;
    while from <= text.len() {
        let input = Input::new(text).range(from..);
        regex.engine.search_captures(&input, &mut captures);
        let Some(first) = captures.get_match() else {
            break;
        };
        let groups = match regex.longest {
            None => spans(&captures, regex.groups()),
            Some(_) => by_simulation(regex, text, (first.start(), text.len()), Wanted::Longest),
        };
        from = after(text, groups[0].unwrap());
        matches.push(groups);
    }
    matches
}

/// The groups of a match, by the NFA simulation.
fn by_simulation(regex: &Regex, text: &str, span: Span, wanted: Wanted) -> Vec<Option<Span>> {
    let mut slots = vec![None; 2 * regex.groups()];
    let (span, buffers) = ((span, wanted), &mut threads::Buffers::default());
    threads::search(&regex.program, text, span, &mut slots, buffers, &mut |_| {
        Ok(())
    })
    .unwrap();
    slots
        .chunks(2)
        .map(|slots| slots[0].zip(slots[1]))
        .collect()
}

/// A way to search: lazy DFA and NFA simulation as they are, or the simulation alone.
fn found(regex: &Regex, text: &str, simulated: bool) -> Vec<Vec<Option<Span>>> {
    let mut work = |_| Ok(());
    let mut scratch = Scratch::default();
    let mut matches = Vec::new();
    let mut from = 0;
    loop {
        let mut find = |from: usize| {
            if !simulated {
                return regex
                    .find(text, from, false, &mut scratch, &mut work)
                    .unwrap();
            }
            let mut from = from;
            while from <= text.len() {
                let mut slots = vec![None; 2];
                let all = ((from, text.len()), Wanted::First);
                let threads = &mut scratch.threads;
                threads::search(&regex.program, text, all, &mut slots, threads, &mut work).unwrap();
                match whole(&slots) {
                    Some((_, end)) if !text.is_char_boundary(end) => from += 1,
                    found => return found,
                }
            }
            None
        };
        let Some(mut span) = find(from) else {
            return matches;
        };
        let mut wanted = Wanted::First;
        if regex.longest.is_some() {
            span = regex.lengthen(text, span, &mut scratch, &mut work).unwrap();
            wanted = Wanted::Longest;
        }
        matches.push(by_simulation(regex, text, span, wanted));
        from = after(text, span);
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
    let mut scratch = Scratch::default();
    let earliest = regex
        .find(text, 0, true, &mut scratch, &mut |_| Ok(()))
        .unwrap();
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

/// The buffers that a search leaves, in bytes.
fn left(regex: &Regex) -> usize {
    let scratch = regex.scratch.lock().unwrap();
    scratch.as_ref().map_or(0, |scratch| scratch.bytes())
}

#[test]
fn the_buffers_of_a_search_are_bounded_and_used_again() {
    let nothing = &mut |_| Ok(());
    // Most threads with most positions: 12 groups, each of hundreds of states.
    let many = "([ab]{0,300})".repeat(12) + "c";
    let groups = Regex::new(&many, false).unwrap();
    let positions = groups.positions(groups.groups());
    assert!((POSITIONS_OF_LIBRARY..=POSITIONS).contains(&positions));
    let text = "ab".repeat(400) + "c";
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let found = groups.captures(&text, nothing).unwrap().unwrap();
        assert_eq!(found[12], Some((800, 800)));
        let scratch = groups.scratch.lock().unwrap();
        sizes.push(scratch.as_ref().unwrap().threads.bytes());
    }
    // Vectors grow by doubling.
    let states = groups.program.states().len();
    let most = 2 * (2 * positions * threads::POSITION_BYTES + 2 * 16 * states);
    assert!(
        (most / 100..most).contains(&sizes[0]),
        "{sizes:?} of {most}"
    );
    assert_eq!(sizes, [sizes[0]; 3]);
    // A state space far larger than what is kept of it.
    let automaton = Regex::new("(a|b)*a[ab]{60}c", false).unwrap();
    let mut text = String::new();
    let mut random = 1_u32;
    for _ in 0..20_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(if random >> 31 == 0 { 'a' } else { 'b' });
    }
    assert!(!automaton.is_match(&text, nothing).unwrap());
    let states = left(&automaton);
    assert!((1..5 << 19).contains(&states), "{states}");
    automaton.rest();
    assert_eq!(left(&automaton), 0);
}

#[test]
fn a_pattern_and_its_buffers_are_charged_to_the_session() {
    let long = "ab".repeat(20_000);
    let all = Arc::<crate::instance::SessionsMemory>::default();
    let memory = SessionMemory::new(1 << 20, &all);
    let mut session = super::super::context::SessionInfo::new(crate::system::OBJECTS);
    session.memory = Some(Arc::clone(&memory));
    let catalog = Arc::new(crate::catalog::Catalog::default());
    let evaluate = |text: &str, pattern: &str| {
        let mut context = EvaluationContext::new(&session, &catalog, &[], None);
        let matched = RegexPattern::new(false).evaluate(
            &Value::text(text),
            &Value::text(pattern),
            &mut context,
        );
        (matched, memory.used())
    };
    let (matched, used) = evaluate(&long, "(a|b)*c");
    assert_eq!(matched.unwrap(), Value::Bool(false));
    let kept = memory.used();
    // The statement's buffers are gone, a small pattern stays.
    assert!(
        (1000..kept::KEPT_BYTES as u64 * 2).contains(&kept),
        "{kept}"
    );
    assert!(used >= kept);
    for number in 0..100 {
        evaluate("ab", &format!("a{number}")).0.unwrap();
    }
    assert!(memory.used() <= 1 << 20);
    // One that takes more than the session may keep, though all others make room.
    let large = "([ab]{0,300})".repeat(12) + "c";
    let refused = evaluate(&long, &large).0.unwrap_err();
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    let hint = refused.report().hint.clone().unwrap();
    assert!(hint.contains("max_session_memory_bytes"), "{hint}");
    session.patterns.clear();
    assert_eq!((memory.used(), all.used()), (0, 0));
}

#[test]
fn of_alternatives_the_longest_is_found() {
    for (pattern, text, expected) in [
        (".|...", "xyz", vec![(0, 3)]),
        ("o|oo", "foobar", vec![(1, 3)]),
        ("a|ab|abc", "abcab", vec![(0, 3), (3, 5)]),
        ("(?:a|ab)(?:c|bcd)d*", "abcd", vec![(0, 4)]),
        ("x*?|xx", "xx", vec![(0, 2), (2, 2)]),
        ("l*", "hello", vec![(0, 0), (1, 1), (2, 4), (4, 4), (5, 5)]),
        ("ä|äö", "äöä", vec![(0, 4), (4, 6)]),
        ("\\bwo|\\bwort\\b", "wö wort", vec![(4, 8)]),
    ] {
        let regex = Regex::new(pattern, false).unwrap();
        let mut found = Vec::new();
        let mut visit = |groups: &[Option<Span>], _: &mut Work<'_>| {
            found.extend(groups[0]);
            Ok(())
        };
        regex
            .each(text, usize::MAX, 1, &mut |_| Ok(()), &mut visit)
            .unwrap();
        assert_eq!(found, expected, "{pattern}");
    }
}
