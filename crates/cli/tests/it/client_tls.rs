//! The commands that talk to a server, through TLS: whom they trust.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;

use coeval_server::{Server, Settings, Storage};
use coeval_testkit::server::{settings, with_server, with_settings};
use coeval_testkit::wire::Wire;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::process::Command;

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

/// Two authorities, and what the first has signed for `localhost`.
struct Authorities {
    folder: tempfile::TempDir,
}

impl Authorities {
    #[expect(clippy::disallowed_methods, reason = "a test writes its files")]
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let authority = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            let own = &mut params.distinguished_name;
            own.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            write(name, params.self_signed(&key).unwrap().pem());
            Issuer::new(params, key)
        };
        let trusted = authority("trusted.pem");
        authority("other.pem");
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        write(
            "server.pem",
            params.signed_by(&key, &trusted).unwrap().pem(),
        );
        write("server.key", key.serialize_pem());
        write("hba.conf", "hostssl all all all trust\n".to_owned());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server with that certificate, which lets no client in without TLS.
    fn settings(&self) -> Settings {
        let mut settings = settings();
        settings.tls_certificate_file.0 = Some(self.path("server.pem"));
        settings.tls_key_file.0 = Some(self.path("server.key"));
        settings.hba_file.0 = Some(self.path("hba.conf"));
        settings
    }
}

/// Runs the binary in an environment that says nothing of TLS.
async fn coeval(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(COEVAL);
    command
        .args(arguments)
        .env("HOME", home)
        .env_remove("PGSSLMODE")
        .env_remove("PGSSLROOTCERT")
        .env_remove("PGPASSWORD")
        .kill_on_drop(true);
    command.output().await.unwrap()
}

/// The result of a query over this URL; the error, if it fails.
async fn select(home: &Path, url: &str) -> Result<(), String> {
    let output = coeval(home, &["sql", url, "-c", "select 'let ' || 'in'"]).await;
    if String::from_utf8_lossy(&output.stdout).contains("let in") {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn url(host: &str, address: SocketAddr, parameters: &str) -> String {
    format!(
        "postgres://coeval@{host}:{}/bank?{parameters}",
        address.port()
    )
}

#[test]
fn only_whom_the_mode_says_is_trusted() {
    let authorities = Authorities::new();
    with_settings(authorities.settings(), |server| {
        let (address, authorities) = (server.address(), &authorities);
        async move {
            let home = authorities.folder.path();
            let roots = |name: &str| format!("sslrootcert={}", authorities.path(name).display());
            let (trusted, other) = (roots("trusted.pem"), roots("other.pem"));
            for (host, parameters) in [
                ("localhost", String::new()),
                ("127.0.0.1", "sslmode=prefer".to_owned()),
                ("127.0.0.1", "sslmode=require".to_owned()),
                ("127.0.0.1", format!("sslmode=require&{trusted}")),
                ("127.0.0.1", format!("sslmode=verify-ca&{trusted}")),
                ("localhost", format!("sslmode=verify-full&{trusted}")),
                // It is looked at when that is asked for, and not before.
                ("localhost", format!("sslmode=prefer&{other}")),
            ] {
                let let_in = select(home, &url(host, address, &parameters)).await;
                assert_eq!(let_in, Ok(()), "{host} {parameters}");
            }
            for (host, parameters, why) in [
                ("localhost", "sslmode=disable".to_owned(), "28000"),
                (
                    "127.0.0.1",
                    format!("sslmode=verify-full&{trusted}"),
                    "not valid for name",
                ),
                (
                    "localhost",
                    format!("sslmode=verify-full&{other}"),
                    "UnknownIssuer",
                ),
                (
                    "localhost",
                    format!("sslmode=verify-ca&{other}"),
                    "UnknownIssuer",
                ),
                (
                    "localhost",
                    format!("sslmode=require&{other}"),
                    "UnknownIssuer",
                ),
                (
                    "localhost",
                    "sslmode=verify-full".to_owned(),
                    "sslrootcert=FILE",
                ),
                (
                    "localhost",
                    "sslmode=verify-ca&sslrootcert=system".to_owned(),
                    "wants sslmode=verify-full",
                ),
                (
                    "localhost",
                    format!("sslmode=verify-full&{}", roots("hba.conf")),
                    "no certificate in it",
                ),
                ("localhost", "sslmode=sometimes".to_owned(), "none of"),
            ] {
                let refused = select(home, &url(host, address, &parameters)).await;
                let complaint = refused.expect_err(&parameters);
                assert!(complaint.contains(why), "{parameters}: {complaint}");
            }
            // The other commands go the same way.
            let full = url(
                "localhost",
                address,
                &format!("sslmode=verify-full&{trusted}"),
            );
            let wrong = url(
                "localhost",
                address,
                &format!("sslmode=verify-full&{other}"),
            );
            for command in ["dump", "status"] {
                let good = coeval(home, &[command, "--url", &full]).await;
                assert!(good.status.success(), "{command}: {good:?}");
                let refused = coeval(home, &[command, "--url", &wrong]).await;
                assert_eq!(refused.status.code(), Some(1), "{command}");
            }
            let copy = authorities.path("copy");
            let backup = ["backup", "--to", copy.to_str().unwrap(), "--url", &wrong];
            let refused = coeval(home, &backup).await;
            let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(complaint.contains("UnknownIssuer"), "{complaint}");
        }
    });
}

#[test]
fn a_backup_over_tls_is_restored() {
    let authorities = Authorities::new();
    let path = |name: &str| authorities.path(name).to_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let with_tls = Settings {
            data_dir: authorities.path("data"),
            ..authorities.settings()
        };
        let server = Server::start(with_tls, Storage::Directory).await.unwrap();
        let home = authorities.folder.path();
        let parameters = format!("sslmode=verify-full&sslrootcert={}", path("trusted.pem"));
        let url = url("localhost", server.address(), &parameters);
        let make = "create table t (id int primary key, wide text); \
                    insert into t select n, repeat('x', 1000) from generate_series(1, 2000) as g (n); \
                    checkpoint; insert into t values (0, 'behind it')";
        let made = coeval(home, &["sql", &url, "-c", make]).await;
        assert!(made.status.success(), "{made:?}");
        let taken = coeval(home, &["backup", "--to", &path("backup"), "--url", &url]).await;
        assert!(taken.status.success(), "{taken:?}");
        server.stop().await;

        let (from, to) = (path("backup"), path("restored"));
        let restored = coeval(home, &["restore", "--from", &from, "--data-dir", &to]).await;
        assert!(restored.status.success(), "{restored:?}");
        let restored = Settings {
            data_dir: authorities.path("restored"),
            ..settings()
        };
        let server = Server::start(restored, Storage::Directory).await.unwrap();
        let mut wire = Wire::connect(server.address()).await;
        let rows = wire
            .rows("select count(*), sum(length(wide)), min(wide) from t")
            .await;
        let expected = ["2001", "2000009", "behind it"].map(|text| Some(text.to_owned()));
        assert_eq!(rows, [expected]);
        drop(wire);
        server.stop().await;
    });
}

#[test]
fn passwords_are_bound_to_the_channel() {
    let authorities = Authorities::new();
    let mut settings = authorities.settings();
    settings.hba_file.0 = None;
    with_settings(settings, |server| {
        let (address, authorities) = (server.address(), &authorities);
        async move {
            let home = authorities.folder.path();
            let mut wire = Wire::connect(address).await;
            wire.rows("create role app login superuser password 'secret'")
                .await;
            let at = |parameters: &str| {
                let port = address.port();
                format!("postgres://app:secret@localhost:{port}/bank?{parameters}")
            };
            let bound = at("sslmode=require&channel_binding=require");
            assert_eq!(select(home, &bound).await, Ok(()));
            let unbound = at("sslmode=disable&channel_binding=require");
            let complaint = select(home, &unbound).await.unwrap_err();
            assert!(!complaint.contains("secret"), "{complaint}");
        }
    });
}

#[test]
fn a_server_without_tls_is_preferred_not_required() {
    with_server(|address| async move {
        let home = tempfile::tempdir().unwrap();
        let at = |parameters: &str| url("localhost", address, parameters);
        for parameters in ["", "sslmode=prefer", "sslmode=disable"] {
            assert_eq!(
                select(home.path(), &at(parameters)).await,
                Ok(()),
                "{parameters}"
            );
        }
        let refused = select(home.path(), &at("sslmode=require")).await;
        assert!(refused.is_err());
    });
}
