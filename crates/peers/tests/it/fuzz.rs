//! The fuzz target `peers`: bytes that a node may receive from any machine.
//!
//! The input's first byte selects the parser for the rest: a hello, an answer, or frames.
//! No input makes the parser panic; a parsed message keeps its meaning when it is encoded
//! again; the parser accepts no frame that is too long or has a wrong checksum.
//!
//! A target of the folder `fuzz` includes this file; the test below replays the corpus of
//! its runs.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use coeval_peers::frame::{HEADER_BYTES, Header};
use coeval_peers::handshake::{Answer, Hello};
use coeval_peers::{ClusterId, Identity, Members, NodeId};

/// Reading from a slice never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).as_mut().poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a slice never keeps its caller waiting"),
    }
}

fn hello(bytes: &[u8]) {
    let Ok(hello) = now(Hello::read(&mut &bytes[..])) else {
        return;
    };
    let again = now(Hello::read(&mut &hello.encode()[..])).expect("our own words");
    assert_eq!(hello, again);
    let own = Identity {
        cluster: ClusterId(7),
        node: NodeId(1),
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 7001));
    let members = Members {
        addresses: [(NodeId(1), address.into()), (NodeId(2), address.into())].into(),
        removed: [NodeId(3)].into(),
        ..Members::default()
    };
    let verdict = hello.judge(&own, &members);
    if verdict.is_ok() {
        assert_eq!((hello.from.cluster, hello.to), (own.cluster, own.node));
        assert_eq!(hello.from.node, NodeId(2));
    }
    let said = Answer {
        from: own,
        announced: None,
        verdict,
    };
    let heard = now(Answer::read(&mut &said.encode()[..]));
    assert_eq!(heard.expect("our own words"), said);
}

fn answer(bytes: &[u8]) {
    if let Ok(answer) = now(Answer::read(&mut &bytes[..])) {
        if let Err(refusal) = &answer.verdict {
            assert!(!refusal.words().contains(char::is_control));
        }
        let again = now(Answer::read(&mut &answer.encode()[..])).expect("our own words");
        assert_eq!(answer, again);
    }
}

fn frames(mut bytes: &[u8]) {
    const LIMIT: usize = 1000;
    while let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::decode(head, LIMIT) else {
            return;
        };
        assert_eq!(header.encode(), *head);
        assert!(header.length <= LIMIT);
        let Some((payload, rest)) = rest.split_at_checked(header.length) else {
            return;
        };
        if header.check(payload).is_err() {
            return;
        }
        assert_eq!(Header::of(header.tag, payload), header);
        bytes = rest;
    }
}

/// Runs one input: the parser's number, then its bytes.
pub fn run(input: &[u8]) {
    match input.split_first() {
        Some((0, bytes)) => hello(bytes),
        Some((1, bytes)) => answer(bytes),
        Some((_, bytes)) => frames(bytes),
        None => {}
    }
}

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
#[test]
fn the_corpus_means_what_it_says() {
    replay::replay("peers", run);
}
