//! Bytes from hostile or broken clients.

use bytes::BytesMut;
use coeval_pgwire::frame::kind;
use coeval_pgwire::frontend::{Message, Parameter};
use coeval_pgwire::startup::Packet;
use coeval_pgwire::{Error, Frame, Limits, ReadBuffer};
use pgwire::messages::Message as _;
use pgwire::messages::extendedquery::{Bind, Close, Describe, Execute, Parse};
use pgwire::messages::{copy, simplequery};
use proptest::prelude::*;

const KINDS: &[u8] = b"QPBEDCHSXdcfpF";

/// One valid message of each type that has contents.
fn good_messages() -> Vec<BytesMut> {
    fn encoded(message: impl pgwire::messages::Message) -> BytesMut {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes).unwrap();
        bytes
    }
    let name = || Some("name".to_owned());
    vec![
        encoded(simplequery::Query::new("select 1".into())),
        encoded(Parse::new(name(), "select $1".into(), vec![23, 25])),
        encoded(Bind::new(
            name(),
            name(),
            vec![0, 1],
            vec![Some("text".into()), Some("binary".into())],
            vec![1],
        )),
        encoded(Execute::new(name(), 7)),
        encoded(Describe::new(b'S', name())),
        encoded(Close::new(b'P', name())),
        encoded(copy::CopyFail::new("reason".into())),
    ]
}

/// Iterates over all parts of a message.
fn read_through(frame: Frame<'_>) -> Result<(), Error> {
    match Message::decode(frame)? {
        Message::Bind(bind) => {
            let parameters = bind.parameters();
            let promised = parameters.len();
            assert_eq!(
                parameters.count(),
                promised,
                "a checked Bind gives every value"
            );
            assert!(bind.result_formats.iter().count() <= frame.contents.len());
        }
        Message::Parse(parse) => {
            assert!(parse.parameter_types().count() <= frame.contents.len());
        }
        _ => {}
    }
    Ok(())
}

#[test]
fn every_truncation_of_every_message_is_refused() {
    for message in good_messages() {
        let (kind, contents) = (message[0], &message[5..]);
        assert_eq!(read_through(Frame { kind, contents }), Ok(()));
        for end in 0..contents.len() {
            let contents = &contents[..end];
            let refused = read_through(Frame { kind, contents }).unwrap_err();
            assert_eq!(
                refused.sqlstate(),
                "08P01",
                "{}{contents:?}",
                char::from(kind)
            );
            assert!(!refused.ends_connection());
        }
        let longer = [contents, b"\0"].concat();
        let frame = Frame {
            kind,
            contents: &longer,
        };
        assert_eq!(read_through(frame), Err(Error::TrailingBytes(kind)));
    }
}

#[test]
fn inner_lengths_end_with_their_message() {
    // The parameter claims 100 bytes; the next message would provide them.
    let mut buffer = ReadBuffer::new(Limits::default());
    buffer.extend(b"B\0\0\0\x10\0\0\0\0\0\x01\0\0\0\x64xy");
    buffer.extend(b"Q\0\0\0\x78");
    buffer.extend(&[b'a'; 115]);
    buffer.extend(b"\0");
    let bind = buffer.next_frame().unwrap().unwrap();
    assert_eq!(Message::decode(bind), Err(Error::Truncated(b'B')));
    let query = buffer.next_frame().unwrap().unwrap();
    assert_eq!(query.kind, kind::QUERY);
    assert!(matches!(Message::decode(query), Ok(Message::Query(text)) if text.len() == 115));
}

#[test]
fn counts_that_lie_are_refused() {
    for (kind, contents) in [
        (kind::PARSE, &b"\0\0\xff\xff\0\0\0\x17"[..]),
        (kind::BIND, b"\0\0\xff\xff\0\x01\0\0"),
        (kind::BIND, b"\0\0\0\0\xff\xff\0\0"),
        (kind::BIND, b"\0\0\0\0\0\0\xff\xff"),
    ] {
        let refused = read_through(Frame { kind, contents });
        assert_eq!(refused, Err(Error::Truncated(kind)));
    }
    let negative = b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0";
    let frame = Frame {
        kind: kind::BIND,
        contents: negative,
    };
    assert_eq!(read_through(frame), Err(Error::ParameterLength(-2)));
    let formats = b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0";
    let frame = Frame {
        kind: kind::BIND,
        contents: formats,
    };
    let refused = Error::FormatCount {
        formats: 2,
        parameters: 1,
    };
    assert_eq!(read_through(frame), Err(refused));
    let format = b"\0\0\0\x01\0\x07\0\0\0\0";
    let frame = Frame {
        kind: kind::BIND,
        contents: format,
    };
    assert_eq!(read_through(frame), Err(Error::FormatCode(7)));
}

#[test]
fn text_is_utf8_without_nul_and_binary_is_anything() {
    for (value, refused) in [
        (&b"a\xffb"[..], Error::InvalidUtf8(0xff)),
        (b"\xed\xa0\x80", Error::InvalidUtf8(0xed)),
        (b"a\0b", Error::NulInText),
    ] {
        for (format, expected) in [(0, Err(refused.clone())), (1, Ok(()))] {
            let mut bytes = BytesMut::new();
            let value = Some(bytes::Bytes::copy_from_slice(value));
            Bind::new(None, None, vec![format], vec![value], vec![])
                .encode(&mut bytes)
                .unwrap();
            let frame = Frame {
                kind: kind::BIND,
                contents: &bytes[5..],
            };
            assert_eq!(read_through(frame), expected);
        }
    }
    for kind in [kind::QUERY, kind::PARSE, kind::COPY_FAIL] {
        let frame = Frame {
            kind,
            contents: b"\xc3\x28\0\0\0\0",
        };
        assert_eq!(read_through(frame), Err(Error::InvalidUtf8(0xc3)));
    }
    let frame = Frame {
        kind: kind::QUERY,
        contents: b"select\0 1\0",
    };
    assert_eq!(read_through(frame), Err(Error::TrailingBytes(kind::QUERY)));
}

#[test]
fn row_limits_at_the_edges() {
    for (limit, max_rows) in [
        (i32::MAX, Some(i32::MAX as u32)),
        (1, Some(1)),
        (0, None),
        (-1, None),
        (i32::MIN, None),
    ] {
        let contents = [&b"\0"[..], &limit.to_be_bytes()].concat();
        let frame = Frame {
            kind: kind::EXECUTE,
            contents: &contents,
        };
        let portal = "";
        assert_eq!(
            Message::decode(frame),
            Ok(Message::Execute { portal, max_rows })
        );
    }
}

#[test]
fn as_many_parameters_as_can_be_counted() {
    let mut bytes = BytesMut::new();
    Bind::new(None, None, vec![], vec![None; 65_535], vec![])
        .encode(&mut bytes)
        .unwrap();
    let frame = Frame {
        kind: kind::BIND,
        contents: &bytes[5..],
    };
    let Ok(Message::Bind(bind)) = Message::decode(frame) else {
        panic!("65,535 parameters are allowed")
    };
    assert_eq!(
        bind.parameters()
            .filter(|value| *value == Parameter::Null)
            .count(),
        65_535
    );
    // One more value wraps the count to zero: the decoder reads the values as formats,
    // which they are not.
    let mut bytes = BytesMut::new();
    Bind::new(None, None, vec![], vec![None; 65_536], vec![])
        .encode(&mut bytes)
        .unwrap();
    let frame = Frame {
        kind: kind::BIND,
        contents: &bytes[5..],
    };
    assert_eq!(read_through(frame), Err(Error::FormatCode(-1)));
}

proptest! {
    #[test]
    fn arbitrary_contents_never_panic(
        kind in prop::sample::select(KINDS),
        contents in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = read_through(Frame { kind, contents: &contents });
    }

    #[test]
    fn mostly_zeros_never_panic(
        kind in prop::sample::select(KINDS),
        contents in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..60),
    ) {
        let _ = read_through(Frame { kind, contents: &contents });
    }

    #[test]
    fn damaged_messages_never_panic(message in 0usize..7, place in any::<prop::sample::Index>(), byte: u8) {
        let mut message = good_messages().swap_remove(message);
        let place = 5 + place.index(message.len() - 5);
        message[place] = byte;
        let _ = read_through(Frame { kind: message[0], contents: &message[5..] });
    }

    #[test]
    fn arbitrary_streams_never_panic_and_keep_their_bounds(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..10),
    ) {
        let limits = Limits { long_message: 1 << 20, short_message: 1000, node_message: None };
        let mut buffer = ReadBuffer::new(limits);
        let mut received = 0;
        'stream: for piece in &pieces {
            buffer.extend(piece);
            received += piece.len();
            loop {
                match buffer.next_frame() {
                    Ok(Some(frame)) => {
                        prop_assert!(frame.contents.len() <= received);
                        let _ = read_through(frame);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        prop_assert!(error.ends_connection());
                        break 'stream;
                    }
                }
            }
            prop_assert!(buffer.capacity() <= (64 << 10) + 4 * received);
        }
    }

    #[test]
    fn arbitrary_first_packets_never_panic(
        number in prop_oneof![Just(3u32 << 16), Just(80_877_102), Just(80_877_103), any::<u32>()],
        rest in prop::collection::vec(prop_oneof![1 => Just(0u8), 3 => any::<u8>()], 0..100),
    ) {
        let contents = [&number.to_be_bytes()[..], &rest].concat();
        if let Err(error) = Packet::decode(&contents) {
            prop_assert!(error.ends_connection());
        }
        let mut buffer = ReadBuffer::new(Limits::default());
        buffer.extend(&(contents.len() as u32 + 4).to_be_bytes());
        buffer.extend(&contents);
        let _ = buffer.next_packet();
    }
}
