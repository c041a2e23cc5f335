//! How connections are secured: certificates between machines, and a secret that clients share.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, value_parser};
use coeval_env::fs;
use coeval_epoch::client::{Access, Role, Secret};
use coeval_peers::{NodeId, Pem, Security, Tls};

use super::Failure;

const TLS: [(&str, &str); 3] = [
    ("tls-authority-file", "The cluster's authority"),
    ("tls-certificate-file", "The certificate, as node-N.NAME"),
    ("tls-key-file", "Its key"),
];

/// The arguments, the same for nodes and clients.
pub(super) fn arguments() -> Vec<Arg> {
    let file = |name: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
    };
    let tls = TLS.map(|(name, help)| file(name).requires("cluster-name").help(help));
    let name = Arg::new("cluster-name")
        .long("cluster-name")
        .value_name("NAME")
        .requires(TLS[0].0)
        .requires(TLS[1].0)
        .requires(TLS[2].0)
        .help("The cluster's name in certificates");
    let secret = file("secret-file").help(
        "A file with the secret that nodes and clients share: 16 bytes or more, drawn at random",
    );
    tls.into_iter().chain([name, secret]).collect()
}

/// As which role a client comes in.
pub(super) fn role_argument() -> Arg {
    Arg::new("role")
        .long("role")
        .value_name("NAME")
        .help("The role as which to come in, whose secret is in the secret file")
}

/// The roles that a node lets in.
pub(super) fn access_argument() -> Arg {
    Arg::new("access-file")
        .long("access-file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help(
            "Roles of clients, a line each: NAME put|get|put,get secret SECRET|certificate N. Who \
             has none needs the secret of --secret-file, and may do everything",
        )
}

/// The roles of an access file.
pub(super) async fn roles(matches: &ArgMatches) -> Result<Vec<Role>, Failure> {
    let Some(path) = matches.get_one::<PathBuf>("access-file") else {
        return Ok(Vec::new());
    };
    let bytes = read(path).await?;
    let wrong = |why: &dyn std::fmt::Display| Failure::new(1, format!("{}: {why}", path.display()));
    let text = std::str::from_utf8(&bytes).map_err(|error| wrong(&error))?;
    let roles = Access::read(text).map_err(|error| wrong(&error))?;
    match roles.is_empty() {
        true => Err(wrong(&"it has no role")),
        false => Ok(roles),
    }
}

/// As which node a client's certificate names it.
pub(super) fn client_argument() -> Arg {
    Arg::new("as")
        .long("as")
        .value_name("N")
        .value_parser(value_parser!(u64))
        .requires("cluster-name")
        .help("The number in this client's certificate, which is no node's")
}

async fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = fs::read(path).await;
    read.map_err(|error| Failure::new(1, format!("cannot read {}: {error}", path.display())))
}

/// How connections are secured, for a node or a client of this number.
pub(super) async fn security(matches: &ArgMatches, own: NodeId) -> Result<Security, Failure> {
    let Some(name) = matches.get_one::<String>("cluster-name") else {
        return Ok(Security::Plain);
    };
    let mut files = Vec::new();
    for (argument, _) in TLS {
        let path = matches.get_one::<PathBuf>(argument);
        let path = path.ok_or_else(|| Failure::new(2, format!("--{argument} is missing")))?;
        files.push(read(path).await?);
    }
    let pem = Pem {
        authority: &files[0],
        certificate: &files[1],
        key: &files[2],
    };
    let tls = Tls::new(pem, name, own).map_err(|error| Failure::new(1, error))?;
    Ok(Security::Tls(tls))
}

/// The secret, without the line's end that an editor leaves.
pub(super) async fn secret(matches: &ArgMatches) -> Result<Option<Secret>, Failure> {
    let Some(path) = matches.get_one::<PathBuf>("secret-file") else {
        return Ok(None);
    };
    let bytes = read(path).await?;
    let secret = Secret::new(bytes.trim_ascii_end());
    let secret = secret.map_err(|error| format!("{}: {error}", path.display()));
    secret.map(Some).map_err(|error| Failure::new(1, error))
}
