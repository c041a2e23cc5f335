//! Who may do what on a cluster: roles, each with its rights and the secret or the certificate by which
//! its clients are known.
//!
//! ```text
//!   # role    may       is known by
//!   app       put,get   secret 2f6c0e7f9b1d4c8aa5d0
//!   reports   get       secret 91b7d3a40c5e4f17b2c6
//!   backup    get       certificate 101
//! ```
//!
//! A client that names no role is known by its certificate, if a role has that, or else by the
//! cluster's secret, with which all is allowed; where there are roles and no such secret it is not let in.

use std::str::FromStr;

use coeval_peers::NodeId;

use super::login::{MOST_NAME, Secret};

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Write keys.
    pub put: bool,
    /// Read keys, take backups.
    pub get: bool,
}

impl Rights {
    /// All of them.
    pub const ALL: Self = Self {
        put: true,
        get: true,
    };
}

/// By what a role's clients are known.
#[derive(Clone, Debug)]
pub enum KnownBy {
    /// They name the role, and prove that they know its secret.
    Secret(Secret),
    /// Their certificate is of this number.
    Certificate(NodeId),
}

/// A role. See the module.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub rights: Rights,
    /// By what it is known.
    pub known_by: KnownBy,
}

/// A line of an access file is no role's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct NotARole {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Who may come in, and what they may do then.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The roles.
    pub roles: Vec<Role>,
    /// The cluster's secret, with which a client may do everything.
    pub secret: Option<Secret>,
}

/// What a client has to prove, and what it may do then.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) rights: Rights,
    /// What it has to know; `None` for who is let in without.
    pub(crate) secret: Option<Secret>,
}

impl Access {
    /// The roles of an access file: one a line, empty lines and words from one with a `#` before it on
    /// left out.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn read(text: &str) -> Result<Vec<Role>, NotARole> {
        let mut roles: Vec<Role> = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let text = without_comment(text);
            if text.is_empty() {
                continue;
            }
            let line = index + 1;
            let role = Role::from_str(text);
            let role = role.map_err(|reason| NotARole { line, reason })?;
            if roles.iter().any(|other| other.name == role.name) {
                let reason = "the role has another line";
                return Err(NotARole { line, reason });
            }
            roles.push(role);
        }
        Ok(roles)
    }

    /// How a client comes in that names this role (`""` for none) and shows these certificates.
    /// `None` for one that cannot.
    pub(crate) fn entry(&self, name: &str, shows: impl Fn(NodeId) -> bool) -> Option<Entry> {
        if !name.is_empty() {
            let role = self.roles.iter().find(|role| role.name == name)?;
            return match &role.known_by {
                KnownBy::Secret(secret) => Some(Entry {
                    rights: role.rights,
                    secret: Some(secret.clone()),
                }),
                KnownBy::Certificate(number) => shows(*number).then_some(Entry {
                    rights: role.rights,
                    secret: None,
                }),
            };
        }
        let by_certificate = self.roles.iter().find(|role| match role.known_by {
            KnownBy::Certificate(number) => shows(number),
            KnownBy::Secret(_) => false,
        });
        if let Some(role) = by_certificate {
            return Some(Entry {
                rights: role.rights,
                secret: None,
            });
        }
        let is_open = self.roles.is_empty() || self.secret.is_some();
        is_open.then(|| Entry {
            rights: Rights::ALL,
            secret: self.secret.clone(),
        })
    }
}

/// A line up to the first word that begins with a `#`. A secret may have one within.
fn without_comment(line: &str) -> &str {
    let starts = line.char_indices().filter(|(at, character)| {
        *character == '#'
            && line[..*at]
                .chars()
                .next_back()
                .is_none_or(char::is_whitespace)
    });
    let end = starts.map(|(at, _)| at).next();
    line[..end.unwrap_or(line.len())].trim()
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Self, &'static str> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, rights, how, what] = words[..] else {
            return Err("a role is a name, rights, and secret or certificate with its value");
        };
        if name.len() > MOST_NAME {
            return Err("a role's name has 63 bytes at most");
        }
        let rights = match rights {
            "put" => Rights {
                get: false,
                ..Rights::ALL
            },
            "get" => Rights {
                put: false,
                ..Rights::ALL
            },
            "put,get" | "get,put" => Rights::ALL,
            _ => return Err("rights are put, get, or put,get"),
        };
        let known_by = match how {
            "secret" => {
                let secret = Secret::new(what.as_bytes());
                KnownBy::Secret(secret.map_err(|_| "a secret has 16 bytes or more")?)
            }
            "certificate" => {
                let number = what.parse().map_err(|_| "a certificate has a number")?;
                KnownBy::Certificate(NodeId(number))
            }
            _ => return Err("a role is known by a secret or a certificate"),
        };
        Ok(Self {
            name: name.to_owned(),
            rights,
            known_by,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
        # role    may       is known by\n\
        app       put,get   secret 2f6c0e7f9b1d4c8aa5d0\n\
        \n\
        reports   get       secret 91b7d3a40c5e4f17b2c6   # of sales\n\
        backup    get       certificate 101\n";

    #[test]
    fn a_role_is_a_line() {
        let roles = Access::read(FILE).unwrap();
        let shown = roles.iter().map(|role| {
            let Rights { put, get } = role.rights;
            (role.name.as_str(), put, get)
        });
        let shown: Vec<_> = shown.collect();
        assert_eq!(
            shown,
            [
                ("app", true, true),
                ("reports", false, true),
                ("backup", false, true)
            ]
        );
        for (line, reason) in [
            ("app", "a role is a name"),
            ("app all secret 0123456789abcdef", "rights are"),
            ("app get secret short", "16 bytes"),
            ("app get certificate x", "has a number"),
            ("app get password 0123456789abcdef", "is known by"),
        ] {
            let refused = Access::read(&format!("\n{line}\n")).unwrap_err();
            assert_eq!(refused.line, 2);
            assert!(refused.reason.contains(reason), "{refused}");
        }
        let twice = format!("{FILE}app get certificate 7\n");
        assert_eq!(Access::read(&twice).unwrap_err().line, 6);
    }

    #[test]
    fn who_comes_in_how() {
        let secret = || Some(Secret::new(b"the cluster's secret").unwrap());
        let access = |secret| Access {
            roles: Access::read(FILE).unwrap(),
            secret,
        };
        let rights = |access: &Access, name: &str, certificate: u64| {
            let entry = access.entry(name, |number| number == NodeId(certificate));
            entry.map(|entry| (entry.rights.put, entry.secret.is_some()))
        };
        let none = access(None);
        assert_eq!(rights(&none, "app", 0), Some((true, true)));
        assert_eq!(rights(&none, "reports", 0), Some((false, true)));
        assert_eq!(rights(&none, "backup", 0), None, "by its certificate");
        assert_eq!(rights(&none, "backup", 101), Some((false, false)));
        assert_eq!(rights(&none, "", 101), Some((false, false)));
        assert_eq!(rights(&none, "", 0), None, "there are roles");
        assert_eq!(rights(&none, "stranger", 101), None);
        let open = access(secret());
        assert_eq!(rights(&open, "", 0), Some((true, true)));
        assert_eq!(rights(&open, "", 101), Some((false, false)));
        assert_eq!(rights(&Access::default(), "", 0), Some((true, false)));
    }
}
