//! Encoders on the cold path: rarely sent answers, encoded by the pgwire library.

use bytes::{Bytes, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::copy::{CopyInResponse, CopyOutResponse};
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};

use crate::Error;
use crate::backend::LONGEST;
use crate::frontend::Format;
use crate::startup::Protocol;

/// Severity of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// A warning to the client.
    Warning,
    /// A notice to the client.
    Notice,
    /// Information that the client asked for.
    Info,
    /// Information for debugging.
    Debug,
    /// Information for the server's log.
    Log,
}

impl Severity {
    /// The severity's name in the protocol.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Log => "LOG",
        }
    }
}

/// The contents of an ErrorResponse or NoticeResponse.
#[derive(Clone, Copy, Debug)]
pub struct Report<'text> {
    /// The severity.
    pub severity: Severity,
    /// The SQLSTATE, five characters.
    pub sqlstate: &'text str,
    /// The primary message, in one sentence.
    pub message: &'text str,
    /// Details about this occurrence.
    pub detail: Option<&'text str>,
    /// Advice to the user.
    pub hint: Option<&'text str>,
    /// Position of the error in the statement, in characters from 1.
    pub position: Option<u32>,
    /// The context of the error, one line per level.
    pub context: Option<&'text str>,
    /// The schema, table, column, data type and constraint that the report names.
    pub object: Object<'text>,
}

/// The database object that a report concerns, for programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Object<'text> {
    /// Name of the schema.
    pub schema: Option<&'text str>,
    /// Name of the table.
    pub table: Option<&'text str>,
    /// Name of the column.
    pub column: Option<&'text str>,
    /// Name of the data type.
    pub data_type: Option<&'text str>,
    /// Name of the constraint.
    pub constraint: Option<&'text str>,
}

impl<'text> Report<'text> {
    /// A report with a message and no other fields.
    #[must_use]
    pub const fn new(severity: Severity, sqlstate: &'text str, message: &'text str) -> Self {
        Self {
            severity,
            sqlstate,
            message,
            detail: None,
            hint: None,
            position: None,
            context: None,
            object: Object {
                schema: None,
                table: None,
                column: None,
                data_type: None,
                constraint: None,
            },
        }
    }

    fn fields(&self) -> Vec<(u8, String)> {
        let position = self.position.map(|position| position.to_string());
        let severity = Some(self.severity.as_str());
        [
            (b'S', severity),
            (b'V', severity),
            (b'C', Some(self.sqlstate)),
            (b'M', Some(self.message)),
            (b'D', self.detail),
            (b'H', self.hint),
            (b'P', position.as_deref()),
            (b'W', self.context),
            (b's', self.object.schema),
            (b't', self.object.table),
            (b'c', self.object.column),
            (b'd', self.object.data_type),
            (b'n', self.object.constraint),
        ]
        .into_iter()
        .filter_map(|(code, text)| text.map(|text| (code, sendable(text))))
        .collect()
    }
}

/// Escapes zero bytes, which would end the field early, and truncates long texts with a
/// mark: megabytes of a client's own statement are no message.
fn sendable(text: &str) -> String {
    const LONGEST_FIELD: usize = 64 << 10;
    let mut end = text.len().min(LONGEST_FIELD);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut sent = text[..end].replace('\0', "\\0");
    if end < text.len() {
        sent.push_str(" …");
    }
    sent
}

/// Appends ErrorResponse: a statement or the connection failed.
pub fn error_response(out: &mut Vec<u8>, report: &Report<'_>) {
    encode(out, &ErrorResponse::new(report.fields()));
}

/// Appends NoticeResponse: a warning or other information to the client.
pub fn notice_response(out: &mut Vec<u8>, report: &Report<'_>) {
    encode(out, &NoticeResponse::new(report.fields()));
}

/// Appends AuthenticationOk: the client is authenticated.
pub fn authentication_ok(out: &mut Vec<u8>) {
    encode(out, &Authentication::Ok);
}

/// Appends AuthenticationSASL: the client must choose one of these mechanisms and begin.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    let mechanisms = mechanisms.iter().map(|&each| each.to_owned()).collect();
    encode(out, &Authentication::SASL(mechanisms));
}

/// Appends the mechanism's next message.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, message: &str) {
    let message = Bytes::copy_from_slice(message.as_bytes());
    encode(out, &Authentication::SASLContinue(message));
}

/// Appends the mechanism's last message.
pub fn authentication_sasl_final(out: &mut Vec<u8>, message: &str) {
    let message = Bytes::copy_from_slice(message.as_bytes());
    encode(out, &Authentication::SASLFinal(message));
}

/// Appends ParameterStatus: a session parameter has this value.
///
/// # Errors
/// When the value is longer than the protocol allows (30,000 bytes).
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) -> Result<(), Error> {
    let message = ParameterStatus::new(sendable(name), sendable(value));
    try_encode(out, &message)
}

/// Appends BackendKeyData, which a cancel request for this session must present: `secret`
/// has 4 bytes for protocol 3.0, and up to 256 for 3.2.
///
/// # Errors
/// When the secret has another length.
pub fn backend_key_data(out: &mut Vec<u8>, process_id: i32, secret: &[u8]) -> Result<(), Error> {
    let secret = SecretKey::Bytes(Bytes::copy_from_slice(secret));
    try_encode(out, &BackendKeyData::new(process_id, secret))
}

/// Appends NegotiateProtocolVersion: the session uses this protocol, and none of these
/// options.
///
/// # Errors
/// When the options are longer than the protocol allows (30,000 bytes), which a
/// checked startup packet makes impossible.
pub fn negotiate_protocol_version(
    out: &mut Vec<u8>,
    protocol: Protocol,
    options: &[&str],
) -> Result<(), Error> {
    let options = options.iter().map(|&option| option.to_owned()).collect();
    let message = NegotiateProtocolVersion::new(protocol.number(), options);
    try_encode(out, &message)
}

/// Appends ParameterDescription: the types of a prepared statement's parameters.
///
/// # Errors
/// When there are more than the protocol can count (65,535).
pub fn parameter_description(out: &mut Vec<u8>, types: &[u32]) -> Result<(), Error> {
    if types.len() > usize::from(u16::MAX) {
        return Err(Error::Unsendable(types.len()));
    }
    try_encode(out, &ParameterDescription::new(types.to_vec()))
}

/// Appends CopyInResponse: the client may send COPY data of this many columns.
///
/// # Errors
/// When there are more columns than fit the message.
pub fn copy_in_response(out: &mut Vec<u8>, format: Format, columns: usize) -> Result<(), Error> {
    let (overall, formats) = copy_formats(format, columns)?;
    let message = CopyInResponse::new(overall, count(columns)?, formats);
    try_encode(out, &message)
}

/// Appends CopyOutResponse: COPY data of this many columns follows.
///
/// # Errors
/// When there are more columns than fit the message.
pub fn copy_out_response(out: &mut Vec<u8>, format: Format, columns: usize) -> Result<(), Error> {
    let (overall, formats) = copy_formats(format, columns)?;
    let message = CopyOutResponse::new(overall, count(columns)?, formats);
    try_encode(out, &message)
}

fn copy_formats(format: Format, columns: usize) -> Result<(i8, Vec<i16>), Error> {
    let columns = usize::try_from(count(columns)?).unwrap_or(0);
    let overall = match format {
        Format::Text => 0,
        Format::Binary => 1,
    };
    Ok((overall, vec![format.code(); columns]))
}

fn count(columns: usize) -> Result<i16, Error> {
    i16::try_from(columns).map_err(|_| Error::Unsendable(columns))
}

fn encode(out: &mut Vec<u8>, message: &impl Message) {
    let encoded = try_encode(out, message);
    debug_assert!(encoded.is_ok(), "{encoded:?}");
}

/// Appends the whole message, or nothing on an error.
fn try_encode(out: &mut Vec<u8>, message: &impl Message) -> Result<(), Error> {
    let length = message.message_length();
    if length > LONGEST {
        return Err(Error::Unsendable(length));
    }
    let mut encoded = BytesMut::with_capacity(length + 1);
    let sendable = message.encode(&mut encoded);
    sendable.map_err(|_| Error::Unsendable(length))?;
    out.extend_from_slice(&encoded);
    Ok(())
}
