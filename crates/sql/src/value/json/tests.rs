//! Tests of JSON: what PostgreSQL 15 accepts, refuses and prints.

use super::*;

fn jsonb(text: &str) -> Jsonb {
    Jsonb::parse(text, &mut |_| Ok(())).expect(text)
}

fn refused(text: &str) -> (String, String) {
    let error = Jsonb::parse(text, &mut |_| Ok(())).expect_err(text);
    let report = error.report();
    (
        report.detail.clone().unwrap_or_default(),
        report.context.clone().unwrap_or_default(),
    )
}

#[test]
fn the_normal_form_is_postgresqls() {
    for (text, printed) in [
        ("null", "null"),
        (" [ 1 , 1.50,\n-0.0e1, 1e3 ] ", "[1, 1.50, 0, 1000]"),
        (
            r#"{"bb": 1, "a": 2, "c": 3, "bb": {"x": []}}"#,
            r#"{"a": 2, "c": 3, "bb": {"x": []}}"#,
        ),
        (
            r#""\u00e4\ud83d\ude00\/\b\f\n\r\t\"\\\u0001""#,
            "\"ä😀/\\b\\f\\n\\r\\t\\\"\\\\\\u0001\"",
        ),
        ("{}", "{}"),
        ("[]", "[]"),
    ] {
        assert_eq!(jsonb(text).to_text(), printed);
        assert_eq!(jsonb(printed).to_text(), printed);
    }
}

#[test]
fn errors_say_what_was_expected_and_where() {
    for (text, detail, context) in [
        (
            "",
            "The input string ended unexpectedly.",
            "JSON data, line 1: ",
        ),
        ("'x'", "Token \"'\" is invalid.", "JSON data, line 1: '..."),
        (
            "{\"abc\"}",
            "Expected \":\", but found \"}\".",
            "JSON data, line 1: {\"abc\"}",
        ),
        (
            "{1:2}",
            "Expected string or \"}\", but found \"1\".",
            "JSON data, line 1: {1...",
        ),
        (
            "[1,",
            "The input string ended unexpectedly.",
            "JSON data, line 1: [1,",
        ),
        (
            "[1 2]",
            "Expected \",\" or \"]\", but found \"2\".",
            "JSON data, line 1: [1 2...",
        ),
        (
            "[,]",
            "Expected JSON value, but found \",\".",
            "JSON data, line 1: [,...",
        ),
        (
            "1 2",
            "Expected end of input, but found \"2\".",
            "JSON data, line 1: 1 2",
        ),
        (
            "[01]",
            "Token \"01\" is invalid.",
            "JSON data, line 1: [01...",
        ),
        (
            "\"abc",
            "Token \"\"abc\" is invalid.",
            "JSON data, line 1: \"abc",
        ),
        (
            "\"\\v\"",
            "Escape sequence \"\\v\" is invalid.",
            "JSON data, line 1: \"\\v...",
        ),
        (
            "\"\\u00g0\"",
            "\"\\u\" must be followed by four hexadecimal digits.",
            "JSON data, line 1: \"\\u00g...",
        ),
        (
            "\"abc\ndef\"",
            "Character with value 0x0a must be escaped.",
            "JSON data, line 1: \"abc",
        ),
        (
            "{\n\"a\": 1,\n}",
            "Expected string, but found \"}\".",
            "JSON data, line 3: }",
        ),
    ] {
        let (found, place) = refused(text);
        assert_eq!(
            (found.as_str(), place.as_str()),
            (detail, context),
            "{text}"
        );
    }
    let long = format!("[{}x]", "\"0123456789\", ".repeat(9));
    let (_, place) = refused(&long);
    assert_eq!(
        place,
        "JSON data, line 1: ...789\", \"0123456789\", \"0123456789\", \"0123456789\", x..."
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = jsonb(&nested(DEEPEST));
    assert_eq!(deep.to_text(), nested(DEEPEST));
    assert!(compare(&deep, &jsonb(&nested(DEEPEST))).is_eq());
    for depth in [DEEPEST + 1, 100_000] {
        let error = Jsonb::parse(&nested(depth), &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.state().0, "54001");
        let error = check_json(&nested(depth), &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.state().0, "54001");
    }
}

#[test]
fn wide_containers_are_read_in_place() {
    for count in [0, 1, 200, 300, 70_000] {
        let pairs: Vec<String> = (0..count)
            .map(|n| format!("\"k{n}\": [{n}, null]"))
            .collect();
        let document = jsonb(&format!("{{{}}}", pairs.join(",")));
        let JsonView::Object(object) = document.view() else {
            panic!("an object");
        };
        assert_eq!(object.len(), count);
        for number in (0..count).step_by(97) {
            let Some(JsonView::Array(array)) = object.get(&format!("k{number}")) else {
                panic!("an array");
            };
            assert!(
                matches!(array.get(0), Some(JsonView::Number(n)) if n == Numeric::from(number as i64))
            );
            assert!(array.get(2).is_none());
        }
        assert!(object.get("k").is_none());
        assert_eq!(document.tree().encode().unwrap().bytes(), document.bytes());
    }
}

#[test]
fn damaged_bytes_read_as_something() {
    let good = jsonb(r#"{"a": [1, "x", {"b": true}], "cc": null}"#);
    for at in 0..good.bytes().len() {
        for bit in 0..8 {
            let mut bad = good.bytes().to_vec();
            bad[at] ^= 1 << bit;
            let _ = Jsonb::from_bytes(&bad).to_text();
            let _ = Jsonb::from_bytes(&bad[..at]).to_text();
        }
    }
}

/// From the least to the greatest.
#[test]
fn documents_are_ordered_as_postgresql_orders_them() {
    let texts = [
        "[]",
        "null",
        "\"\"",
        "\"a\"",
        "\"b\"",
        "-1",
        "1",
        "2",
        "false",
        "true",
        "[0]",
        "[1]",
        "[[]]",
        "[1, 2]",
        "[true, 0]",
        "[[], 0]",
        "{}",
        "{\"a\": 1}",
        "{\"a\": 2}",
        "{\"bb\": 0}",
        "{\"b\": 0}",
        "{\"a\": 1, \"b\": 2}",
    ];
    let documents: Vec<Jsonb> = texts.iter().map(|text| jsonb(text)).collect();
    // Keys compare by their bytes: "b" is less than "bb".
    let rank = |at: usize| match at {
        19 => 20,
        20 => 19,
        other => other,
    };
    for (one, left) in documents.iter().enumerate() {
        for (other, right) in documents.iter().enumerate() {
            let order = rank(one).cmp(&rank(other));
            assert_eq!(
                compare(left, right),
                order,
                "{} {}",
                texts[one],
                texts[other]
            );
            let (mut first, mut second) = (Vec::new(), Vec::new());
            write_key(left, &mut first);
            write_key(right, &mut second);
            assert_eq!(first.cmp(&second), order, "{} {}", texts[one], texts[other]);
        }
    }
    assert!(compare(&jsonb("1.0"), &jsonb("1.00")).is_eq());
}

#[test]
fn parts_of_a_text_are_as_written() {
    let text = r#" {"a" : [ 1,{"x":2} ] , "\u0061b":"c" , "a":null}"#;
    let parts = children(text, &mut |_| Ok(())).unwrap();
    let shown: Vec<(&str, &str, &str)> = parts
        .iter()
        .map(|part| {
            (
                part.key.as_deref().unwrap_or_default(),
                part.text,
                part.kind.name(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("a", "[ 1,{\"x\":2} ]", "array"),
            ("ab", "\"c\"", "string"),
            ("a", "null", "null"),
        ]
    );
    assert!(children("[]", &mut |_| Ok(())).unwrap().is_empty());
    assert_eq!(unescaped("\"a\\nb\"").unwrap(), "a\nb");
}
