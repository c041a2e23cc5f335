//! Logging: writes log lines to standard error, as text for people or JSON for machines.

use std::io::IsTerminal;

use coeval_server::settings::{LogFormat, Settings, SettingsError};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Starts logging for the whole process. Does nothing when a logger is installed already.
pub(crate) fn start(settings: &Settings) -> Result<(), SettingsError> {
    let filter = EnvFilter::try_new(&settings.log_level).map_err(|error| SettingsError::Value {
        name: "log_level",
        origin: None,
        reason: error.to_string(),
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(BoxMakeWriter::new(std::io::stderr));
    let _ = match settings.log_format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Auto => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    Ok(())
}
