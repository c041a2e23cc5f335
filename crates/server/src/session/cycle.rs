//! A client's next cycle, looked at before anything of it is taken: whether it may only
//! read.
//!
//! The relay of a client looks at a cycle while the leader owes it nothing. As long as the
//! cycle may only read, it stays in the buffer until it is whole, a Query or everything up
//! to Sync, because its route is known once all its statements are. A cycle that cannot
//! only read, or whose client asks for answers before its end, goes to the leader as it
//! comes.
//!
//! ```text
//!   Query "select …"                            whole
//!   Parse "" "select …"  Bind  Execute          partial: the client waits for nothing yet
//!   Parse "" "select …"  Bind  Execute  Sync    whole
//!   Parse "" "select …"  Describe  Flush        the leader: the client waits
//!   Parse "s1" …                                the leader: it changes the session
//! ```

use coeval_pgwire::ReadBuffer;
use coeval_pgwire::frame::{Frame, kind};
use coeval_sql::route::may_read;

use super::tracker::string;
use crate::metrics::AtLeader;

/// Maximum length of a cycle that is held back until it is whole, in bytes.
const HELD: usize = 64 << 10;

/// What the messages at the front of a buffer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peeked {
    /// A whole cycle that may only read.
    Whole(Cycle),
    /// The beginning of such a cycle; the client owes the rest.
    Partial,
    /// A cycle for the leader. The reason, if the cycle may still be a read.
    Leader(Option<AtLeader>),
}

/// A cycle in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    /// Its length in bytes.
    pub(super) bytes: usize,
    /// Number of its Execute messages.
    pub(super) executions: usize,
    /// Whether it replaces or drops the unnamed statement.
    pub(super) names: bool,
}

/// Looks at the cycle at the front of the buffer. `prepared` returns the text of the
/// statement of a name, if the session has one.
pub(super) fn peek<'text>(
    buffer: &ReadBuffer,
    prepared: impl Fn(&str) -> Option<&'text str>,
) -> Peeked {
    let mut cycle = Cycle {
        bytes: 0,
        executions: 0,
        names: false,
    };
    loop {
        let first = cycle.bytes == 0;
        let (frame, end) = match buffer.peek(cycle.bytes) {
            Ok(Some(next)) => next,
            Ok(None) if buffer.received() > HELD => {
                return Peeked::Leader(Some(AtLeader::Large));
            }
            Ok(None) => return Peeked::Partial,
            // The session that takes the message reports the error.
            Err(_) => return Peeked::Leader(None),
        };
        cycle.bytes = end;
        match look(frame, first, &mut cycle, &prepared) {
            Look::On => {}
            Look::Whole => return Peeked::Whole(cycle),
            Look::Leader(why) => return Peeked::Leader(why),
        }
    }
}

/// What one message says about its cycle.
enum Look {
    On,
    Whole,
    Leader(Option<AtLeader>),
}

fn look<'text>(
    frame: Frame<'_>,
    first: bool,
    cycle: &mut Cycle,
    prepared: impl Fn(&str) -> Option<&'text str>,
) -> Look {
    let name = |bytes| {
        let (name, rest) = string(bytes)?;
        Some((std::str::from_utf8(name).ok()?, rest))
    };
    let on = |goes_on: bool| match goes_on {
        true => Look::On,
        false => Look::Leader(None),
    };
    match frame.kind {
        kind::QUERY if first => {
            cycle.names = true;
            match name(frame.contents) {
                Some((text, [])) if may_read(text) => Look::Whole,
                _ => Look::Leader(None),
            }
        }
        kind::PARSE => {
            cycle.names = true;
            let statement = name(frame.contents);
            let text = statement.and_then(|(statement, rest)| Some((statement, name(rest)?.0)));
            on(text.is_some_and(|(statement, text)| statement.is_empty() && may_read(text)))
        }
        kind::BIND => {
            let statement = name(frame.contents).and_then(|(_, rest)| Some(name(rest)?.0));
            // The unnamed one may be of this cycle, or of one before that stayed here.
            let reads =
                |statement: &str| statement.is_empty() || prepared(statement).is_some_and(may_read);
            on(statement.is_some_and(reads))
        }
        kind::EXECUTE => {
            cycle.executions += 1;
            Look::On
        }
        kind::DESCRIBE => Look::On,
        kind::CLOSE => on(frame.contents.first() == Some(&b'P')),
        kind::SYNC if !first => Look::Whole,
        kind::FLUSH => Look::Leader(Some(AtLeader::Flush)),
        _ => Look::Leader(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_pgwire::Limits;

    fn message(kind: u8, contents: &str) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend((contents.len() as u32 + 4).to_be_bytes());
        message.extend(contents.as_bytes());
        message
    }

    fn peeked(messages: &[(u8, &str)]) -> Peeked {
        let mut buffer = ReadBuffer::new(Limits::default());
        for (kind, contents) in messages {
            buffer.extend(&message(*kind, contents));
        }
        peek(&buffer, |name| match name {
            "read" => Some("select 1"),
            "write" => Some("insert into t values (1)"),
            _ => None,
        })
    }

    fn whole(messages: &[(u8, &str)]) -> Option<usize> {
        match peeked(messages) {
            Peeked::Whole(cycle) => Some(cycle.executions),
            Peeked::Partial | Peeked::Leader(_) => None,
        }
    }

    const SELECT: (u8, &str) = (b'P', "\0select 1\0\0\0");
    const BIND: (u8, &str) = (b'B', "\0\0\0\0\0\0\0\0");
    const EXECUTE: (u8, &str) = (b'E', "\0\0\0\0\0");
    const SYNC: (u8, &str) = (b'S', "");

    #[test]
    fn a_cycle_is_held_back_as_long_as_it_may_only_read() {
        assert_eq!(whole(&[(b'Q', "select 1\0")]), Some(0));
        assert_eq!(whole(&[SELECT, BIND, EXECUTE, SYNC]), Some(1));
        assert_eq!(
            whole(&[SELECT, BIND, EXECUTE, BIND, EXECUTE, SYNC]),
            Some(2)
        );
        assert_eq!(whole(&[(b'B', "\0read\0\0\0"), EXECUTE, SYNC]), Some(1));
        assert_eq!(whole(&[(b'D', "Sread\0"), SYNC]), Some(0));
        for partial in [
            &[][..],
            &[SELECT],
            &[SELECT, BIND],
            &[SELECT, BIND, EXECUTE],
        ] {
            assert_eq!(peeked(partial), Peeked::Partial, "{partial:?}");
        }
        for leader in [
            &[(b'Q', "insert into t values (1)\0")][..],
            &[(b'Q', "select 1")],
            &[(b'P', "named\0select 1\0\0\0")],
            &[(b'P', "\0insert into t values (1)\0\0\0")],
            &[SELECT, BIND, EXECUTE, (b'P', "\0delete from t\0\0\0")],
            &[(b'B', "\0write\0\0\0")],
            &[(b'B', "\0unknown\0\0\0")],
            &[(b'B', "\0")],
            &[(b'C', "Sread\0")],
            &[SYNC],
            &[(b'X', "")],
            &[(b'c', "")],
            &[SELECT, (b'Q', "select 1\0")],
            &[(b'F', "")],
        ] {
            assert_eq!(peeked(leader), Peeked::Leader(None), "{leader:?}");
        }
        let flushed = [SELECT, (b'D', "S\0"), (b'H', "")];
        assert_eq!(peeked(&flushed), Peeked::Leader(Some(AtLeader::Flush)));
        let large = " ".repeat(HELD);
        let large = format!("\0select 1 {large}\0\0\0");
        let large = [(b'P', &*large), BIND, EXECUTE];
        assert_eq!(peeked(&large), Peeked::Leader(Some(AtLeader::Large)));
    }

    #[test]
    fn only_the_first_cycle_counts() {
        let two = [SELECT, BIND, EXECUTE, SYNC, (b'P', "\0delete from t\0\0\0")];
        let Peeked::Whole(cycle) = peeked(&two) else {
            panic!("the first cycle reads")
        };
        let first: usize = two[..4]
            .iter()
            .map(|(_, contents)| contents.len() + 5)
            .sum();
        assert_eq!(cycle.bytes, first);
    }
}
