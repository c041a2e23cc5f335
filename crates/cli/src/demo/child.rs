//! A node of a demonstration: a process that runs this program's `start`.

#![expect(
    clippy::disallowed_methods,
    reason = "a demonstration is a program around servers, of which nothing is simulated"
)]

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use coeval_env::Instant;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::AWAY;
use super::directory::{Directory, free};
use crate::admin;

/// Timeouts of a node: of its answer to a health request, and of its stop.
const ANSWER: Duration = Duration::from_millis(500);
const END: Duration = Duration::from_secs(20);

/// A node of the demonstration, and its process while it runs.
pub(super) struct Child {
    pub(super) number: u64,
    /// The address for clients.
    pub(super) client: SocketAddr,
    /// The file that the node logs to.
    pub(super) log: PathBuf,
    data: PathBuf,
    /// The file that says that the node has had data.
    mark: PathBuf,
    /// The program that runs a node.
    program: PathBuf,
    admin: SocketAddr,
    arguments: Vec<String>,
    process: Option<tokio::process::Child>,
    leads: bool,
    /// When the node is to be started again.
    again: Option<Instant>,
}

/// A change of a node's state.
pub(super) enum Told {
    Nothing,
    /// The process has ended, with this status in words.
    Ended(String),
    /// The node has been started, as the process of this number.
    Started(u32),
}

impl Child {
    pub(super) async fn new(directory: &Directory, number: u64) -> Result<Self, String> {
        let [client, admin] = free().await?;
        let members = (1..).zip(&directory.members);
        let members: Vec<String> = members.map(|(node, at)| format!("{node}={at}")).collect();
        let data = directory.path().join(format!("node-{number}"));
        let arguments = [
            ("--data-dir", data.display().to_string()),
            ("--listen", client.to_string()),
            ("--admin-listen", admin.to_string()),
            ("--cluster-node", number.to_string()),
            ("--cluster-id", directory.cluster.to_string()),
            ("--cluster-members", members.join(",")),
            ("--log-format", "text".to_owned()),
        ];
        let arguments = arguments.into_iter();
        Ok(Self {
            number,
            client,
            admin,
            log: directory.path().join(format!("node-{number}.log")),
            mark: directory.path().join(format!("founded-{number}")),
            program: std::env::current_exe()
                .map_err(|error| format!("this program is not found: {error}"))?,
            data,
            arguments: arguments
                .flat_map(|(flag, value)| [flag.to_owned(), value])
                .collect(),
            process: None,
            leads: false,
            again: None,
        })
    }

    /// Starts the node's process, without settings from this process's environment.
    pub(super) fn start(&mut self) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("node {}: {error}", self.number);
        let mut options = OpenOptions::new();
        let log = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.log);
        let log = log.map_err(wrong)?;
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("COEVAL_") {
                command.env_remove(name);
            }
        }
        command.args(["start", "--stop-with-parent"]);
        if self.is_first_start() {
            command.arg("--cluster-found");
        }
        let spawned = command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for the demonstration, which stops its nodes in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        self.process = Some(spawned.map_err(wrong)?);
        self.again = None;
        Ok(())
    }

    /// Whether the node has no data and never had any: then it founds the cluster with the
    /// others. A node whose data is lost founds no second time.
    fn is_first_start(&self) -> bool {
        !self.data.join("CONTROL").exists() && !self.mark.exists()
    }

    /// Leaves a mark beside the node's data, once it has some. A process that ends before is
    /// told to found again: the founders ask each other before one of them votes.
    fn mark_data(&self) -> std::io::Result<()> {
        if self.mark.exists() || !self.data.join("CONTROL").exists() {
            return Ok(());
        }
        std::fs::write(&self.mark, "")
    }

    /// The number of the node's process, while it runs.
    pub(super) fn process(&self) -> Option<u32> {
        self.process.as_ref()?.id()
    }

    /// Whether the node led at the last check.
    pub(super) const fn leads(&self) -> bool {
        self.leads
    }

    /// Checks whether the node runs and leads, and restarts it when it is time.
    pub(super) async fn look(&mut self) -> Result<Told, String> {
        let marked = self.mark_data();
        marked.map_err(|error| format!("{}: {error}", self.mark.display()))?;
        if let Some(process) = &mut self.process {
            if let Ok(Some(status)) = process.try_wait() {
                self.process = None;
                self.leads = false;
                self.again = Some(coeval_env::now() + AWAY);
                return Ok(Told::Ended(how(status)));
            }
            let health = coeval_env::timeout(ANSWER, health(self.admin)).await;
            let health = health.ok().flatten().unwrap_or_default();
            self.leads = health.contains("\"role\":\"leader\"");
            return Ok(Told::Nothing);
        }
        if self.again.is_some_and(|again| coeval_env::now() >= again) {
            self.start()?;
            return Ok(self.process().map_or(Told::Nothing, Told::Started));
        }
        Ok(Told::Nothing)
    }

    /// Asks the node to stop, and waits until it has ended.
    pub(super) async fn stop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let number = process.id().and_then(|number| i32::try_from(number).ok());
        if let Some(number) = number.and_then(Pid::from_raw) {
            // The process may have ended just now.
            let _ = kill_process(number, Signal::TERM);
        }
        if coeval_env::timeout(END, process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
    }

    /// Kills the node's process.
    pub(super) fn kill(&mut self) {
        // Dropping the process kills it.
        self.process = None;
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("has ended with exit code {code}"),
        (None, None) => "has ended".to_owned(),
    }
}

/// Reads the node's health report.
async fn health(address: SocketAddr) -> Option<String> {
    let (_, report) = admin::get(address, "/health").await.ok()?;
    Some(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node whose program writes down what it was told, has data if a file `works` is there,
    /// and ends.
    fn child(place: &std::path::Path) -> Child {
        let in_it = |name: &str| place.join(name);
        Child {
            number: 1,
            client: ([127, 0, 0, 1], 1).into(),
            admin: ([127, 0, 0, 1], 1).into(),
            log: in_it("log"),
            data: in_it("node-1"),
            mark: in_it("founded-1"),
            program: in_it("program"),
            arguments: vec![place.display().to_string()],
            process: None,
            leads: false,
            again: None,
        }
    }

    const PROGRAM: &str = "#!/bin/sh
for place; do :; done
cd \"$place\"
echo \"$@\" >> said
if test -e works; then mkdir -p node-1; echo > node-1/CONTROL; fi
";

    #[tokio::test]
    async fn a_node_founds_until_it_has_data_and_never_after() {
        let place = tempfile::tempdir().unwrap();
        let mut child = child(place.path());
        assert!(child.start().is_err(), "there is no program");
        std::fs::write(&child.program, PROGRAM).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&child.program, executable).unwrap();
        for round in 0..3 {
            if round == 1 {
                std::fs::write(place.path().join("works"), "").unwrap();
            }
            child.start().unwrap();
            child.process.as_mut().unwrap().wait().await.unwrap();
            assert!(matches!(child.look().await, Ok(Told::Ended(_))));
            assert_eq!(child.mark.exists(), round > 0);
            // Its data is lost.
            if round > 0 {
                std::fs::remove_dir_all(&child.data).unwrap();
            }
        }
        let said = std::fs::read_to_string(place.path().join("said")).unwrap();
        let founds = said.lines().map(|line| line.contains("--cluster-found"));
        assert_eq!(founds.collect::<Vec<_>>(), [true, true, false]);
    }
}
