//! A client's next cycle, looked at before anything of it is taken: whether the session on
//! the client's node may execute it.
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
//!   Query "begin"                               whole, where blocks may begin at home
//! ```
//!
//! In a transaction block at home, what may stay there depends on the block ([`Place`]). One
//! that may write moves to the leader before it has a portal that outlives a cycle.

use coeval_pgwire::ReadBuffer;
use coeval_pgwire::frame::{Frame, kind};
use coeval_sql::route::{may_begin, may_read, may_run_in_block, only_controls};

use super::tracker::string;
use crate::metrics::AtLeader;

/// Maximum length of a cycle that is held back until it is whole, in bytes.
const HELD: usize = 64 << 10;

/// Where the session is when a cycle begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In no transaction block.
    Rest {
        /// Whether one may begin at home.
        begins: bool,
    },
    /// In a block at home that may write, and then moves to the leader.
    Block,
    /// In a block at home that is READ ONLY.
    ReadOnly,
}

/// What the messages at the front of a buffer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peeked {
    /// A whole cycle that may stay at home.
    Whole(Cycle),
    /// The beginning of such a cycle; the client owes the rest.
    Partial,
    /// A cycle for the leader. The reason, if the cycle may still be a read.
    Leader(Option<AtLeader>),
}

/// A cycle in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cycle {
    /// Its length in bytes.
    pub(super) bytes: usize,
    /// Number of its Execute messages.
    pub(super) executions: usize,
    /// Whether it replaces or drops the unnamed statement.
    pub(super) names: bool,
    /// Whether it may read the database: it does not only begin or end a block.
    pub(super) reads: bool,
    /// Whether it is a Query that may have several statements.
    pub(super) is_several: bool,
    /// Whether a block may begin in it.
    begins: bool,
    /// Whether an unnamed portal is bound that has not been executed.
    bound: bool,
    /// Whether it binds a portal that has a name, or executes one for some of its rows.
    keeps_portal: bool,
}

/// Looks at the cycle at the front of the buffer. `prepared` returns the text of the
/// statement of a name, if the session has one.
pub(super) fn peek<'text>(
    buffer: &ReadBuffer,
    place: Place,
    prepared: impl Fn(&str) -> Option<&'text str>,
) -> Peeked {
    let mut cycle = Cycle::default();
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
        match look(frame, first, place, &mut cycle, &prepared) {
            Look::On => {}
            Look::Whole => return Peeked::Whole(cycle),
            Look::Leader(why) => return Peeked::Leader(why),
        }
    }
}

/// Whether a message of this type is answered with ReadyForQuery, and so ends its cycle.
pub(super) const fn is_end(message: u8) -> bool {
    matches!(message, kind::QUERY | kind::FUNCTION_CALL | kind::SYNC)
}

/// The cycle at the front of the buffer, as far as it has come, for a session that answers it
/// without looking at it.
pub(super) fn first(buffer: &ReadBuffer) -> Cycle {
    let mut cycle = Cycle::default();
    while let Ok(Some((frame, end))) = buffer.peek(cycle.bytes) {
        cycle.bytes = end;
        if is_end(frame.kind) {
            break;
        }
    }
    cycle
}

/// The message at the front of the buffer, if it is whole, for a session that executes them
/// one by one: each may end its block, and what comes after that is a cycle like any other.
/// `None` if there is none, or it ends the session.
pub(super) fn message<'text>(
    buffer: &ReadBuffer,
    prepared: impl Fn(&str) -> Option<&'text str>,
) -> Option<Cycle> {
    let (frame, end) = buffer.peek(0).ok()??;
    if frame.kind == kind::TERMINATE {
        return None;
    }
    let mut message = Cycle::default();
    look(frame, true, Place::ReadOnly, &mut message, &prepared);
    message.bytes = end;
    Some(message)
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
    place: Place,
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
    let read_only = place == Place::ReadOnly;
    let is_named = cycle.names;
    // Whether a statement of this text may stay at home.
    let mut stays = |text: &str| {
        cycle.reads |= !only_controls(text);
        cycle.begins |= may_begin(text);
        match place {
            Place::Rest { begins: true } if cycle.begins => may_run_in_block(text),
            Place::Rest { .. } => may_read(text),
            Place::Block => may_run_in_block(text),
            Place::ReadOnly => true,
        }
    };
    match frame.kind {
        kind::QUERY if first => {
            let stays = match name(frame.contents) {
                Some((text, [])) => stays(text),
                _ => read_only,
            };
            cycle.names = true;
            let text = frame.contents.trim_ascii_end();
            let text = text.strip_suffix(b"\0").unwrap_or(text).trim_ascii_end();
            let text = text.strip_suffix(b";").unwrap_or(text);
            cycle.is_several = text.contains(&b';');
            match stays {
                true => Look::Whole,
                false => Look::Leader(None),
            }
        }
        kind::PARSE => {
            let statement = name(frame.contents);
            let text = statement.and_then(|(statement, rest)| Some((statement, name(rest)?.0)));
            let stays = text.is_some_and(|(statement, text)| {
                stays(text) && (statement.is_empty() || read_only)
            });
            cycle.names = true;
            on(stays || read_only)
        }
        kind::BIND => {
            let bound = name(frame.contents);
            let bound = bound.and_then(|(portal, rest)| Some((portal, name(rest)?.0)));
            let Some((portal, statement)) = bound else {
                return on(read_only);
            };
            // The unnamed one may be of this cycle, or of one before that stayed here.
            let is_of_cycle = statement.is_empty() && is_named;
            let text = prepared(statement).filter(|_| !is_of_cycle);
            let stays = text.is_some_and(&mut stays);
            cycle.bound = portal.is_empty();
            cycle.keeps_portal |= !portal.is_empty();
            on(stays || statement.is_empty() || read_only)
        }
        kind::EXECUTE => {
            let limit = name(frame.contents).map(|(_, limit)| limit);
            cycle.bound = false;
            cycle.keeps_portal |= limit.is_none_or(|limit| *limit != [0; 4]);
            cycle.executions += 1;
            Look::On
        }
        kind::DESCRIBE => {
            cycle.reads |= frame.contents.first() == Some(&b'S');
            Look::On
        }
        kind::CLOSE => on(frame.contents.first() == Some(&b'P') || read_only),
        kind::SYNC if first && matches!(place, Place::Rest { .. }) => Look::Leader(None),
        kind::SYNC => {
            match (cycle.keeps_portal || cycle.bound) && (place == Place::Block || cycle.begins) {
                true => Look::Leader(None),
                false => Look::Whole,
            }
        }
        kind::FLUSH => Look::Leader(Some(AtLeader::Flush)),
        _ => Look::Leader(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_pgwire::Limits;

    fn message_of(kind: u8, contents: &str) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend((contents.len() as u32 + 4).to_be_bytes());
        message.extend(contents.as_bytes());
        message
    }

    fn peeked_at(place: Place, messages: &[(u8, &str)]) -> Peeked {
        let mut buffer = ReadBuffer::new(Limits::default());
        for (kind, contents) in messages {
            buffer.extend(&message_of(*kind, contents));
        }
        peek(&buffer, place, |name| match name {
            "read" => Some("select 1"),
            "write" => Some("insert into t values (1)"),
            "begin" => Some("begin"),
            _ => None,
        })
    }

    fn peeked(messages: &[(u8, &str)]) -> Peeked {
        peeked_at(Place::Rest { begins: false }, messages)
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

    #[test]
    fn what_stays_depends_on_the_block() {
        const BEGIN: (u8, &str) = (b'P', "\0begin\0\0\0");
        const COMMIT: (u8, &str) = (b'P', "\0commit\0\0\0");
        const UPDATE: (u8, &str) = (b'Q', "update t set a = 1\0");
        const SOME: (u8, &str) = (b'E', "\0\0\0\0\x01");
        const NAMED: (u8, &str) = (b'B', "p\0\0\0\0\0\0\0\0");
        let rest = Place::Rest { begins: true };
        let stays = |place, messages: &[(u8, &str)]| match peeked_at(place, messages) {
            Peeked::Whole(cycle) => Some(cycle.reads),
            Peeked::Partial | Peeked::Leader(_) => None,
        };
        for (place, messages, reads) in [
            (rest, &[(b'Q', "begin\0")][..], Some(false)),
            (rest, &[(b'Q', "select 1\0")], Some(true)),
            (rest, &[(b'Q', "begin; select 1\0")], Some(true)),
            (rest, &[BEGIN, BIND, EXECUTE, SYNC], Some(false)),
            (rest, &[(b'B', "\0begin\0\0\0"), EXECUTE, SYNC], Some(false)),
            (
                rest,
                &[BEGIN, BIND, EXECUTE, SELECT, BIND, EXECUTE, SYNC],
                Some(true),
            ),
            (
                rest,
                &[BEGIN, BIND, EXECUTE, COMMIT, BIND, EXECUTE, SYNC],
                Some(false),
            ),
            (rest, &[COMMIT, BIND, EXECUTE, SYNC], None),
            // Their portals would be open in the block.
            (
                rest,
                &[BEGIN, BIND, EXECUTE, SELECT, BIND, SOME, SYNC],
                None,
            ),
            (rest, &[BEGIN, BIND, EXECUTE, SELECT, BIND, SYNC], None),
            (rest, &[BEGIN, BIND, EXECUTE, SELECT, NAMED, SYNC], None),
            (rest, &[SELECT, NAMED, SOME, SYNC], Some(true)),
            (rest, &[(b'Q', "commit\0")], None),
            (Place::Block, &[(b'Q', "commit\0")], Some(false)),
            (
                Place::Block,
                &[(b'Q', "set transaction read only\0")],
                Some(true),
            ),
            (Place::Block, &[UPDATE], None),
            (Place::Block, &[(b'Q', "savepoint a\0")], None),
            (Place::Block, &[SELECT, BIND, EXECUTE, SYNC], Some(true)),
            (Place::Block, &[SELECT, BIND, SOME, SYNC], None),
            (Place::Block, &[(b'P', "named\0select 1\0\0\0"), SYNC], None),
            (Place::Block, &[SYNC], Some(false)),
            (Place::ReadOnly, &[UPDATE], Some(true)),
            (Place::ReadOnly, &[SELECT, NAMED, SOME, SYNC], Some(true)),
            (
                Place::ReadOnly,
                &[(b'P', "named\0select 1\0\0\0"), SYNC],
                Some(true),
            ),
            (Place::ReadOnly, &[(b'C', "Sread\0"), SYNC], Some(false)),
            (Place::ReadOnly, &[SELECT, (b'H', "")], None),
            (Place::ReadOnly, &[(b'X', "")], None),
        ] {
            assert_eq!(stays(place, messages), reads, "{place:?} {messages:?}");
        }
    }

    #[test]
    fn a_session_that_executes_messages_one_by_one_gets_the_first() {
        let first = |messages: &[(u8, &str)]| {
            let mut buffer = ReadBuffer::new(Limits::default());
            for (kind, contents) in messages {
                buffer.extend(&message_of(*kind, contents));
            }
            let first = message(&buffer, |_| None)?;
            Some((first.bytes, first.reads, first.is_several))
        };
        assert_eq!(first(&[]), None);
        assert_eq!(first(&[(b'X', "")]), None);
        assert_eq!(
            first(&[(b'Q', "commit\0"), (b'Q', "select 1\0")]),
            Some((12, false, false))
        );
        assert_eq!(first(&[(b'Q', "select 1;\0")]), Some((15, true, false)));
        assert_eq!(
            first(&[(b'Q', "commit; select 1\0"), (b'X', "")]),
            Some((22, true, true))
        );
    }
}
