//! The opening message of a stream between two nodes: it begins or continues the session
//! of a client, cancels its statement, asks for what a login is checked against, reports an
//! estimate of Γ, or asks for the sessions of a node's clients and interrupts one.
//!
//! ```text
//!   stream ──▶  length (u32), then
//!               1 session   number (i32), secret, address, TLS (u8), binding, protocol (u8),
//!                           options, parameters, then 0 (u8), or
//!                             1 (u8), in a transaction (u8), pieces of handover state
//!               2 cancel    number (i32), secret
//!               3 vouched   role (u32), as a visitor (u8), then as a session
//!               4 account   name
//!               5 gamma     node (u64), reads, positive, violations, values, greatest (u64)
//!               6 vouched   role (u32), as a visitor (u8), settings of the role and the
//!                           database, then as a session
//!               7 sessions
//!               8 interrupt number (i32), stay (u64), ends the session (u8)
//!   stream ◀──  + this node leads, and the session's messages follow, or the account
//!               - this node does not lead
//!               ^ the node of the client has to let it in
//! ```
//!
//! The client of a vouched session was let in by its own node. The leader authenticates it no
//! second time: it takes the node's word for who the client is, and checks what the role may.
//! Kinds 3 and 4 are sent from cluster version 4 on; from then on the leader begins no session
//! of kind 1. Kind 6 is kind 3 with settings, and an account with settings ends with them: there
//! are some from cluster version 5 on only. Kinds 7 and 8 are sent from that
//! version on, too. Kind 7 is answered with a list: number (i32), role (u32) and stay (u64) of
//! each session of the node's clients.
//!
//! Numbers are little-endian; a byte string is a u32 length and its bytes; a list is a
//! u32 count and its elements. Only members of one cluster open streams, and still the
//! reader checks every length against the bytes that it has.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, BufMut};
use coeval_pgwire::frame::kind;
use coeval_pgwire::startup::Protocol;
use coeval_sql::access::{LoginSetting, Role, SettingSource};
use coeval_sql::instance::{Interruption, SessionElsewhere};
use coeval_sql::session::Account;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::first::Request;
use crate::gamma::Summary;

/// Maximum length of an opening in bytes: the whole handover state of a session, and room
/// for the other fields.
const LONGEST: u32 = 2 * coeval_sql::session::MAX_BYTES as u32;

/// The node accepts the session; its messages follow.
pub(super) const ACCEPTED: u8 = b'+';
/// The node does not lead; the sender asks another one.
pub(super) const NOT_LEADING: u8 = b'-';

/// The node of the client has to let it in and vouch for it: the cluster is at version 4.
pub(super) const NOT_VOUCHED: u8 = b'^';

/// Type of the message that carries a piece of a session's handover state to the node of
/// its client, and back what a block there has changed, or the block. PostgreSQL has no message of this type; clients never see it.
pub(super) const HANDOVER: u8 = kind::BETWEEN_NODES;

/// Writes a piece of a session's handover state.
pub(super) fn handover(out: &mut Vec<u8>, piece: &[u8]) {
    out.push(HANDOVER);
    out.extend_from_slice(&(piece.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(piece);
}

/// The identity of a client, as verified by the node that it is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) process_id: i32,
    pub(super) secret: Vec<u8>,
    pub(super) peer: SocketAddr,
    pub(super) tls: bool,
    /// The channel binding of the client's connection.
    pub(super) binding: Option<Arc<[u8]>>,
    pub(super) request: Request,
    /// As whom the node of the client has let it in; `None` if the leader authenticates it.
    pub(super) vouched: Option<Vouched>,
    /// The settings that the client's role and the database had for it at its login. Without
    /// `vouched` the leader finds its own.
    pub(super) settings: Arc<[LoginSetting]>,
}

/// The word of a node about a client that it has let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vouched {
    /// The number of the role.
    pub(super) role: u32,
    /// Whether the client has a name without a role, and was let in as the first role because
    /// the database is open.
    pub(super) as_visitor: bool,
}

/// The state of a session that continues on another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resumed {
    /// Whether the session was in a transaction block, which is lost.
    pub(super) in_transaction: bool,
    /// The pieces of its handover state.
    pub(super) pieces: Vec<Vec<u8>>,
}

/// The purpose of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// A session that begins, or continues with this state.
    Session(Box<Origin>, Option<Resumed>),
    /// A request to cancel the session's statement.
    Cancel { process_id: i32, secret: Vec<u8> },
    /// A question for the account of a user.
    Account { user: String },
    /// A node's estimate of Γ.
    Gamma { node: u64, summary: Summary },
    /// A question for the sessions of the node's clients.
    Sessions,
    /// An interruption of such a session.
    Interrupt {
        process_id: i32,
        stay: u64,
        how: Interruption,
    },
}

const SESSION: u8 = 1;
const CANCEL: u8 = 2;
const VOUCHED: u8 = 3;
const ACCOUNT: u8 = 4;
const GAMMA: u8 = 5;
const VOUCHED_WITH_SETTINGS: u8 = 6;
const SESSIONS: u8 = 7;
const INTERRUPT: u8 = 8;

/// Maximum length of an account in bytes: more names than a role can be a member of.
const LONGEST_ACCOUNT: u32 = 16 << 20;

/// Maximum length of a list of sessions in bytes: more sessions than a node has.
const LONGEST_LIST: u32 = 32 << 20;

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

fn put_settings(out: &mut Vec<u8>, settings: &[LoginSetting]) {
    out.put_u32_le(settings.len() as u32);
    for setting in settings {
        out.put_u8(setting.source as u8);
        put(out, setting.name.as_bytes());
        put(out, setting.value.as_bytes());
    }
}

/// Encodes a session's opening.
pub(super) fn session(origin: &Origin, resumed: Option<&Resumed>) -> Vec<u8> {
    framed(|out| {
        match origin.vouched {
            None => out.put_u8(SESSION),
            Some(vouched) => {
                let has_settings = !origin.settings.is_empty();
                out.put_u8(match has_settings {
                    true => VOUCHED_WITH_SETTINGS,
                    false => VOUCHED,
                });
                out.put_u32_le(vouched.role);
                out.put_u8(u8::from(vouched.as_visitor));
                if has_settings {
                    put_settings(out, &origin.settings);
                }
            }
        }
        out.put_i32_le(origin.process_id);
        put(out, &origin.secret);
        put(out, origin.peer.to_string().as_bytes());
        out.put_u8(u8::from(origin.tls));
        put(out, origin.binding.as_deref().unwrap_or_default());
        let request = &origin.request;
        out.put_u8(match request.protocol {
            Protocol::V3_0 => 0,
            Protocol::V3_2 => 1,
        });
        out.put_u8(u8::from(request.negotiate));
        out.put_u32_le(request.options.len() as u32);
        for option in &request.options {
            put(out, option.as_bytes());
        }
        out.put_u32_le(request.parameters.len() as u32);
        for (name, value) in &request.parameters {
            put(out, name.as_bytes());
            put(out, value.as_bytes());
        }
        match resumed {
            None => out.put_u8(0),
            Some(resumed) => {
                out.put_u8(1);
                out.put_u8(u8::from(resumed.in_transaction));
                out.put_u32_le(resumed.pieces.len() as u32);
                for piece in &resumed.pieces {
                    put(out, piece);
                }
            }
        }
    })
}

/// Encodes a cancel request.
pub(super) fn cancel(process_id: i32, secret: &[u8]) -> Vec<u8> {
    framed(|out| {
        out.put_u8(CANCEL);
        out.put_i32_le(process_id);
        put(out, secret);
    })
}

/// Encodes a question for the account of this user.
pub(super) fn account_of(user: &str) -> Vec<u8> {
    framed(|out| {
        out.put_u8(ACCOUNT);
        put(out, user.as_bytes());
    })
}

/// Encodes an account.
pub(super) fn account(account: &Account) -> Vec<u8> {
    framed(|out| {
        match account.role.as_deref() {
            None => out.put_u8(0),
            Some(role) => {
                out.put_u8(1);
                out.put_u32_le(role.oid);
                put(out, role.name.as_bytes());
                out.put_u8(u8::from(role.superuser));
                out.put_u8(u8::from(role.login));
                out.put_i32_le(role.connection_limit);
                out.put_u8(u8::from(role.valid_until.is_some()));
                out.put_i64_le(role.valid_until.unwrap_or_default());
                out.put_u8(u8::from(role.password.is_some()));
                put(out, role.password.as_deref().unwrap_or_default().as_bytes());
            }
        }
        out.put_u32_le(account.groups.len() as u32);
        for group in &account.groups {
            put(out, group.as_bytes());
        }
        out.put_u8(u8::from(account.open));
        out.put_slice(&account.secret);
        if !account.settings.is_empty() {
            put_settings(out, &account.settings);
        }
    })
}

/// Encodes a node's estimate of Γ. A node that shows none does not read it, and ends the
/// stream.
pub(super) fn gamma(node: u64, summary: Summary) -> Vec<u8> {
    let Summary {
        reads,
        positive,
        violations,
        values,
        greatest,
    } = summary;
    framed(|out| {
        out.put_u8(GAMMA);
        for number in [node, reads, positive, violations, values, greatest] {
            out.put_u64_le(number);
        }
    })
}

/// Encodes a question for the sessions of a node's clients.
pub(super) fn sessions() -> Vec<u8> {
    framed(|out| out.put_u8(SESSIONS))
}

/// Encodes the sessions of a node's clients.
pub(super) fn list_of(sessions: &[SessionElsewhere]) -> Vec<u8> {
    framed(|out| {
        out.put_u32_le(sessions.len() as u32);
        for session in sessions {
            out.put_i32_le(session.process_id);
            out.put_u32_le(session.role);
            out.put_u64_le(session.stay);
        }
    })
}

/// Encodes an interruption of a session of a node's client.
pub(super) fn interrupt(session: SessionElsewhere, how: Interruption) -> Vec<u8> {
    framed(|out| {
        out.put_u8(INTERRUPT);
        out.put_i32_le(session.process_id);
        out.put_u64_le(session.stay);
        out.put_u8(u8::from(how == Interruption::Terminate));
    })
}

fn framed(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; 4];
    write(&mut out);
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_le_bytes());
    out
}

/// Reads and decodes an opening; `None` when it is truncated or invalid.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Opening> {
    decode(&contents(stream, LONGEST).await?)
}

/// Reads and decodes an account; `None` when it is truncated or invalid.
pub(super) async fn read_account(stream: &mut (impl AsyncRead + Unpin)) -> Option<Account> {
    decode_account(&contents(stream, LONGEST_ACCOUNT).await?)
}

/// Reads and decodes the sessions of a node's clients; `None` when they are truncated or
/// invalid.
pub(super) async fn read_sessions(
    stream: &mut (impl AsyncRead + Unpin),
) -> Option<Vec<SessionElsewhere>> {
    decode_sessions(&contents(stream, LONGEST_LIST).await?)
}

fn decode_sessions(mut bytes: &[u8]) -> Option<Vec<SessionElsewhere>> {
    let bytes = &mut bytes;
    let sessions = list(bytes, |bytes| {
        Some(SessionElsewhere {
            process_id: bytes.try_get_i32_le().ok()?,
            role: bytes.try_get_u32_le().ok()?,
            stay: bytes.try_get_u64_le().ok()?,
        })
    })?;
    bytes.is_empty().then_some(sessions)
}

async fn contents(stream: &mut (impl AsyncRead + Unpin), longest: u32) -> Option<Vec<u8>> {
    let length = stream.read_u32_le().await.ok()?;
    if length > longest {
        return None;
    }
    let mut bytes = Vec::new();
    let read = stream.take(u64::from(length)).read_to_end(&mut bytes).await;
    read.ok()?;
    (bytes.len() as u64 == u64::from(length)).then_some(bytes)
}

fn decode_account(mut bytes: &[u8]) -> Option<Account> {
    let bytes = &mut bytes;
    let role = match flag(bytes)? {
        false => None,
        true => {
            let (oid, name) = (bytes.try_get_u32_le().ok()?, text(bytes)?);
            let (superuser, login) = (flag(bytes)?, flag(bytes)?);
            let connection_limit = bytes.try_get_i32_le().ok()?;
            let (ends, end) = (flag(bytes)?, bytes.try_get_i64_le().ok()?);
            let (has_password, password) = (flag(bytes)?, text(bytes)?);
            // A login is checked against these, and against nothing else of a role.
            Some(Arc::new(Role {
                superuser,
                login,
                connection_limit,
                valid_until: ends.then_some(end),
                password: has_password.then_some(password),
                ..Role::new(oid, name)
            }))
        }
    };
    let account = Account {
        role,
        groups: list(bytes, text)?,
        open: flag(bytes)?,
        secret: {
            let (secret, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            *secret
        },
        settings: match bytes.is_empty() {
            true => Arc::default(),
            false => login_settings(bytes)?,
        },
    };
    bytes.is_empty().then_some(account)
}

fn decode(mut bytes: &[u8]) -> Option<Opening> {
    let bytes = &mut bytes;
    let opening = match bytes.try_get_u8().ok()? {
        kind @ (SESSION | VOUCHED | VOUCHED_WITH_SETTINGS) => {
            let vouched = match kind {
                VOUCHED | VOUCHED_WITH_SETTINGS => Some(Vouched {
                    role: bytes.try_get_u32_le().ok()?,
                    as_visitor: flag(bytes)?,
                }),
                _ => None,
            };
            let settings = match kind {
                VOUCHED_WITH_SETTINGS => login_settings(bytes)?,
                _ => Arc::default(),
            };
            let process_id = bytes.try_get_i32_le().ok()?;
            let secret = take(bytes)?.to_vec();
            let peer = text(bytes)?.parse().ok()?;
            let tls = flag(bytes)?;
            let binding = Some(take(bytes)?).filter(|binding| !binding.is_empty());
            let binding = binding.map(Arc::from);
            let protocol = match flag(bytes)? {
                false => Protocol::V3_0,
                true => Protocol::V3_2,
            };
            let negotiate = flag(bytes)?;
            let options = list(bytes, text)?;
            let parameters = list(bytes, |bytes| Some((text(bytes)?, text(bytes)?)))?;
            let resumed = match flag(bytes)? {
                false => None,
                true => Some(Resumed {
                    in_transaction: flag(bytes)?,
                    pieces: list(bytes, |bytes| take(bytes).map(<[u8]>::to_vec))?,
                }),
            };
            let request = Request {
                protocol,
                negotiate,
                options,
                parameters,
            };
            let origin = Origin {
                process_id,
                secret,
                peer,
                tls,
                binding,
                request,
                vouched,
                settings,
            };
            Opening::Session(Box::new(origin), resumed)
        }
        CANCEL => Opening::Cancel {
            process_id: bytes.try_get_i32_le().ok()?,
            secret: take(bytes)?.to_vec(),
        },
        ACCOUNT => Opening::Account { user: text(bytes)? },
        SESSIONS => Opening::Sessions,
        INTERRUPT => Opening::Interrupt {
            process_id: bytes.try_get_i32_le().ok()?,
            stay: bytes.try_get_u64_le().ok()?,
            how: match flag(bytes)? {
                false => Interruption::Cancel,
                true => Interruption::Terminate,
            },
        },
        GAMMA => {
            let mut number = || bytes.try_get_u64_le().ok();
            Opening::Gamma {
                node: number()?,
                summary: Summary {
                    reads: number()?,
                    positive: number()?,
                    violations: number()?,
                    values: number()?,
                    greatest: number()?,
                },
            }
        }
        _ => return None,
    };
    bytes.is_empty().then_some(opening)
}

fn take<'bytes>(bytes: &mut &'bytes [u8]) -> Option<&'bytes [u8]> {
    let length = bytes.try_get_u32_le().ok()? as usize;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(bytes)?.to_vec()).ok()
}

fn flag(bytes: &mut &[u8]) -> Option<bool> {
    match bytes.try_get_u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn login_settings(bytes: &mut &[u8]) -> Option<Arc<[LoginSetting]>> {
    let one = |bytes: &mut &[u8]| {
        Some(LoginSetting {
            source: *SettingSource::ALL.get(usize::from(bytes.try_get_u8().ok()?))?,
            name: text(bytes)?,
            value: text(bytes)?,
        })
    };
    Some(list(bytes, one)?.into())
}

fn list<T>(bytes: &mut &[u8], one: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = bytes.try_get_u32_le().ok()?;
    (0..count).map(|_| one(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin {
            process_id: 7,
            secret: vec![1, 2, 3, 4],
            peer: ([127, 0, 0, 1], 5).into(),
            tls: true,
            binding: Some(Arc::from(&b"hash"[..])),
            request: Request {
                protocol: Protocol::V3_2,
                negotiate: true,
                options: vec!["_pq_.fast".into()],
                parameters: vec![("user".into(), "ada".into())],
            },
            vouched: None,
            settings: Arc::default(),
        }
    }

    fn settings() -> Arc<[LoginSetting]> {
        let setting = |source| LoginSetting {
            source,
            name: "work_mem".into(),
            value: "8MB".into(),
        };
        SettingSource::ALL.into_iter().map(setting).collect()
    }

    fn with_settings() -> Origin {
        Origin {
            settings: settings(),
            ..vouched()
        }
    }

    fn vouched() -> Origin {
        Origin {
            vouched: Some(Vouched {
                role: 16_384,
                as_visitor: false,
            }),
            ..origin()
        }
    }

    #[test]
    fn openings_come_back_and_pieces_of_one_are_refused() {
        let resumed = Resumed {
            in_transaction: true,
            pieces: vec![b"one".to_vec(), Vec::new()],
        };
        for (bytes, expected) in [
            (
                session(&origin(), None),
                Opening::Session(Box::new(origin()), None),
            ),
            (
                session(&vouched(), None),
                Opening::Session(Box::new(vouched()), None),
            ),
            (
                session(&with_settings(), Some(&resumed)),
                Opening::Session(Box::new(with_settings()), Some(resumed.clone())),
            ),
            (
                session(&vouched(), Some(&resumed)),
                Opening::Session(Box::new(vouched()), Some(resumed.clone())),
            ),
            (
                session(&origin(), Some(&resumed)),
                Opening::Session(Box::new(origin()), Some(resumed)),
            ),
            (account_of("ada"), Opening::Account { user: "ada".into() }),
            (sessions(), Opening::Sessions),
            (
                interrupt(session_elsewhere(), Interruption::Terminate),
                Opening::Interrupt {
                    process_id: 2 << 20,
                    stay: 7,
                    how: Interruption::Terminate,
                },
            ),
            (
                gamma(
                    3,
                    Summary {
                        reads: 1,
                        positive: 2,
                        violations: 3,
                        values: 4,
                        greatest: 5,
                    },
                ),
                Opening::Gamma {
                    node: 3,
                    summary: Summary {
                        reads: 1,
                        positive: 2,
                        violations: 3,
                        values: 4,
                        greatest: 5,
                    },
                },
            ),
            (
                cancel(8, b"four"),
                Opening::Cancel {
                    process_id: 8,
                    secret: b"four".to_vec(),
                },
            ),
        ] {
            let contents = &bytes[4..];
            assert_eq!(decode(contents), Some(expected));
            for end in 0..contents.len() {
                assert_eq!(decode(&contents[..end]), None, "cut at {end}");
            }
            for at in 0..contents.len() {
                for wrong in [0, 1, 0x7F, 0xFF] {
                    let mut changed = contents.to_vec();
                    changed[at] = wrong;
                    // Any result is right, as long as decoding does not panic.
                    let _ = decode(&changed);
                }
            }
        }
    }

    fn session_elsewhere() -> SessionElsewhere {
        SessionElsewhere {
            process_id: 2 << 20,
            role: 16_384,
            stay: 7,
        }
    }

    #[test]
    fn sessions_come_back_and_pieces_of_a_list_are_refused() {
        for all in [
            vec![],
            vec![session_elsewhere()],
            vec![session_elsewhere(); 3],
        ] {
            let bytes = list_of(&all);
            let contents = &bytes[4..];
            assert_eq!(decode_sessions(contents), Some(all));
            for end in 0..contents.len() {
                assert_eq!(decode_sessions(&contents[..end]), None, "cut at {end}");
            }
        }
        // A count without its sessions takes no memory.
        assert_eq!(decode_sessions(&[0xFF; 4]), None);
    }

    #[test]
    fn accounts_come_back_and_pieces_of_one_are_refused() {
        let role = Role {
            name: "ada".into(),
            connection_limit: 3,
            valid_until: Some(-1),
            password: Some("SCRAM-SHA-256$…".into()),
            ..Role::first()
        };
        let with_role = Account {
            role: Some(Arc::new(role)),
            groups: vec!["ada".into(), "readers".into()],
            open: false,
            secret: [7; 32],
            settings: Arc::default(),
        };
        let with_settings = Account {
            settings: settings(),
            ..with_role.clone()
        };
        let without = Account {
            role: None,
            groups: Vec::new(),
            open: true,
            ..with_role.clone()
        };
        for before in [with_role, without, with_settings] {
            let bytes = account(&before);
            let contents = &bytes[4..];
            let after = decode_account(contents).unwrap();
            assert_eq!(after.groups, before.groups);
            assert_eq!(after.settings, before.settings);
            assert_eq!((after.open, after.secret), (before.open, before.secret));
            let parts = |account: &Account| {
                let role = account.role.as_deref()?;
                let limits = (role.connection_limit, role.valid_until);
                let attributes = (role.superuser, role.login, role.password.clone());
                Some((role.oid, role.name.clone(), limits, attributes))
            };
            assert_eq!(parts(&after), parts(&before));
            // Without its settings the account is that of a role that has none.
            let settings = match before.settings.is_empty() {
                true => contents.len(),
                false => {
                    account(&Account {
                        settings: Arc::default(),
                        ..before
                    })
                    .len()
                        - 4
                }
            };
            for end in (0..contents.len()).filter(|end| *end != settings) {
                assert!(decode_account(&contents[..end]).is_none(), "cut at {end}");
            }
        }
    }
}
