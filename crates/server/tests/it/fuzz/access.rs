//! The fuzz target `access`: arbitrary text as a host-based access file.
//!
//! The parser refuses the file with the line that is invalid, or it has an answer for
//! every client. When no line is reported as careless, no client of another machine is
//! let in without authentication.

use std::net::IpAddr;
use std::path::Path;

use coeval_server::consult;

/// The client's address, and whether it is of this machine.
const ADDRESSES: &[(&str, bool)] = &[
    ("127.0.0.1", true),
    ("::1", true),
    ("::ffff:127.0.0.1", true),
    ("10.1.2.3", false),
    ("192.168.0.255", false),
    ("::ffff:10.1.2.3", false),
    ("2001:db8::7", false),
    ("0.0.0.0", false),
    ("255.255.255.255", false),
];
/// User and database.
const NAMES: &[(&str, &str)] = &[
    ("ada", "bank"),
    ("bank", "bank"),
    ("all", "sameuser"),
    ("a,b", ""),
];

/// One input.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let path = Path::new("access.conf");
    for (address, here) in ADDRESSES {
        let address: IpAddr = address.parse().expect("an address");
        for tls in [false, true] {
            for names in NAMES {
                match consult(path, text, (address, tls), *names) {
                    Err(error) => {
                        let said = error.to_string();
                        assert!(said.starts_with("access.conf, line "), "{said}");
                        return;
                    }
                    Ok(consulted) => {
                        let trusted = consulted.asked == Some("trust");
                        assert!(
                            *here || !trusted || consulted.careless_line.is_some(),
                            "{address} is let in as {names:?}"
                        );
                        if let Some(line) = consulted.careless_line {
                            assert!(line <= text.lines().count());
                        }
                    }
                }
            }
        }
    }
}
