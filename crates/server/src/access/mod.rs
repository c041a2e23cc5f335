//! Host-based access control: decides from the address, role and database of a client how
//! it must authenticate.
//!
//! ```text
//!   # connection  database  user      address          method
//!   hostssl       all       all       10.0.0.0/8       scram-sha-256
//!   host          all       +guests   127.0.0.1/32     trust
//!                                                      (first line that fits decides)
//! ```
//!
//! Without a host-based access file these rules apply; they let clients of this machine
//! in, and roles with a password over TLS:
//!
//! | from | who | how |
//! | --- | --- | --- |
//! | this machine | a role with a password | must prove it |
//! | this machine | any other name | let in while the database is open; after that refused |
//! | elsewhere | a role with a password, with TLS | must prove it |
//! | elsewhere | without TLS | refused |
//!
//! The database is *open* until a role that is a superuser has a password. So an
//! administrator cannot lock himself out, and setting the first superuser's password
//! closes the database. `--insecure` replaces the rules by one: the server lets every
//! client in, under any name that has a role; or, while the database is open, under any
//! name.
//!
//! - [`mod@file`]: the host-based access file. [`rule`]: one line of it.
//!
//! Sources: PostgreSQL documentation, "The pg_hba.conf File".

mod file;
mod rule;

use std::net::IpAddr;
use std::path::Path;

pub use file::FileError;
pub(crate) use file::parse;
pub(crate) use rule::{Method, Rule};

/// A client that wants to log in, as the rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applicant<'a> {
    /// The client's address.
    pub(crate) address: IpAddr,
    /// Whether the connection uses TLS.
    pub(crate) tls: bool,
    /// The role name that the client asks for.
    pub(crate) user: &'a str,
    /// The database that the client asks for.
    pub(crate) database: &'a str,
    /// The names of the roles that the user is a member of, itself included.
    pub(crate) groups: &'a [String],
    /// Whether a role of that name exists and has a password.
    pub(crate) has_password: bool,
    /// Whether the database is open: no superuser has a password.
    pub(crate) open: bool,
}

/// The access rules in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// The rules of a server that has neither an access file nor `--insecure`.
    Default,
    /// Every client is let in.
    Insecure,
    /// The rules of an access file, in order.
    File(Vec<Rule>),
}

impl Rules {
    /// Reads and parses the rules of an access file.
    pub(crate) async fn read(path: &Path) -> Result<Self, FileError> {
        let bytes = coeval_env::fs::read(path).await;
        let bytes = bytes.map_err(|error| FileError::unreadable(path, &error))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
            FileError::new(path, line, "it is not UTF-8".to_owned())
        })?;
        parse(path, text).map(Self::File)
    }

    /// The authentication method for this client; `None` when no line of the file fits.
    pub(crate) fn method(&self, applicant: &Applicant<'_>) -> Option<Method> {
        match self {
            Self::Insecure => Some(Method::Trust),
            Self::Default => Some(by_default(applicant)),
            Self::File(rules) => rules
                .iter()
                .find(|rule| rule.fits(applicant))
                .map(|rule| rule.method),
        }
    }

    /// The line of a rule that lets clients of other machines in without authentication.
    pub(crate) fn careless_line(&self) -> Option<usize> {
        let Self::File(rules) = self else { return None };
        let careless = |rule: &&Rule| rule.method == Method::Trust && rule.reaches_others();
        rules.iter().find(careless).map(|rule| rule.line)
    }
}

/// The answer of an access file about one client, computed without a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consulted {
    /// The name of the authentication method that the file asks of the named client;
    /// `None` when no line fits, and the server would refuse the client.
    pub asked: Option<&'static str>,
    /// The first line that lets clients of other machines in without authentication.
    pub careless_line: Option<usize>,
}

/// Parses the text of an access file, and applies it to a client whose role does not
/// exist yet. `path` appears in the error only.
///
/// # Errors
/// [`FileError`] with the line that makes no sense.
pub fn consult(
    path: &Path,
    text: &str,
    (address, tls): (IpAddr, bool),
    (user, database): (&str, &str),
) -> Result<Consulted, FileError> {
    let rules = Rules::File(parse(path, text)?);
    let method = rules.method(&Applicant {
        address,
        tls,
        user,
        database,
        groups: &[],
        has_password: false,
        open: false,
    });
    Ok(Consulted {
        asked: method.map(Method::as_str),
        careless_line: rules.careless_line(),
    })
}

fn by_default(applicant: &Applicant<'_>) -> Method {
    let here = applicant.address.to_canonical().is_loopback();
    match (here, applicant.has_password, applicant.open) {
        (true, true, _) => Method::Scram,
        (true, false, true) => Method::Trust,
        // A role without a password is asked for one as well, so that a client cannot
        // learn which roles have passwords.
        (true, false, false) => Method::Scram,
        (false, ..) if applicant.tls => Method::Scram,
        (false, ..) => Method::Reject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applicant(address: &str) -> Applicant<'static> {
        Applicant {
            address: address.parse().unwrap(),
            tls: false,
            user: "ada",
            database: "bank",
            groups: &[],
            has_password: false,
            open: true,
        }
    }

    #[test]
    fn a_visitor_is_let_in_until_the_door_is_closed() {
        let visitor = applicant("127.0.0.1");
        let asked = |visitor: Applicant<'_>| Rules::Default.method(&visitor).unwrap();
        assert_eq!(asked(visitor), Method::Trust);
        assert_eq!(asked(applicant("::1")), Method::Trust);
        assert_eq!(asked(applicant("::ffff:127.0.0.1")), Method::Trust);
        let with_password = Applicant {
            has_password: true,
            ..visitor
        };
        assert_eq!(asked(with_password), Method::Scram);
        let closed = Applicant {
            open: false,
            ..visitor
        };
        assert_eq!(asked(closed), Method::Scram);
    }

    #[test]
    fn others_need_tls_and_a_password() {
        let other = applicant("10.1.2.3");
        assert_eq!(Rules::Default.method(&other), Some(Method::Reject));
        let with_tls = Applicant { tls: true, ..other };
        assert_eq!(Rules::Default.method(&with_tls), Some(Method::Scram));
        assert_eq!(Rules::Insecure.method(&other), Some(Method::Trust));
    }
}
