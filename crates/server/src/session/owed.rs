//! Owed answers: the state machine of a client's cycle, which says what the client is
//! still owed for the messages that its session has taken.
//!
//! A cycle is a sequence of messages that is answered with one ReadyForQuery: a Query, or
//! everything up to a Sync. An error in a Query ends its cycle at once. An error in the
//! extended query protocol does not: the session skips messages until Sync.
//!
//! ```text
//!              Query                              ReadyForQuery
//!   Nothing ───────────▶ Query ─────────────────────────────────▶ Nothing
//!      │ Parse, Bind, …          Sync             ReadyForQuery
//!      ├───────────▶ Steps ─────────────▶ Sync ─────────────────▶ Nothing
//!      │               │ an error          ▲
//!      │               └─────▶ Skipping ───┘ Sync
//!      └──────────────────────────────────▶ Sync, which has nothing to fail
//! ```
//!
//! While a COPY FROM STDIN runs, its data belong to the cycle, and Sync and Flush have no
//! effect until the data end (PostgreSQL, "COPY Operations"). Messages of a COPY that has
//! failed, or never began, are no part of any cycle.
//!
//! A worked example: the leader loses its lead while the commit of `Parse Bind Execute
//! Sync` waits for a quorum. The session has taken the Sync, so the client is owed an
//! error *and* ReadyForQuery, and its next place must wait for no other Sync. If the lead
//! had been lost one message earlier, the client would be owed the error only, and
//! ReadyForQuery once its Sync has been taken, by whichever place the session has then.
//!
//! Invariants:
//! - Each Query and each Sync that a session takes outside a COPY's data is answered with
//!   exactly one ReadyForQuery, in order, on whichever node.
//! - A cycle that fails has one error.
//!
//! Sources: PostgreSQL documentation, "Message Flow", "Extended Query", "Pipelining".

use coeval_pgwire::frame::kind;
use coeval_types::planted;

/// Which messages of a cycle have been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cycle {
    /// None: every cycle so far is answered.
    Nothing,
    /// A Query, or a function call.
    Query,
    /// Messages of the extended query protocol, and no Sync yet.
    Steps,
    /// As `Steps`, and the client has the cycle's error.
    Skipping,
    /// The Sync that ends the cycle.
    Sync,
}

/// What a client is owed for the messages that its session has taken; see the module's
/// documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owed {
    cycle: Cycle,
    /// Whether the cycle's Sync can report no error: the client has one already, or the
    /// cycle has nothing else in it.
    told: bool,
    /// Whether a COPY FROM STDIN receives its data.
    copying: bool,
}

/// How the session treats a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The session handles it.
    Handle,
    /// It belongs to the COPY FROM STDIN that runs.
    CopyData,
    /// The session drops it.
    Skip,
}

/// What follows an error that the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterError {
    /// ReadyForQuery.
    Ready,
    /// Nothing, until the client sends Sync.
    SkipToSync,
}

/// What a client gets when its cycle is lost with the place where it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) error: bool,
    pub(super) ready: bool,
}

impl Owed {
    /// The state between two cycles.
    pub(super) const NOTHING: Self = Self {
        cycle: Cycle::Nothing,
        told: false,
        copying: false,
    };

    /// The state after the error of an unfinished cycle.
    pub(super) const SYNC: Self = Self {
        cycle: Cycle::Skipping,
        told: true,
        copying: false,
    };

    /// Whether the client waits for nothing.
    pub(super) const fn is_nothing(self) -> bool {
        matches!(self.cycle, Cycle::Nothing)
    }

    /// Whether messages are skipped until Sync.
    pub(super) const fn is_skipping(self) -> bool {
        matches!(self.cycle, Cycle::Skipping)
    }

    pub(super) const fn is_copying(self) -> bool {
        self.copying
    }

    /// Whether the cycle is a Query, which ends with its last statement.
    pub(super) const fn is_query(self) -> bool {
        matches!(self.cycle, Cycle::Query)
    }

    /// Takes a message of the client.
    pub(super) fn take(&mut self, message: u8) -> Treatment {
        if self.copying {
            return Treatment::CopyData;
        }
        match message {
            kind::TERMINATE => return Treatment::Handle,
            kind::COPY_DATA | kind::COPY_DONE | kind::COPY_FAIL => return Treatment::Skip,
            kind::SYNC => {
                self.told = matches!(self.cycle, Cycle::Nothing | Cycle::Skipping);
                self.cycle = Cycle::Sync;
            }
            _ if self.is_skipping() => return Treatment::Skip,
            kind::QUERY | kind::FUNCTION_CALL => self.cycle = Cycle::Query,
            // A Flush asks for nothing that is not owed already.
            kind::FLUSH => {}
            _ => self.cycle = Cycle::Steps,
        }
        Treatment::Handle
    }

    /// Records that the client is asked for the data of a COPY.
    pub(super) const fn begin_copy(&mut self) {
        self.copying = true;
    }

    /// Records that the data of a COPY have ended, or the COPY has failed.
    pub(super) const fn end_copy(&mut self) {
        self.copying = false;
    }

    /// What follows an error in the present cycle.
    pub(super) const fn after_error(self) -> AfterError {
        match self.cycle {
            Cycle::Query | Cycle::Sync => AfterError::Ready,
            Cycle::Nothing | Cycle::Steps | Cycle::Skipping => AfterError::SkipToSync,
        }
    }

    /// Records that the error of an unfinished cycle has left.
    pub(super) const fn skip_to_sync(&mut self) {
        *self = Self::SYNC;
    }

    /// Records that ReadyForQuery has left.
    pub(super) const fn ready(&mut self) {
        *self = Self::NOTHING;
    }

    /// The place where the cycle ran is lost: returns what the client gets, and records
    /// that it has it.
    pub(super) fn lose(&mut self) -> Lost {
        if planted!(ForgetOwedSync) && self.cycle == Cycle::Sync {
            self.cycle = Cycle::Steps;
        }
        let lost = Lost {
            error: match self.cycle {
                Cycle::Nothing | Cycle::Skipping => false,
                Cycle::Query | Cycle::Steps => true,
                Cycle::Sync => !self.told,
            },
            ready: matches!(self.cycle, Cycle::Query | Cycle::Sync),
        };
        *self = match self.cycle {
            Cycle::Steps | Cycle::Skipping => Self::SYNC,
            Cycle::Nothing | Cycle::Query | Cycle::Sync => Self::NOTHING,
        };
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client gets whose place is lost after it has taken these messages, and
    /// whether messages are skipped from then on. `!` is an error that has left, `z`
    /// ReadyForQuery, `(` a COPY that asks for data, `)` its end.
    fn lost(messages: &[u8]) -> (&'static str, bool) {
        let mut owed = Owed::NOTHING;
        for &message in messages {
            match message {
                b'!' => match owed.after_error() {
                    AfterError::Ready => owed.ready(),
                    AfterError::SkipToSync => owed.skip_to_sync(),
                },
                b'z' => owed.ready(),
                b'(' => owed.begin_copy(),
                b')' => owed.end_copy(),
                message => {
                    owed.take(message);
                }
            }
        }
        let words = match owed.lose() {
            Lost {
                error: true,
                ready: true,
            } => "E Z",
            Lost {
                error: true,
                ready: false,
            } => "E",
            Lost {
                error: false,
                ready: true,
            } => "Z",
            Lost {
                error: false,
                ready: false,
            } => "",
        };
        assert_eq!(
            owed.lose(),
            Lost {
                error: false,
                ready: false
            },
            "it is told once"
        );
        (words, owed.is_skipping())
    }

    #[test]
    fn each_cycle_is_owed_its_error_and_one_ready_for_query() {
        for (messages, expected) in [
            (&b""[..], ("", false)),
            (b"Q", ("E Z", false)),
            (b"Qz", ("", false)),
            (b"Q!", ("", false)),
            (b"F", ("E Z", false)),
            // Parse, Bind, Describe, Execute, and Sync or not.
            (b"P", ("E", true)),
            (b"PBDE", ("E", true)),
            (b"PBDES", ("E Z", false)),
            (b"PBDESz", ("", false)),
            (b"PBDESzPBES", ("E Z", false)),
            // Flush without Sync.
            (b"PBEH", ("E", true)),
            (b"H", ("", false)),
            // A Sync alone asks for nothing that could fail.
            (b"S", ("Z", false)),
            (b"SzSzS", ("Z", false)),
            // After an error the client owes the Sync.
            (b"P!", ("", true)),
            (b"P!BEQ", ("", true)),
            (b"P!BES", ("Z", false)),
            (b"PS!", ("", false)),
            // A COPY, of a Query and of Execute; its Sync is part of the data.
            (b"Q(", ("E Z", false)),
            (b"Q(dddS", ("E Z", false)),
            (b"PBES", ("E Z", false)),
            (b"PBE(Sdd", ("E", true)),
            (b"PBE(dd)", ("E", true)),
            (b"PBE(dd)S", ("E Z", false)),
            (b"PBE(dd)!dcS", ("Z", false)),
            // The rest of a COPY that has failed.
            (b"Q()zddc", ("", false)),
            (b"Q()zddcQ", ("E Z", false)),
        ] {
            let shown = String::from_utf8_lossy(messages).into_owned();
            assert_eq!(lost(messages), expected, "{shown}");
        }
    }

    #[test]
    fn messages_are_skipped_until_sync() {
        let mut owed = Owed::NOTHING;
        owed.take(kind::PARSE);
        owed.skip_to_sync();
        for message in [kind::BIND, kind::QUERY, kind::FLUSH, kind::COPY_DONE] {
            assert_eq!(owed.take(message), Treatment::Skip);
        }
        assert_eq!(owed.take(kind::TERMINATE), Treatment::Handle);
        assert_eq!(owed.take(kind::SYNC), Treatment::Handle);
        owed.ready();
        assert_eq!(owed.take(kind::BIND), Treatment::Handle);
        owed.begin_copy();
        assert_eq!(owed.take(kind::SYNC), Treatment::CopyData);
    }
}
