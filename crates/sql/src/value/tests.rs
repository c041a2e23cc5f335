//! Property tests of the encodings: each decodes to the same value, and keys compare as
//! their values do.

use proptest::prelude::*;

use super::json::Json;
use super::*;
use crate::SqlState;

fn style() -> Style {
    Style::default()
}

fn printed(text: &str, column_type: impl Into<ColumnType>) -> String {
    let column_type = column_type.into();
    let value = Value::parse(text, column_type, &style()).unwrap();
    value.to_text(column_type, &style()).unwrap().to_string()
}

fn state(text: &str, column_type: impl Into<ColumnType>) -> SqlState {
    Value::parse(text, column_type.into(), &style())
        .unwrap_err()
        .state()
}

#[test]
fn integers_and_booleans() {
    assert_eq!(printed(" -7 ", DataType::Int4), "-7");
    assert_eq!(
        printed("+9223372036854775807", DataType::Int8),
        "9223372036854775807"
    );
    assert_eq!(
        printed("-9223372036854775808", DataType::Int8),
        "-9223372036854775808"
    );
    assert_eq!(
        state("2147483648", DataType::Int4),
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE
    );
    assert_eq!(
        state("1.5", DataType::Int4),
        SqlState::INVALID_TEXT_REPRESENTATION
    );
    assert_eq!(
        state("", DataType::Int2),
        SqlState::INVALID_TEXT_REPRESENTATION
    );
    for (text, truth) in [
        ("t", "t"),
        ("YES", "t"),
        ("of", "f"),
        ("off", "f"),
        (" 1 ", "t"),
        ("fal", "f"),
    ] {
        assert_eq!(printed(text, DataType::Bool), truth);
    }
    assert_eq!(
        state("o", DataType::Bool),
        SqlState::INVALID_TEXT_REPRESENTATION
    );
}

/// Printed by PostgreSQL 15.
#[test]
fn floats() {
    for (text, shown) in [
        ("1", "1"),
        ("0.1", "0.1"),
        ("-0", "-0"),
        ("1e14", "100000000000000"),
        ("1e15", "1e+15"),
        ("1.5e-4", "0.00015"),
        ("1.5e-5", "1.5e-05"),
        ("123456789012345678", "1.2345678901234568e+17"),
        ("inf", "Infinity"),
        ("nan", "NaN"),
    ] {
        assert_eq!(printed(text, DataType::Float8), shown);
    }
    assert_eq!(printed("1000000", DataType::Float4), "1e+06");
    assert_eq!(printed("0.1", DataType::Float4), "0.1");
    assert_eq!(
        state("1e400", DataType::Float8),
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE
    );
    assert_eq!(
        state("1e40", DataType::Float4),
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE
    );
}

#[test]
fn strings_have_their_length() {
    let char3 = ColumnType::string(DataType::Char, 3).unwrap();
    assert_eq!(printed("a", char3), "a  ");
    assert_eq!(printed("ab   ", char3), "ab ");
    assert_eq!(state("abcd", char3), SqlState::STRING_DATA_RIGHT_TRUNCATION);
    let varchar3 = ColumnType::string(DataType::VarChar, 3).unwrap();
    assert_eq!(printed("äöü", varchar3), "äöü");
    assert_eq!(printed("ab   ", varchar3), "ab ");
    assert_eq!(
        state("äöüx", varchar3),
        SqlState::STRING_DATA_RIGHT_TRUNCATION
    );
    assert_eq!(
        state("a\0b", DataType::Text),
        SqlState::CHARACTER_NOT_IN_REPERTOIRE
    );
    let cut = Value::text("abcdef").fit(varchar3, Fit::Cast).unwrap();
    assert_eq!(cut, Value::text("abc"));
}

#[test]
fn dates_and_timestamps() {
    for text in [
        "2026-11-21",
        "20261121",
        "21 Nov 2026",
        "November 21, 2026",
        "11/21/2026",
        "21-Nov-2026",
    ] {
        assert_eq!(printed(text, DataType::Date), "2026-11-21");
    }
    assert_eq!(printed("0044-03-15 BC", DataType::Date), "0044-03-15 BC");
    assert_eq!(printed("infinity", DataType::Date), "infinity");
    assert_eq!(printed("epoch", DataType::Timestamp), "1970-01-01 00:00:00");
    assert_eq!(
        printed("2026-11-21T21:06:00.500", DataType::Timestamp),
        "2026-11-21 21:06:00.5"
    );
    assert_eq!(
        printed("2026-11-21 9:06 pm", DataType::Timestamp),
        "2026-11-21 21:06:00"
    );
    assert_eq!(
        printed("2026-11-21 24:00", DataType::Timestamp),
        "2026-11-22 00:00:00"
    );
    assert_eq!(
        printed("2026-11-21 21:06+05:30", DataType::TimestampTz),
        "2026-11-21 15:36:00+00"
    );
    assert_eq!(
        printed("2026-07-01 12:00 Europe/Paris", DataType::TimestampTz),
        "2026-07-01 10:00:00+00"
    );
    assert_eq!(
        state("abc", DataType::Date),
        SqlState::INVALID_DATETIME_FORMAT
    );
    assert_eq!(
        state("2026-02-30", DataType::Date),
        SqlState::DATETIME_FIELD_OVERFLOW
    );
    assert_eq!(
        state("2026-13-01", DataType::Date),
        SqlState::DATETIME_FIELD_OVERFLOW
    );
    assert_eq!(
        state("2026-01-01 25:00", DataType::Timestamp),
        SqlState::DATETIME_FIELD_OVERFLOW
    );
    assert_eq!(
        state("294277-01-01", DataType::Timestamp),
        SqlState::DATETIME_FIELD_OVERFLOW
    );
}

#[test]
fn a_time_zone_moves_the_wall_clock_only() {
    let paris = Style {
        time_zone: TimeZone::named("europe/paris").unwrap(),
        now: 0,
        ..Style::default()
    };
    let moment = Value::parse("2026-07-01 12:00", DataType::TimestampTz.into(), &paris).unwrap();
    assert_eq!(
        moment
            .to_text(DataType::TimestampTz.into(), &paris)
            .unwrap(),
        "2026-07-01 12:00:00+02"
    );
    assert_eq!(
        moment
            .to_text(DataType::TimestampTz.into(), &style())
            .unwrap(),
        "2026-07-01 10:00:00+00"
    );
    // Local times skipped in spring and repeated in autumn, as PostgreSQL 15 reads
    // them.
    for (local, shown) in [
        ("2026-03-29 02:30", "2026-03-29 03:30:00+02"),
        ("2026-10-25 02:30", "2026-10-25 02:30:00+01"),
    ] {
        let moment = Value::parse(local, DataType::TimestampTz.into(), &paris).unwrap();
        assert_eq!(
            moment
                .to_text(DataType::TimestampTz.into(), &paris)
                .unwrap(),
            shown
        );
    }
}

#[test]
fn arrays() {
    assert_eq!(
        printed("{ a, \"b c\" ,NULL,\"\"}", DataType::TextArray),
        "{a,\"b c\",NULL,\"\"}"
    );
    assert_eq!(printed("1 2 3", DataType::Int2Vector), "1 2 3");
    assert_eq!(printed("{}", DataType::Int4Array), "{}");
    assert_eq!(
        state("1,2", DataType::Int4Array),
        SqlState::INVALID_TEXT_REPRESENTATION
    );
}

#[test]
fn types_print_as_format_type_does() {
    assert_eq!(
        ColumnType::numeric(10, 2).unwrap().to_string(),
        "numeric(10,2)"
    );
    assert_eq!(
        ColumnType::string(DataType::VarChar, 20)
            .unwrap()
            .to_string(),
        "character varying(20)"
    );
    assert_eq!(ColumnType::from(DataType::Int8).to_string(), "bigint");
    assert!(ColumnType::string(DataType::Char, 0).is_err());
    for each in DataType::ALL {
        assert_eq!(DataType::from_oid(each.oid()), Some(*each));
    }
}

fn numerics() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        8 => (any::<i64>(), 0_u32..12).prop_map(|(unscaled, scale)| {
            Numeric::from_parts(unscaled.into(), scale).unwrap()
        }),
        4 => (-200_i64..200, 0_u32..4).prop_map(|(unscaled, scale)| {
            Numeric::from_parts(unscaled.into(), scale).unwrap()
        }),
        1 => "[1-9][0-9]{0,40}(\\.[0-9]{1,40})?".prop_map(|text| {
            Numeric::parse(&text).unwrap().unwrap()
        }),
        1 => prop_oneof![
            Just(Numeric::NaN),
            Just(Numeric::Infinity),
            Just(Numeric::NegativeInfinity)
        ],
    ]
}

/// Strategy for JSON documents whose numbers are finite.
fn documents() -> impl Strategy<Value = Json> {
    let finite = numerics().prop_filter_map("JSON has no infinity", |number| {
        number.parts().is_some().then_some(Json::Number(number))
    });
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        finite,
        "[a-c\"\\\\\u{1}ä]{0,3}".prop_map(Json::text),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            proptest::collection::vec(("[a-c]{0,2}", inner), 0..4).prop_map(|pairs| {
                Json::object(
                    pairs
                        .into_iter()
                        .map(|(key, value)| (key.into(), value))
                        .collect(),
                )
            }),
        ]
    })
}

/// Strategy for the values of a type; `None` for types that only the system catalogs
/// have.
fn values(data_type: DataType) -> Option<BoxedStrategy<Value>> {
    Some(match data_type {
        DataType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        DataType::Int2 => any::<i16>().prop_map(Value::Int2).boxed(),
        DataType::Int4 => prop_oneof![any::<i32>(), -3..3]
            .prop_map(Value::Int4)
            .boxed(),
        DataType::Int8 => any::<i64>().prop_map(Value::Int8).boxed(),
        DataType::Float4 => any::<f32>().prop_map(Value::Float4).boxed(),
        DataType::Float8 => any::<f64>().prop_map(Value::Float8).boxed(),
        DataType::Numeric => numerics()
            .prop_map(|number| Value::Numeric(Box::new(number)))
            .boxed(),
        DataType::Text => "[a-c\u{1}ä\u{10FFFF}]{0,4}".prop_map(Value::text).boxed(),
        DataType::VarChar => "\\PC{0,40}".prop_map(Value::text).boxed(),
        DataType::Char => "[a-c\u{1}ä]{0,4}".prop_map(Value::text).boxed(),
        DataType::Date => (calendar::MIN_DATE..calendar::END_DATE)
            .prop_map(|days| Value::Date(days as i32))
            .boxed(),
        DataType::Timestamp => (calendar::MIN_TIMESTAMP..calendar::END_TIMESTAMP)
            .prop_map(Value::Timestamp)
            .boxed(),
        DataType::TimestampTz => (calendar::MIN_TIMESTAMP..calendar::END_TIMESTAMP)
            .prop_map(Value::TimestampTz)
            .boxed(),
        DataType::Time => (0..=calendar::DAY).prop_map(Value::Time).boxed(),
        DataType::TimeTz => (0..=calendar::DAY, -57_599..57_600)
            .prop_map(|(time, west)| Value::TimeTz(time, west))
            .boxed(),
        DataType::Interval => (
            -300_000_i32..300_000,
            -3_000_000_i32..3_000_000,
            any::<i64>(),
        )
            .prop_map(|(months, days, micros)| {
                Value::Interval(Interval {
                    months,
                    days,
                    micros: micros >> 3,
                })
            })
            .boxed(),
        DataType::Name => "[a-c\u{1}ä]{0,4}".prop_map(Value::text).boxed(),
        DataType::Oid => any::<u32>().prop_map(Value::Oid).boxed(),
        DataType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        DataType::Bytea => prop_oneof![
            proptest::collection::vec(0_u8..3, 0..5),
            proptest::collection::vec(any::<u8>(), 0..40),
        ]
        .prop_map(|bytes| Value::Bytes(bytes.into()))
        .boxed(),
        DataType::Json => documents()
            .prop_map(|json| Value::text(json.encode().unwrap().to_text()))
            .boxed(),
        DataType::Jsonb => documents()
            .prop_map(|json| Value::Jsonb(json.encode().unwrap()))
            .boxed(),
        DataType::JsonPath => "[$](\\.\"[a-c]{1,3}\"|\\[\\*\\]){0,4}"
            .prop_map(Value::text)
            .boxed(),
        DataType::InternalChar
        | DataType::Int2Vector
        | DataType::Regproc
        | DataType::OidVector
        | DataType::Unknown
        | DataType::Regprocedure
        | DataType::Regoper
        | DataType::Regoperator
        | DataType::Regclass
        | DataType::Regtype
        | DataType::Regnamespace
        | DataType::Regrole
        | DataType::Void
        | DataType::BoolArray
        | DataType::InternalCharArray
        | DataType::NameArray
        | DataType::Int2Array
        | DataType::Int4Array
        | DataType::TextArray
        | DataType::CharArray
        | DataType::VarCharArray
        | DataType::Int8Array
        | DataType::Float4Array
        | DataType::Float8Array
        | DataType::OidArray
        | DataType::AclItemArray
        | DataType::TimestampArray
        | DataType::DateArray
        | DataType::TimestampTzArray
        | DataType::NumericArray
        | DataType::RegtypeArray
        | DataType::TimeArray
        | DataType::TimeTzArray
        | DataType::IntervalArray
        | DataType::JsonArray
        | DataType::ByteaArray
        | DataType::UuidArray
        | DataType::JsonbArray
        | DataType::JsonPathArray
        | DataType::Tid
        | DataType::Xid
        | DataType::TidArray
        | DataType::Record
        | DataType::RecordArray => return None,
    })
}

/// Strategy for a storable type and a value of it.
fn typed() -> impl Strategy<Value = (DataType, Value)> {
    proptest::strategy::Union::new(DataType::ALL.iter().filter_map(|&data_type| {
        let values = values(data_type);
        assert_eq!(values.is_some(), data_type.is_storable(), "{data_type}");
        Some(values?.prop_map(move |value| (data_type, value)).boxed())
    }))
}

/// Strategy for a type and two values of it; either may be null.
fn pairs() -> impl Strategy<Value = (DataType, Value, Value)> {
    (proptest::collection::vec(typed(), 24), 0..20_u8).prop_filter_map(
        "no two of one type",
        |(values, nulls)| {
            let (data_type, one) = values[0].clone();
            let other = values[1..]
                .iter()
                .find(|(other, _)| *other == data_type)?
                .1
                .clone();
            Some(match nulls {
                0 => (data_type, Value::Null, other),
                1 => (data_type, one, Value::Null),
                _ => (data_type, one, other),
            })
        },
    )
}

fn key(values: &[&Value], order: KeyOrder) -> Vec<u8> {
    let mut key = Vec::new();
    for value in values {
        value.write_key(order, &mut key);
    }
    key
}

proptest! {
    #[test]
    fn every_encoding_comes_back((data_type, value) in typed()) {
        let column_type = ColumnType::from(data_type);
        let text = value.to_text(column_type, &style()).unwrap();
        prop_assert_eq!(&Value::parse(&text, column_type, &style()).unwrap(), &value, "text {}", text);

        let mut binary = Vec::new();
        value.write_binary(column_type, &style(), &mut binary);
        let again = Value::parse_binary(&binary, column_type).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(again.to_text(column_type, &style()).unwrap(), text.clone());

        let mut cell = Vec::new();
        value.write_cell(&mut cell);
        let again = Value::from_cell(Some(&cell), data_type).unwrap();
        prop_assert_eq!(again.to_text(column_type, &style()).unwrap(), text);

        let mut from_cell = Vec::new();
        write_cell_key(Some(&cell), data_type, KeyOrder::DESCENDING, &mut from_cell).unwrap();
        prop_assert_eq!(&from_cell, &key(&[&value], KeyOrder::DESCENDING));
        let (again, rest) = read_key(&from_cell, data_type, KeyOrder::DESCENDING).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn keys_compare_as_values((_, one, other) in pairs(), (_, tail) in typed()) {
        let order = one.order(&other);
        let ascending = KeyOrder::ASCENDING;
        prop_assert_eq!(key(&[&one], ascending).cmp(&key(&[&other], ascending)), order);
        let descending = KeyOrder::DESCENDING;
        prop_assert_eq!(key(&[&one], descending).cmp(&key(&[&other], descending)), order.reverse());
        // Later columns do not matter while this column differs.
        if order.is_ne() {
            prop_assert_eq!(key(&[&one, &tail], ascending).cmp(&key(&[&other], ascending)), order);
        }
    }

    #[test]
    fn binary_input_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
        for data_type in DataType::ALL {
            let _ = Value::parse_binary(&bytes, ColumnType::from(*data_type));
        }
    }

    #[test]
    fn text_input_never_panics(text in "[ -~äT]{0,20}|[0-9:+./ -]{0,20}") {
        for data_type in DataType::ALL {
            let _ = Value::parse(&text, ColumnType::from(*data_type), &style());
        }
    }
}

#[test]
fn binary_moments_are_those_that_text_can_say() {
    let date = |days: i32| Value::parse_binary(&days.to_be_bytes(), DataType::Date.into());
    for days in [0, i32::MIN, i32::MAX, -2_451_545, 2_145_031_948] {
        assert_eq!(date(days).unwrap(), Value::Date(days));
    }
    for days in [i32::MIN + 1, i32::MAX - 1, -2_451_546, 2_145_031_949] {
        assert_eq!(date(days).unwrap_err().state().0, "22008", "{days}");
    }
    let first = -211_813_488_000_000_000;
    let end = 9_223_371_331_200_000_000;
    for data_type in [DataType::Timestamp, DataType::TimestampTz] {
        let parse = |moment: i64| Value::parse_binary(&moment.to_be_bytes(), data_type.into());
        for moment in [0, i64::MIN, i64::MAX, first, end - 1] {
            assert!(parse(moment).is_ok(), "{moment}");
        }
        for moment in [i64::MIN + 1, i64::MAX - 1, first - 1, end] {
            assert_eq!(parse(moment).unwrap_err().state().0, "22008", "{moment}");
        }
    }
}
