//! The fuzz target `messages`: a client's bytes, from its first packet on.
//!
//! The stream is read whole and in pieces (the input's first byte gives their size), and
//! has the same meaning both times. No input makes a decoder panic, no message promises
//! parts that it does not have, and the memory held stays in proportion to the received
//! bytes.
//!
//! A target of the folder `fuzz` includes this file; the test below replays the corpus of
//! its runs.

use coeval_pgwire::frontend::Message;
use coeval_pgwire::startup::Packet;
use coeval_pgwire::{Error, Limits, ReadBuffer};

/// The decoded stream: a line per message, and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Meaning {
    messages: Vec<String>,
    error: Option<Error>,
}

/// Reads a stream that arrives in pieces of this many bytes.
fn read(stream: &[u8], piece: usize) -> Meaning {
    let mut buffer = ReadBuffer::new(Limits::default());
    let mut meaning = Meaning::default();
    let mut started = false;
    let mut received = 0;
    for bytes in stream.chunks(piece) {
        buffer.extend(bytes);
        received += bytes.len();
        assert!(
            buffer.capacity() <= 4 * received + (64 << 10),
            "{} bytes held for {received}",
            buffer.capacity()
        );
        if let Err(error) = take(&mut buffer, &mut started, &mut meaning.messages) {
            meaning.error = Some(error);
            break;
        }
    }
    meaning
}

/// Takes the complete messages. An error here ends the connection.
fn take(
    buffer: &mut ReadBuffer,
    started: &mut bool,
    messages: &mut Vec<String>,
) -> Result<(), Error> {
    while !*started {
        let Some(packet) = buffer.next_packet()? else {
            return Ok(());
        };
        *started = matches!(packet, Packet::Start(_));
        messages.push(format!("{packet:?}"));
    }
    while let Some(frame) = buffer.next_frame()? {
        match Message::decode(frame) {
            Ok(Message::Bind(bind)) => {
                let promised = bind.parameters().len();
                let values: Vec<_> = bind.parameters().collect();
                assert_eq!(values.len(), promised);
                let formats: Vec<_> = bind.result_formats.iter().collect();
                messages.push(format!("{values:?} {formats:?} {bind:?}"));
            }
            Ok(Message::Parse(parse)) => {
                let types: Vec<_> = parse.parameter_types().collect();
                messages.push(format!("{types:?} {parse:?}"));
            }
            Ok(message) => messages.push(format!("{message:?}")),
            Err(error) => {
                assert_eq!(error.sqlstate().len(), 5);
                messages.push(error.to_string());
                if error.ends_connection() {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Runs one input: the piece size, then the stream.
pub fn run(input: &[u8]) {
    let Some((&piece, stream)) = input.split_first() else {
        return;
    };
    let whole = read(stream, stream.len().max(1));
    let in_pieces = read(stream, 1 + usize::from(piece));
    assert_eq!(whole, in_pieces);
}

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
#[test]
fn the_corpus_is_read_alike_whole_and_in_pieces() {
    replay::replay("messages", run);
}
