//! Clients that speak LATIN1: what they send and what they are told.

use coeval_testkit::server::with_server;
use coeval_testkit::wire::{Answer, Wire, bind, error, execute, message, parse, sync};

/// The contents of the data rows, with their lengths.
fn rows(answers: &[Answer]) -> Vec<Vec<u8>> {
    let rows = answers.iter().filter(|answer| answer.kind == 'D');
    rows.map(|row| row.contents.clone()).collect()
}

/// A row with one value.
fn row(value: &[u8]) -> Vec<u8> {
    let length = u32::try_from(value.len()).expect("a short value");
    [&[0, 1], &length.to_be_bytes()[..], value].concat()
}

#[test]
fn text_is_converted_where_it_comes_in_and_where_it_goes_out() {
    with_server(|address| async move {
        let mut latin = Wire::connect(address).await;
        let mut other = Wire::connect(address).await;
        latin.query("create table t (a text)").await;
        latin.query("set client_encoding = 'LATIN1'").await;
        // A simple query, and what it says of its columns.
        let text = b"insert into t values ('gr\xfc\xdfe') returning a as \"\xe4\"\0";
        let answers = latin.ask(&[message(b'Q', text)]).await;
        assert_eq!(rows(&answers), [row(b"gr\xfc\xdfe")]);
        let described = answers.iter().find(|answer| answer.kind == 'T');
        let described = &described.expect("a description").contents;
        assert!(described[2..].starts_with(b"\xe4\0"), "{described:?}");
        assert_eq!(
            other.value("select a from t").await.as_deref(),
            Some("grüße")
        );
        // The extended protocol.
        let answers = latin
            .ask(&[
                parse("", "select $1::text || a from t", &[]),
                bind("", "", &[Some(b"\xe9 ")]),
                execute("", 0),
                sync(),
            ])
            .await;
        assert_eq!(rows(&answers), [row(b"\xe9 gr\xfc\xdfe")]);
        // Errors.
        let answers = latin.ask(&[message(b'Q', b"select \"\xe4\"\0")]).await;
        let told = &error(&answers).contents;
        let quoted = b"column \"\xe4\" does not exist".as_slice();
        assert!(
            told.windows(quoted.len()).any(|each| each == quoted),
            "{told:?}"
        );
        // COPY, both ways.
        latin.query("truncate t").await;
        latin.send(&message(b'Q', b"copy t from stdin\0")).await;
        latin.until('G').await;
        latin.send(&message(b'd', b"\xf6\n")).await;
        latin.send(&message(b'c', b"")).await;
        latin.until('Z').await;
        assert_eq!(other.value("select a from t").await.as_deref(), Some("ö"));
        let answers = latin.query("copy t to stdout").await;
        let line = answers.iter().find(|answer| answer.kind == 'd');
        assert_eq!(line.expect("a line").contents, b"\xf6\n");
        // What the encoding does not have.
        other.query("update t set a = '5 €'").await;
        for query in ["select a from t", "copy t to stdout"] {
            let answers = latin.query(query).await;
            assert_eq!(error(&answers).sqlstate(), "22P05");
        }
        latin.query("set client_encoding = 'WIN1252'").await;
        assert_eq!(
            rows(&latin.query("select a from t").await),
            [row(b"5 \x80")]
        );
        let answers = latin.ask(&[message(b'Q', b"select '\x81'\0")]).await;
        assert_eq!(error(&answers).sqlstate(), "22P05");
        latin.query("reset client_encoding").await;
        assert_eq!(latin.value("select a from t").await.as_deref(), Some("5 €"));
    });
}
