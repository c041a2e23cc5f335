//! The status of a cluster: reads it from the views, and formats it.

use std::fmt;

use serde_json::{Value, json};
use tokio_postgres::{Client, SimpleQueryRow};

use crate::client::rows;
use crate::shell::Table;

/// Number of elections in the output for people.
const SHOWN_ELECTIONS: usize = 3;

/// Maximum number of attempts to read a consistent status.
const TRIES: usize = 5;

// All columns, by their names: while a cluster is upgraded, the leader that answers may be of a
// build that has fewer.
const STATUS: &str = "SELECT * FROM coeval.cluster_status";
const MEMBERS: &str = "SELECT * FROM coeval.cluster_members ORDER BY node";
const ELECTIONS: &str = "SELECT * FROM coeval.cluster_elections ORDER BY term";

/// The columns of the status that change with an event; the ends of the log grow all the time.
const EVENTS: [&str; 9] = [
    "cluster_id",
    "node",
    "term",
    "leader",
    "voters",
    "reachable_voters",
    "sound",
    "condition",
    "cluster_version",
];

/// The status of a cluster, as its leader sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    id: String,
    /// The node whose status this is.
    node: Option<u64>,
    term: Option<u64>,
    leader: Option<u64>,
    end: Option<u64>,
    committed: Option<u64>,
    voters: Option<u64>,
    reachable: Option<u64>,
    sound: bool,
    /// The cluster version in force, if the node says so.
    version: Option<u64>,
    /// The cluster's condition in words, one line for each fact.
    condition: String,
    members: Vec<Member>,
    elections: Vec<Election>,
    /// What the node said of itself, where its admin listener was asked.
    own: Option<Own>,
}

/// A node's report of itself.
#[derive(Clone, Debug, Default, PartialEq)]
struct Own {
    /// Why the node refuses clients, if it does.
    not_serving_because: Option<String>,
    leaderless_since: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Member {
    node: u64,
    address: Option<String>,
    role: String,
    /// The highest cluster version that the member says it reads.
    reads: Option<u64>,
    connected: bool,
    heard: Option<String>,
    fault: Option<String>,
    /// Bytes that the node lags: sent, flushed, committed, replayed.
    lags: [Option<u64>; 4],
    round_trip: Option<f64>,
    flushed: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Election {
    term: u64,
    leader: u64,
    at: String,
    cause: Option<String>,
}

/// A column of a row; `None` if it is null, or the server does not have it.
fn column<'row>(row: &'row SimpleQueryRow, name: &str) -> Option<&'row str> {
    row.try_get(name).ok().flatten()
}

fn text(row: &SimpleQueryRow, name: &str) -> Option<String> {
    column(row, name).map(str::to_owned)
}

fn number(row: &SimpleQueryRow, name: &str) -> Option<u64> {
    column(row, name)?.parse().ok()
}

async fn status(client: &Client) -> Result<SimpleQueryRow, String> {
    let status = rows(client, STATUS).await.map_err(|error| {
        format!("the server does not tell how the cluster is; is it Coeval?\n{error}")
    })?;
    let status = status.into_iter().next();
    status.ok_or_else(|| "the server says nothing".to_owned())
}

impl Picture {
    /// Reads the views of a server. The server refreshes them several times a second,
    /// perhaps between two of these queries; then they are read again, so that the result
    /// is consistent.
    pub(super) async fn read(client: &Client) -> Result<Self, String> {
        let mut status = status(client).await?;
        let mut tries = 1;
        loop {
            let members = rows(client, MEMBERS).await?;
            let elections = rows(client, ELECTIONS).await?;
            let now = self::status(client).await?;
            let same = |name: &&str| column(&status, name) == column(&now, name);
            if EVENTS.iter().all(same) || tries == TRIES {
                return Self::of(&status, &members, &elections);
            }
            status = now;
            tries += 1;
        }
    }

    fn of(
        status: &SimpleQueryRow,
        members: &[SimpleQueryRow],
        elections: &[SimpleQueryRow],
    ) -> Result<Self, String> {
        let condition = text(status, "condition").unwrap_or_default();
        let Some(id) = text(status, "cluster_id") else {
            return Err(condition);
        };
        Ok(Self {
            id,
            node: number(status, "node"),
            term: number(status, "term"),
            leader: number(status, "leader"),
            end: number(status, "end_lsn"),
            committed: number(status, "committed_lsn"),
            voters: number(status, "voters"),
            reachable: number(status, "reachable_voters"),
            sound: column(status, "sound") == Some("t"),
            version: number(status, "cluster_version"),
            condition,
            members: members.iter().map(Member::of).collect(),
            elections: elections.iter().map(Election::of).collect(),
            own: None,
        })
    }

    /// Parses the report of a node's admin listener, which has the form of [`Picture::json`].
    pub(super) fn parse(report: &str) -> Result<Self, String> {
        let report: Value = serde_json::from_str(report)
            .map_err(|error| format!("its report is not understood: {error}"))?;
        let string = |value: &Value| value.as_str().map(str::to_owned);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let member = |each: Value| Member {
            node: each["node"].as_u64().unwrap_or(0),
            address: string(&each["address"]),
            role: string(&each["role"]).unwrap_or_default(),
            reads: each["reads_version"].as_u64(),
            connected: each["connected"] == true,
            heard: string(&each["last_heard"]),
            fault: string(&each["fault"]),
            lags: ["sent", "flushed", "committed", "replayed"]
                .map(|stage| each["lag_bytes"][stage].as_u64()),
            round_trip: each["round_trip_ms"].as_f64(),
            flushed: each["flushed_lsn"].as_u64(),
        };
        let election = |each: Value| Election {
            term: each["term"].as_u64().unwrap_or(0),
            leader: each["leader"].as_u64().unwrap_or(0),
            at: string(&each["elected_at"]).unwrap_or_default(),
            cause: string(&each["cause"]),
        };
        let condition = list(&report["condition"]);
        let condition: Vec<&str> = condition.iter().filter_map(Value::as_str).collect();
        let members = list(&report["members"]).into_iter().map(member);
        let elections = list(&report["elections"]).into_iter().map(election);
        Ok(Self {
            id: string(&report["cluster"]).ok_or("its report names no cluster")?,
            node: report["node"].as_u64(),
            term: report["term"].as_u64(),
            leader: report["leader"].as_u64(),
            end: report["end_lsn"].as_u64(),
            committed: report["committed_lsn"].as_u64(),
            voters: report["voters"].as_u64(),
            reachable: report["reachable_voters"].as_u64(),
            sound: report["sound"] == true,
            version: report["cluster_version"].as_u64(),
            condition: condition.join("\n"),
            members: members.collect(),
            elections: elections.collect(),
            own: Some(Own {
                not_serving_because: string(&report["not_serving_because"]),
                leaderless_since: string(&report["leaderless_since"]),
            }),
        })
    }

    pub(super) fn is_sound(&self) -> bool {
        let refuses = |own: &Own| own.not_serving_because.is_some();
        self.sound && !self.own.as_ref().is_some_and(refuses)
    }

    pub(super) fn leader(&self) -> Option<u64> {
        self.leader
    }

    /// The role of a node: `leader`, `voter` or `learner`; `None` if it is not a member.
    pub(super) fn role(&self, node: u64) -> Option<&str> {
        let member = self.members.iter().find(|member| member.node == node)?;
        Some(&member.role)
    }

    /// How much of the log a node has not flushed yet, in words.
    pub(super) fn behind(&self, node: u64) -> Option<String> {
        let member = self.members.iter().find(|member| member.node == node)?;
        member.lags[1].map(size)
    }

    /// Formats the status for programs, as one JSON object.
    pub(super) fn json(&self) -> String {
        let members: Vec<Value> = self.members.iter().map(Member::json).collect();
        let elections: Vec<Value> = self.elections.iter().map(Election::json).collect();
        let mut value = json!({
            "cluster": self.id,
            "node": self.node,
            "term": self.term,
            "leader": self.leader,
            "cluster_version": self.version,
            "end_lsn": self.end,
            "committed_lsn": self.committed,
            "voters": self.voters,
            "reachable_voters": self.reachable,
            "sound": self.sound,
            "condition": self.condition.lines().collect::<Vec<_>>(),
            "members": members,
            "elections": elections,
        });
        if let Some(own) = &self.own {
            value["serving"] = own.not_serving_because.is_none().into();
            value["not_serving_because"] = json!(own.not_serving_because);
            value["leaderless_since"] = json!(own.leaderless_since);
        }
        format!("{value:#}\n")
    }
}

impl Member {
    fn of(row: &SimpleQueryRow) -> Self {
        Self {
            node: number(row, "node").unwrap_or(0),
            address: text(row, "address"),
            role: text(row, "role").unwrap_or_default(),
            reads: number(row, "reads_version"),
            connected: column(row, "connected") == Some("t"),
            heard: text(row, "last_heard"),
            fault: text(row, "fault"),
            lags: ["sent", "flushed", "committed", "replayed"]
                .map(|stage| number(row, &format!("{stage}_lag_bytes"))),
            round_trip: column(row, "round_trip_ms").and_then(|text| text.parse().ok()),
            flushed: number(row, "flushed_lsn"),
        }
    }

    fn json(&self) -> Value {
        let [sent, flushed, committed, replayed] = self.lags;
        json!({
            "node": self.node,
            "address": self.address,
            "role": self.role,
            "reads_version": self.reads,
            "connected": self.connected,
            "last_heard": self.heard,
            "fault": self.fault,
            "flushed_lsn": self.flushed,
            "lag_bytes": {
                "sent": sent,
                "flushed": flushed,
                "committed": committed,
                "replayed": replayed,
            },
            "round_trip_ms": self.round_trip,
        })
    }
}

impl Election {
    fn of(row: &SimpleQueryRow) -> Self {
        Self {
            term: number(row, "term").unwrap_or(0),
            leader: number(row, "leader").unwrap_or(0),
            at: text(row, "elected_at").unwrap_or_default(),
            cause: text(row, "cause"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "term": self.term,
            "leader": self.leader,
            "elected_at": self.at,
            "cause": self.cause,
        })
    }
}

impl Picture {
    /// What the node that was asked says of itself.
    fn fmt_own(&self, own: &Own, node: u64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(since) = &own.leaderless_since {
            writeln!(out, "  node {node} knows no leader since {since}")?;
        }
        if let Some(reason) = &own.not_serving_because {
            writeln!(out, "  node {node} is not serving: {reason}")?;
        }
        let (end, committed) = (self.end.unwrap_or(0), self.committed.unwrap_or(0));
        writeln!(
            out,
            "  the log of node {node} ends at {end}, committed up to {committed}"
        )?;
        let others = self.members.iter().filter(|member| !member.connected);
        for member in others {
            if let Some(heard) = &member.heard {
                writeln!(out, "  node {} was last heard at {heard}", member.node)?;
            }
        }
        Ok(())
    }
}

/// Formats the status for people.
impl fmt::Display for Picture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let term = self.term.unwrap_or(0);
        let leads = match self.leader {
            Some(leader) => format!("node {leader} leads"),
            None => "no node leads".to_owned(),
        };
        writeln!(formatter, "cluster {}, term {term}: {leads}", self.id)?;
        for line in self.condition.lines() {
            writeln!(formatter, "  {line}")?;
        }
        if let (Some(own), Some(node)) = (&self.own, self.node) {
            self.fmt_own(own, node, formatter)?;
        }
        writeln!(formatter)?;
        let names = [
            "node",
            "address",
            "role",
            "connected",
            "sent",
            "on disk",
            "committed",
            "replayed",
            "ping ms",
        ];
        let mut table = Table::new(names.map(str::to_owned)).uncounted();
        for member in &self.members {
            let mut row = vec![
                Some(member.node.to_string()),
                member.address.clone(),
                Some(member.role.clone()),
                Some(if member.connected { "yes" } else { "no" }.to_owned()),
            ];
            row.extend(member.lags.map(|lag| lag.map(size)));
            row.push(member.round_trip.map(|time| format!("{time:.3}")));
            table.push(row);
        }
        write!(formatter, "{table}")?;
        let log = match &self.own {
            Some(_) => "the log of the node that was asked",
            None => "the leader's log",
        };
        writeln!(
            formatter,
            "\nfrom \"sent\" on: how much of {log} is missing there"
        )?;
        let last = self.elections.len().saturating_sub(SHOWN_ELECTIONS);
        for election in &self.elections[last..] {
            let Election {
                term,
                leader,
                at,
                cause,
            } = election;
            write!(formatter, "{at}: term {term} began, node {leader} leads")?;
            match cause {
                Some(cause) => writeln!(formatter, " ({cause})")?,
                None => writeln!(formatter)?,
            }
        }
        Ok(())
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Picture {
        let member = |node, role: &str, connected: bool, lags| Member {
            node,
            address: Some(format!("127.0.0.1:700{node}")),
            role: role.to_owned(),
            reads: connected.then_some(2),
            connected,
            lags,
            ..Member::default()
        };
        Picture {
            id: "7c".to_owned(),
            node: Some(2),
            term: Some(3),
            leader: Some(2),
            end: Some(20_000_000),
            committed: Some(20_000_000),
            voters: Some(3),
            reachable: Some(2),
            sound: false,
            version: Some(1),
            condition: "2 of 3 voters reachable; one more failure stops writes\n\
                        node 3 is not connected: refused"
                .to_owned(),
            members: vec![
                member(1, "voter", true, [Some(0), Some(44), Some(100_000), None]),
                member(2, "leader", true, [Some(0); 4]),
                member(3, "voter", false, [Some(0), Some(20_000_000), None, None]),
            ],
            elections: vec![Election {
                term: 3,
                leader: 2,
                at: "2026-11-23 00:00:00+00".to_owned(),
                cause: Some("node 1 was silent".to_owned()),
            }],
            own: None,
        }
    }

    #[test]
    fn a_nodes_own_report_is_a_picture_too() {
        let picture = Picture {
            leader: None,
            sound: true,
            own: Some(Own {
                not_serving_because: Some("no node leads".to_owned()),
                leaderless_since: Some("2026-11-23 00:00:00+00".to_owned()),
            }),
            ..example()
        };
        assert_eq!(Picture::parse(&picture.json()).as_ref(), Ok(&picture));
        assert!(!picture.is_sound());
        let shown = picture.to_string();
        for line in [
            "  node 2 knows no leader since 2026-11-23 00:00:00+00",
            "  node 2 is not serving: no node leads",
            "  the log of node 2 ends at 20000000, committed up to 20000000",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{shown}");
        }
        assert!(Picture::parse("{}").is_err());
    }

    #[test]
    fn people_are_shown_lines_and_a_table() {
        let shown = example().to_string();
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "cluster 7c, term 3: node 2 leads",
                "  2 of 3 voters reachable; one more failure stops writes",
                "  node 3 is not connected: refused",
                "",
                " node     address       role   connected  sent  on disk  committed  replayed  ping ms",
                " ----  --------------  ------  ---------  ----  -------  ---------  --------  -------",
                "    1  127.0.0.1:7001  voter   yes        0 B   44 B     100 kB",
                "    2  127.0.0.1:7002  leader  yes        0 B   0 B      0 B        0 B",
                "    3  127.0.0.1:7003  voter   no         0 B   20 MB",
                "",
                "from \"sent\" on: how much of the leader's log is missing there",
                "2026-11-23 00:00:00+00: term 3 began, node 2 leads (node 1 was silent)",
            ]
        );
    }

    #[test]
    fn programs_are_given_numbers() {
        let value: Value = serde_json::from_str(&example().json()).unwrap();
        assert_eq!(value["leader"], 2);
        assert_eq!(value["sound"], false);
        assert_eq!(value["cluster_version"], 1);
        assert_eq!(value["members"][0]["reads_version"], 2);
        assert_eq!(value["members"][2]["reads_version"], Value::Null);
        assert_eq!(value["condition"][1], "node 3 is not connected: refused");
        assert_eq!(value["members"][0]["lag_bytes"]["committed"], 100_000);
        assert_eq!(value["members"][0]["lag_bytes"]["replayed"], Value::Null);
        assert_eq!(value["elections"][0]["term"], 3);
    }

    #[test]
    fn who_takes_no_part_has_no_role() {
        let picture = example();
        assert_eq!(picture.role(1), Some("voter"));
        assert_eq!(picture.role(4), None);
        assert_eq!(picture.behind(3).as_deref(), Some("20 MB"));
    }
}
