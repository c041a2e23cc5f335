//! This crate decodes what the pgwire library's client side encodes, and the other way
//! round.

use bytes::{BufMut, Bytes, BytesMut};
use coeval_pgwire::backend::{Column, RowWriter, cold, hot, row_description};
use coeval_pgwire::frontend::{DescribeTarget, Format, Message, Parameter};
use coeval_pgwire::startup::Protocol;
use coeval_pgwire::{Frame, Limits, frame};
use pgwire::messages::data::FORMAT_CODE_BINARY;
use pgwire::messages::extendedquery::{Bind, Close, Describe, Execute, Parse};
use pgwire::messages::{
    DecodeContext, PgWireBackendMessage as Answer, ProtocolVersion, copy, simplequery,
};
use proptest::prelude::*;

fn frame(bytes: &BytesMut) -> Frame<'_> {
    let frame = frame::cut(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(frame.contents.len() + frame::HEADER, bytes.len());
    frame
}

fn encoded(message: &impl pgwire::messages::Message) -> BytesMut {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes).unwrap();
    bytes
}

/// The messages in `bytes`, as the library decodes them.
fn answers(bytes: Vec<u8>) -> Vec<Answer> {
    let mut bytes = BytesMut::from(&bytes[..]);
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_2);
    context.awaiting_frontend_ssl = false;
    context.awaiting_frontend_startup = false;
    let mut answers = Vec::new();
    while let Some(answer) = Answer::decode(&mut bytes, &context).unwrap() {
        answers.push(answer);
    }
    assert!(bytes.is_empty());
    answers
}

fn name() -> impl Strategy<Value = String> {
    "[^\0]{0,12}"
}

proptest! {
    #[test]
    fn reads_bind(
        portal in name(),
        statement in name(),
        values in prop::collection::vec((any::<bool>(), prop::option::of("[^\0]{0,20}")), 0..20),
        result_formats in prop::collection::vec(0i16..=1, 0..5),
    ) {
        let formats = values.iter().map(|(binary, _)| i16::from(*binary)).collect();
        let parameters = values.iter().map(|(_, value)| value.clone().map(Bytes::from)).collect();
        let sent = Bind::new(
            Some(portal.clone()),
            Some(statement.clone()),
            formats,
            parameters,
            result_formats.clone(),
        );
        let bytes = encoded(&sent);
        let Message::Bind(bind) = Message::decode(frame(&bytes)).unwrap() else {
            panic!("a Bind")
        };
        prop_assert_eq!(bind.portal, &portal);
        prop_assert_eq!(bind.statement, &statement);
        let wanted: Vec<_> = bind.result_formats.iter().map(Format::code).collect();
        prop_assert_eq!(wanted, result_formats);
        prop_assert_eq!(bind.parameters().len(), values.len());
        for (read, (binary, value)) in bind.parameters().zip(&values) {
            let expected = match value {
                None => Parameter::Null,
                Some(value) if *binary => Parameter::Binary(value.as_bytes()),
                Some(value) => Parameter::Text(value),
            };
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn reads_parse(statement in name(), query in "[^\0]{0,80}", types in prop::collection::vec(any::<u32>(), 0..9)) {
        let bytes = encoded(&Parse::new(Some(statement.clone()), query.clone(), types.clone()));
        let Message::Parse(parse) = Message::decode(frame(&bytes)).unwrap() else {
            panic!("a Parse")
        };
        prop_assert_eq!(parse.statement, statement);
        prop_assert_eq!(parse.query, query);
        prop_assert_eq!(parse.parameter_types().collect::<Vec<_>>(), types);
    }

    #[test]
    fn reads_the_short_ones(name in name(), limit in any::<i32>()) {
        let execute = encoded(&Execute::new(Some(name.clone()), limit));
        let max_rows = u32::try_from(limit).ok().filter(|&limit| limit > 0);
        let expected = Message::Execute { portal: &name, max_rows };
        prop_assert_eq!(Message::decode(frame(&execute)).unwrap(), expected);

        let describe = encoded(&Describe::new(b'S', Some(name.clone())));
        let expected = Message::Describe(DescribeTarget::Statement, &name);
        prop_assert_eq!(Message::decode(frame(&describe)).unwrap(), expected);

        let close = encoded(&Close::new(b'P', Some(name.clone())));
        let expected = Message::Close(DescribeTarget::Portal, &name);
        prop_assert_eq!(Message::decode(frame(&close)).unwrap(), expected);

        let query = encoded(&simplequery::Query::new(name.clone()));
        prop_assert_eq!(Message::decode(frame(&query)).unwrap(), Message::Query(&name));

        let fail = encoded(&copy::CopyFail::new(name.clone()));
        prop_assert_eq!(Message::decode(frame(&fail)).unwrap(), Message::CopyFail(&name));

        let data = encoded(&copy::CopyData::new(Bytes::from(name.clone())));
        prop_assert_eq!(Message::decode(frame(&data)).unwrap(), Message::CopyData(name.as_bytes()));
    }

    #[test]
    fn rows_are_read_back(rows in prop::collection::vec(prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 3), 0..10)) {
        let mut out = Vec::new();
        for values in &rows {
            let mut row = RowWriter::data_row(&mut out, 3);
            for value in values {
                match value {
                    Some(value) if value.len() % 2 == 0 => row.value(|bytes| bytes.put_slice(value)),
                    Some(value) => row.optional(|bytes| {
                        bytes.put_slice(value);
                        true
                    }),
                    None if rows.len() % 2 == 0 => row.null(),
                    None => row.optional(|_| false),
                }
            }
            row.finish().unwrap();
        }
        let answers = answers(out);
        prop_assert_eq!(answers.len(), rows.len());
        for (answer, values) in answers.iter().zip(&rows) {
            let Answer::DataRow(row) = answer else { panic!("a row") };
            prop_assert_eq!(row.field_count, 3);
            let mut expected = BytesMut::new();
            for value in values {
                match value {
                    Some(value) => {
                        expected.put_i32(value.len() as i32);
                        expected.put_slice(value);
                    }
                    None => expected.put_i32(-1),
                }
            }
            prop_assert_eq!(&row.data, &expected);
        }
    }
}

#[test]
fn every_answer_is_one_the_library_knows() {
    let mut out = Vec::new();
    hot::parse_complete(&mut out);
    hot::bind_complete(&mut out);
    hot::close_complete(&mut out);
    hot::no_data(&mut out);
    hot::portal_suspended(&mut out);
    hot::empty_query_response(&mut out);
    hot::copy_done(&mut out);
    hot::command_complete(&mut out, "INSERT 0 1");
    for status in [
        hot::TransactionStatus::Idle,
        hot::TransactionStatus::Transaction,
        hot::TransactionStatus::Failed,
    ] {
        hot::ready_for_query(&mut out, status);
    }
    cold::authentication_ok(&mut out);
    cold::parameter_status(&mut out, "DateStyle", "ISO, MDY").unwrap();
    cold::backend_key_data(&mut out, 7, &[1; 32]).unwrap();
    cold::negotiate_protocol_version(&mut out, Protocol::V3_2, &["_pq_.fast"]).unwrap();
    cold::parameter_description(&mut out, &[23, 25]).unwrap();
    cold::copy_in_response(&mut out, Format::Text, 4).unwrap();
    cold::copy_out_response(&mut out, Format::Binary, 2).unwrap();
    let column = Column {
        name: "balance",
        table: 16400,
        number: 3,
        data_type: 20,
        size: 8,
        modifier: -1,
        format: Format::Binary,
    };
    row_description(&mut out, [column].into_iter()).unwrap();

    let answers = answers(out);
    let names: Vec<_> = answers
        .iter()
        .map(|answer| format!("{answer:?}").split('(').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "ParseComplete",
            "BindComplete",
            "CloseComplete",
            "NoData",
            "PortalSuspended",
            "EmptyQueryResponse",
            "CopyDone",
            "CommandComplete",
            "ReadyForQuery",
            "ReadyForQuery",
            "ReadyForQuery",
            "Authentication",
            "ParameterStatus",
            "BackendKeyData",
            "NegotiateProtocolVersion",
            "ParameterDescription",
            "CopyInResponse",
            "CopyOutResponse",
            "RowDescription",
        ]
    );
    let Some(Answer::RowDescription(description)) = answers.last() else {
        panic!("named so above")
    };
    assert_eq!(description.fields[0].name, "balance");
    assert_eq!(description.fields[0].format_code, FORMAT_CODE_BINARY);
}

#[test]
fn an_error_arrives_with_all_its_fields() {
    let mut report = cold::Report::new(cold::Severity::Error, "23505", "duplicate\0 key");
    report.detail = Some("Key (id)=(1) already exists.");
    report.hint = Some("Choose another.");
    report.position = Some(8);
    report.object.table = Some("accounts");
    report.object.constraint = Some("accounts_pkey");
    let mut out = Vec::new();
    cold::error_response(&mut out, &report);
    let answers = answers(out);
    let [Answer::ErrorResponse(error)] = answers.as_slice() else {
        panic!("one error")
    };
    let field = |code| {
        let mut fields = error.fields.iter();
        fields
            .find(|(other, _)| *other == code)
            .map(|(_, text)| text.as_str())
    };
    assert_eq!(field(b'S'), Some("ERROR"));
    assert_eq!(field(b'V'), Some("ERROR"));
    assert_eq!(field(b'C'), Some("23505"));
    assert_eq!(field(b'M'), Some("duplicate\\0 key"));
    assert_eq!(field(b'D'), report.detail);
    assert_eq!(field(b'H'), report.hint);
    assert_eq!(field(b'P'), Some("8"));
    assert_eq!(field(b't'), Some("accounts"));
    assert_eq!(field(b'n'), Some("accounts_pkey"));
    assert_eq!(field(b'c'), None);
}

#[test]
fn a_megabyte_of_statement_makes_no_megabyte_of_error() {
    let long = "é".repeat(1 << 20);
    let mut out = Vec::new();
    cold::error_response(
        &mut out,
        &cold::Report::new(cold::Severity::Error, "42601", &long),
    );
    assert!(out.len() < 70_000);
    assert_eq!(answers(out).len(), 1);
}

#[test]
fn what_cannot_be_sent_leaves_nothing() {
    let mut out = Vec::new();
    assert!(cold::parameter_status(&mut out, "search_path", &"x".repeat(40_000)).is_err());
    assert!(cold::backend_key_data(&mut out, 7, &[1; 300]).is_err());
    assert!(cold::copy_in_response(&mut out, Format::Text, 40_000).is_err());
    assert!(cold::parameter_description(&mut out, &[0; 65_536]).is_err());
    let column = Column {
        name: "name",
        table: 0,
        number: 0,
        data_type: 25,
        size: -1,
        modifier: -1,
        format: Format::Text,
    };
    assert!(row_description(&mut out, vec![column; 32_768].into_iter()).is_err());
    assert!(out.is_empty());
}
