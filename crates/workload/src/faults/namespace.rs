//! A network namespace with a server in it, and a firewall that loses packets.
//!
//! ```text
//!   clients ── 198.18.x.1 ══ veth ══ 198.18.x.2 ── server
//!   (here)                              │          (in the namespace)
//!                          iptables: INPUT   drops requests
//!                                    OUTPUT  drops answers
//! ```
//!
//! Where a [`proxy`](super::proxy) can only hold back what a connection carries, this
//! loses packets below it: handshakes, acknowledgements and resets among them, and the
//! kernel's own timers decide what comes of that.
//!
//! It takes Linux, `ip` and `iptables`, and the rights to make a namespace; where any of
//! them is missing, [`Namespace::new`] says which, and whoever asked goes without, or is
//! not done at all and says so ([`Namespace::or_say`]).
//!
//! Invariants:
//! - A namespace is gone when it is dropped, with every process in it. One whose maker
//!   died first carries that maker's process number in its name, and goes when the next
//!   one is made.
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

/// What the names of all namespaces of ours begin with.
const PREFIX: &str = "coeval-dock-";
/// 198.18.0.0/15 is for tests of networks (RFC 2544): nobody lives there. Each
/// namespace takes four addresses of it.
const NETWORK: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const SUBNETS: u32 = 1 << 15;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Which packets are lost, of a hundred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Of those to the server.
    pub requests: u8,
    /// Of those from it.
    pub answers: u8,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// This side's interface.
    interface: String,
    server: Ipv4Addr,
}

/// Runs a command to its end; what it printed. An error says what it said.
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
    /// Makes one, after having cleared away those whose makers have died.
    ///
    /// # Errors
    /// When this machine does not have them, or does not let this process make one.
    pub fn new() -> io::Result<Self> {
        sweep()?;
        let process = std::process::id();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut subnet = process.wrapping_mul(16).wrapping_add(number) % SUBNETS;
        let addresses = |subnet: u32| {
            let base = NETWORK + 4 * subnet;
            (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2))
        };
        // Another process's may have the same.
        let taken = run("ip", &["-o", "-4", "address", "show"])?;
        while taken.contains(&format!(" {}/", addresses(subnet).0)) {
            subnet = (subnet + 1) % SUBNETS;
        }
        let (client, server) = addresses(subnet);
        // From here on, whatever fails takes back what was made.
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

    /// One; or none, and a word on what is not done without it. That goes to standard
    /// error itself: what a test prints is shown of tests that fail only.
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

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where a server in it listens.
    #[must_use]
    pub fn server(&self) -> Ipv4Addr {
        self.server
    }

    fn firewall(&self, arguments: &[&str]) -> io::Result<()> {
        let command = ["netns", "exec", &self.name, "iptables", "-w"];
        run("ip", &[&command, arguments].concat()).map(drop)
    }

    /// Loses these packets from now on, and no others.
    ///
    /// # Errors
    /// When the firewall cannot be changed.
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
        // Gone with the namespace, unless that was never reached.
        let _ = run("ip", &["link", "delete", &self.interface]);
    }
}

/// Ends what runs in a namespace of ours, and the namespace.
fn clear(name: &str) {
    let inside = run("ip", &["netns", "pids", name]).unwrap_or_default();
    let processes = inside.lines().filter_map(|line| line.trim().parse().ok());
    for process in processes.filter_map(Pid::from_raw) {
        // What has ended meanwhile needs no signal.
        let _ = kill_process(process, Signal::KILL);
    }
    let _ = run("ip", &["netns", "delete", name]);
}

/// The process that made a namespace, by its name.
fn maker(name: &str) -> Option<u32> {
    let (process, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    process.parse().ok()
}

/// Clears away namespaces whose makers are gone. Their names.
///
/// # Errors
/// When there are no namespaces on this machine.
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
        // A process that has ended.
        let mut dead = Command::new("true").spawn().expect("a process");
        let process = dead.id();
        dead.wait().expect("it ends");
        let name = format!("{PREFIX}{process}-0");
        run("ip", &["netns", "add", &name]).expect("another namespace");
        let mut inside = Command::new("ip")
            .args(["netns", "exec", &name, "sleep", "1000"])
            .spawn()
            .expect("a process inside");
        // Until it is there. A test beside this one may sweep at any time.
        while Path::new(&format!("/run/netns/{name}")).exists()
            && run("ip", &["netns", "pids", &name]).is_ok_and(|inside| inside.is_empty())
        {
            std::thread::yield_now();
        }
        sweep().expect("it sweeps");
        let there = run("ip", &["netns", "list"]).expect("a list");
        assert!(!there.contains(&name), "{there}");
        assert!(there.contains(alive.name()), "{there}");
        // It was killed, or this waits for a thousand seconds.
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
        // Something that answers, inside.
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
        // Dropping the namespace ended it.
        echo.wait().expect("it ended");
    }

    /// Not a test: what the one above runs inside.
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
