//! Conversion of errors and notices, of SQL and of the protocol, to messages for the
//! client.

use coeval_pgwire::backend::cold::{self, Report, Severity};
use coeval_sql::output::{self, Notice};
use coeval_sql::{Error, SqlState};

/// Converts a protocol error to an error of SQL.
pub(crate) fn from_wire(error: &coeval_pgwire::Error) -> Error {
    let sql = Error::new(SqlState(error.sqlstate()), error.to_string());
    match error {
        coeval_pgwire::Error::TooLong { .. } => {
            sql.with_hint("Raise the server's setting max_message_bytes, or send less at once.")
        }
        _ => sql,
    }
}

/// SQLSTATE 08P01, `protocol_violation`: the client sent a message that is invalid in the
/// present state.
pub(crate) fn violation(message: impl Into<String>) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// Writes the error of a failed statement.
pub(crate) fn error(out: &mut Vec<u8>, error: &Error) {
    cold::error_response(out, &parts(Severity::Error, error.report()));
}

/// Writes the error that ends the connection.
pub(crate) fn fatal(out: &mut Vec<u8>, error: &Error) {
    cold::error_response(out, &parts(Severity::Fatal, error.report()));
}

/// Writes a notice.
pub(crate) fn notice(out: &mut Vec<u8>, notice: &Notice) {
    let severity = match notice.severity {
        output::Severity::Debug => Severity::Debug,
        output::Severity::Log => Severity::Log,
        output::Severity::Info => Severity::Info,
        output::Severity::Notice => Severity::Notice,
        output::Severity::Warning => Severity::Warning,
    };
    cold::notice_response(out, &parts(severity, &notice.report));
}

fn parts(severity: Severity, report: &coeval_sql::error::Report) -> Report<'_> {
    let mut parts = Report::new(severity, report.state.0, &report.message);
    parts.detail = report.detail.as_deref();
    parts.hint = report.hint.as_deref();
    parts.position = report.position;
    parts.context = report.context.as_deref();
    parts.object.schema = report.schema.as_deref();
    parts.object.table = report.table.as_deref();
    parts.object.column = report.column.as_deref();
    parts.object.constraint = report.constraint.as_deref();
    parts
}
