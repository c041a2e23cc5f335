//! Parsing and formatting of setting values.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use coeval_env::{Location, LocationError};
use coeval_sql::session::settings;
use coeval_types::Protocol;

/// A value that can be read from a file, the environment or a flag.
pub trait SettingValue: Sized {
    /// Parses the value; the error completes "its value is wrong: …".
    fn parse(text: &str) -> Result<Self, String>;
    /// Formats the value so that [`SettingValue::parse`] can read it again.
    fn show(&self) -> String;
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text; in colours when standard error is a terminal.
    Auto,
    /// Text without colours.
    Text,
    /// One JSON object per line.
    Json,
}

impl SettingValue for LogFormat {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("{other:?} is none of auto, text, json")),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        }
        .to_owned()
    }
}

impl SettingValue for Protocol {
    fn parse(text: &str) -> Result<Self, String> {
        let protocol = Self::ALL
            .into_iter()
            .find(|protocol| protocol.name() == text);
        protocol.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("{text:?} is none of {}", names.join(", "))
        })
    }

    fn show(&self) -> String {
        self.name().to_owned()
    }
}

/// A time limit, in PostgreSQL's syntax: a number of milliseconds, or a number with a
/// unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeout(pub Duration);

impl Timeout {
    /// No limit.
    pub const NONE: Self = Self(Duration::ZERO);
}

impl SettingValue for Timeout {
    fn parse(text: &str) -> Result<Self, String> {
        settings::time(text).map(Self).ok_or_else(|| {
            format!(
                "{text:?} is not a time up to {}, such as 250, 100ms, 5s or 1.5min",
                settings::write_time(Duration::from_millis(i32::MAX.unsigned_abs().into()))
            )
        })
    }

    fn show(&self) -> String {
        settings::write_time(self.0)
    }
}

/// The duration from which a statement is logged; `None` for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDuration(pub Option<Duration>);

impl LogDuration {
    /// No statement is logged for its duration.
    pub const NEVER: Self = Self(None);
}

impl SettingValue for LogDuration {
    fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "-1" => Ok(Self::NEVER),
            time => Timeout::parse(time)
                .map(|Timeout(time)| Self(Some(time)))
                .map_err(|reason| format!("{reason}, and not -1")),
        }
    }

    fn show(&self) -> String {
        self.0
            .map_or_else(|| "-1".to_owned(), |time| Timeout(time).show())
    }
}

/// A level of PostgreSQL's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLevel(&'static str);

impl MessageLevel {
    /// The level of a statement that fails.
    pub const ERROR: Self = Self("error");

    const ALL: [&str; 13] = [
        "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "info", "notice", "warning",
        "error", "log", "fatal", "panic",
    ];
}

impl SettingValue for MessageLevel {
    fn parse(text: &str) -> Result<Self, String> {
        let level = Self::ALL.into_iter().find(|level| *level == text.trim());
        level
            .map(Self)
            .ok_or_else(|| format!("{text:?} is none of {}", Self::ALL.join(", ")))
    }

    fn show(&self) -> String {
        self.0.to_owned()
    }
}

impl SettingValue for bool {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "true" | "on" | "yes" | "1" => Ok(true),
            "false" | "off" | "no" | "0" => Ok(false),
            other => Err(format!("{other:?} is neither true nor false")),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! number {
    ($($type:ty),*) => {
        $(impl SettingValue for $type {
            fn parse(text: &str) -> Result<Self, String> {
                let digits: String = text.chars().filter(|&digit| digit != '_').collect();
                digits
                    .parse()
                    .map_err(|_| format!("{text:?} is not a whole number in range"))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        })*
    };
}

number!(u32, u64, usize);

impl SettingValue for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl SettingValue for PathBuf {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty path names nothing".into());
        }
        Ok(Self::from(text))
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

/// A file name that may be missing; empty text for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalPath(pub Option<PathBuf>);

impl SettingValue for OptionalPath {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self((!text.is_empty()).then(|| PathBuf::from(text))))
    }

    fn show(&self) -> String {
        let path = self.0.as_ref();
        path.map_or_else(String::new, |path| path.display().to_string())
    }
}

impl SettingValue for Location {
    /// Parses `host:port`, an address alone, or a port alone.
    fn parse(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::from(([127, 0, 0, 1], port)));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::from((address, 5433)));
        }
        text.parse()
            .map_err(|error: LocationError| error.to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for Option<Location> {
    /// Parses a location, or `off`.
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" | "none" => Ok(None),
            location => Location::parse(location).map(Some),
        }
    }

    fn show(&self) -> String {
        let location = self.as_ref();
        location.map_or_else(|| "off".to_owned(), SettingValue::show)
    }
}
