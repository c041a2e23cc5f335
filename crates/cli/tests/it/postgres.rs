//! A PostgreSQL of one's own, where its programs are installed.
#![expect(
    clippy::disallowed_methods,
    reason = "looks for programs that are no part of us"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coeval_workload::server::free_port;
use tempfile::TempDir;

/// A server that goes with the value.
pub struct Postgres {
    child: Child,
    port: u16,
    programs: PathBuf,
    _folder: TempDir,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of `initdb` and `postgres`: of the search path, or where Debian and
/// Fedora put them.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/pgsql/bin".into());
    for version in std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
    {
        folders.push(version.ok()?.path().join("bin"));
    }
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

/// PostgreSQL does not run as root; the user and the group that it may run as, if
/// this is.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let ids = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        (name == "postgres").then_some(ids)
    })
}

impl Postgres {
    /// Starts one with an empty database. `None`, and a note, when PostgreSQL is not
    /// installed.
    pub async fn start() -> Option<Self> {
        let found = programs();
        // CI installs it; elsewhere its absence is told and no failure.
        assert!(
            found.is_some() || std::env::var_os("CI").is_none(),
            "PostgreSQL is missing"
        );
        let Some(programs) = found else {
            println!("skipped: PostgreSQL is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let user = user();
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(folder.path()).stdin(Stdio::null());
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.path().join("data");
        let made = command("initdb")
            .args([
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-locale",
                "--no-sync",
            ])
            .arg("-D")
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let port = free_port().await.unwrap();
        let child = Self::spawn(command("postgres"), &data, folder.path(), port);
        let server = Self {
            child,
            port,
            programs: programs.clone(),
            _folder: folder,
        };
        server.ready().await;
        Some(server)
    }

    fn spawn(mut command: Command, data: &Path, folder: &Path, port: u16) -> Child {
        command
            .arg("-D")
            .arg(data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-F"])
            .arg("-k")
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    async fn ready(&self) {
        let answers = async {
            while tokio_postgres::connect(&self.url(), tokio_postgres::NoTls)
                .await
                .is_err()
            {
                coeval_env::sleep(Duration::from_millis(50)).await;
            }
        };
        let ready = coeval_env::timeout(Duration::from_secs(60), answers).await;
        ready.expect("PostgreSQL starts");
    }

    /// A program of the same version, where it stands beside the server's; else that of
    /// the search path.
    pub fn program(&self, name: &str) -> PathBuf {
        let beside = self.programs.join(name);
        if beside.exists() { beside } else { name.into() }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}
