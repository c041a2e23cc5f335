//! The host-based access file, in the format of PostgreSQL's `pg_hba.conf`.
//!
//! A line is a rule; `#` begins a comment; a backslash at the end of a line joins the
//! next line to it. Blanks separate fields; commas separate the names in a field. Quotes
//! make a word plain: `"all"` is a role or database with the name `all`.
//!
//! A feature of PostgreSQL that Coeval lacks (other methods, host names, files of names)
//! is an error with its line, and so is every mistake: a rule that the server does not
//! understand might be the one that keeps a client out.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::rule::{Addresses, Connection, Method, Name, Rule};

/// A file that cannot be read, or a line of it that is no valid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", .path.display(), .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct FileError {
    path: PathBuf,
    line: Option<usize>,
    reason: String,
}

impl FileError {
    pub(super) fn new(path: &Path, line: usize, reason: String) -> Self {
        Self {
            path: path.to_owned(),
            line: Some(line),
            reason,
        }
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            reason: error.to_string(),
        }
    }
}

/// A word of a line, and whether it was in quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

impl Word {
    /// Whether this is the given keyword, unquoted, and so has the keyword's meaning.
    fn is(&self, word: &str) -> bool {
        !self.quoted && self.text == word
    }
}

/// A field: words with commas between them.
type Field = Vec<Word>;

/// Reads the rules of a file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<Rule>, FileError> {
    let mut rules = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let mut whole = line.to_owned();
        while whole.ends_with('\\')
            && let Some((next, _)) = lines.next()
        {
            whole.pop();
            whole.push_str(next);
        }
        let refuse = |reason: String| FileError::new(path, number, reason);
        let fields = fields(&whole).map_err(refuse)?;
        if !fields.is_empty() {
            rules.push(rule(number, &fields).map_err(refuse)?);
        }
    }
    Ok(rules)
}

/// Cuts a line into its fields.
fn fields(line: &str) -> Result<Vec<Field>, String> {
    let mut fields: Vec<Field> = Vec::new();
    let mut characters = line.chars().peekable();
    // Whether the next word belongs to the field before it, because a comma joins them.
    let mut joined = false;
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        match characters.peek() {
            None | Some('#') => break,
            Some(',') => {
                characters.next();
                if fields.is_empty() || joined {
                    return Err("a comma stands where a name is expected".to_owned());
                }
                joined = true;
                continue;
            }
            Some(_) => {}
        }
        let word = word(&mut characters)?;
        match fields.last_mut() {
            Some(field) if joined => field.push(word),
            _ => fields.push(vec![word]),
        }
        joined = false;
    }
    if joined {
        return Err("a name is expected behind the comma".to_owned());
    }
    Ok(fields)
}

fn word(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Word, String> {
    let mut text = String::new();
    let mut quoted = false;
    while let Some(&character) = characters.peek() {
        match character {
            '"' => {
                characters.next();
                // Only a word whose quote is its first character is plain.
                quoted |= text.is_empty();
                loop {
                    match characters.next() {
                        None => return Err("a quote has no end".to_owned()),
                        Some('"') if characters.next_if_eq(&'"').is_none() => break,
                        Some(inside) => text.push(inside),
                    }
                }
            }
            ',' | '#' => break,
            blank if blank.is_whitespace() => break,
            other => {
                characters.next();
                text.push(other);
            }
        }
    }
    Ok(Word { text, quoted })
}

fn rule(line: usize, fields: &[Field]) -> Result<Rule, String> {
    let mut fields = fields.iter();
    let mut next = |what: &str| fields.next().ok_or_else(|| format!("{what} is missing"));
    let connection = match single(next("the connection type")?)?.text.as_str() {
        "host" => Connection::Host,
        "hostssl" => Connection::WithTls,
        "hostnossl" => Connection::WithoutTls,
        "local" => Connection::Local,
        "hostgssenc" | "hostnogssenc" => {
            return Err("GSSAPI encryption is not supported".to_owned());
        }
        other => {
            return Err(format!(
                "{other:?} is none of host, hostssl, hostnossl, local"
            ));
        }
    };
    let databases = next("the database")?.iter().map(database);
    let databases = databases.collect::<Result<Vec<Name>, String>>()?;
    let users = next("the user")?.iter().map(user);
    let users = users.collect::<Result<Vec<Name>, String>>()?;
    let mut addresses = match connection {
        Connection::Local => Addresses::All,
        _ => address(single(next("the address")?)?)?,
    };
    let mut method = single(next("the method")?)?;
    // An address may be followed by a mask of its own.
    if let Ok(mask) = method.text.parse::<IpAddr>() {
        addresses = with_mask(addresses, mask)?;
        method = single(next("the method")?)?;
    }
    let method = self::method(method)?;
    if let Some(option) = fields.next() {
        let option = option.first().map_or("", |word| &word.text);
        return Err(format!("the option {option:?} is not supported"));
    }
    Ok(Rule {
        line,
        connection,
        databases,
        users,
        addresses,
        method,
    })
}

fn single(field: &Field) -> Result<&Word, String> {
    match field.as_slice() {
        [word] => Ok(word),
        _ => Err("only names can be several with commas between them".to_owned()),
    }
}

fn database(word: &Word) -> Result<Name, String> {
    let plain = plain_name(word)?;
    Ok(if word.is("all") {
        Name::All
    } else if word.is("sameuser") {
        Name::SameUser
    } else if word.is("samerole") || word.is("samegroup") {
        Name::SameRole
    } else if word.is("replication") {
        // No session of Coeval uses the database `replication`: the name matches none.
        Name::Exactly(String::new())
    } else {
        Name::Exactly(plain.to_owned())
    })
}

fn user(word: &Word) -> Result<Name, String> {
    let plain = plain_name(word)?;
    Ok(match plain.strip_prefix('+') {
        _ if word.is("all") => Name::All,
        Some(group) if !word.quoted => Name::Group(group.to_owned()),
        _ => Name::Exactly(plain.to_owned()),
    })
}

fn plain_name(word: &Word) -> Result<&str, String> {
    if !word.quoted && word.text.starts_with('@') {
        return Err("names from another file are not supported".to_owned());
    }
    if !word.quoted && word.text.starts_with('/') {
        return Err("regular expressions for names are not supported".to_owned());
    }
    Ok(&word.text)
}

fn address(word: &Word) -> Result<Addresses, String> {
    if word.is("all") {
        return Ok(Addresses::All);
    }
    if word.is("samehost") {
        return Ok(Addresses::Loopback);
    }
    if word.is("samenet") {
        return Err("samenet is not supported; write the network, as 10.0.0.0/8".to_owned());
    }
    let (text, bits) = match word.text.split_once('/') {
        Some((text, bits)) => (text, Some(bits)),
        None => (word.text.as_str(), None),
    };
    let Ok(address) = text.parse::<IpAddr>() else {
        return Err(format!(
            "{:?} is no address; host names are not supported",
            word.text
        ));
    };
    let bits = match bits {
        None => None,
        Some(bits) => Some(bits.parse().map_err(|_| no_mask(&word.text))?),
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    Addresses::network(address, bits.unwrap_or(width)).ok_or_else(|| no_mask(&word.text))
}

fn no_mask(text: &str) -> String {
    format!("{text:?} has no such number of bits")
}

/// The same addresses, with as many significant bits as the mask has leading ones.
fn with_mask(addresses: Addresses, mask: IpAddr) -> Result<Addresses, String> {
    let ones = match mask {
        IpAddr::V4(mask) => {
            let bits = mask.to_bits();
            (bits.leading_ones() == bits.count_ones()).then(|| bits.count_ones())
        }
        IpAddr::V6(mask) => {
            let bits = mask.to_bits();
            (bits.leading_ones() == bits.count_ones()).then(|| bits.count_ones())
        }
    };
    match (addresses, ones) {
        (Addresses::Network { address, bits }, Some(ones))
            if address.is_ipv4() == mask.is_ipv4() && matches!(bits, 32 | 128) =>
        {
            Addresses::network(address, ones).ok_or_else(|| no_mask(&mask.to_string()))
        }
        _ => Err(format!("{mask} is no mask for the address before it")),
    }
}

fn method(word: &Word) -> Result<Method, String> {
    Ok(match word.text.as_str() {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" => Method::Scram,
        "md5" | "password" => {
            return Err(format!(
                "the method {} is not supported, because it is not safe; write scram-sha-256",
                word.text
            ));
        }
        "gss" | "sspi" | "ident" | "peer" | "ldap" | "radius" | "cert" | "pam" | "bsd" => {
            return Err(format!("the method {} is not supported", word.text));
        }
        other => {
            return Err(format!("{other:?} is none of trust, reject, scram-sha-256"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Applicant, Rules};
    use super::*;

    fn rules(text: &str) -> Result<Rules, String> {
        let parsed = parse(Path::new("hba"), text).map(Rules::File);
        parsed.map_err(|error| error.to_string())
    }

    fn applicant<'a>(address: &str, user: &'a str) -> Applicant<'a> {
        Applicant {
            address: address.parse().unwrap(),
            tls: false,
            user,
            database: "bank",
            groups: &[],
            has_password: true,
            open: false,
        }
    }

    #[test]
    fn the_first_line_that_fits_decides() {
        let rules = rules(
            "# comment\n\
             host all mallory all reject\n\
             \n\
             hostssl all all 10.0.0.0/8 scram-sha-256   # others\n\
             host bank,\"all\" ada, bob 127.0.0.1/32 \\\n    trust\n\
             host all +staff ::1/128 scram-sha-256\n\
             host all all 192.168.7.0 255.255.255.0 scram-sha-256\n\
             local all all trust\n",
        )
        .unwrap();
        let method = |applicant: &Applicant<'_>| rules.method(applicant);
        assert_eq!(
            method(&applicant("10.1.1.1", "mallory")),
            Some(Method::Reject)
        );
        assert_eq!(method(&applicant("10.1.1.1", "ada")), None, "without TLS");
        let with_tls = Applicant {
            tls: true,
            ..applicant("10.1.1.1", "ada")
        };
        assert_eq!(method(&with_tls), Some(Method::Scram));
        assert_eq!(method(&applicant("127.0.0.1", "bob")), Some(Method::Trust));
        assert_eq!(method(&applicant("127.0.0.2", "bob")), None);
        assert_eq!(
            method(&applicant("::ffff:127.0.0.1", "bob")),
            Some(Method::Trust)
        );
        let elsewhere = Applicant {
            database: "other",
            ..applicant("127.0.0.1", "bob")
        };
        assert_eq!(method(&elsewhere), None);
        let groups = ["eve".to_owned(), "staff".to_owned()];
        let member = Applicant {
            groups: &groups,
            ..applicant("::1", "eve")
        };
        assert_eq!(method(&member), Some(Method::Scram));
        assert_eq!(method(&applicant("::1", "eve")), None);
        assert_eq!(
            method(&applicant("192.168.7.200", "eve")),
            Some(Method::Scram)
        );
        assert_eq!(method(&applicant("192.168.8.200", "eve")), None);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            (
                "\n\nhostile all all all trust",
                "hba, line 3: \"hostile\" is none of",
            ),
            ("host", "hba, line 1: the database is missing"),
            ("host all all", "hba, line 1: the address is missing"),
            ("host all all all", "hba, line 1: the method is missing"),
            ("host all all 10.0.0.0/33 trust", "no such number of bits"),
            ("host all all 10.0.0.0/x trust", "no such number of bits"),
            ("host all all 10.0.0.0 255.0.255.0 trust", "is no mask"),
            ("host all all 10.0.0.0/8 255.0.0.0 trust", "is no mask"),
            ("host all all ::1 255.0.0.0 trust", "is no mask"),
            (
                "host all all example.org trust",
                "host names are not supported",
            ),
            ("host all all all md5", "write scram-sha-256"),
            ("host all all all ldap", "the method ldap is not supported"),
            ("host all all all trsut", "\"trsut\" is none of"),
            ("host all all all trust map=x", "option \"map=x\""),
            ("host all @admins all trust", "names from another file"),
            ("host all \"ada all trust", "a quote has no end"),
            ("host all ,,all all trust", "a comma stands"),
            ("host all all, ", "behind the comma"),
            (
                "host all all all,10.0.0.0/8 trust",
                "only names can be several",
            ),
            ("host all all all trust\nhost \\\n\\\nx", "hba, line 2:"),
        ] {
            let error = rules(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn quotes_make_a_word_plain() {
        let rules = rules("host all \"all\",\"+x\",\"a\"\"b c\" all trust").unwrap();
        for (user, fits) in [
            ("all", true),
            ("+x", true),
            ("a\"b c", true),
            ("ada", false),
        ] {
            let found = rules.method(&applicant("127.0.0.1", user));
            assert_eq!(found.is_some(), fits, "{user}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in r#"([a-z0-9 ,"/\\#\n\t+@.:*-]|host|all|trust|127\.0\.0\.1|::1/|\PC){0,60}"#,
        ) {
            let _ = rules(&text);
        }

        #[test]
        fn every_network_has_its_own_addresses(address: std::net::IpAddr, bits in 0u32..140) {
            let text = format!("host all all {address}/{bits} reject");
            let width = if address.is_ipv4() { 32 } else { 128 };
            match rules(&text) {
                Ok(rules) => {
                    let found = rules.method(&applicant(&address.to_string(), "ada"));
                    // An IPv4-mapped IPv6 address matches rules as the IPv4 address that
                    // it contains.
                    if address == address.to_canonical() {
                        proptest::prop_assert_eq!(found, Some(Method::Reject));
                    }
                }
                Err(_) => proptest::prop_assert!(bits > width),
            }
        }
    }

    #[test]
    fn trust_for_other_machines_is_found() {
        for (text, line) in [
            ("host all all 127.0.0.1/32 trust", None),
            (
                "host all all 127.0.0.0/8 trust\nhost all all ::1/128 trust",
                None,
            ),
            ("host all all samehost trust\nlocal all all trust", None),
            (
                "host all all all scram-sha-256\nhost all all all trust",
                Some(2),
            ),
            ("host all all 127.0.0.0/7 trust", Some(1)),
            ("host all all ::/0 trust", Some(1)),
            ("hostssl all all 10.0.0.1 trust", Some(1)),
        ] {
            assert_eq!(rules(text).unwrap().careless_line(), line, "{text}");
        }
    }
}
