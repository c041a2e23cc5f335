//! A node's data directory: what it was founded with, and the number of its starts.
//!
//! ```text
//!   LOCK       locked for as long as a process uses the directory
//!   RESERVE    disk space that is given up when the disk is full
//!   NODE       the cluster, this node, the members, how keys are spread, the newest incarnation
//!   council/   the council's log, on its members
//!   epochs/    the back end's log
//! ```
//!
//! NODE is lines of text, a name and a value each, and a checksum of them at the end. It is
//! replaced as a whole: written under another name, made durable, renamed. Its first line has the
//! format of the directory, which is 2 since log files name the file before them; each start
//! writes it, so that a build which does not read them refuses the directory.
//!
//! Invariant: a start's incarnation is in NODE, durably, before the node says anything under it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use coeval_council::MAX_ENTRY_BYTES;
use coeval_env::{Location, fs};
use coeval_peers::{ClusterId, NodeId};

use super::reserve::Reserve;
use crate::configuration::Configuration;
use crate::directory::Decision;

const FIRST_LINE: &str = "coeval epoch node 2";
/// First line of earlier builds, whose log files do not name the file before them.
const EARLIER_LINE: &str = "coeval epoch node 1";

/// The folder of the council's log.
pub(crate) const COUNCIL: &str = "council";
/// The folder of the back end's log.
pub(crate) const EPOCHS: &str = "epochs";

/// Members of a cluster's council, unless its founder says otherwise.
const COUNCIL_MEMBERS: usize = 3;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The disk.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or the directory.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// Another process uses it.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// No node was founded there.
    #[error("{} holds no node of epochs; `coeval epoch found` makes one", .0.display())]
    NotFounded(PathBuf),
    /// A node was founded there before.
    #[error("{} holds a node already", .0.display())]
    Founded(PathBuf),
    /// A server of SQL has its database there.
    #[error("{} holds a database of `coeval start`, of the protocol leader", .0.display())]
    Database(PathBuf),
    /// The file NODE is not whole.
    #[error("{} is damaged: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A cluster cannot be like this.
    #[error("no cluster can be founded so: {0}")]
    Layout(String),
}

fn io<'path>(
    doing: &'static str,
    path: &'path Path,
) -> impl FnOnce(std::io::Error) -> HomeError + 'path {
    move |error| HomeError::Io {
        doing,
        path: path.to_owned(),
        error,
    }
}

/// What a node is founded with. All nodes of a cluster have the same, but for `node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// Where the nodes listen for each other.
    pub members: BTreeMap<NodeId, Location>,
    /// The members that run a front end, to which clients put and get; all if empty.
    pub front_ends: BTreeSet<NodeId>,
    /// The members that hold copies; all if empty.
    pub back_ends: BTreeSet<NodeId>,
    /// The members whose council decides on members and manager; the first three if empty.
    pub council: BTreeSet<NodeId>,
    /// Partitions of the keys.
    pub partitions: u16,
    /// Copies of each partition.
    pub copies: u8,
    /// Children of each front end in the barrier's tree; 0 for a flat barrier.
    pub degree: u8,
    /// Epochs before the newest closed one that can still be read.
    pub history_epochs: u64,
}

impl Founding {
    /// A cluster of these members, with as many copies as it can have, up to two, a flat barrier,
    /// and the last thousand epochs to be read.
    #[must_use]
    pub fn new(cluster: ClusterId, node: NodeId, members: BTreeMap<NodeId, Location>) -> Self {
        let count = members.len();
        Self {
            cluster,
            node,
            front_ends: BTreeSet::new(),
            back_ends: BTreeSet::new(),
            council: BTreeSet::new(),
            partitions: (count * 2).clamp(1, 16) as u16,
            copies: count.clamp(1, 2) as u8,
            degree: 0,
            history_epochs: 1000,
            members,
        }
    }

    /// The members of the council.
    #[must_use]
    pub fn council(&self) -> Vec<NodeId> {
        match self.council.is_empty() {
            true => self.members.keys().take(COUNCIL_MEMBERS).copied().collect(),
            false => self.council.iter().copied().collect(),
        }
    }

    /// Whether this node runs a front end.
    #[must_use]
    pub fn runs_front_end(&self) -> bool {
        self.front_ends.is_empty() || self.front_ends.contains(&self.node)
    }

    /// Whether this node may hold copies.
    #[must_use]
    pub fn runs_back_end(&self) -> bool {
        self.back_ends.is_empty() || self.back_ends.contains(&self.node)
    }

    /// The nodes that may hold copies.
    fn holders(&self) -> Vec<NodeId> {
        match self.back_ends.is_empty() {
            true => self.members.keys().copied().collect(),
            false => self.back_ends.iter().copied().collect(),
        }
    }

    /// The first configuration. Incarnations begin at 1, so every node's first start is new to it.
    pub(crate) fn configuration(&self) -> Configuration {
        let nodes = self.holders();
        let copies = |partition: usize| {
            let copies = (0..usize::from(self.copies)).map(|copy| partition + copy);
            copies.map(|index| nodes[index % nodes.len()]).collect()
        };
        Configuration {
            partitions: (0..usize::from(self.partitions)).map(copies).collect(),
            back_ends: nodes.iter().map(|node| (*node, 0)).collect(),
            degree: self.degree,
            history_epochs: self.history_epochs,
            copies: self.copies,
            ..Configuration::default()
        }
    }

    /// Whether such a cluster can be.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn check(&self) -> Result<(), HomeError> {
        let refuse = |reason: String| Err(HomeError::Layout(reason));
        let (node, count) = (self.node, self.holders().len());
        if !self.members.contains_key(&node) {
            return refuse(format!("node {node} is none of its members"));
        }
        if let Some(other) = self.members.keys().find(|id| !(1..256).contains(&id.0)) {
            return refuse(format!("node {other}: a node's number is from 1 to 255"));
        }
        if let Some(other) = self
            .council
            .iter()
            .find(|id| !self.members.contains_key(id))
        {
            return refuse(format!(
                "node {other} of the council is none of its members"
            ));
        }
        for (role, nodes) in [("front", &self.front_ends), ("back", &self.back_ends)] {
            if let Some(other) = nodes.iter().find(|id| !self.members.contains_key(id)) {
                return refuse(format!(
                    "node {other} of the {role} ends is none of its members"
                ));
            }
        }
        if self.partitions == 0 {
            return refuse("it needs one partition at least".to_owned());
        }
        if !(1..=count).contains(&usize::from(self.copies)) {
            let copies = self.copies;
            return refuse(format!(
                "{count} nodes cannot hold {copies} copies each apart"
            ));
        }
        let bytes = Decision::Found(self.configuration()).encode().len();
        if bytes > MAX_ENTRY_BYTES {
            return refuse(format!(
                "its configuration has {bytes} bytes, and the council takes {MAX_ENTRY_BYTES}: take \
                 fewer partitions or copies"
            ));
        }
        Ok(())
    }

    /// What all nodes of the cluster have in common, but for its id.
    pub(crate) fn layout(&self) -> String {
        let members = self.members.iter();
        let members = members.map(|(id, location)| format!("{id}={location}"));
        let members: Vec<String> = members.collect();
        let council: Vec<String> = self.council().iter().map(ToString::to_string).collect();
        format!(
            "{} {} {} {} {} {} {} {}",
            members.join(","),
            council.join(","),
            numbers(&self.front_ends),
            numbers(&self.back_ends),
            self.partitions,
            self.copies,
            self.degree,
            self.history_epochs
        )
    }

    fn lines(&self, incarnation: u64) -> String {
        let join = |each: Vec<String>| each.join(" ");
        let members = self.members.iter();
        let members = members.map(|(id, location)| format!("{id}={location}"));
        let council = self.council().iter().map(ToString::to_string).collect();
        let mut lines = format!(
            "{FIRST_LINE}\ncluster {}\nnode {}\nincarnation {incarnation}\nmembers {}\ncouncil {}\n\
             partitions {}\ncopies {}\ndegree {}\nhistory_epochs {}\n",
            self.cluster,
            self.node,
            join(members.collect()),
            join(council),
            self.partitions,
            self.copies,
            self.degree,
            self.history_epochs,
        );
        // A build that knows no such lines has every node do both.
        for (name, nodes) in [
            ("front_ends", &self.front_ends),
            ("back_ends", &self.back_ends),
        ] {
            if !nodes.is_empty() {
                lines.push_str(&format!("{name} {}\n", numbers(nodes)));
            }
        }
        let sum = crc32c::crc32c(lines.as_bytes());
        lines.push_str(&format!("checksum {sum:08x}\n"));
        lines
    }

    /// The node and its newest incarnation, from the lines of NODE.
    fn read(text: &str) -> Result<(Self, u64), &'static str> {
        let (lines, sum) = text
            .rsplit_once("checksum ")
            .ok_or("it has no checksum at the end")?;
        if format!("{:08x}\n", crc32c::crc32c(lines.as_bytes())) != sum {
            return Err("its checksum is another");
        }
        let mut values = lines.lines();
        if !matches!(values.next(), Some(FIRST_LINE | EARLIER_LINE)) {
            return Err("it is of another format");
        }
        let named: BTreeMap<&str, &str> = values.filter_map(|line| line.split_once(' ')).collect();
        let value = |name: &str| named.get(name).copied().ok_or("a line is missing");
        let number = |name: &str| {
            let value: Result<u64, _> = value(name)?.parse();
            value.map_err(|_| "a number is none")
        };
        let id = |text: &str| text.parse().map(NodeId).map_err(|_| "a node is none");
        let member = |text: &str| {
            let (node, location) = text.split_once('=').ok_or("a member has no address")?;
            let location = location.parse().map_err(|_| "an address is none")?;
            Ok::<_, &'static str>((id(node)?, location))
        };
        let members = value("members")?.split(' ').map(member);
        let council = value("council")?.split(' ').map(id);
        let nodes = |name: &str| {
            let listed = named.get(name).into_iter().flat_map(|list| list.split(' '));
            listed.map(id).collect::<Result<_, _>>()
        };
        let small = |name| number(name)?.try_into().map_err(|_| "a number is too high");
        let founding = Self {
            cluster: value("cluster")?
                .parse()
                .map_err(|_| "the cluster is none")?,
            node: NodeId(number("node")?),
            members: members.collect::<Result<_, _>>()?,
            front_ends: nodes("front_ends")?,
            back_ends: nodes("back_ends")?,
            council: council.collect::<Result<_, _>>()?,
            partitions: number("partitions")?
                .try_into()
                .map_err(|_| "a number is too high")?,
            copies: small("copies")?,
            degree: small("degree")?,
            history_epochs: number("history_epochs")?,
        };
        Ok((founding, number("incarnation")?))
    }
}

/// Nodes, with blanks between.
fn numbers(nodes: &BTreeSet<NodeId>) -> String {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    nodes.join(" ")
}

/// Makes a node in a directory, which must be new or empty of one.
///
/// # Errors
/// When such a cluster cannot be, when a node is there, and when the disk fails.
pub async fn found(directory: &Path, founding: &Founding) -> Result<(), HomeError> {
    founding.check()?;
    let making = fs::create_dir_all(directory).await;
    making.map_err(io("create", directory))?;
    let path = directory.join("NODE");
    if fs::exists(&path).await.map_err(io("look at", &path))? {
        return Err(HomeError::Founded(directory.to_owned()));
    }
    let database = directory.join("CONTROL");
    if fs::exists(&database)
        .await
        .map_err(io("look at", &database))?
    {
        return Err(HomeError::Database(directory.to_owned()));
    }
    write(directory, &founding.lines(0)).await
}

/// What the node in a directory was founded with.
///
/// # Errors
/// When there is none, or it is damaged.
pub async fn founding(directory: &Path) -> Result<Founding, HomeError> {
    Ok(read(directory).await?.0)
}

/// What the node in a directory was founded with, and the number of its newest start. No process
/// uses the directory.
///
/// # Errors
/// When there is none, it is damaged, or a process uses it.
pub(crate) async fn look(directory: &Path) -> Result<(Founding, u64), HomeError> {
    let found = read(directory).await?;
    let locked = directory.join("LOCK");
    if fs::exists(&locked).await.map_err(io("look at", &locked))? {
        let lock = fs::open(&locked, fs::OpenOptions::WRITE).await;
        let lock = lock.map_err(io("open", &locked))?;
        if !lock.try_lock().await.map_err(io("lock", &locked))? {
            return Err(HomeError::InUse(directory.to_owned()));
        }
    }
    Ok(found)
}

/// Reads NODE.
async fn read(directory: &Path) -> Result<(Founding, u64), HomeError> {
    let path = directory.join("NODE");
    if !fs::exists(&path).await.map_err(io("look at", &path))? {
        return Err(HomeError::NotFounded(directory.to_owned()));
    }
    let bytes = fs::read(&path).await.map_err(io("read", &path))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is no text");
    let read = text.and_then(Founding::read);
    read.map_err(|reason| HomeError::Damaged { path, reason })
}

/// Replaces NODE, durably.
async fn write(directory: &Path, lines: &str) -> Result<(), HomeError> {
    let (path, unfinished) = (directory.join("NODE"), directory.join("NODE.new"));
    let file = fs::open(&unfinished, fs::OpenOptions::REPLACE).await;
    let file = file.map_err(io("create", &unfinished))?;
    let written = file.write_at(lines.as_bytes(), 0).await;
    written.map_err(io("write", &unfinished))?;
    file.sync_all().await.map_err(io("sync", &unfinished))?;
    let renamed = fs::rename(&unfinished, &path).await;
    renamed.map_err(io("rename", &unfinished))?;
    fs::sync_dir(directory).await.map_err(io("sync", directory))
}

/// The open data directory of a node that runs.
#[derive(Debug)]
pub(super) struct Home {
    directory: PathBuf,
    pub(super) founding: Founding,
    pub(super) incarnation: u64,
    _lock: fs::File,
}

impl Home {
    /// Opens the directory for a process, which must yet begin an incarnation.
    pub(super) async fn open(directory: &Path) -> Result<Self, HomeError> {
        read(directory).await?;
        let locked = directory.join("LOCK");
        let lock = fs::open(&locked, fs::OpenOptions::CREATE).await;
        let lock = lock.map_err(io("open", &locked))?;
        if !lock.try_lock().await.map_err(io("lock", &locked))? {
            return Err(HomeError::InUse(directory.to_owned()));
        }
        let room = Reserve::give_up_to_start(directory).await;
        room.map_err(io("look for room in", directory))?;
        // Another process may have begun an incarnation before this one had the lock.
        let (founding, incarnation) = read(directory).await?;
        founding.check()?;
        Ok(Self {
            directory: directory.to_owned(),
            founding,
            incarnation,
            _lock: lock,
        })
    }

    /// Begins a new incarnation.
    pub(super) async fn begin(&mut self) -> Result<u64, HomeError> {
        let next = self.incarnation + 1;
        write(&self.directory, &self.founding.lines(next)).await?;
        self.incarnation = next;
        Ok(next)
    }

    pub(super) fn council(&self) -> PathBuf {
        self.directory.join(COUNCIL)
    }

    pub(super) fn epochs(&self) -> PathBuf {
        self.directory.join(EPOCHS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founding() -> Founding {
        let location = |port: u16| Location::new("127.0.0.1", port).unwrap();
        let members = (1..=4).map(|id| (NodeId(id), location(7000 + id as u16)));
        Founding::new(ClusterId(7), NodeId(2), members.collect())
    }

    #[test]
    fn a_founding_comes_back_and_a_changed_one_is_refused() {
        let founding = Founding {
            council: [NodeId(1), NodeId(2), NodeId(3)].into(),
            front_ends: [NodeId(4)].into(),
            back_ends: [NodeId(1), NodeId(2)].into(),
            ..founding()
        };
        let text = founding.lines(41);
        assert_eq!(Founding::read(&text), Ok((founding.clone(), 41)));
        for index in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[index] ^= 1;
            if let Ok(changed) = std::str::from_utf8(&bytes) {
                Founding::read(changed).unwrap_err();
            }
            Founding::read(&text[..index]).unwrap_err();
        }
    }

    /// NODE as a build wrote it before there were roles, and log files that name the file before them.
    #[test]
    fn a_node_of_the_first_format_is_read() {
        let founding = Founding {
            council: [NodeId(1), NodeId(2), NodeId(3)].into(),
            ..founding()
        };
        let now = founding.lines(3);
        let (lines, _) = now.split_once("checksum ").unwrap();
        let before = lines.replace(FIRST_LINE, EARLIER_LINE);
        let sum = crc32c::crc32c(before.as_bytes());
        let before = format!("{before}checksum {sum:08x}\n");
        assert_eq!(Founding::read(&before), Ok((founding, 3)));
    }

    #[test]
    fn copies_are_placed_on_back_ends_only() {
        let founding = Founding {
            front_ends: [NodeId(1)].into(),
            back_ends: [NodeId(2), NodeId(4)].into(),
            ..founding()
        };
        founding.check().unwrap();
        let configuration = founding.configuration();
        let nodes: BTreeSet<NodeId> = configuration.partitions.into_iter().flatten().collect();
        assert_eq!(nodes, founding.back_ends);
        let back_ends: BTreeSet<NodeId> = configuration.back_ends.into_keys().collect();
        assert_eq!(back_ends, founding.back_ends);
        assert!(!founding.runs_front_end() && founding.runs_back_end());
    }

    #[test]
    fn what_no_cluster_can_be_is_refused_by_name() {
        type Alter = fn(&mut Founding);
        let cases: [(&str, Alter); 9] = [
            ("none of its members", |founding| founding.node = NodeId(9)),
            ("of the council", |founding| {
                founding.council.insert(NodeId(9));
            }),
            ("of the front ends", |founding| {
                founding.front_ends.insert(NodeId(9));
            }),
            ("of the back ends", |founding| {
                founding.back_ends.insert(NodeId(9));
            }),
            ("copies", |founding| {
                founding.back_ends.insert(NodeId(1));
            }),
            ("one partition", |founding| founding.partitions = 0),
            ("copies", |founding| founding.copies = 5),
            ("copies", |founding| founding.copies = 0),
            ("the council takes", |founding| founding.partitions = 999),
        ];
        founding().check().unwrap();
        for (reason, alter) in cases {
            let mut altered = founding();
            alter(&mut altered);
            let refused = altered.check().unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
