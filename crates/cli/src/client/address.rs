//! Parser of connection strings: takes out the parts that tokio-postgres does not know,
//! about the protection of the connection.
//!
//! ```text
//!   postgres://ada@db.example/bank?sslmode=verify-full&sslrootcert=ca.pem&connect_timeout=5
//!                                  └────── taken out, read here ───────┘
//! ```
//!
//! The environment variables `PGSSLMODE` and `PGSSLROOTCERT` are the defaults, as for
//! libpq.

use std::path::PathBuf;

/// The protection of a connection, after libpq's `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// No TLS.
    Disable,
    /// TLS if the server supports it, with any certificate.
    Prefer,
    /// TLS, with any certificate.
    Require,
    /// TLS, with a certificate of a trusted authority.
    VerifyCa,
    /// TLS, with a certificate of a trusted authority for the requested host.
    VerifyFull,
}

impl Mode {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(format!(
                    "sslmode {text:?} is none of disable, prefer, require, verify-ca, verify-full"
                ));
            }
        })
    }
}

/// A parsed connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The part that tokio-postgres reads.
    pub(super) rest: String,
    pub(super) mode: Mode,
    /// The file of trusted authorities, if one was named.
    pub(super) roots: Option<PathBuf>,
}

impl Address {
    /// Parses a URL, or words like `host=… sslmode=…`. `environment` supplies defaults.
    pub(super) fn parse(
        text: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let (mut mode, mut roots) = (None, None);
        let mut take = |parameter: &str, is_url: bool| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = match is_url {
                true => decoded(value),
                false => value.trim_matches('\'').to_owned(),
            };
            match name {
                "sslmode" => mode = Some(value),
                "sslrootcert" => roots = Some(value),
                _ => return false,
            }
            true
        };
        let rest = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            match text.split_once('?') {
                None => text.to_owned(),
                Some((before, parameters)) => {
                    let parameters = parameters.split('&');
                    let kept: Vec<&str> = parameters.filter(|each| !take(each, true)).collect();
                    match kept.is_empty() {
                        true => before.to_owned(),
                        false => format!("{before}?{}", kept.join("&")),
                    }
                }
            }
        } else {
            let words = text.split_whitespace();
            let kept: Vec<&str> = words.filter(|each| !take(each, false)).collect();
            kept.join(" ")
        };
        let said = |name: &str| environment(name).filter(|value| !value.is_empty());
        let mode = mode.or_else(|| said("PGSSLMODE"));
        let roots = roots.or_else(|| said("PGSSLROOTCERT"));
        let mode = mode.map(|mode| Mode::parse(&mode)).transpose()?;
        Ok(Self {
            rest,
            mode: mode.unwrap_or(Mode::Prefer),
            roots: roots.map(PathBuf::from),
        })
    }
}

/// Decodes the percent signs in a part of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| first == b'%');
        let code = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        Address::parse(text, |_| None).unwrap()
    }

    #[test]
    fn what_concerns_tls_is_taken_out() {
        let plain = parse("postgres://ada@localhost:5433/bank");
        assert_eq!(plain.rest, "postgres://ada@localhost:5433/bank");
        assert_eq!((plain.mode, plain.roots), (Mode::Prefer, None));
        let full =
            parse("postgres://h/b?sslmode=verify-full&connect_timeout=5&sslrootcert=a%20b.pem");
        assert_eq!(full.rest, "postgres://h/b?connect_timeout=5");
        assert_eq!(full.mode, Mode::VerifyFull);
        assert_eq!(full.roots, Some("a b.pem".into()));
        assert_eq!(
            parse("postgresql://h?sslmode=require").rest,
            "postgresql://h"
        );
        let words = parse("host=h sslmode=disable user=ada");
        assert_eq!(
            (words.rest.as_str(), words.mode),
            ("host=h user=ada", Mode::Disable)
        );
        let wrong = Address::parse("postgres://h?sslmode=maybe", |_| None).unwrap_err();
        assert!(wrong.contains("verify-full"), "{wrong}");
    }

    #[test]
    fn the_environment_says_what_the_string_does_not() {
        let environment = |name: &str| match name {
            "PGSSLMODE" => Some("require".to_owned()),
            "PGSSLROOTCERT" => Some(String::new()),
            _ => None,
        };
        let parse = |text: &str| Address::parse(text, environment).unwrap();
        assert_eq!(parse("postgres://h").mode, Mode::Require);
        assert_eq!(parse("postgres://h").roots, None);
        assert_eq!(parse("postgres://h?sslmode=disable").mode, Mode::Disable);
    }
}
