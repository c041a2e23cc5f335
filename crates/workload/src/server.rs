//! The server as a child process: a test or benchmark starts it, waits until it is ready,
//! and kills it.
//!
//! ```text
//! Launch ──start──> Server ──ready──> clients connect
//!    ▲                │ kill (SIGKILL, no warning) or stop (SIGTERM, politely)
//!    └────────────────┘ the same directory and port, again
//! ```
//!
//! The server's output goes to a file beside its data, and every error includes the end
//! of that file.
#![expect(
    clippy::disallowed_methods,
    reason = "starts and kills real processes that write to a real disk; nothing of it is simulated"
)]

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::faults::namespace::Namespace;
use coeval_env as env;
pub use coeval_env::free_port;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Longest time for a server to answer its first query, recovery included.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// Longest time for a server to stop after SIGTERM.
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
/// Interval between two polls of the server's state.
const POLL: Duration = Duration::from_millis(2);
/// How much of the server's output an error includes, in bytes.
const LOG_SHOWN: usize = 4_000;

/// Asks a node for the highest cluster version that its program reads.
pub const READS_VERSION: &str = "SELECT reads_version FROM coeval.cluster_members \
                                 WHERE node = (SELECT node FROM coeval.cluster_status)";

/// An error of the server process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started at all.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Path of the program.
        program: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The server exited by itself.
    #[error("the server ended by itself ({status}); it said:\n{log}")]
    Ended {
        /// Its exit status.
        status: ExitStatus,
        /// The end of its output.
        log: String,
    },
    /// The server neither answers nor exits.
    #[error("the server does not answer; it said:\n{log}")]
    Silent {
        /// The end of its output.
        log: String,
    },
    /// The server is still running although it received SIGTERM.
    #[error("the server does not stop on SIGTERM; it said:\n{log}")]
    Stays {
        /// The end of its output.
        log: String,
    },
    /// The build of the binary failed.
    #[error("the server does not build ({0})")]
    Build(ExitStatus),
    /// The server's directory, its output or a port is not accessible.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Whether the error is the server's fault, rather than the machine's or the test's.
    #[must_use]
    pub const fn is_the_servers(&self) -> bool {
        match self {
            Self::Ended { .. } | Self::Silent { .. } | Self::Stays { .. } => true,
            Self::Start { .. } | Self::Build(_) | Self::Io(_) => false,
        }
    }
}

/// How to start a server: always with the same directory and port.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Path of the server's program.
    pub program: PathBuf,
    /// Command-line arguments.
    pub arguments: Vec<String>,
    /// Address that the server listens on: loopback, except in a network namespace.
    pub host: IpAddr,
    /// TCP port that the server listens on.
    pub port: u16,
    /// File that receives the server's output.
    pub log: PathBuf,
    /// Directory of the server's checkpoints, if it is known.
    pub checkpoints: Option<PathBuf>,
    /// Environment variables of the server beside those of this process.
    pub environment: Vec<(String, OsString)>,
}

impl Launch {
    /// The `coeval` binary with its data in `folder`, which is created.
    pub fn coeval(binary: PathBuf, folder: &Path, port: u16) -> Result<Self, Error> {
        fs::create_dir_all(folder)?;
        let data = folder.join("data");
        Ok(Self {
            program: binary,
            arguments: vec![
                "start".to_owned(),
                "--data-dir".to_owned(),
                data.to_string_lossy().into_owned(),
                "--listen".to_owned(),
                format!("127.0.0.1:{port}"),
            ],
            host: Ipv4Addr::LOCALHOST.into(),
            port,
            log: folder.join("server.log"),
            checkpoints: Some(folder.join("data/checkpoints")),
            environment: Vec::new(),
        })
    }

    /// Adds `settings` to the command line, as pairs of name and value.
    #[must_use]
    pub fn with(mut self, settings: &[(&str, u64)]) -> Self {
        for (name, value) in settings {
            self.arguments.push(format!("--{name}"));
            self.arguments.push(value.to_string());
        }
        self
    }

    /// Moves the server into a network namespace, where it listens on the namespace's
    /// address and accepts any client.
    #[must_use]
    pub fn within(mut self, namespace: &Namespace) -> Self {
        self.host = namespace.server().into();
        let listen = self.arguments.iter().position(|word| word == "--listen");
        if let Some(address) = listen.and_then(|at| self.arguments.get_mut(at + 1)) {
            *address = format!("{}:{}", self.host, self.port);
            self.arguments.push("--insecure".to_owned());
        }
        let program = std::mem::replace(&mut self.program, PathBuf::from("ip"));
        let mut arguments: Vec<String> = ["netns", "exec", namespace.name()]
            .map(ToOwned::to_owned)
            .into();
        arguments.push(program.to_string_lossy().into_owned());
        arguments.append(&mut self.arguments);
        self.arguments = arguments;
        self
    }

    /// Names of the checkpoint files in the data directory, unfinished ones included.
    pub fn checkpoint_files(&self) -> Result<Vec<String>, Error> {
        let Some(folder) = &self.checkpoints else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    /// Starts a shell command in which `{folder}` and `{port}` are substituted. For
    /// trying a workload on any other server.
    pub fn shell(template: &str, folder: &Path, port: u16) -> Result<Self, Error> {
        fs::create_dir_all(folder)?;
        let command = template
            .replace("{folder}", &folder.to_string_lossy())
            .replace("{port}", &port.to_string());
        Ok(Self {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".to_owned(), command],
            host: Ipv4Addr::LOCALHOST.into(),
            port,
            log: folder.join("server.log"),
            checkpoints: None,
            environment: Vec::new(),
        })
    }

    /// Starts the server, in a process group of its own. Does not wait until it answers.
    pub fn start(&self) -> Result<Server, Error> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Start {
                program: self.program.display().to_string(),
                source,
            })?;
        Ok(Server {
            child,
            host: self.host,
            port: self.port,
            log: self.log.clone(),
        })
    }
}

/// A running server process. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    host: IpAddr,
    port: u16,
    log: PathBuf,
}

impl Server {
    /// Waits until the server answers a query, recovery included.
    pub async fn ready(&mut self) -> Result<crate::Connection, Error> {
        let started = env::now();
        while started.elapsed() < READY_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                return Err(Error::Ended {
                    status,
                    log: self.log_end(),
                });
            }
            if let Ok(connection) = crate::connect_to(self.host, self.port).await
                && connection.simple_query("SELECT 1").await.is_ok()
            {
                return Ok(connection);
            }
            env::sleep(POLL).await;
        }
        Err(Error::Silent {
            log: self.log_end(),
        })
    }

    /// Kills the server and every process it started, and waits until it has exited.
    ///
    /// Returns an error if the server had exited by itself before the kill.
    pub fn kill(mut self) -> Result<(), Error> {
        if let Some(status) = self.child.try_wait()? {
            return Err(Error::Ended {
                status,
                log: self.log_end(),
            });
        }
        self.kill_group();
        let status = self.child.wait()?;
        // Between the poll and the kill the server may still have exited by itself.
        if status.signal() == Some(Signal::KILL.as_raw()) {
            Ok(())
        } else {
            Err(Error::Ended {
                status,
                log: self.log_end(),
            })
        }
    }

    /// Pauses the server process with SIGSTOP, like a machine that is not scheduled.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Continues the server after [`Server::pause`], with SIGCONT.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        match self.process() {
            Some(id) => {
                kill_process(id, signal).map_err(|error| Error::Io(std::io::Error::from(error)))
            }
            None => Ok(()),
        }
    }

    /// Waits at most `within` for the server to exit by itself; returns its exit status
    /// if it did.
    pub async fn ended(&mut self, within: Duration) -> Result<Option<ExitStatus>, Error> {
        let began = env::now();
        while began.elapsed() < within {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            env::sleep(POLL).await;
        }
        Ok(None)
    }

    /// Sends SIGTERM and waits until the server has exited. The exit status must be
    /// success.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.signal(Signal::TERM)?;
        let asked = env::now();
        while asked.elapsed() < STOPPED_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() {
                    Ok(())
                } else {
                    Err(Error::Ended {
                        status,
                        log: self.log_end(),
                    })
                };
            }
            env::sleep(POLL).await;
        }
        Err(Error::Stays {
            log: self.log_end(),
        })
    }

    /// TCP port that the server listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id of the server.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn process(&self) -> Option<Pid> {
        i32::try_from(self.id()).ok().and_then(Pid::from_raw)
    }

    fn kill_group(&self) {
        if let Some(id) = self.process() {
            // A process group that is gone already needs no signal.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }

    fn log_end(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let shown = &log[log.len().saturating_sub(LOG_SHOWN)..];
        String::from_utf8_lossy(shown).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

/// Builds the `coeval` binary with the profile of the running program, and returns its
/// path: the directory of that program.
pub fn build_coeval() -> Result<PathBuf, Error> {
    build_coeval_with(&[])
}

/// Builds the `coeval` binary with these features of `coeval-cli`, and returns its path.
pub fn build_coeval_with(features: &[&str]) -> Result<PathBuf, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command
        .args([
            "build",
            "--quiet",
            "--package",
            "coeval-cli",
            "--bin",
            "coeval",
        ])
        .args(features.iter().flat_map(|feature| ["--features", feature]))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    if env::BUILD_PROFILE != "debug" {
        command.args(["--profile", env::BUILD_PROFILE]);
    }
    let status = command.status().map_err(|source| Error::Start {
        program: cargo.to_string_lossy().into_owned(),
        source,
    })?;
    if !status.success() {
        return Err(Error::Build(status));
    }
    Ok(std::env::current_exe()?.with_file_name("coeval"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &str) -> (tempfile::TempDir, Launch) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let launch = Launch::shell(command, folder.path(), 1).expect("a folder");
        (folder, launch)
    }

    #[tokio::test]
    async fn a_server_that_ends_by_itself_is_told_with_its_words() {
        let (_folder, launch) = shell("echo no data in {folder} at {port} >&2; exit 3");
        let error = launch.start().expect("starts").ready().await.err();
        let Some(Error::Ended { status, log }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(status.code(), Some(3));
        assert!(log.contains("at 1"), "{log}");
    }

    #[tokio::test]
    async fn killing_reaches_what_the_server_started() {
        let (folder, launch) = shell("sleep 1000 & echo $! > {folder}/child; wait");
        let server = launch.start().expect("starts");
        let child = folder.path().join("child");
        let id = loop {
            let text = fs::read_to_string(&child).unwrap_or_default();
            if let Ok(id) = text.trim().parse::<i32>() {
                break Pid::from_raw(id).expect("a process");
            }
            env::sleep(POLL).await;
        };
        server.kill().expect("was running");
        // The process becomes a zombie until its new parent reaps it. If it were still
        // asleep, this loop would wait for ever.
        let stat = format!("/proc/{}/stat", id.as_raw_nonzero());
        while fs::read_to_string(&stat).is_ok_and(|state| !state.contains(") Z")) {
            env::sleep(POLL).await;
        }
    }

    #[tokio::test]
    async fn a_server_that_had_ended_was_not_killed() {
        let (_folder, launch) = shell("exit 0");
        let mut server = launch.start().expect("starts");
        while matches!(server.child.try_wait(), Ok(None)) {
            env::sleep(POLL).await;
        }
        assert!(matches!(server.kill(), Err(Error::Ended { .. })));
    }
}
