//! `coeval cert`: an authority for a cluster, and certificates for its nodes.
//!
//! ```text
//!   authority.pem   every node has it         authority.key   only the signer has it
//!   node-3.pem      identifies node 3         node-3.key      node 3 proves its identity by it
//! ```
//!
//! An authority is as safe as its key: this one is a file. It suits a test or a private
//! cluster; an organisation with an authority makes the same certificates with its own
//! tools (docs/operations/secure.md lists the required contents).
//!
//! Before the command writes a certificate, it verifies it as another node would. It
//! overwrites an existing file only with `--force`.
#![expect(
    clippy::disallowed_methods,
    reason = "files with a mode, written by a command of its own and not by a server"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Datelike, Days, NaiveDate};
use coeval_peers::{NodeId, Pem, Tls, check_cluster_name, node_name};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::ServerName;

/// The name of an authority's files, without extension.
const AUTHORITY: &str = "authority";

/// The output directory, and whether files in it may be replaced.
pub(crate) struct CertificateFiles<'path> {
    pub(crate) directory: &'path Path,
    pub(crate) force: bool,
}

/// The contents of a node's certificate.
pub(crate) struct Node<'text> {
    pub(crate) cluster: &'text str,
    pub(crate) id: u64,
    /// Other names: host names and addresses by which clients know the node.
    pub(crate) names: &'text [String],
}

/// Makes an authority; returns a list of the files.
pub(crate) fn authority(
    cluster: &str,
    days: u32,
    place: &CertificateFiles<'_>,
) -> Result<String, String> {
    check_cluster_name(cluster).map_err(|error| error.to_string())?;
    let files = place.files(AUTHORITY)?;
    let key = new_key()?;
    let (params, until) = authority_params(cluster, days)?;
    let certificate = params
        .self_signed(&key)
        .map_err(|error| error.to_string())?;
    files.write(&certificate.pem(), &key.serialize_pem())?;
    let mut said = String::new();
    let _ = writeln!(
        said,
        "{}  the authority of cluster {cluster}, until {until}: every node needs it",
        files.certificate.display()
    );
    let _ = write!(
        said,
        "{}  its key, which signs certificates of nodes: keep it off them",
        files.key.display()
    );
    Ok(said)
}

/// Makes a node's certificate, signed by the authority in a directory; returns a list of
/// the files.
pub(crate) fn node(
    node: &Node<'_>,
    days: u32,
    authority: &Path,
    place: &CertificateFiles<'_>,
) -> Result<String, String> {
    check_cluster_name(node.cluster).map_err(|error| error.to_string())?;
    let files = place.files(&format!("node-{}", node.id))?;
    let read = |name: &str| {
        let path = authority.join(name);
        let text = std::fs::read_to_string(&path);
        text.map_err(|error| {
            format!(
                "cannot read {}: {error}; `coeval cert authority` makes it",
                path.display()
            )
        })
    };
    let authority_pem = read(&format!("{AUTHORITY}.pem"))?;
    let authority_key =
        KeyPair::from_pem(&read(&format!("{AUTHORITY}.key"))?).map_err(|error| {
            let path = authority.join(format!("{AUTHORITY}.key"));
            format!("{}: {error}", path.display())
        })?;
    // A signed certificate contains only the authority's name and key, so the validity
    // given here does not matter.
    let (of_authority, _) = authority_params(node.cluster, 1)?;
    let issuer = Issuer::new(of_authority, authority_key);

    let key = new_key()?;
    let (params, until) = node_params(node, days)?;
    let made = params.signed_by(&key, &issuer);
    let certificate = made.map_err(|error| error.to_string())?.pem();
    let key = key.serialize_pem();
    let pem = Pem {
        authority: authority_pem.as_bytes(),
        certificate: certificate.as_bytes(),
        key: key.as_bytes(),
    };
    Tls::new(pem, node.cluster, NodeId(node.id)).map_err(|error| {
        format!(
            "the authority in {} is not that of a cluster {}, or its certificate and key do not \
             belong together: {error}",
            authority.display(),
            node.cluster
        )
    })?;
    files.write(&certificate, &key)?;
    let mut said = String::new();
    let _ = writeln!(
        said,
        "{}  the certificate of node {} of cluster {}, until {until}",
        files.certificate.display(),
        node.id,
        node.cluster
    );
    let _ = write!(
        said,
        "{}  its key: for that node alone",
        files.key.display()
    );
    Ok(said)
}

fn new_key() -> Result<KeyPair, String> {
    KeyPair::generate().map_err(|error| format!("cannot make a key: {error}"))
}

/// Sets the validity: from yesterday, for nodes whose clocks are late, until `days` days
/// from now.
fn set_dates(params: &mut CertificateParams, days: u32) -> Result<NaiveDate, String> {
    let seconds = i64::try_from(coeval_env::wall_clock().as_secs());
    let today = seconds
        .ok()
        .and_then(|now| DateTime::from_timestamp(now, 0));
    let today = today.ok_or("the clock shows no date")?.date_naive();
    let out_of_range = || format!("{days} days from now is no date");
    let first = today.checked_sub_days(Days::new(1));
    let first = first.ok_or_else(out_of_range)?;
    let last = today.checked_add_days(Days::new(days.into()));
    let last = last.filter(|last| last.year() < 4096);
    let last = last.ok_or_else(out_of_range)?;
    let date = |day: NaiveDate| date_time_ymd(day.year(), day.month() as u8, day.day() as u8);
    params.not_before = date(first);
    params.not_after = date(last);
    Ok(last)
}

fn set_name(params: &mut CertificateParams, name: String) {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
}

fn authority_params(cluster: &str, days: u32) -> Result<(CertificateParams, NaiveDate), String> {
    let mut params = CertificateParams::default();
    set_name(&mut params, format!("authority of cluster {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let until = set_dates(&mut params, days)?;
    Ok((params, until))
}

/// Whether a name is the cluster's name of another node.
fn is_other_node(name: &str, node: &Node<'_>) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let of_cluster = name.strip_suffix(&format!(".{}", node.cluster.to_ascii_lowercase()));
    let id = of_cluster.and_then(|first| first.strip_prefix("node-"));
    id.and_then(|id| id.parse().ok())
        .is_some_and(|id: u64| id != node.id)
}

fn node_params(node: &Node<'_>, days: u32) -> Result<(CertificateParams, NaiveDate), String> {
    let own = node_name(NodeId(node.id), node.cluster);
    let mut names = vec![own.clone()];
    for name in node.names {
        if ServerName::try_from(name.as_str()).is_err() {
            return Err(format!("{name:?} is neither a host name nor an address"));
        }
        if is_other_node(name, node) {
            return Err(format!(
                "{name} names another node of this cluster, which the owner of the certificate \
                 could pass for; leave it out, or make node {}'s own certificate",
                name.get("node-".len()..)
                    .and_then(|rest| rest.split('.').next())
                    .unwrap_or_default()
            ));
        }
        names.push(name.clone());
    }
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    set_name(&mut params, own);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    let until = set_dates(&mut params, days)?;
    Ok((params, until))
}

/// The files of a certificate and of its key.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    force: bool,
}

impl CertificateFiles<'_> {
    /// The files of this name; an error if one exists and may not be replaced.
    fn files(&self, name: &str) -> Result<Files, String> {
        let files = Files {
            certificate: self.directory.join(format!("{name}.pem")),
            key: self.directory.join(format!("{name}.key")),
            force: self.force,
        };
        for path in [&files.certificate, &files.key] {
            if !self.force && path.symlink_metadata().is_ok() {
                return Err(format!(
                    "{} is there already; say --force to replace it",
                    path.display()
                ));
            }
        }
        Ok(files)
    }
}

impl Files {
    fn write(&self, certificate: &str, key: &str) -> Result<(), String> {
        if let Some(directory) = self
            .key
            .parent()
            .filter(|path| !path.as_os_str().is_empty())
        {
            let mut builder = std::fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(directory);
            made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        }
        // The key is written first: a key without its certificate is useless, but a
        // certificate without its key would look complete.
        write_private(&self.key, key, self.force)?;
        write_private(&self.certificate, certificate, self.force)
    }
}

/// Writes a file that only its owner may read. To replace a file, writes a new one and
/// renames it, so that a reader finds the old or the new contents.
fn write_private(path: &Path, text: &str, force: bool) -> Result<(), String> {
    let first = if force {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let first = PathBuf::from(name);
        let _ = std::fs::remove_file(&first);
        first
    } else {
        path.to_owned()
    };
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&first)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        if force {
            std::fs::rename(&first, path)?;
        }
        Ok(())
    };
    write().map_err(|error: std::io::Error| format!("cannot write {}: {error}", path.display()))
}
