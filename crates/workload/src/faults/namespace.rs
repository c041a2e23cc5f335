//! A Linux network namespace for a server, with a firewall that drops packets.
//!
//! ```text
//!   clients ── 198.18.x.1 ══ veth ══ 198.18.x.2 ── server
//!   (here)                              │          (in the namespace)
//!                          iptables: INPUT   drops requests
//!                                    OUTPUT  drops answers
//! ```
//!
//! A [`proxy`](super::proxy) can only hold back the bytes of a connection; the firewall
//! drops packets below it: handshakes, acknowledgements and resets among them, to which
//! the kernel's own timers react.
//!
//! A namespace needs Linux, `ip` and `iptables`, and the privilege to create one. If any
//! of them is missing, [`Namespace::new`] returns an error that names it, and the caller
//! uses a proxy instead, or skips the test with a message ([`Namespace::or_say`]).
//!
//! Invariants:
//! - Dropping a namespace removes it, with every process in it. The name of a namespace
//!   contains the process id of its creator; if the creator died first, the next creation
//!   of a namespace removes it.
#![expect(
    clippy::disallowed_methods,
    reason = "changes this machine's network by its own commands; nothing of it is simulated"
)]

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// Prefix of the names of the harness's namespaces.
const PREFIX: &str = "coeval-dock-";
/// 198.18.0.0/15 is reserved for benchmarks of networks (RFC 2544), so no host uses it.
/// Each namespace takes four of its addresses.
const NETWORK: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const SUBNETS: u32 = 1 << 15;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Packet loss in per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Loss of packets to the server.
    pub requests: u8,
    /// Loss of packets from the server.
    pub answers: u8,
}

/// A network namespace with a firewall; see the [module](self).
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// The client side's interface.
    interface: String,
    server: Ipv4Addr,
}

/// Runs a command to its end and returns its output. An error includes the command's
/// error output.
fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let said = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if said.status.success() {
        return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&said.stderr);
    let command = arguments.join(" ");
    Err(io::Error::other(format!(
        "{program} {command}: {}",
        error.trim()
    )))
}

impl Namespace {
    /// Creates a namespace, after removing those whose creators have died.
    ///
    /// # Errors
    /// If this machine does not support namespaces, or this process lacks the privilege.
    pub fn new() -> io::Result<Self> {
        sweep()?;
        let process = std::process::id();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut subnet = process.wrapping_mul(16).wrapping_add(number) % SUBNETS;
        let addresses = |subnet: u32| {
            let base = NETWORK + 4 * subnet;
            (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2))
        };
        // A namespace of another process may have the same addresses.
        let taken = run("ip", &["-o", "-4", "address", "show"])?;
        while taken.contains(&format!(" {}/", addresses(subnet).0)) {
            subnet = (subnet + 1) % SUBNETS;
        }
        let (client, server) = addresses(subnet);
        // From here on, a failure drops `made`, which removes everything created so far.
        let made = Self {
            name: format!("{PREFIX}{process}-{number}"),
            interface: format!("cvd{process}n{number}"),
            server,
        };
        let Self {
            name, interface, ..
        } = &made;
        let (client, server) = (format!("{client}/30"), format!("{server}/30"));
        run("ip", &["netns", "add", name])?;
        let steps: [&[&str]; 6] = [
            &[
                "link", "add", interface, "type", "veth", "peer", "name", "eth0", "netns", name,
            ],
            &["address", "add", &client, "dev", interface],
            &["link", "set", interface, "up"],
            &["-n", name, "address", "add", &server, "dev", "eth0"],
            &["-n", name, "link", "set", "eth0", "up"],
            &["-n", name, "link", "set", "lo", "up"],
        ];
        for step in steps {
            run("ip", step)?;
        }
        made.lose(Losses::default())?;
        Ok(made)
    }

    /// Creates a namespace; if that fails, returns `None` and reports which test is
    /// skipped. The message goes to standard error directly, because the test runner
    /// shows the captured output of failed tests only.
    #[must_use]
    pub fn or_say(what: &str) -> Option<Self> {
        let made = Self::new();
        if let Err(error) = &made {
            let _ = writeln!(
                io::stderr(),
                "NOT RUN: {what}, which takes a network namespace, so root, `ip` (iproute2) and \
                 `iptables`: {error}"
            );
        }
        made.ok()
    }

    /// Name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address on which a server in the namespace listens.
    #[must_use]
    pub fn server(&self) -> Ipv4Addr {
        self.server
    }

    fn firewall(&self, arguments: &[&str]) -> io::Result<()> {
        let command = ["netns", "exec", &self.name, "iptables", "-w"];
        run("ip", &[&command, arguments].concat()).map(drop)
    }

    /// Drops packets at these rates from now on.
    ///
    /// # Errors
    /// If the firewall cannot be changed.
    pub fn lose(&self, losses: Losses) -> io::Result<()> {
        self.firewall(&["--flush"])?;
        for (chain, percent) in [("INPUT", losses.requests), ("OUTPUT", losses.answers)] {
            let probability = format!("{:.2}", f64::from(percent.min(100)) / 100.0);
            match percent {
                0 => {}
                100.. => self.firewall(&["--append", chain, "--jump", "DROP"])?,
                _ => self.firewall(&[
                    "--append",
                    chain,
                    "--match",
                    "statistic",
                    "--mode",
                    "random",
                    "--probability",
                    &probability,
                    "--jump",
                    "DROP",
                ])?,
            }
        }
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        clear(&self.name);
        // The interface disappears with the namespace, unless it was never moved there.
        let _ = run("ip", &["link", "delete", &self.interface]);
    }
}

/// Kills the processes in one of the harness's namespaces, and removes the namespace.
fn clear(name: &str) {
    let inside = run("ip", &["netns", "pids", name]).unwrap_or_default();
    let processes = inside.lines().filter_map(|line| line.trim().parse().ok());
    for process in processes.filter_map(Pid::from_raw) {
        // A process that has exited in the meantime needs no signal.
        let _ = kill_process(process, Signal::KILL);
    }
    let _ = run("ip", &["netns", "delete", name]);
}

/// Process id of the namespace's creator, taken from its name.
fn maker(name: &str) -> Option<u32> {
    let (process, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    process.parse().ok()
}

/// Removes the namespaces whose creators have died. Returns their names.
///
/// # Errors
/// If this machine does not support namespaces.
pub fn sweep() -> io::Result<BTreeSet<String>> {
    let all = run("ip", &["netns", "list"])?;
    let names = all
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let left: BTreeSet<String> = names
        .filter(|name| {
            maker(name).is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
        })
        .map(ToOwned::to_owned)
        .collect();
    for name in &left {
        clear(name);
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use coeval_env as env;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn names_say_who_made_them() {
        assert_eq!(maker("coeval-dock-17-3"), Some(17));
        assert_eq!(maker("coeval-dock-x-3"), None);
        assert_eq!(maker("somebody-17-3"), None);
    }

    #[test]
    fn what_a_dead_maker_left_is_cleared_away_and_nothing_else() {
        let Some(alive) = Namespace::or_say("the test that namespaces are cleared away") else {
            return;
        };
        // The process id of a process that has exited.
        let mut dead = Command::new("true").spawn().expect("a process");
        let process = dead.id();
        dead.wait().expect("it ends");
        let name = format!("{PREFIX}{process}-0");
        run("ip", &["netns", "add", &name]).expect("another namespace");
        let mut inside = Command::new("ip")
            .args(["netns", "exec", &name, "sleep", "1000"])
            .spawn()
            .expect("a process inside");
        // Waits until the namespace exists. A concurrent test may remove stale namespaces
        // at any time.
        while Path::new(&format!("/run/netns/{name}")).exists()
            && run("ip", &["netns", "pids", &name]).is_ok_and(|inside| inside.is_empty())
        {
            std::thread::yield_now();
        }
        sweep().expect("it sweeps");
        let there = run("ip", &["netns", "list"]).expect("a list");
        assert!(!there.contains(&name), "{there}");
        assert!(there.contains(alive.name()), "{there}");
        // The process was killed, or this waits for a thousand seconds.
        inside.kill().ok();
        inside.wait().expect("it ended");
        let name = alive.name().to_owned();
        drop(alive);
        let there = run("ip", &["netns", "list"]).expect("a list");
        assert!(!there.contains(&name), "{there}");
    }

    #[tokio::test]
    async fn packets_are_lost_each_way_and_come_through_again() {
        let Some(namespace) = Namespace::or_say("the test of lost packets") else {
            return;
        };
        // An echo server inside the namespace.
        let mut echo = Command::new("ip")
            .args(["netns", "exec", namespace.name()])
            .args([std::env::current_exe().expect("this test").as_os_str()])
            .args(["--ignored", "--exact", "faults::namespace::tests::echo"])
            .env("ECHO_AT", format!("{}:7", namespace.server()))
            .stdout(Stdio::null())
            .spawn()
            .expect("an echo");
        let address = (namespace.server(), 7).into();
        let mut stream = loop {
            match env::connect(address).await {
                Ok(stream) => break stream,
                Err(_) => env::sleep(Duration::from_millis(10)).await,
            }
        };
        for (requests, answers) in [(100, 0), (0, 100), (100, 100)] {
            stream.write_u8(1).await.expect("sent");
            assert_eq!(stream.read_u8().await.expect("answered"), 1);
            namespace.lose(Losses { requests, answers }).expect("lossy");
            stream.write_u8(2).await.expect("sent, as far as it knows");
            let early = env::timeout(Duration::from_millis(300), stream.read_u8()).await;
            assert!(early.is_err(), "{requests} and {answers}: an answer came");
            namespace.lose(Losses::default()).expect("good again");
            assert_eq!(stream.read_u8().await.expect("sent again"), 2);
        }
        namespace
            .lose(Losses {
                requests: 20,
                answers: 20,
            })
            .expect("lossy");
        for byte in 0..20 {
            stream.write_u8(byte).await.expect("sent");
            assert_eq!(stream.read_u8().await.expect("at last"), byte);
        }
        drop(stream);
        drop(namespace);
        // Dropping the namespace killed the process.
        echo.wait().expect("it ended");
    }

    /// Not a test: the program that the test above runs inside the namespace.
    #[tokio::test]
    #[ignore = "no test: the peer that the test above starts inside its network namespace"]
    async fn echo() {
        let Ok(address) = std::env::var("ECHO_AT") else {
            return;
        };
        let listener = env::listen(address.parse().expect("an address"))
            .await
            .expect("a listener");
        while let Ok((mut stream, _)) = listener.accept().await {
            while let Ok(byte) = stream.read_u8().await {
                if stream.write_u8(byte).await.is_err() {
                    break;
                }
            }
        }
    }
}
