//! PostgreSQL's wire protocol, version 3: bytes in, checked messages out.
//!
//! ```text
//!   socket ──read──▶ ReadBuffer ──▶ frame ──▶ frontend::Message<'_>   (borrowed)
//!                    grows with      one       lengths, UTF-8, NUL,
//!                    what came       message   formats checked
//!
//!   socket ◀─write── Vec<u8>   ◀── backend::*  (rows written in place)
//! ```
//!
//! Nothing here waits, knows SQL or holds a session. What a client sends is
//! hostile until it has passed two doors:
//!
//! 1. [`frame`] finds exactly one message: a type that exists, a length that this
//!    type may have. After an error here nobody knows where the next message
//!    starts, so the connection ends.
//! 2. [`frontend`] (or [`startup`], for the first packet) reads the contents of
//!    that one message and of nothing behind it. Every inner count and length is
//!    checked against the message's own bytes before it is used; strings are UTF-8
//!    without NUL. After an error here the next message is still where it was
//!    said to be: the session reports the error and goes on after the next Sync.
//!
//! Invariants, held by property tests over arbitrary bytes:
//! - no input panics;
//! - no decoder sees a byte outside its message;
//! - memory follows what has been received, never what was announced.
//!
//! # Example
//! ```
//! use coeval_pgwire::{Limits, ReadBuffer, frontend::Message};
//!
//! let mut buffer = ReadBuffer::new(Limits::default());
//! buffer.extend(b"Q\0\0\0\x0dselect 1\0S\0\0");
//! let Some(frame) = buffer.next_frame()? else { panic!("a whole Query is there") };
//! assert_eq!(Message::decode(frame)?, Message::Query("select 1"));
//! assert!(buffer.next_frame()?.is_none(), "of the Sync one byte is missing");
//! # Ok::<(), coeval_pgwire::Error>(())
//! ```
//!
//! # What is the pgwire library's
//! The messages a server sends that are not sent once per row or per statement:
//! errors, notices, descriptions, parameters, key data ([`backend::cold`]). Its
//! frontend decoders read past truncated messages with a panic, replace invalid
//! UTF-8 silently and copy every string, so reading is ours altogether; in tests
//! the library plays the client.
//!
//! # Who the client is
//! [`scram`] is the one way to show it. Until a client has, only messages as long
//! as that takes are read ([`Limits::BEFORE_AUTHENTICATION`]).
//!
//! # Sources
//! PostgreSQL documentation, chapter "Frontend/Backend Protocol": "Message
//! Formats", "Message Flow".

pub mod backend;
mod buffer;
mod error;
pub mod frame;
pub mod frontend;
mod limits;
mod reader;
pub mod scram;
pub mod startup;

pub use buffer::ReadBuffer;
pub use error::Error;
pub use frame::Frame;
pub use limits::Limits;
