//! A codec for PostgreSQL's wire protocol, version 3: decodes and checks a client's
//! messages, encodes the server's.
//!
//! ```text
//!   socket ──read──▶ ReadBuffer ──▶ frame ──▶ frontend::Message<'_>   (borrowed)
//!                    grows with      one       lengths, UTF-8, NUL,
//!                    bytes read      message   formats checked
//!
//!   socket ◀─write── Vec<u8>   ◀── backend::*  (rows written in place)
//! ```
//!
//! The crate neither waits nor knows SQL nor holds a session. A client's bytes are hostile
//! until they have passed two checks:
//!
//! 1. [`frame`] delimits exactly one message: an existing type, and a length that this type
//!    may have. After an error here the start of the next message is unknown, so the
//!    connection ends.
//! 2. [`frontend`] (or [`startup`], for the first packet) decodes the contents of that one
//!    message and no byte after it. It checks every inner count and length against the
//!    message's own bytes before it uses them; strings are UTF-8 without NUL. After an
//!    error here the start of the next message is still known: the session reports the
//!    error and continues after the next Sync.
//!
//! Invariants, held by property tests over arbitrary bytes:
//! - no input panics;
//! - no decoder sees a byte outside its message;
//! - memory grows with received bytes, never with an announced length.
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
//! # Messages encoded by the pgwire library
//! The library encodes the server's messages that are not sent once per row or statement:
//! errors, notices, descriptions, parameters, key data ([`backend::cold`]). Its frontend
//! decoders panic on truncated messages, replace invalid UTF-8 silently and copy every
//! string, so this crate has its own; in tests the library plays the client.
//!
//! # Authentication
//! [`scram`] is the one method. Until a client has authenticated, the server reads only
//! messages of the length that SCRAM needs ([`Limits::BEFORE_AUTHENTICATION`]).
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
