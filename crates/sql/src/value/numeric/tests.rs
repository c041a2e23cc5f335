//! Tests that numerics are parsed, printed and computed as in PostgreSQL 15.

use super::*;

fn number(text: &str) -> Numeric {
    Numeric::parse(text).unwrap().unwrap()
}

#[test]
fn literals() {
    for (input, printed) in [
        ("1.50", "1.50"),
        ("-0.001", "-0.001"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1.25e-3", "0.00125"),
        (" 7 ", "7"),
        ("-0", "0"),
        ("-0.0", "0.0"),
        ("nan", "NaN"),
        ("-inf", "-Infinity"),
    ] {
        assert_eq!(number(input).to_string(), printed);
    }
    for bad in ["", ".", "1e", "1.2.3", "abc", "1 2", "-nan", "0x10"] {
        assert!(Numeric::parse(bad).unwrap().is_none(), "{bad}");
    }
    assert!(Numeric::parse("1e200000").is_err());
    assert!(Numeric::parse("1e99999999999999999999").is_err());
}

/// Results printed by PostgreSQL 15.
#[test]
fn arithmetic_has_the_scales_of_postgresql() {
    for (left, operator, right, printed) in [
        ("1.5", '+', "2.25", "3.75"),
        ("1.5", '-', "1.50", "0.00"),
        ("1.5", '*', "2.25", "3.375"),
        ("1", '/', "3", "0.33333333333333333333"),
        ("10", '/', "3", "3.3333333333333333"),
        ("2", '/', "3", "0.66666666666666666667"),
        ("100000", '/', "7", "14285.714285714286"),
        ("1", '/', "70000", "0.000014285714285714285714"),
        ("-7.5", '%', "2", "-1.5"),
        ("0", '/', "5", "0.00000000000000000000"),
    ] {
        let (left, right) = (number(left), number(right));
        let result = match operator {
            '+' => left.add(&right),
            '-' => left.subtract(&right),
            '*' => left.multiply(&right),
            '/' => left.divide(&right),
            _ => left.remainder(&right),
        };
        assert_eq!(
            result.unwrap().to_string(),
            printed,
            "{left} {operator} {right}"
        );
    }
}

#[test]
fn rounding_goes_away_from_zero() {
    assert_eq!(number("2.5").round(0).to_string(), "3");
    assert_eq!(number("-2.5").round(0).to_string(), "-3");
    assert_eq!(number("1250").round(-2).to_string(), "1300");
    assert_eq!(number("2.449").round(1).to_string(), "2.4");
    assert_eq!(number("-2.5").floor().to_string(), "-3");
    assert_eq!(number("-2.5").ceil().to_string(), "-2");
    assert_eq!(number("2").round(2).to_string(), "2.00");
    assert_eq!(number("5").round(-9).to_string(), "0");
}

#[test]
fn a_field_has_its_precision() {
    assert_eq!(number("1.005").fit(5, 2).unwrap().to_string(), "1.01");
    assert!(number("999.995").fit(5, 2).is_err());
}

#[test]
fn equal_numbers_of_different_scales_are_equal() {
    assert_eq!(number("1.0"), number("1.00"));
    assert!(number("NaN") > number("inf"));
    assert!(number("-inf") < number("-1e100"));
}
